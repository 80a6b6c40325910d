//! `aggregate_by` and `group_by`.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::error::{Refusal, Result};
use crate::filter::Filter;
use crate::schema::{Kind, Schema, Type};
use crate::store::Namespace;
use crate::value::{Id, Value};

const MAX_GROUPS: usize = 10_000;

/// What a query with `aggregate_by` answers; empty for other queries.
#[derive(Default, Serialize)]
pub(crate) struct Aggregates {
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregations: Option<Map<String, Json>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregation_groups: Option<Vec<Map<String, Json>>>,
}

enum Function {
    Count,
    Sum(usize, Kind),
}

#[derive(Clone, Copy, Default)]
struct Total {
    count: u64,
    integers: i128,
    floats: f64,
}

impl Total {
    fn add(&mut self, function: &Function, stored: &[Value]) {
        match function {
            Function::Count => self.count += 1,
            Function::Sum(attribute, _) => match stored.get(*attribute) {
                Some(Value::Int(number)) => self.integers += i128::from(*number),
                Some(Value::Uint(number)) => self.integers += i128::from(*number),
                Some(Value::Float(number)) => self.floats += number,
                _ => {}
            },
        }
    }

    fn json(self, function: &Function) -> Result<Json> {
        match function {
            Function::Count => Ok(self.count.into()),
            Function::Sum(_, Kind::Float) => Ok(self.floats.into()),
            Function::Sum(..) => i64::try_from(self.integers)
                .map(Json::from)
                .or_else(|_| u64::try_from(self.integers).map(Json::from))
                .map_err(|_| Refusal::bad("aggregate_by: the sum does not fit 64 bits")),
        }
    }
}

fn function(json: &Json, schema: &Schema) -> Result<Function> {
    let words: Option<Vec<&str>> = json
        .as_array()
        .and_then(|parts| parts.iter().map(Json::as_str).collect());
    match words.as_deref() {
        Some(["Count"] | ["Count", "id"]) => Ok(Function::Count),
        Some(["Count", _]) => Err(Refusal::unsupported("Count of an attribute")),
        Some(["Sum", name]) => match schema.find(name).map(|at| (at, schema.attributes[at].ty)) {
            Some((at, Type::Scalar(kind @ (Kind::Int | Kind::Uint | Kind::Float)))) => {
                Ok(Function::Sum(at, kind))
            }
            Some(_) => Err(Refusal::bad(format_args!(
                "aggregate_by: attribute `{name}` is not a number"
            ))),
            None => Err(Refusal::bad(format_args!(
                "aggregate_by: attribute `{name}` not found in schema"
            ))),
        },
        _ => Err(Refusal::bad(
            "aggregate_by: expected [\"Count\"] or [\"Sum\", attribute]",
        )),
    }
}

/// An attribute to group by.
fn group_attribute(json: &Json, schema: &Schema) -> Result<usize> {
    let name = json
        .as_str()
        .ok_or_else(|| Refusal::unsupported("group_by with a function"))?;
    let index = schema.find(name).ok_or_else(|| {
        Refusal::bad(format_args!(
            "group_by: attribute `{name}` not found in schema"
        ))
    })?;
    let attribute = &schema.attributes[index];
    if !matches!(attribute.ty, Type::Scalar(_)) || !attribute.filterable {
        return Err(Refusal::bad(format_args!(
            "group_by: attribute `{name}` cannot be grouped by"
        )));
    }
    Ok(index)
}

pub(crate) fn run(
    namespace: &Namespace,
    filter: Option<&Filter>,
    aggregate_by: &BTreeMap<String, Json>,
    group_by: Option<&[Json]>,
    limit: Option<usize>,
) -> Result<Aggregates> {
    let schema = &namespace.schema;
    let functions = aggregate_by
        .iter()
        .map(|(label, json)| Ok((label, function(json, schema)?)))
        .collect::<Result<Vec<_>>>()?;
    let zero = vec![Total::default(); functions.len()];
    let add = |totals: &mut [Total], stored: &[Value]| {
        for (total, (_, function)) in totals.iter_mut().zip(&functions) {
            total.add(function, stored);
        }
    };
    let labelled = |totals: &[Total], map: &mut Map<String, Json>| -> Result<()> {
        for (total, (label, function)) in totals.iter().zip(&functions) {
            map.insert((*label).clone(), total.json(function)?);
        }
        Ok(())
    };
    let documents = namespace.matching(filter);

    let Some(group_by) = group_by else {
        let mut totals = zero;
        documents.for_each(|(_, stored)| add(&mut totals, stored));
        let mut map = Map::new();
        labelled(&totals, &mut map)?;
        return Ok(Aggregates {
            aggregations: Some(map),
            aggregation_groups: None,
        });
    };

    let attributes = group_by
        .iter()
        .map(|json| group_attribute(json, schema))
        .collect::<Result<Vec<_>>>()?;
    // Groups are found by the JSON text of their key, and answered in the order of a
    // document-like comparison of the key itself.
    let mut groups: HashMap<String, (&Id, &[Value], Vec<Total>)> = HashMap::new();
    for (id, stored) in documents {
        let key: Vec<&Value> = attributes
            .iter()
            .map(|&index| stored.get(index).unwrap_or(&Value::Null))
            .collect();
        let group = groups
            .entry(serde_json::to_string(&key)?)
            .or_insert_with(|| (id, stored, zero.clone()));
        add(&mut group.2, stored);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|a, b| {
        attributes
            .iter()
            .fold(std::cmp::Ordering::Equal, |order, &at| {
                order.then_with(|| crate::filter::compare_by(Some(at), (a.0, a.1), (b.0, b.1)))
            })
    });
    groups.truncate(limit.unwrap_or(MAX_GROUPS));
    let groups = groups
        .into_iter()
        .map(|(_, stored, totals)| {
            let mut map = Map::new();
            for &index in &attributes {
                let value = stored.get(index).unwrap_or(&Value::Null);
                map.insert(
                    schema.attributes[index].name.clone(),
                    serde_json::to_value(value)?,
                );
            }
            labelled(&totals, &mut map)?;
            Ok(map)
        })
        .collect::<Result<_>>()?;
    Ok(Aggregates {
        aggregations: None,
        aggregation_groups: Some(groups),
    })
}

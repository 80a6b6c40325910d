//! `rank_by`: the order of a query's rows.

use std::cmp::Ordering;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::coerce::coerce;
use crate::error::{Refusal, Result};
use crate::filter::{Filter, compare_by};
use crate::schema::{DistanceMetric, Schema, Type};
use crate::store::Namespace;
use crate::value::{Id, Value};

/// A row of the answer before projection.
pub(crate) struct Ranked<'a> {
    pub(crate) id: &'a Id,
    pub(crate) stored: &'a [Value],
    pub(crate) distance: Option<f64>,
}

/// One key of an ordering by attributes. `None` is the id.
pub(crate) struct Key {
    attribute: Option<usize>,
    descending: bool,
}

pub(crate) enum Rank {
    /// In the order of ids when there is no key.
    Attributes(Vec<Key>),
    /// Exact, for `ANN` and `kNN` alike.
    Nearest {
        attribute: usize,
        metric: DistanceMetric,
        target: Box<[f32]>,
    },
}

impl Rank {
    pub(crate) fn compile(json: Option<&Json>, schema: &Schema) -> Result<Self> {
        let Some(json) = json else {
            return Ok(Rank::Attributes(Vec::new()));
        };
        match json.as_array().map(Vec::as_slice) {
            Some([Json::String(_), Json::String(order)]) if order == "asc" || order == "desc" => {
                Ok(Rank::Attributes(vec![key(json, schema)?]))
            }
            Some(keys @ [Json::Array(_), ..]) => {
                let keys = keys
                    .iter()
                    .map(|json| key(json, schema))
                    .collect::<Result<_>>()?;
                Ok(Rank::Attributes(keys))
            }
            Some([Json::String(name), Json::String(word), target])
                if word == "ANN" || word == "kNN" =>
            {
                nearest(name, target, schema)
            }
            Some([Json::String(_), Json::String(word), ..]) => {
                Err(Refusal::unsupported(format_args!("rank_by {word}")))
            }
            Some([Json::String(word), ..]) => {
                Err(Refusal::unsupported(format_args!("rank_by {word}")))
            }
            _ => Err(Refusal::bad(
                "rank_by must be an array such as [\"id\",\"asc\"]",
            )),
        }
    }

    /// Rows `offset..offset + limit` of the matching documents in this order.
    pub(crate) fn page<'a>(
        &self,
        namespace: &'a Namespace,
        filter: Option<&Filter>,
        offset: usize,
        limit: usize,
    ) -> Vec<Ranked<'a>> {
        let ranked = |(id, stored): (&'a Id, &'a [Value])| Ranked {
            id,
            stored,
            distance: None,
        };
        let matching = namespace.matching(filter);
        let keys = match self {
            Rank::Attributes(keys) => keys,
            Rank::Nearest {
                attribute,
                metric,
                target,
            } => {
                let mut rows: Vec<Ranked<'_>> = matching
                    .filter_map(|(id, stored)| match stored.get(*attribute) {
                        Some(Value::Vector(vector)) => Some(Ranked {
                            id,
                            stored,
                            distance: Some(distance(*metric, vector, target)),
                        }),
                        _ => None,
                    })
                    .collect();
                rows.sort_unstable_by(|a, b| {
                    a.distance
                        .partial_cmp(&b.distance)
                        .unwrap_or(Ordering::Equal)
                        .then_with(|| a.id.cmp(b.id))
                });
                return rows.into_iter().skip(offset).take(limit).collect();
            }
        };
        let by_id = match keys.first() {
            None => Some(false),
            Some(key) if key.attribute.is_none() => Some(key.descending),
            Some(_) => None,
        };
        if let Some(descending) = by_id {
            let page = namespace.page_by_id(filter, descending, offset, limit);
            return page.into_iter().map(ranked).collect();
        }
        let mut rows: Vec<_> = matching.collect();
        rows.sort_unstable_by(|a, b| {
            keys.iter()
                .fold(Ordering::Equal, |order, key| {
                    order.then_with(|| {
                        let order = compare_by(key.attribute, *a, *b);
                        if key.descending {
                            order.reverse()
                        } else {
                            order
                        }
                    })
                })
                .then_with(|| a.0.cmp(b.0))
        });
        rows.into_iter()
            .skip(offset)
            .take(limit)
            .map(ranked)
            .collect()
    }
}

fn key(json: &Json, schema: &Schema) -> Result<Key> {
    let (name, order) = <(String, String)>::deserialize(json)
        .map_err(|_| Refusal::bad("rank_by: expected [attribute, \"asc\"|\"desc\"]"))?;
    let descending = match order.as_str() {
        "asc" => false,
        "desc" => true,
        _ => return Err(Refusal::bad("rank_by: the order must be asc or desc")),
    };
    if name == "id" {
        return Ok(Key {
            attribute: None,
            descending,
        });
    }
    let attribute = schema.find(&name).ok_or_else(|| {
        Refusal::bad(format_args!(
            "rank_by: attribute `{name}` not found in schema"
        ))
    })?;
    let found = &schema.attributes[attribute];
    if !matches!(found.ty, Type::Scalar(_)) || !found.filterable {
        return Err(Refusal::bad(format_args!(
            "rank_by: attribute `{name}` cannot be ordered by"
        )));
    }
    Ok(Key {
        attribute: Some(attribute),
        descending,
    })
}

fn nearest(name: &str, target: &Json, schema: &Schema) -> Result<Rank> {
    let attribute = schema.find(name).ok_or_else(|| {
        Refusal::bad(format_args!(
            "rank_by: attribute `{name}` not found in schema"
        ))
    })?;
    let ty = schema.attributes[attribute].ty;
    let (true, Some(metric)) = (ty.is_vector(), schema.metric) else {
        return Err(Refusal::bad(format_args!(
            "rank_by: attribute `{name}` is not a vector"
        )));
    };
    let mut vector = Value::deserialize(target)
        .map_err(|_| Refusal::unsupported("a vector given as an expression"))?;
    coerce(&mut vector, ty).map_err(|problem| Refusal::bad(format_args!("rank_by: {problem}")))?;
    let Value::Vector(target) = vector else {
        return Err(Refusal::bad("rank_by: the vector must not be null"));
    };
    Ok(Rank::Nearest {
        attribute,
        metric,
        target,
    })
}

fn distance(metric: DistanceMetric, a: &[f32], b: &[f32]) -> f64 {
    let pairs = || a.iter().zip(b).map(|(a, b)| (f64::from(*a), f64::from(*b)));
    match metric {
        DistanceMetric::EuclideanSquared => pairs().map(|(a, b)| (a - b) * (a - b)).sum(),
        DistanceMetric::CosineDistance => {
            let dot: f64 = pairs().map(|(a, b)| a * b).sum();
            let norm = |vector: &[f32]| {
                let square: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
                square.sqrt()
            };
            let norms = norm(a) * norm(b);
            // The distance of a zero vector is unconfirmed; as if orthogonal here.
            if norms == 0.0 { 1.0 } else { 1.0 - dot / norms }
        }
    }
}

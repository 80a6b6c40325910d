//! The query endpoint: filter, order, page, project; aggregates; multi-query.

use std::collections::{BTreeMap, HashSet};

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::aggregate::{self, Aggregates};
use crate::coerce::encode_vector;
use crate::error::{Refusal, Result};
use crate::filter::Filter;
use crate::rank::{Rank, Ranked};
use crate::schema::Schema;
use crate::store::Namespace;
use crate::table::Sent;
use crate::value::{Id, Value};

const MAX_LIMIT: usize = 10_000;
const MAX_SUB_QUERIES: usize = 16;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Strong,
    Eventual,
}

/// Both levels see every write: the emulator has one copy.
#[derive(Deserialize)]
struct Consistency {
    #[serde(rename = "level")]
    _level: Level,
    #[serde(rename = "max_staleness_seconds")]
    _max_staleness_seconds: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VectorEncoding {
    Float,
    Base64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Limit {
    Plain(usize),
    Object { total: usize, per: Option<Sent> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Include {
    All(bool),
    Some(Vec<String>),
}

/// The body of a query, or a sub-query.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    rank_by: Option<Json>,
    filters: Option<Json>,
    limit: Option<Limit>,
    top_k: Option<usize>,
    #[serde(default)]
    offset: usize,
    include_attributes: Option<Include>,
    exclude_attributes: Option<Vec<String>>,
    aggregate_by: Option<BTreeMap<String, Json>>,
    group_by: Option<Vec<Json>>,
    vector_encoding: Option<VectorEncoding>,
    #[serde(rename = "consistency")]
    _consistency: Option<Consistency>,
    #[serde(rename = "distance_metric")]
    _distance_metric: Option<Json>,
    compute_attributes: Option<Sent>,
    rerank_by: Option<Sent>,
}

/// The body of a multi-query.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MultiQuery {
    queries: Vec<Query>,
    vector_encoding: Option<VectorEncoding>,
    #[serde(rename = "consistency")]
    _consistency: Option<Consistency>,
    rerank_by: Option<Sent>,
}

/// Says which of the two bodies it is.
#[derive(Deserialize)]
struct Probe {
    queries: Option<Sent>,
}

/// Answers a query or a multi-query as JSON text.
pub(crate) fn answer(namespace: &Namespace, body: &[u8]) -> Result<Vec<u8>> {
    let probe: Probe = serde_json::from_slice(body)?;
    if probe.queries.is_none() {
        let query: Query = serde_json::from_slice(body)?;
        return Ok(serde_json::to_vec(&run(namespace, &query, None)?)?);
    }
    let multi: MultiQuery = serde_json::from_slice(body)?;
    if multi.rerank_by.is_some() {
        return Err(Refusal::unsupported("rerank_by"));
    }
    if multi.queries.is_empty() || multi.queries.len() > MAX_SUB_QUERIES {
        return Err(Refusal::bad(format_args!(
            "a multi-query must have 1 to {MAX_SUB_QUERIES} queries, got {}",
            multi.queries.len()
        )));
    }
    let results = multi
        .queries
        .iter()
        .map(|query| run(namespace, query, multi.vector_encoding))
        .collect::<Result<Vec<_>>>()?;
    Ok(serde_json::to_vec(&MultiResponse {
        results,
        billing: billing(),
        performance: performance(namespace),
    })?)
}

#[derive(Serialize)]
struct MultiResponse<'a> {
    results: Vec<Response<'a>>,
    billing: Json,
    performance: Json,
}

#[derive(Serialize)]
struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Vec<Row<'a>>>,
    #[serde(flatten)]
    aggregates: Aggregates,
    billing: Json,
    performance: Json,
}

struct Row<'a> {
    id: &'a Id,
    distance: Option<f64>,
    attributes: Vec<(&'a str, &'a Value)>,
    base64: bool,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", self.id)?;
        if let Some(distance) = self.distance {
            map.serialize_entry("$dist", &distance)?;
        }
        for (name, value) in &self.attributes {
            match value {
                Value::Vector(vector) if self.base64 => {
                    map.serialize_entry(name, &encode_vector(vector))?;
                }
                value => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

fn billing() -> Json {
    json!({ "billable_logical_bytes_queried": 0, "billable_logical_bytes_returned": 0 })
}

fn performance(namespace: &Namespace) -> Json {
    json!({
        "approx_namespace_size": namespace.documents.len(),
        "cache_hit_ratio": 1.0,
        "cache_temperature": "hot",
        "exhaustive_search_count": 0,
        "query_execution_ms": 0,
        "server_total_ms": 0,
    })
}

fn run<'a>(
    namespace: &'a Namespace,
    query: &Query,
    outer_encoding: Option<VectorEncoding>,
) -> Result<Response<'a>> {
    for (sent, what) in [
        (query.compute_attributes, "compute_attributes"),
        (query.rerank_by, "rerank_by"),
    ] {
        if sent.is_some() {
            return Err(Refusal::unsupported(what));
        }
    }
    let schema = &namespace.schema;
    let filter = query
        .filters
        .as_ref()
        .map(|json| Filter::compile(json, schema, false))
        .transpose()?;
    let limit = limit_of(query)?;

    if let Some(aggregate_by) = &query.aggregate_by {
        if query.rank_by.is_some() {
            return Err(Refusal::bad("rank_by and aggregate_by cannot be combined"));
        }
        let groups = query.group_by.as_deref();
        let aggregates = aggregate::run(namespace, filter.as_ref(), aggregate_by, groups, limit)?;
        return Ok(Response {
            rows: None,
            aggregates,
            billing: billing(),
            performance: performance(namespace),
        });
    }
    if query.group_by.is_some() {
        return Err(Refusal::bad("group_by requires aggregate_by"));
    }
    let limit = limit.ok_or_else(|| Refusal::bad("limit or top_k is required"))?;
    let rank = Rank::compile(query.rank_by.as_ref(), schema)?;
    let shown = shown_attributes(query, schema)?;
    let encoding = query.vector_encoding.or(outer_encoding);
    let rows = rank
        .page(namespace, filter.as_ref(), query.offset, limit)
        .into_iter()
        .map(
            |Ranked {
                 id,
                 stored,
                 distance,
             }| Row {
                id,
                distance,
                attributes: shown
                    .iter()
                    .filter_map(|&index| {
                        let value = stored.get(index).filter(|value| !value.is_null())?;
                        Some((schema.attributes[index].name.as_str(), value))
                    })
                    .collect(),
                base64: encoding == Some(VectorEncoding::Base64),
            },
        )
        .collect();
    Ok(Response {
        rows: Some(rows),
        aggregates: Aggregates::default(),
        billing: billing(),
        performance: performance(namespace),
    })
}

fn limit_of(query: &Query) -> Result<Option<usize>> {
    let limit = match &query.limit {
        Some(Limit::Object { per: Some(_), .. }) => return Err(Refusal::unsupported("limit.per")),
        Some(Limit::Plain(limit) | Limit::Object { total: limit, .. }) => Some(*limit),
        None => query.top_k,
    };
    if let Some(limit) = limit
        && (limit == 0 || limit > MAX_LIMIT)
    {
        return Err(Refusal::bad(format_args!(
            "limit must be 1 to {MAX_LIMIT}, got {limit}"
        )));
    }
    Ok(limit)
}

/// Indexes of the attributes that rows of the answer have. Only the id by default.
fn shown_attributes(query: &Query, schema: &Schema) -> Result<Vec<usize>> {
    let all = 0..schema.attributes.len();
    if let Some(excluded) = &query.exclude_attributes {
        if query.include_attributes.is_some() {
            return Err(Refusal::bad(
                "include_attributes and exclude_attributes cannot be combined",
            ));
        }
        let excluded: HashSet<&str> = excluded.iter().map(String::as_str).collect();
        return Ok(all
            .filter(|&index| !excluded.contains(schema.attributes[index].name.as_str()))
            .collect());
    }
    match &query.include_attributes {
        Some(Include::All(true)) => Ok(all.collect()),
        Some(Include::All(false)) | None => Ok(Vec::new()),
        Some(Include::Some(names)) => names
            .iter()
            .filter(|name| *name != "id")
            .map(|name| {
                schema.find(name).ok_or_else(|| {
                    Refusal::bad(format_args!("attribute `{name}` not found in schema"))
                })
            })
            .collect(),
    }
}

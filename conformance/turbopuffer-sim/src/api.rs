//! Paths and what they do.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::error::{Refusal, Result};
use crate::plan::check_filterable_again;
use crate::query;
use crate::schema::Schema;
use crate::server::{Limits, Shared};
use crate::store::{Namespace, read, write};
use crate::value::Value;
use crate::write::{WriteRequest, write as write_documents};

#[derive(Clone, Copy)]
enum Operation {
    Write,
    Query,
    Delete,
    List,
    Schema,
    UpdateSchema,
    Metadata,
    HintCacheWarm,
    Requests,
    AddFaults,
    ClearFaults,
    /// The real service has it.
    Unsupported,
    /// Nobody has it.
    Unknown,
}

/// A recognised method and path.
#[derive(Clone, Copy)]
pub(crate) struct Route<'a> {
    operation: Operation,
    /// For logs and counts.
    pub(crate) pattern: &'static str,
    namespace: &'a str,
}

pub(crate) fn route<'a>(method: &str, path: &'a str) -> Route<'a> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let (operation, pattern) = match (method, parts.as_slice()) {
        ("POST", ["v2", "namespaces", _]) => (Operation::Write, "POST /v2/namespaces/{ns}"),
        ("POST", ["v2", "namespaces", _, "query"]) => {
            (Operation::Query, "POST /v2/namespaces/{ns}/query")
        }
        ("DELETE", ["v2", "namespaces", _]) => (Operation::Delete, "DELETE /v2/namespaces/{ns}"),
        ("GET", ["v1", "namespaces"]) => (Operation::List, "GET /v1/namespaces"),
        ("GET", ["v1", "namespaces", _, "schema"]) => {
            (Operation::Schema, "GET /v1/namespaces/{ns}/schema")
        }
        ("POST", ["v1", "namespaces", _, "schema"]) => {
            (Operation::UpdateSchema, "POST /v1/namespaces/{ns}/schema")
        }
        ("GET", ["v1" | "v2", "namespaces", _, "metadata"]) => {
            (Operation::Metadata, "GET /v2/namespaces/{ns}/metadata")
        }
        ("GET", ["v1", "namespaces", _, "hint_cache_warm"]) => (
            Operation::HintCacheWarm,
            "GET /v1/namespaces/{ns}/hint_cache_warm",
        ),
        ("GET", ["_sim", "requests"]) => (Operation::Requests, "GET /_sim/requests"),
        ("POST", ["_sim", "faults"]) => (Operation::AddFaults, "POST /_sim/faults"),
        ("DELETE", ["_sim", "faults"]) => (Operation::ClearFaults, "DELETE /_sim/faults"),
        ("POST", ["v2", "namespaces", _, "explain_query" | "async"])
        | ("PATCH", ["v1", "namespaces", _, "metadata"])
        | ("POST", ["v1", "namespaces", _, "_debug", "recall"])
        | ("GET", ["v1", "namespaces", _, "operations", _]) => {
            (Operation::Unsupported, "unsupported")
        }
        _ => (Operation::Unknown, "unknown"),
    };
    Route {
        operation,
        pattern,
        namespace: parts.get(2).copied().unwrap_or_default(),
    }
}

/// A request with its body read.
pub(crate) struct Call<'a> {
    pub(crate) route: Route<'a>,
    /// Query string. Only the listing looks at it.
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
    /// From a fault: replaces the limits of by-filter operations.
    pub(crate) by_filter_rows: Option<usize>,
}

/// Runs a request. The result is the JSON of a 200 answer.
pub(crate) fn run(shared: &Shared, call: Call<'_>) -> Result<Vec<u8>> {
    let name = call.route.namespace;
    let missing = || Refusal::missing_namespace(name);
    match call.route.operation {
        Operation::Write => {
            let slot = shared.store.slot(name)?;
            // Parsed before the lock is taken: concurrent writes parse in parallel.
            let request: WriteRequest = serde_json::from_slice(call.body)?;
            let mut limits: Limits = shared.limits.clone();
            if let Some(rows) = call.by_filter_rows {
                limits.delete_by_filter_rows = rows;
                limits.patch_by_filter_rows = rows;
            }
            let response = write_documents(name, &mut write(&slot), request, &limits)?;
            Ok(serde_json::to_vec(&response)?)
        }
        Operation::Query => {
            let slot = shared.store.slot(name)?;
            query::answer(read(&slot).as_ref().ok_or_else(missing)?, call.body)
        }
        Operation::Delete => {
            let deleted = write(&shared.store.slot(name)?).take();
            deleted.ok_or_else(missing)?;
            reply(&json!({ "status": "OK" }))
        }
        Operation::List => list(shared, call.query),
        Operation::Schema => {
            let slot = shared.store.slot(name)?;
            reply(
                &read(&slot)
                    .as_ref()
                    .ok_or_else(missing)?
                    .schema
                    .to_json(false),
            )
        }
        Operation::UpdateSchema => {
            let entries: BTreeMap<String, Json> = serde_json::from_slice(call.body)?;
            let slot = shared.store.slot(name)?;
            let mut guard = write(&slot);
            let namespace = guard.as_mut().ok_or_else(missing)?;
            let mut schema: Schema = namespace.schema.clone();
            let metric = schema.metric;
            schema.declare(&entries, metric, true)?;
            check_filterable_again(namespace, &schema, &shared.limits)?;
            namespace.schema = schema;
            namespace.updated_at = jiff::Timestamp::now();
            reply(&namespace.schema.to_json(false))
        }
        Operation::Metadata => {
            let slot = shared.store.slot(name)?;
            reply(&metadata(read(&slot).as_ref().ok_or_else(missing)?))
        }
        Operation::HintCacheWarm => {
            let slot = shared.store.slot(name)?;
            read(&slot).as_ref().ok_or_else(missing)?;
            reply(&json!({ "status": "ACCEPTED", "message": "cache warm hint accepted" }))
        }
        Operation::Requests => {
            let log = shared.requests();
            reply(&json!({ "counts": log.counts(), "last": log.last() }))
        }
        Operation::AddFaults => {
            let rules: Vec<crate::fault::FaultRule> = serde_json::from_slice(call.body)?;
            shared.faults().add(rules);
            reply(&json!({ "status": "OK" }))
        }
        Operation::ClearFaults => {
            shared.faults().clear();
            reply(&json!({ "status": "OK" }))
        }
        Operation::Unsupported => Err(Refusal::unsupported("this endpoint")),
        Operation::Unknown => Err(Refusal::new(404, "no such endpoint")),
    }
}

fn reply(json: &Json) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(json)?)
}

fn metadata(namespace: &Namespace) -> Json {
    let bytes: usize = namespace
        .documents
        .values()
        .map(|document| document.iter().map(Value::logical_bytes).sum::<usize>())
        .sum();
    json!({
        "approx_logical_bytes": bytes,
        "approx_row_count": namespace.documents.len(),
        "created_at": namespace.created_at.to_string(),
        "updated_at": namespace.updated_at.to_string(),
        "last_write_at": namespace.last_write_at.to_string(),
        "encryption": { "mode": "default" },
        "index": { "status": "up-to-date" },
        "schema": namespace.schema.to_json(true),
    })
}

const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1000;

fn list(shared: &Shared, query: &str) -> Result<Vec<u8>> {
    let mut prefix = String::new();
    let mut cursor = String::new();
    let mut page_size = DEFAULT_PAGE;
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "prefix" => prefix = value.into_owned(),
            "cursor" => cursor = value.into_owned(),
            "page_size" => {
                page_size = value
                    .parse()
                    .ok()
                    .filter(|size| (1..=MAX_PAGE).contains(size))
                    .ok_or_else(|| {
                        Refusal::bad(format_args!("page_size must be 1 to {MAX_PAGE}"))
                    })?;
            }
            _ => {}
        }
    }
    let mut names = shared.store.list(&prefix, &cursor, page_size + 1);
    let more = names.len() > page_size;
    names.truncate(page_size);
    let mut answer = json!({
        "namespaces": names.iter().map(|name| json!({ "id": name })).collect::<Vec<_>>(),
    });
    if let (true, Some(last)) = (more, names.last()) {
        answer["next_cursor"] = json!(last);
    }
    reply(&answer)
}

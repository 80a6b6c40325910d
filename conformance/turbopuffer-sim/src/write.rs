//! The write endpoint: plan everything, then apply everything.
//!
//! ```text
//! JSON ─parse─► WriteRequest ─plan (may refuse)─► Plan ─apply (cannot fail)─► namespace
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::error::{Refusal, Result};
use crate::filter::Subject;
use crate::plan::{Batch, Plan};
use crate::schema::DistanceMetric;
use crate::server::Limits;
use crate::store::{Document, Namespace};
use crate::table::{Columns, Rows, Sent};
use crate::value::{Id, Value};

/// The body of a write.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteRequest {
    pub(crate) upsert_rows: Option<Rows>,
    pub(crate) upsert_columns: Option<Columns>,
    pub(crate) patch_rows: Option<Rows>,
    pub(crate) patch_columns: Option<Columns>,
    pub(crate) deletes: Option<Vec<Value>>,
    pub(crate) upsert_condition: Option<Json>,
    pub(crate) patch_condition: Option<Json>,
    pub(crate) delete_condition: Option<Json>,
    pub(crate) delete_by_filter: Option<Json>,
    #[serde(default)]
    pub(crate) delete_by_filter_allow_partial: bool,
    pub(crate) patch_by_filter: Option<PatchByFilter>,
    #[serde(default)]
    pub(crate) patch_by_filter_allow_partial: bool,
    pub(crate) schema: Option<BTreeMap<String, Json>>,
    pub(crate) distance_metric: Option<DistanceMetric>,
    pub(crate) create_namespace: Option<bool>,
    #[serde(default)]
    pub(crate) return_affected_ids: bool,
    /// Accepted: the emulator has no index to fall behind.
    #[serde(rename = "disable_backpressure")]
    _disable_backpressure: Option<bool>,
    encryption: Option<Encryption>,
    copy_from_namespace: Option<Sent>,
    branch_from_namespace: Option<Sent>,
    sharding: Option<Sent>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PatchByFilter {
    pub(crate) filters: Json,
    pub(crate) patch: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Encryption {
    mode: String,
}

/// The answer to a write.
#[derive(Default, Serialize)]
pub(crate) struct WriteResponse {
    status: &'static str,
    message: &'static str,
    rows_affected: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows_upserted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows_patched: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows_deleted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows_remaining: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    upserted_ids: Vec<Id>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    patched_ids: Vec<Id>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deleted_ids: Vec<Id>,
    billing: WriteBilling,
}

#[derive(Default, Serialize)]
struct WriteBilling {
    billable_logical_bytes_written: usize,
}

/// Rows of one kind of operation that were applied.
#[derive(Default)]
struct Applied {
    rows: u64,
    ids: Vec<Id>,
    bytes: usize,
}

impl Applied {
    fn add(&mut self, id: &Id, bytes: usize, keep_id: bool) {
        self.rows += 1;
        self.bytes += bytes;
        if keep_id {
            self.ids.push(id.clone());
        }
    }
}

/// Runs a write on a namespace's place, which may be empty. All or nothing.
pub(crate) fn write(
    name: &str,
    place: &mut Option<Namespace>,
    request: WriteRequest,
    limits: &Limits,
) -> Result<WriteResponse> {
    for (sent, what) in [
        (request.copy_from_namespace, "copy_from_namespace"),
        (request.branch_from_namespace, "branch_from_namespace"),
        (request.sharding, "sharding"),
    ] {
        if sent.is_some() {
            return Err(Refusal::unsupported(what));
        }
    }
    if request
        .encryption
        .as_ref()
        .is_some_and(|encryption| encryption.mode != "default")
    {
        return Err(Refusal::unsupported("customer-managed encryption"));
    }
    if place.is_none() && !creates(&request)? {
        return Err(Refusal::missing_namespace(name));
    }
    let keep_ids = request.return_affected_ids;
    let plan = Plan::new(place.as_ref(), request, limits)?;
    Ok(apply(place, plan, keep_ids))
}

/// Whether this request may create the namespace.
fn creates(request: &WriteRequest) -> Result<bool> {
    let rows = request.upsert_rows.iter().map(|rows| rows.0.ids.len());
    let columns = request
        .upsert_columns
        .iter()
        .map(|columns| columns.0.ids.len());
    let writes_documents = rows.chain(columns).sum::<usize>() > 0;
    match request.create_namespace {
        Some(false) => Ok(false),
        None => Ok(writes_documents),
        Some(true) => {
            let declares_id = request
                .schema
                .as_ref()
                .is_some_and(|s| s.contains_key("id"));
            if !writes_documents && !declares_id {
                return Err(Refusal::bad(
                    "creating an empty namespace requires the type of `id` in schema",
                ));
            }
            Ok(true)
        }
    }
}

fn apply(place: &mut Option<Namespace>, plan: Plan, keep_ids: bool) -> WriteResponse {
    let Plan {
        schema,
        delete_matches,
        patch_matches,
        filter_patch,
        upserts,
        patches,
        deletes,
        upsert_condition,
        patch_condition,
        delete_condition,
        rows_remaining,
        used,
    } = plan;
    let namespace = place.get_or_insert_with(|| Namespace::new(schema.clone()));
    namespace.schema = schema;
    let width = namespace.schema.attributes.len();
    let documents = &mut namespace.documents;
    let before = documents.len();

    let mut deleted = Applied::default();
    for id in delete_matches {
        documents.remove(&id);
        deleted.add(&id, 0, keep_ids);
    }

    let mut patched = Applied::default();
    for id in patch_matches {
        if let Some(document) = documents.get_mut(&id) {
            merge(document, filter_patch.iter().cloned(), width);
            patched.add(&id, bytes_of(document), keep_ids);
        }
    }

    let mut upserted = Applied::default();
    for batch in upserts {
        let Batch { ids, columns } = batch;
        let mut columns: Vec<_> = columns
            .into_iter()
            .map(|(index, values)| (index, values.into_iter()))
            .collect();
        for id in ids {
            let mut document: Document = vec![Value::Null; width].into();
            let mut bytes = 0;
            for (index, values) in &mut columns {
                if let Some(value) = values.next()
                    && !value.is_null()
                {
                    bytes += value.logical_bytes();
                    document[*index] = value;
                }
            }
            let place = documents.entry(id);
            let id = place.key();
            match (&place, &upsert_condition) {
                (std::collections::hash_map::Entry::Occupied(stored), Some(condition))
                    if !condition.matches(Subject {
                        id,
                        stored: stored.get(),
                        new: &document,
                    }) => {}
                _ => {
                    upserted.add(id, bytes, keep_ids);
                    place.insert_entry(document);
                }
            }
        }
    }

    for batch in patches {
        let Batch { ids, columns } = batch;
        let mut columns: Vec<_> = columns
            .into_iter()
            .map(|(index, values)| (index, values.into_iter()))
            .collect();
        for id in ids {
            let new: Vec<(usize, Value)> = columns
                .iter_mut()
                .filter_map(|(index, values)| values.next().map(|value| (*index, value)))
                .collect();
            let Some(document) = documents.get_mut(&id) else {
                continue;
            };
            if let Some(condition) = &patch_condition {
                let mut values = vec![Value::Null; width];
                for (index, value) in &new {
                    values[*index] = value.clone();
                }
                if !condition.matches(Subject {
                    id: &id,
                    stored: document,
                    new: &values,
                }) {
                    continue;
                }
            }
            merge(document, new.into_iter(), width);
            patched.add(&id, bytes_of(document), keep_ids);
        }
    }

    for id in deletes {
        match &delete_condition {
            // A delete without a condition is blind, so a missing document counts too.
            None => {
                documents.remove(&id);
            }
            Some(condition) => {
                let Some(stored) = documents.get(&id) else {
                    continue;
                };
                if !condition.matches(Subject {
                    id: &id,
                    stored,
                    new: &[],
                }) {
                    continue;
                }
                documents.remove(&id);
            }
        }
        deleted.add(&id, 0, keep_ids);
    }

    if documents.len() != before || deleted.rows > 0 {
        namespace.forget_order();
    }
    let now = jiff::Timestamp::now();
    namespace.updated_at = now;
    namespace.last_write_at = now;
    WriteResponse {
        status: "OK",
        message: "documents committed successfully",
        rows_affected: upserted.rows + patched.rows + deleted.rows,
        rows_upserted: used.upsert.then_some(upserted.rows),
        rows_patched: used.patch.then_some(patched.rows),
        rows_deleted: used.delete.then_some(deleted.rows),
        rows_remaining,
        billing: WriteBilling {
            billable_logical_bytes_written: upserted.bytes + patched.bytes,
        },
        upserted_ids: upserted.ids,
        patched_ids: patched.ids,
        deleted_ids: deleted.ids,
    }
}

/// Overwrites what the patch mentions.
fn merge(document: &mut Document, new: impl Iterator<Item = (usize, Value)>, width: usize) {
    if document.len() < width {
        let mut wider = std::mem::take(document).into_vec();
        wider.resize(width, Value::Null);
        *document = wider.into();
    }
    for (index, value) in new {
        if !matches!(value, Value::Absent) {
            document[index] = value;
        }
    }
}

fn bytes_of(document: &Document) -> usize {
    document.iter().map(Value::logical_bytes).sum()
}

//! Checks a whole write against a namespace before anything of it is applied.

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::coerce::{coerce_column, coerce_id, infer_id_kind};
use crate::error::{Refusal, Result};
use crate::filter::Filter;
use crate::schema::{Kind, Schema, infer};
use crate::server::Limits;
use crate::store::Namespace;
use crate::table::{Column, Table};
use crate::value::{Id, Value};
use crate::write::WriteRequest;

/// Checked rows: columns by attribute index, each as long as `ids`.
pub(crate) struct Batch {
    pub(crate) ids: Vec<Id>,
    pub(crate) columns: Vec<(usize, Vec<Value>)>,
}

/// Which counts the answer has.
#[derive(Default)]
pub(crate) struct Used {
    pub(crate) upsert: bool,
    pub(crate) patch: bool,
    pub(crate) delete: bool,
}

/// A write that cannot fail any more.
pub(crate) struct Plan {
    /// The schema after the write.
    pub(crate) schema: Schema,
    /// Ids that `delete_by_filter` removes, sorted.
    pub(crate) delete_matches: Vec<Id>,
    /// Ids that `patch_by_filter` changes, none of them in `delete_matches`.
    pub(crate) patch_matches: Vec<Id>,
    pub(crate) filter_patch: Vec<(usize, Value)>,
    pub(crate) upserts: Vec<Batch>,
    pub(crate) patches: Vec<Batch>,
    pub(crate) deletes: Vec<Id>,
    pub(crate) upsert_condition: Option<Filter>,
    pub(crate) patch_condition: Option<Filter>,
    pub(crate) delete_condition: Option<Filter>,
    /// Set when a by-filter operation allowed a partial result.
    pub(crate) rows_remaining: Option<bool>,
    pub(crate) used: Used,
}

impl Plan {
    pub(crate) fn new(
        namespace: Option<&Namespace>,
        request: WriteRequest,
        limits: &Limits,
    ) -> Result<Self> {
        let existing = namespace.is_some();
        let mut schema = namespace.map_or_else(Schema::default, |n| n.schema.clone());
        schema.fix_metric(request.distance_metric)?;
        if let Some(entries) = &request.schema {
            schema.declare(entries, request.distance_metric, existing)?;
            if let Some(namespace) = namespace {
                check_filterable_again(namespace, &schema, limits)?;
            }
        }
        let used = Used {
            upsert: request.upsert_rows.is_some() || request.upsert_columns.is_some(),
            patch: request.patch_rows.is_some()
                || request.patch_columns.is_some()
                || request.patch_by_filter.is_some(),
            delete: request.deletes.is_some() || request.delete_by_filter.is_some(),
        };

        let mut checker = Checker {
            schema,
            existing,
            limits,
        };
        let mut upserts = Vec::new();
        let tables = request.upsert_rows.map(|rows| rows.0);
        for table in tables
            .into_iter()
            .chain(request.upsert_columns.map(|c| c.0))
        {
            upserts.push(checker.upserts(table)?);
        }
        let mut patches = Vec::new();
        let tables = request.patch_rows.map(|rows| rows.0);
        for table in tables.into_iter().chain(request.patch_columns.map(|c| c.0)) {
            patches.push(checker.patches(table)?);
        }
        let deletes = checker.ids(request.deletes.unwrap_or_default())?;
        refuse_duplicates(
            upserts.iter().chain(&patches).map(|batch| &batch.ids),
            &deletes,
        )?;

        let filter_patch = match &request.patch_by_filter {
            Some(by_filter) => checker.filter_patch(&by_filter.patch)?,
            None => Vec::new(),
        };
        let Checker { schema, .. } = checker;
        let condition = |json: &Option<Json>| {
            json.as_ref()
                .map(|json| Filter::compile(json, &schema, true))
                .transpose()
        };
        let upsert_condition = condition(&request.upsert_condition)?;
        let patch_condition = condition(&request.patch_condition)?;
        let delete_condition = condition(&request.delete_condition)?;

        let mut rows_remaining = None;
        let mut select = |json: &Json, without: &[Id], limit: usize, partial: bool, what: &str| {
            let filter = Filter::compile(json, &schema, false)?;
            let mut ids: Vec<Id> = namespace
                .iter()
                .flat_map(|namespace| namespace.matching(Some(&filter)))
                .filter(|(id, _)| without.binary_search(id).is_err())
                .map(|(id, _)| id.clone())
                .take(limit + 1)
                .collect();
            let more = ids.len() > limit;
            if more && !partial {
                return Err(Refusal::bad(format_args!(
                    "{what} matches more than {limit} documents, set {what}_allow_partial"
                )));
            }
            if partial {
                rows_remaining = Some(rows_remaining.unwrap_or(false) || more);
            }
            ids.truncate(limit);
            ids.sort_unstable();
            Ok(ids)
        };
        let delete_matches = match &request.delete_by_filter {
            Some(json) => select(
                json,
                &[],
                limits.delete_by_filter_rows,
                request.delete_by_filter_allow_partial,
                "delete_by_filter",
            )?,
            None => Vec::new(),
        };
        let patch_matches = match &request.patch_by_filter {
            Some(by_filter) => select(
                &by_filter.filters,
                &delete_matches,
                limits.patch_by_filter_rows,
                request.patch_by_filter_allow_partial,
                "patch_by_filter",
            )?,
            None => Vec::new(),
        };
        Ok(Self {
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
        })
    }
}

/// Turning an attribute filterable must not leave longer values behind than a filterable
/// attribute may have.
pub(crate) fn check_filterable_again(
    namespace: &Namespace,
    schema: &Schema,
    limits: &Limits,
) -> Result<()> {
    for (index, before) in namespace.schema.attributes.iter().enumerate() {
        let after = &schema.attributes[index];
        if before.filterable || !after.filterable {
            continue;
        }
        let too_long = |value: &Value| match value {
            Value::Array(elements) => elements
                .iter()
                .any(|e| e.logical_bytes() > limits.filterable_bytes),
            value => value.logical_bytes() > limits.filterable_bytes,
        };
        if namespace
            .documents
            .values()
            .any(|d| d.get(index).is_some_and(too_long))
        {
            return Err(Refusal::bad(format_args!(
                "attribute `{}` cannot become filterable: it has values over {} bytes",
                after.name, limits.filterable_bytes
            )));
        }
    }
    Ok(())
}

fn refuse_duplicates<'a>(
    batches: impl Iterator<Item = &'a Vec<Id>>,
    deletes: &'a Vec<Id>,
) -> Result<()> {
    let lists: Vec<&Vec<Id>> = batches
        .chain([deletes])
        .filter(|ids| !ids.is_empty())
        .collect();
    // One sorted list is the common case, and it needs no set.
    if let [ids] = lists.as_slice()
        && ids.is_sorted_by(|a, b| a < b)
    {
        return Ok(());
    }
    let count = lists.iter().map(|ids| ids.len()).sum();
    let mut seen = HashSet::with_capacity_and_hasher(count, foldhash::fast::FixedState::default());
    for id in lists.into_iter().flatten() {
        if !seen.insert(id) {
            return Err(Refusal::bad(
                "duplicate document id: an id may appear once in a write",
            ));
        }
    }
    Ok(())
}

struct Checker<'a> {
    schema: Schema,
    existing: bool,
    limits: &'a Limits,
}

impl Checker<'_> {
    fn ids(&mut self, values: Vec<Value>) -> Result<Vec<Id>> {
        let Some(first) = values.first() else {
            return Ok(Vec::new());
        };
        let kind = match self.schema.id {
            Some(kind) => kind,
            None => {
                let kind = infer_id_kind(first);
                self.schema.fix_id_kind(kind)?;
                kind
            }
        };
        if kind == Kind::Uint {
            // Keeps the common case a plain loop.
            let mut ids = Vec::with_capacity(values.len());
            for value in values {
                ids.push(match value {
                    Value::Uint(number) => Id::Uint(number),
                    other => coerce_id(other, kind)?,
                });
            }
            return Ok(ids);
        }
        values
            .into_iter()
            .map(|value| coerce_id(value, kind))
            .collect()
    }

    fn upserts(&mut self, table: Table) -> Result<Batch> {
        let batch = self.batch(table)?;
        for vector in self.schema.vectors() {
            let column = batch.columns.iter().find(|(index, _)| *index == vector);
            let complete = column.is_some_and(|(_, values)| !values.iter().any(Value::is_null));
            if !complete && !batch.ids.is_empty() {
                return Err(Refusal::bad(format_args!(
                    "vector attribute `{}` is missing from a document",
                    self.schema.attributes[vector].name
                )));
            }
        }
        if self.schema.metric.is_none() && self.schema.vectors().next().is_some() {
            return Err(Refusal::bad(
                "distance_metric is required when a namespace is created with vectors",
            ));
        }
        Ok(batch)
    }

    fn patches(&mut self, table: Table) -> Result<Batch> {
        let batch = self.batch(table)?;
        self.refuse_vectors(batch.columns.iter().map(|(index, _)| *index))?;
        Ok(batch)
    }

    fn refuse_vectors(&self, mut attributes: impl Iterator<Item = usize>) -> Result<()> {
        match attributes.find(|&index| self.schema.attributes[index].ty.is_vector()) {
            Some(index) => Err(Refusal::bad(format_args!(
                "vector attribute `{}` cannot be patched",
                self.schema.attributes[index].name
            ))),
            None => Ok(()),
        }
    }

    fn batch(&mut self, table: Table) -> Result<Batch> {
        let Table { ids, columns } = table;
        let rows = ids.len();
        let ids = self.ids(ids)?;
        let mut longest = 0;
        let mut checked = Vec::with_capacity(columns.len());
        for Column { name, values } in columns {
            if values.len() != rows {
                return Err(Refusal::bad(format_args!(
                    "column `{name}` has {} values, `id` has {rows}",
                    values.len()
                )));
            }
            if let Some((index, values, size)) = self.column(&name, values)? {
                longest += size;
                checked.push((index, values));
            }
        }
        if longest > self.limits.document_bytes {
            self.check_documents(rows, &checked)?;
        }
        Ok(Batch {
            ids,
            columns: checked,
        })
    }

    /// Resolves, infers and coerces a column. `None` for an unknown attribute that is null in
    /// all rows: there is nothing to store.
    fn column(
        &mut self,
        name: &str,
        mut values: Vec<Value>,
    ) -> Result<Option<(usize, Vec<Value>, usize)>> {
        let index = match self.schema.find(name) {
            Some(index) => index,
            None => match infer(name, &values)? {
                Some(ty) => self.schema.add(name, ty, self.existing)?,
                None => return Ok(None),
            },
        };
        let longest = coerce_column(&mut values, &self.schema.attributes[index], self.limits)?;
        Ok(Some((index, values, longest)))
    }

    /// Only called when the longest values together could make a document too long.
    fn check_documents(&self, rows: usize, columns: &[(usize, Vec<Value>)]) -> Result<()> {
        for row in 0..rows {
            let size: usize = columns
                .iter()
                .map(|(_, values)| values[row].logical_bytes())
                .sum();
            if size > self.limits.document_bytes {
                return Err(Refusal::bad(format_args!(
                    "a document has {size} bytes, the limit is {}",
                    self.limits.document_bytes
                )));
            }
        }
        Ok(())
    }

    fn filter_patch(
        &mut self,
        patch: &std::collections::BTreeMap<String, Value>,
    ) -> Result<Vec<(usize, Value)>> {
        if patch.contains_key("id") {
            return Err(Refusal::bad("patch_by_filter cannot patch `id`"));
        }
        let mut checked = Vec::new();
        for (name, value) in patch {
            if let Some((index, mut values, _)) = self.column(name, vec![value.clone()])? {
                checked.extend(values.pop().map(|value| (index, value)));
            }
        }
        self.refuse_vectors(checked.iter().map(|(index, _)| *index))?;
        Ok(checked)
    }
}

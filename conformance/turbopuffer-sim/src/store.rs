//! Namespaces in memory.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{Refusal, Result};
use crate::filter::{Filter, Subject};
use crate::schema::Schema;
use crate::value::{Id, Value};

/// Values in the order of the schema's attributes. May be shorter than the schema: the rest
/// is null.
pub(crate) type Document = Box<[Value]>;

/// Documents by id. Hashed: writes in any order of ids are the case to be fast in.
pub(crate) type Documents = HashMap<Id, Document, foldhash::fast::FixedState>;

pub(crate) struct Namespace {
    pub(crate) schema: Schema,
    pub(crate) documents: Documents,
    /// All ids in order, made by the first query that needs it.
    sorted_ids: Mutex<Option<Arc<[Id]>>>,
    pub(crate) created_at: jiff::Timestamp,
    pub(crate) updated_at: jiff::Timestamp,
    pub(crate) last_write_at: jiff::Timestamp,
}

impl Namespace {
    pub(crate) fn new(schema: Schema) -> Self {
        let now = jiff::Timestamp::now();
        Self {
            schema,
            documents: Documents::default(),
            sorted_ids: Mutex::default(),
            created_at: now,
            updated_at: now,
            last_write_at: now,
        }
    }

    /// To be called after documents came or went.
    pub(crate) fn forget_order(&mut self) {
        self.sorted_ids = Mutex::default();
    }

    /// Documents that match, in no useful order.
    pub(crate) fn matching<'a, 'f>(
        &'a self,
        filter: Option<&'f Filter>,
    ) -> impl Iterator<Item = (&'a Id, &'a [Value])> + use<'a, 'f> {
        let only = match filter.map(Filter::id_bounds) {
            Some((Bound::Included(low), Bound::Included(high))) if low == high => Some(low),
            _ => None,
        };
        let all = only.is_none().then(|| self.documents.iter());
        only.and_then(|id| self.documents.get_key_value(&id))
            .into_iter()
            .chain(all.into_iter().flatten())
            .map(|(id, document)| (id, &**document))
            .filter(move |(id, stored)| matches(filter, id, stored))
    }

    /// Documents `offset..offset + limit` of those that match, in the order of ids.
    pub(crate) fn page_by_id(
        &self,
        filter: Option<&Filter>,
        descending: bool,
        offset: usize,
        limit: usize,
    ) -> Vec<(&Id, &[Value])> {
        let ids = self.sorted_ids();
        let (lower, upper) = filter.map_or((Bound::Unbounded, Bound::Unbounded), Filter::id_bounds);
        let start = match &lower {
            Bound::Unbounded => 0,
            Bound::Included(low) => ids.partition_point(|id| id < low),
            Bound::Excluded(low) => ids.partition_point(|id| id <= low),
        };
        let end = match &upper {
            Bound::Unbounded => ids.len(),
            Bound::Included(high) => ids.partition_point(|id| id <= high),
            Bound::Excluded(high) => ids.partition_point(|id| id < high),
        };
        let matching = ids
            .get(start..end)
            .unwrap_or_default()
            .iter()
            .filter_map(|id| self.documents.get_key_value(id))
            .map(|(id, document)| (id, &**document))
            .filter(|(id, stored)| matches(filter, id, stored));
        if descending {
            matching.rev().skip(offset).take(limit).collect()
        } else {
            matching.skip(offset).take(limit).collect()
        }
    }

    fn sorted_ids(&self) -> Arc<[Id]> {
        let mut sorted = self
            .sorted_ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let ids = sorted.get_or_insert_with(|| {
            let mut ids: Vec<Id> = self.documents.keys().cloned().collect();
            ids.sort_unstable();
            ids.into()
        });
        ids.clone()
    }
}

fn matches(filter: Option<&Filter>, id: &Id, stored: &[Value]) -> bool {
    filter.is_none_or(|filter| {
        filter.matches(Subject {
            id,
            stored,
            new: &[],
        })
    })
}

/// A name's place. It stays when the namespace is deleted, so that a write that waits for the
/// lock cannot end up in a namespace that is no longer there.
type Slot = Arc<RwLock<Option<Namespace>>>;

#[derive(Default)]
pub(crate) struct Store {
    slots: RwLock<BTreeMap<String, Slot>>,
}

const MAX_NAME_BYTES: usize = 128;

impl Store {
    /// The place of a name. Refuses names that no namespace can have.
    pub(crate) fn slot(&self, name: &str) -> Result<Slot> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(allowed) {
            return Err(Refusal::bad(
                "namespace name must match [A-Za-z0-9-_.]{1,128}",
            ));
        }
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(name) {
            return Ok(slot.clone());
        }
        drop(slots);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        Ok(slots.entry(name.to_owned()).or_default().clone())
    }

    /// Up to `limit` names of existing namespaces after `cursor`, sorted.
    pub(crate) fn list(&self, prefix: &str, cursor: &str, limit: usize) -> Vec<String> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots
            .range::<str, _>((Bound::Excluded(cursor), Bound::Unbounded))
            .filter(|(name, slot)| name.starts_with(prefix) && read(slot).is_some())
            .map(|(name, _)| name.clone())
            .take(limit)
            .collect()
    }
}

pub(crate) fn read(slot: &Slot) -> RwLockReadGuard<'_, Option<Namespace>> {
    slot.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write(slot: &Slot) -> RwLockWriteGuard<'_, Option<Namespace>> {
    slot.write().unwrap_or_else(PoisonError::into_inner)
}

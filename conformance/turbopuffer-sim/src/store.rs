//! Namespaces in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{Refusal, Result};
use crate::filter::{Filter, Subject};
use crate::schema::Schema;
use crate::value::{Id, Value};

/// Values in the order of the schema's attributes. May be shorter than the schema: the rest
/// is null.
pub(crate) type Document = Box<[Value]>;

pub(crate) struct Namespace {
    pub(crate) schema: Schema,
    pub(crate) documents: BTreeMap<Id, Document>,
    pub(crate) created_at: jiff::Timestamp,
    pub(crate) updated_at: jiff::Timestamp,
    pub(crate) last_write_at: jiff::Timestamp,
}

impl Namespace {
    pub(crate) fn new(schema: Schema) -> Self {
        let now = jiff::Timestamp::now();
        Self {
            schema,
            documents: BTreeMap::new(),
            created_at: now,
            updated_at: now,
            last_write_at: now,
        }
    }

    /// Documents that match, in the order of ids.
    pub(crate) fn matching<'a, 'f>(
        &'a self,
        filter: Option<&'f Filter>,
    ) -> impl DoubleEndedIterator<Item = (&'a Id, &'a [Value])> + use<'a, 'f> {
        let bounds = filter.map_or((Bound::Unbounded, Bound::Unbounded), Filter::id_bounds);
        let range = is_range(&bounds).then(|| self.documents.range(bounds));
        range
            .into_iter()
            .flatten()
            .map(|(id, document)| (id, &**document))
            .filter(move |(id, stored)| {
                filter.is_none_or(|filter| {
                    filter.matches(Subject {
                        id,
                        stored,
                        new: &[],
                    })
                })
            })
    }
}

/// `BTreeMap::range` panics on bounds that are the wrong way round.
fn is_range(bounds: &(Bound<Id>, Bound<Id>)) -> bool {
    match bounds {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Included(a), Bound::Included(b)) => a <= b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a < b,
    }
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

//! A target without transactions, as in the turbopuffer sink: documents in namespaces, written
//! by requests of which each may be applied, lost or late; upserts apply only over an older
//! time; deletes are tombstones; a snapshot goes into a fresh namespace, and readers are
//! switched over by the change of the checkpoint.

use std::collections::BTreeMap;

use crate::world::{Key, Text};

/// One document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doc {
    pub(crate) time: u64,
    /// A tombstone has none.
    pub(crate) value: Option<Option<Text>>,
}

/// Namespaces, and which of them readers look at.
#[derive(Debug)]
pub(crate) struct Documents {
    pub(crate) namespaces: BTreeMap<(usize, String), BTreeMap<Key, Doc>>,
    pub(crate) active: Vec<Option<String>>,
}

impl Documents {
    pub(crate) fn new(views: usize) -> Self {
        Self {
            namespaces: BTreeMap::new(),
            active: vec![None; views],
        }
    }

    /// Upserts of one request; each only over an older document. Creates the namespace only when
    /// `create`, so that nobody revives a deleted one. False when there is none.
    pub(crate) fn upsert(
        &mut self,
        view: usize,
        namespace: &str,
        create: bool,
        docs: &[(Key, Doc)],
        delete_at_once: bool,
    ) -> bool {
        let place = (view, namespace.to_string());
        if create {
            self.namespaces.entry(place.clone()).or_default();
        }
        let Some(documents) = self.namespaces.get_mut(&place) else {
            return false;
        };
        for (key, doc) in docs {
            if documents.get(key).is_some_and(|old| old.time >= doc.time) {
                continue;
            }
            if delete_at_once && doc.value.is_none() {
                documents.remove(key);
            } else {
                documents.insert(key.clone(), doc.clone());
            }
        }
        true
    }

    /// What readers see of a view.
    pub(crate) fn visible(&self, view: usize) -> Option<&BTreeMap<Key, Doc>> {
        let active = self.active[view].clone()?;
        self.namespaces.get(&(view, active))
    }
}

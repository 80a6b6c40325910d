//! A target of events: an effect cannot be taken back, and its idempotency key is all that tells
//! a repeat from a new one.

use std::collections::BTreeMap;

use mz_sink_core::types::Op;

use super::Change;
use crate::world::{Row, Text};

/// What an effect is about: one change of one view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subject {
    pub(crate) view: usize,
    pub(crate) time: u64,
    pub(crate) row: Row,
    /// With its sign.
    pub(crate) diff: i64,
    /// A row that was there at this time, and not a change then.
    pub(crate) of_snapshot: bool,
}

impl Subject {
    pub(crate) fn of(change: &Change, of_snapshot: bool) -> Self {
        let count = change.count as i64;
        Self {
            view: change.view,
            time: change.time,
            row: change.row.clone(),
            diff: if change.op == Op::Put { count } else { -count },
            of_snapshot,
        }
    }
}

/// One delivery.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) key: Text,
    pub(crate) subject: Subject,
}

/// All deliveries, by both of their names.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) by_key: BTreeMap<Text, Subject>,
    pub(crate) by_subject: BTreeMap<Subject, Text>,
}

impl Effects {
    /// Delivers one.
    ///
    /// # Errors
    /// When a key stands for two changes, or a change has two keys.
    pub(crate) fn deliver(&mut self, effect: &Effect) -> Result<(), String> {
        let Effect { key, subject } = effect;
        if let Some(other) = self.by_key.get(key)
            && other != subject
        {
            return Err(format!(
                "the idempotency key {key} stands for {other:?} and for {subject:?}"
            ));
        }
        if let Some(other) = self.by_subject.get(subject)
            && other != key
        {
            return Err(format!(
                "{subject:?} was delivered with the idempotency keys {other} and {key}"
            ));
        }
        self.by_key.insert(key.clone(), subject.clone());
        self.by_subject.insert(subject.clone(), key.clone());
        Ok(())
    }
}

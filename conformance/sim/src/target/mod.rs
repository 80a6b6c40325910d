//! Model targets: what a sink's requests do to them when they land, and what readers see.
//!
//! Requests land on their own: the worker that sent one may be gone, or have given it up. Every
//! landing is judged at once.

mod documents;
mod effects;
mod expected;
mod judge;
mod tables;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use documents::{Doc, Documents};
pub(crate) use effects::{Effect, Effects, Subject};
pub(crate) use expected::Expected;
use mz_sink_core::batch::BatchInfo;
use mz_sink_core::types::{Envelope, Op};
pub(crate) use tables::Tables;

use crate::profile::{Kind, Profile};
use crate::worker::WorkerId;
use crate::world::{Key, Row, Text};

/// Names a deployment and its target.
pub(crate) type TargetId = usize;

/// A change as a sink gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) view: usize,
    pub(crate) time: u64,
    pub(crate) idempotency_key: Text,
    pub(crate) op: Op,
    pub(crate) count: u64,
    /// Without a value when it is a delete by key.
    pub(crate) row: Row,
    /// Whether the sink refused it.
    pub(crate) refused: bool,
}

/// A row in the dead-letter log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Letter {
    pub(crate) view: usize,
    pub(crate) time: u64,
    pub(crate) key: Key,
}

/// A change of the checkpoint, with what belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) info: BatchInfo,
    pub(crate) expected: Option<String>,
    pub(crate) next: String,
}

/// What a target can hold.
#[derive(Debug)]
pub(crate) enum Store {
    Tables(Tables),
    Documents(Documents),
    Effects(Effects),
}

/// The target of one deployment.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) sink_id: String,
    pub(crate) checkpoint: Option<String>,
    pub(crate) store: Store,
    /// What readers must see of each view, once it was committed.
    pub(crate) expected: Vec<Option<Expected>>,
    /// Of the latest checkpoint.
    pub(crate) frontier: Option<u64>,
    pub(crate) epoch: u64,
    pub(crate) generation: u64,
    /// Who changed the checkpoint last.
    pub(crate) writer: Option<WorkerId>,
    /// Who took each epoch.
    pub(crate) epochs: BTreeMap<u64, WorkerId>,
    /// Every change of the checkpoint: who, and to which frontier.
    pub(crate) commits: BTreeMap<String, Option<u64>>,
    /// What is in the dead-letter log.
    pub(crate) letters: BTreeSet<Letter>,
    /// Batches that were given up: by whom, from where to where.
    pub(crate) given_up: BTreeSet<(WorkerId, u64, u64)>,
    /// Requests that have not landed yet.
    pub(crate) in_flight: u64,
    upsert: bool,
}

impl Target {
    pub(crate) fn new(number: TargetId, profile: &Profile) -> Self {
        let upsert = profile.envelope == Envelope::Upsert;
        Self {
            sink_id: format!("sink-{number}"),
            checkpoint: None,
            store: match profile.kind {
                Kind::Transactional => Store::Tables(Tables::new(profile.views, upsert)),
                Kind::Convergent => Store::Documents(Documents::new(profile.views)),
                Kind::AtLeastOnce => Store::Effects(Effects::default()),
            },
            expected: (0..profile.views).map(|_| None).collect(),
            frontier: None,
            epoch: 0,
            generation: 0,
            writer: None,
            epochs: BTreeMap::new(),
            commits: BTreeMap::new(),
            letters: BTreeSet::new(),
            given_up: BTreeSet::new(),
            in_flight: 0,
            upsert,
        }
    }
}

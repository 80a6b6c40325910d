//! The history of a table: its changes by time and the frontiers it has reached.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::row::{Row, SharedChange, consolidate};

/// Progress is remembered for this many steps; a slower reader sees them merged.
const REMEMBERED_FRONTIERS: usize = 100_000;

/// Every change of one collection, kept for the life of the server.
///
/// Nothing is ever compacted: what a reader may still see is a matter of the
/// read frontier, which the catalog computes from the retention.
pub(crate) struct Ledger {
    changes: BTreeMap<u64, Vec<SharedChange>>,
    frontiers: std::collections::VecDeque<u64>,
    finished: bool,
}

impl Ledger {
    /// An empty collection whose write frontier is `upper`.
    pub(crate) fn new(upper: u64) -> Self {
        Self {
            changes: BTreeMap::new(),
            frontiers: [upper].into(),
            finished: false,
        }
    }

    /// A constant collection: complete at every time, its frontier is empty.
    pub(crate) fn constant(rows: Vec<Row>) -> Self {
        let mut ledger = Self::new(0);
        ledger.append(0, rows.into_iter().map(|row| (Arc::new(row), 1)).collect());
        ledger.finished = true;
        ledger
    }

    /// Times below this are closed.
    pub(crate) fn upper(&self) -> u64 {
        self.frontiers.back().copied().unwrap_or(0)
    }

    /// Whether nothing can ever change again.
    pub(crate) fn finished(&self) -> bool {
        self.finished
    }

    /// The first frontier above `frontier`, if it has been reached.
    pub(crate) fn next_upper(&self, frontier: u64) -> Option<u64> {
        let at = self.frontiers.partition_point(|f| *f <= frontier);
        self.frontiers.get(at).copied()
    }

    /// Writes at `time`, which closes it.
    pub(crate) fn append(&mut self, time: u64, changes: Vec<SharedChange>) {
        let at = self.changes.entry(time).or_default();
        at.extend(changes);
        *at = consolidate(at.iter());
        self.advance(time + 1);
    }

    /// Closes every time below `upper`; a frontier never goes back.
    pub(crate) fn advance(&mut self, upper: u64) {
        if upper > self.upper() && !self.finished {
            self.frontiers.push_back(upper);
            if self.frontiers.len() > REMEMBERED_FRONTIERS {
                self.frontiers.pop_front();
            }
        }
    }

    /// The contents at `as_of`.
    pub(crate) fn contents(&self, as_of: u64) -> Vec<SharedChange> {
        consolidate(
            self.changes
                .range(..=as_of)
                .flat_map(|(_, changes)| changes),
        )
    }

    /// The changes after `after` and below `below`, by time.
    pub(crate) fn between(
        &self,
        after: u64,
        below: u64,
    ) -> impl Iterator<Item = (u64, &Vec<SharedChange>)> {
        let range = (
            Bound::Excluded(after),
            Bound::Excluded(below.max(after + 1)),
        );
        self.changes
            .range(range)
            .map(|(time, changes)| (*time, changes))
    }
}

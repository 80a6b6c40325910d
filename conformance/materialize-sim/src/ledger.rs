//! The history of a table: its changes by time and the frontiers it has reached.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::derived::Derived;
use crate::error::SqlError;
use crate::row::{SharedChange, consolidate};

/// Progress is remembered for this many steps; a slower reader sees them merged.
const REMEMBERED_FRONTIERS: usize = 100_000;

/// Every change of one collection, kept for the life of the server.
///
/// Nothing is ever compacted: what a reader may still see is a matter of the
/// read frontier, which the catalog computes from the retention.
pub(crate) struct Ledger {
    changes: BTreeMap<u64, Vec<SharedChange>>,
    /// Rows of a view that could not be computed, by time and text.
    errors: BTreeMap<u64, Vec<(String, i64)>>,
    frontiers: std::collections::VecDeque<u64>,
    /// Nobody sees a frontier above this one.
    held: Option<u64>,
    finished: bool,
}

impl Ledger {
    /// An empty collection whose write frontier is `upper`.
    pub(crate) fn new(upper: u64) -> Self {
        Self {
            changes: BTreeMap::new(),
            errors: BTreeMap::new(),
            frontiers: [upper].into(),
            held: None,
            finished: false,
        }
    }

    /// Shows no frontier above that of now, or those reached meanwhile again.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held.then(|| self.upper());
    }

    /// A constant collection: complete at every time, its frontier is empty.
    pub(crate) fn constant(contents: Derived) -> Self {
        let mut ledger = Self::new(0);
        ledger.append(0, contents);
        ledger.finished = true;
        ledger
    }

    /// A collection that begins with these contents; its write frontier is `upper`.
    pub(crate) fn beginning(upper: u64, contents: Derived) -> Self {
        let mut ledger = Self::new(upper);
        ledger.record(upper.saturating_sub(1), contents);
        ledger
    }

    /// Times below this are closed for readers.
    pub(crate) fn upper(&self) -> u64 {
        self.reached().min(self.held.unwrap_or(u64::MAX))
    }

    /// Times below this are closed for writers.
    pub(crate) fn reached(&self) -> u64 {
        self.frontiers.back().copied().unwrap_or(0)
    }

    /// Whether nothing can ever change again.
    pub(crate) fn finished(&self) -> bool {
        self.finished
    }

    /// The first frontier above `frontier`, if it has been reached.
    pub(crate) fn next_upper(&self, frontier: u64) -> Option<u64> {
        let at = self.frontiers.partition_point(|f| *f <= frontier);
        let next = self.frontiers.get(at).copied();
        next.filter(|next| *next <= self.upper())
    }

    /// The number of frontiers reached after `frontier`.
    pub(crate) fn steps_after(&self, frontier: u64) -> u64 {
        let reached = |upper: u64| self.frontiers.partition_point(|f| *f <= upper);
        reached(self.upper()).saturating_sub(reached(frontier)) as u64
    }

    /// Writes at `time`, which closes it.
    pub(crate) fn append(&mut self, time: u64, derived: Derived) {
        self.record(time, derived);
        self.advance(time + 1);
    }

    fn record(&mut self, time: u64, derived: Derived) {
        if !derived.changes.is_empty() {
            let at = self.changes.entry(time).or_default();
            at.extend(derived.changes);
            *at = consolidate(at.iter());
        }
        if !derived.errors.is_empty() {
            self.errors.entry(time).or_default().extend(derived.errors);
        }
    }

    /// Closes every time below `upper`; a frontier never goes back.
    pub(crate) fn advance(&mut self, upper: u64) {
        if upper > self.reached() && !self.finished {
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

    /// Why the contents at `as_of` cannot be read, if they cannot.
    pub(crate) fn error_at(&self, as_of: u64) -> Option<SqlError> {
        let mut net: BTreeMap<&str, i64> = BTreeMap::new();
        for (text, diff) in self.errors.range(..=as_of).flat_map(|(_, errors)| errors) {
            *net.entry(text).or_default() += diff;
        }
        let (text, _) = net.into_iter().find(|(_, count)| *count != 0)?;
        let text = format!("Evaluation error: {text}");
        Some(SqlError::new("XX000", text))
    }

    /// The errors of the contents at `as_of`, as changes.
    pub(crate) fn errors(&self, as_of: u64) -> Vec<(String, i64)> {
        let errors = self.errors.range(..=as_of);
        errors.flat_map(|(_, errors)| errors.clone()).collect()
    }

    /// The changes after `after` and below `below`, by time.
    pub(crate) fn between(
        &self,
        after: u64,
        below: u64,
    ) -> impl Iterator<Item = (u64, &Vec<SharedChange>)> {
        self.changes
            .range((Bound::Excluded(after), Bound::Unbounded))
            .take_while(move |(time, _)| **time < below)
            .map(|(time, changes)| (*time, changes))
    }
}

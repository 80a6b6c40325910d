//! The contents of one object through all times.

use std::collections::BTreeMap;

use super::row::{Bag, Row};

/// A shard with its whole history; `since` says how much of it the server would still serve.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) name: String,
    /// By time: each row once, with its net change, in row order.
    pub(crate) history: BTreeMap<u64, Bag>,
    pub(crate) now: Bag,
    /// Contents can be read at this time and later.
    pub(crate) since: u64,
}

impl Shard {
    pub(crate) fn new(name: String, since: u64) -> Self {
        Self {
            name,
            history: BTreeMap::new(),
            now: Bag::new(),
            since,
        }
    }

    /// Changes the multiplicity of `row` at `time`, which is not before any earlier change.
    pub(crate) fn change(&mut self, time: u64, row: &Row, diff: i64) {
        add(&mut self.now, row, diff);
        let at = self.history.entry(time).or_default();
        add(at, row, diff);
        if at.is_empty() {
            self.history.remove(&time);
        }
    }

    /// The contents as of `time`.
    pub(crate) fn at(&self, time: u64) -> Bag {
        let mut bag = Bag::new();
        for changes in self.history.range(..=time).map(|(_, changes)| changes) {
            for (row, diff) in changes {
                add(&mut bag, row, *diff);
            }
        }
        bag
    }
}

/// Adds `diff` to the multiplicity of `row`; a row with none is not kept.
pub(crate) fn add(bag: &mut Bag, row: &Row, diff: i64) {
    let count = bag.get(row).copied().unwrap_or(0) + diff;
    if count == 0 {
        bag.remove(row);
    } else {
        bag.insert(row.clone(), count);
    }
}

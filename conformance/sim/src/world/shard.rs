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
    /// Never changes: a SUBSCRIBE ends after its snapshot.
    pub(crate) constant: bool,
    /// Contents can be read at this time and later.
    pub(crate) since: u64,
}

impl Shard {
    pub(crate) fn new(name: String, since: u64) -> Self {
        Self {
            name,
            history: BTreeMap::new(),
            now: Bag::new(),
            constant: false,
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

#[cfg(test)]
mod tests {
    use super::super::row::Key;
    use super::*;

    #[test]
    fn the_contents_at_a_time_are_the_sum_of_all_changes_up_to_it() {
        let row = |value: &str| Row {
            key: Key { id: 1, tag: None },
            value: Some(value.into()),
        };
        let mut shard = Shard::new("s1".into(), 0);
        shard.change(5, &row("a"), 1);
        shard.change(7, &row("a"), -1);
        shard.change(7, &row("b"), 1);
        shard.change(9, &row("b"), -1);
        shard.change(9, &row("b"), 1);
        assert_eq!(shard.at(4), Bag::new());
        assert_eq!(shard.at(6), Bag::from([(row("a"), 1)]));
        assert_eq!(shard.at(7), Bag::from([(row("b"), 1)]));
        // What comes and goes at one time did not happen.
        assert!(!shard.history.contains_key(&9));
    }
}

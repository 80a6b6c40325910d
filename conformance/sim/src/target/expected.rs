//! What readers of a target must see of one view.

use std::collections::BTreeMap;

use crate::world::{Bag, Key, Shard, Text, Upsert, add, upserts};

/// The contents, with the time of each key's last change.
pub(crate) type Keyed = BTreeMap<Key, (u64, Option<Text>)>;

/// A view, from its snapshot on. With unique keys this equals the object as of one below `upto`;
/// with others it is what the envelope, which sees one time only, says from there.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) shard: usize,
    pub(crate) snapshot: u64,
    /// Every change below it is in.
    pub(crate) upto: u64,
    pub(crate) keyed: Keyed,
    pub(crate) bag: Bag,
    upsert: bool,
}

impl Expected {
    /// As of the snapshot. Also whether keys were left out of it.
    pub(crate) fn new(index: usize, shard: &Shard, snapshot: u64, upsert: bool) -> (Self, bool) {
        let bag = shard.at(snapshot);
        let mut new = Self {
            shard: index,
            snapshot,
            upto: snapshot + 1,
            keyed: Keyed::new(),
            bag: Bag::new(),
            upsert,
        };
        let violated = new.change(snapshot, &bag);
        (new, violated)
    }

    /// Lets it reach `frontier`; gives the times at which a key was violated.
    pub(crate) fn advance(&mut self, shard: &Shard, frontier: u64) -> Vec<u64> {
        let mut violations = Vec::new();
        if frontier > self.upto {
            for (time, changes) in shard.history.range(self.upto..frontier) {
                if self.change(*time, changes) {
                    violations.push(*time);
                }
            }
            self.upto = frontier;
        }
        violations
    }

    fn change(&mut self, time: u64, changes: &Bag) -> bool {
        if !self.upsert {
            for (row, diff) in changes {
                add(&mut self.bag, row, *diff);
            }
            return false;
        }
        let mut violated = false;
        for (key, upsert) in upserts(changes.iter().map(|(row, diff)| (row, *diff))) {
            violated |= upsert == Upsert::Violation;
            match upsert {
                Upsert::Put(value) => self.keyed.insert(key, (time, value)),
                Upsert::Delete | Upsert::Violation => self.keyed.remove(&key),
            };
        }
        violated
    }
}

/// What the envelope says of `key` at `time`; `None` when nothing.
pub(crate) fn truth(shard: &Shard, key: &Key, time: u64, snapshot: u64) -> Option<Upsert> {
    let of_key = |bag: &Bag| {
        let rows = bag.iter().filter(|(row, _)| row.key == *key);
        upserts(rows.map(|(row, diff)| (row, *diff))).remove(key)
    };
    if time == snapshot {
        of_key(&shard.at(snapshot))
    } else {
        of_key(shard.history.get(&time)?)
    }
}

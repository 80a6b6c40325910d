//! What readers of a target must see of one view.

use std::collections::BTreeMap;

use crate::world::{Bag, Key, Shard, Text, Upsert, add, upserts};

/// The contents, with the time of each key's last change.
pub(crate) type Keyed = BTreeMap<Key, (u64, Option<Text>)>;

/// Keys that a change was left out of, with its time.
pub(crate) type Left = Vec<(u64, Key)>;

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
    /// As of the snapshot. Also the keys that were left out of it, with their time.
    pub(crate) fn new(index: usize, shard: &Shard, snapshot: u64, upsert: bool) -> (Self, Left) {
        let bag = shard.at(snapshot);
        let mut new = Self {
            shard: index,
            snapshot,
            upto: snapshot + 1,
            keyed: Keyed::new(),
            bag: Bag::new(),
            upsert,
        };
        let mut left = Left::new();
        new.change(snapshot, &bag, &mut left);
        (new, left)
    }

    /// Lets it reach `frontier`; gives the keys that were violated.
    pub(crate) fn advance(&mut self, shard: &Shard, frontier: u64) -> Left {
        let mut left = Left::new();
        if frontier > self.upto {
            for (time, changes) in shard.history.range(self.upto..frontier) {
                self.change(*time, changes, &mut left);
            }
            self.upto = frontier;
        }
        left
    }

    /// Reaches `frontier` without the changes up to it; gives what was left out.
    pub(crate) fn leave_out(&mut self, shard: &Shard, frontier: u64) -> Left {
        let mut left = Left::new();
        for (time, changes) in shard.history.range(self.upto..frontier.max(self.upto)) {
            left.extend(changes.keys().map(|row| (*time, row.key.clone())));
        }
        self.upto = self.upto.max(frontier);
        left
    }

    fn change(&mut self, time: u64, changes: &Bag, left: &mut Left) {
        if !self.upsert {
            for (row, diff) in changes {
                add(&mut self.bag, row, *diff);
            }
            return;
        }
        for (key, upsert) in upserts(changes.iter().map(|(row, diff)| (row, *diff))) {
            if upsert == Upsert::Violation {
                left.push((time, key.clone()));
            }
            match upsert {
                Upsert::Put(value) => self.keyed.insert(key, (time, value)),
                Upsert::Delete | Upsert::Violation => self.keyed.remove(&key),
            };
        }
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

//! Random transactions on the objects.

use super::row::REFUSED;
use super::{Key, Row, Text, World};
use crate::dice::Dice;
use crate::profile::{Fault, Profile};

/// What transactions may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    /// Distinct ids.
    pub(crate) keys: u64,
    /// Whether keys stay unique.
    pub(crate) unique: bool,
    /// Whether some rows are refused by sinks.
    pub(crate) refused: bool,
}

impl Traffic {
    pub(crate) fn of(profile: &Profile) -> Self {
        Self {
            keys: profile.keys,
            unique: !profile.faults.has(Fault::KeyViolation),
            refused: profile.faults.has(Fault::Rejects),
        }
    }
}

impl World {
    /// Commits a few transactions between `after` and the clock, in one or several objects each.
    pub(crate) fn transact(&mut self, after: u64, traffic: Traffic, dice: &mut Dice) {
        if self.objects.is_empty() {
            return;
        }
        let mut times: Vec<_> = (0..dice.below(4))
            .filter(|_| after < self.clock)
            // The last and the next time of a frontier are where mistakes are.
            .map(|_| match dice.below(4) {
                0 => self.clock,
                1 => after + 1,
                _ => dice.within(after + 1..=self.clock),
            })
            .collect();
        times.sort_unstable();
        times.dedup();
        for time in times {
            let first = dice.index(self.objects.len());
            let several = dice.chance(600);
            for index in 0..self.objects.len() {
                if index != first && !(several && dice.chance(700)) {
                    continue;
                }
                // A timestamp of several segments, where values are large.
                let changes = match self.fat_value > 0 && dice.chance(100) {
                    true => 30,
                    false => dice.within(1..=3),
                };
                for _ in 0..changes {
                    self.change(index, time, traffic, dice);
                }
            }
        }
    }

    fn change(&mut self, index: usize, time: u64, traffic: Traffic, dice: &mut Dice) {
        let (layout, shard) = (self.objects[index].layout, self.objects[index].shard);
        let key = Key {
            id: dice.below(traffic.keys) as i64,
            tag: layout
                .has_tag()
                .then(|| Text::from(if dice.chance(500) { "a" } else { "b" })),
        };
        let value = self.value(traffic, dice);
        let shard = &mut self.shards[shard];
        if shard.constant {
            return;
        }
        let there: Vec<(Row, i64)> = shard
            .now
            .iter()
            .filter(|(row, _)| row.key == key)
            .map(|(row, count)| (row.clone(), *count))
            .collect();
        let row = Row { key, value };
        if !traffic.unique && dice.chance(150) {
            shard.change(time, &row, 1);
            return;
        }
        match there.first() {
            None => shard.change(time, &row, 1),
            // All rows of a key go at once, or one of several.
            Some((old, count)) => match dice.below(4) {
                0 => there
                    .iter()
                    .for_each(|(old, count)| shard.change(time, old, -count)),
                1 if *count > 1 || there.len() > 1 => shard.change(time, old, -1),
                _ => {
                    shard.change(time, old, -1);
                    shard.change(time, &row, 1);
                }
            },
        }
    }

    /// A value that no other row has, so that nothing is taken for something else.
    fn value(&mut self, traffic: Traffic, dice: &mut Dice) -> Option<Text> {
        self.next_value += 1;
        let number = self.next_value;
        match dice.below(20) {
            0 => None,
            1 | 2 if traffic.refused => Some(format!("{REFUSED} {number}").into()),
            3..=9 if self.fat_value > 0 => {
                Some(format!("{number} {}", "x".repeat(self.fat_value)).into())
            }
            _ => Some(number.to_string().into()),
        }
    }
}

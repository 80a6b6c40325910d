//! A running SUBSCRIBE: what it has sent, and what it sends next.

use std::collections::VecDeque;
use std::sync::Arc;

use mz_sink_core::server_error::ServerError;

use super::row::{upserts, value_of};
use super::statement::Subscribe;
use super::{Bag, Object, Text, TextRow, Upsert, World, server_error};
use crate::dice::Dice;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// AS OF is checked at the first FETCH.
    Declared,
    /// The first progress row is out, the snapshot is not.
    Started,
    /// Everything below is out.
    Running(u64),
    /// Everything is out, and no more can come.
    Ended,
}

/// A cursor over a SUBSCRIBE.
#[derive(Debug)]
pub(crate) struct Cursor {
    subscribe: Subscribe,
    pub(crate) object: Object,
    as_of: u64,
    state: State,
    pub(crate) names: Arc<Vec<String>>,
    pending: VecDeque<TextRow>,
}

impl Cursor {
    pub(crate) fn new(subscribe: Subscribe, object: Object) -> Self {
        let columns = object.layout.columns().iter().map(|(name, ..)| *name);
        let mut names = vec!["mz_timestamp".to_string(), "mz_progressed".into()];
        match &subscribe.key {
            None => {
                names.push("mz_diff".into());
                names.extend(columns.map(String::from));
            }
            // Key columns first, in the order of KEY.
            Some(key) => {
                names.push("mz_state".into());
                names.extend(key.iter().cloned());
                names.extend(
                    columns
                        .filter(|name| !key.iter().any(|key| key == name))
                        .map(String::from),
                );
            }
        }
        Self {
            subscribe,
            object,
            as_of: 0,
            state: State::Declared,
            names: Arc::new(names),
            pending: VecDeque::new(),
        }
    }

    /// Starts it at the first FETCH, where AS OF is checked.
    ///
    /// # Errors
    /// When the history is gone.
    pub(crate) fn start(&mut self, world: &mut World, dice: &mut Dice) -> Result<(), ServerError> {
        if self.state != State::Declared {
            return Ok(());
        }
        let since = world.since_of(&self.object);
        self.as_of = match self.subscribe.as_of {
            Some(as_of) => as_of,
            None if dice.chance(300) => dice.within(since.min(world.clock)..=world.clock),
            None => world.clock,
        };
        if self.as_of < since {
            return Err(server_error(
                "22000",
                if dice.chance(500) {
                    "could not find a valid timestamp for the query"
                } else {
                    "Timestamp (1) is not valid for all inputs: [Antichain { elements: [2] }]"
                },
            ));
        }
        self.pending.push_back(progress(self.as_of, &self.names));
        self.state = if self.subscribe.snapshot {
            world.snapshots.insert((self.object.shard, self.as_of));
            State::Started
        } else {
            State::Running(self.as_of + 1)
        };
        Ok(())
    }

    /// Rows that can be sent now, at most `most`.
    pub(crate) fn take(&mut self, most: usize) -> Vec<TextRow> {
        let some = most.min(self.pending.len());
        self.pending.drain(..some).collect()
    }

    /// Whether nothing more can come.
    pub(crate) fn is_ended(&self) -> bool {
        self.state == State::Ended && self.pending.is_empty()
    }

    /// Has more rows to send, if the object has moved on.
    pub(crate) fn advance(&mut self, world: &World, dice: &mut Dice) {
        if !self.pending.is_empty() || world.clock < self.as_of {
            return;
        }
        let end = world.clock + 1;
        let shard = &world.shards[self.object.shard];
        let from = match self.state {
            State::Declared | State::Ended => return,
            State::Started => {
                let snapshot = shard.at(self.as_of);
                self.push(self.as_of, &snapshot);
                self.as_of + 1
            }
            State::Running(from) => from,
        };
        if shard.constant {
            // Without a last progress row.
            self.state = State::Ended;
            return;
        }
        // Objects do not move in step.
        let upper = if from < end && dice.chance(350) {
            dice.within(from..=end)
        } else {
            end
        };
        if upper <= from && self.state != State::Started {
            return;
        }
        let upper = upper.max(from);
        for (time, changes) in shard.history.range(from..upper) {
            self.push(*time, changes);
        }
        self.pending.push_back(progress(upper, &self.names));
        self.state = State::Running(upper);
    }

    fn push(&mut self, time: u64, changes: &Bag) {
        let time = Some(Text::from(time.to_string()));
        let mut send = |change: &str, row: &super::Row, key_only: bool| {
            let mut values = vec![time.clone(), Some("f".into()), Some(change.into())];
            let data = self.names[3..].iter();
            values.extend(data.map(|name| value_of(name, row, key_only)));
            self.pending.push_back(values);
        };
        if self.subscribe.key.is_none() {
            for (row, diff) in changes {
                send(&diff.to_string(), row, false);
            }
            return;
        }
        for (key, upsert) in upserts(changes.iter().map(|(row, diff)| (row, *diff))) {
            let (change, value) = match upsert {
                Upsert::Put(value) => ("upsert", value),
                Upsert::Delete => ("delete", None),
                Upsert::Violation => ("key_violation", None),
            };
            send(change, &super::Row { key, value }, change != "upsert");
        }
    }
}

fn progress(time: u64, names: &[String]) -> TextRow {
    let mut row = vec![None; names.len()];
    row[0] = Some(time.to_string().into());
    row[1] = Some("t".into());
    row
}

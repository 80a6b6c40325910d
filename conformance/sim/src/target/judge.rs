//! Judges every change of a target: does it hold exactly what it says it holds?

use mz_sink_core::checkpoint::Checkpoint;
use mz_sink_core::types::CLOSED;

use super::effects::Subject;
use super::expected::truth;
use super::tables::Table;
use super::{Commit, Doc, Expected, Letter, Store, Target};
use crate::worker::WorkerId;
use crate::world::{Key, Upsert, World, is_refused};

/// Everything that must hold is either so or told in this.
type Verdict = Result<(), String>;

impl Target {
    /// Judges a change of the checkpoint, right after it and its data were applied.
    pub(crate) fn committed(
        &mut self,
        world: &World,
        worker: WorkerId,
        commit: &Commit,
    ) -> Verdict {
        let text = &commit.next;
        let stored = Checkpoint::parse(text, &self.sink_id)
            .map_err(|error| format!("the stored text is no checkpoint: {error}"))?;
        if self.commits.insert(text.clone(), stored.frontier).is_some() {
            return Err(format!("the text {text} was stored twice"));
        }
        if stored.epoch < self.epoch {
            return Err(format!(
                "a fenced worker committed: epoch {} after {}",
                stored.epoch, self.epoch
            ));
        }
        let owner = *self.epochs.entry(stored.epoch).or_insert(worker);
        if owner != worker {
            return Err(format!(
                "workers {owner} and {worker} both have epoch {}",
                stored.epoch
            ));
        }
        if stored.frontier < self.frontier {
            return Err(format!(
                "the frontier went back from {:?} to {:?}",
                self.frontier, stored.frontier
            ));
        }
        if stored.generation < self.generation {
            return Err(format!(
                "the generation went back from {} to {}",
                self.generation, stored.generation
            ));
        }
        let before = self.frontier;
        self.epoch = stored.epoch;
        self.generation = stored.generation;
        self.writer = Some(worker);
        self.frontier = stored.frontier;
        let Some(frontier) = stored.frontier else {
            return Ok(());
        };
        for view in 0..self.expected.len() {
            let shard = stored.views.get(view).and_then(|view| view.shard.clone());
            let shard = shard.and_then(|name| world.shard_named(&name));
            let shard =
                shard.ok_or_else(|| format!("the checkpoint names no shard of view {view}"))?;
            self.follow(world, worker, commit, view, shard, frontier)
                .map_err(|error| format!("view {view}: {error}"))?;
            self.check_view(world, view, before)
                .map_err(|error| format!("view {view} at frontier {frontier}: {error}"))?;
        }
        Ok(())
    }

    /// Lets what is expected of a view reach `frontier`.
    fn follow(
        &mut self,
        world: &World,
        worker: WorkerId,
        commit: &Commit,
        view: usize,
        shard: usize,
        frontier: u64,
    ) -> Verdict {
        let mut left = Vec::new();
        if commit.info.snapshot_of.contains(&(view as u32)) {
            // The snapshot is one time, just below the cut.
            let time = commit.info.upper.saturating_sub(1);
            if !world.snapshots.contains(&(shard, time)) {
                return Err(format!("nobody read a snapshot at {time}"));
            }
            let (expected, violated) =
                Expected::new(shard, &world.shards[shard], time, self.upsert);
            left.extend(violated);
            self.expected[view] = Some(expected);
        }
        let expected = self.expected[view]
            .as_mut()
            .ok_or("committed without its snapshot")?;
        if expected.shard != shard {
            return Err(format!(
                "went on with shard {shard} where the snapshot was of shard {}",
                expected.shard
            ));
        }
        let is_over = world.shards[shard].constant && frontier == CLOSED;
        if frontier > world.clock + 1 && !is_over {
            return Err(format!("the frontier {frontier} is in the future"));
        }
        let (lower, upper) = (commit.info.lower, commit.info.upper);
        let given_up = commit.info.rows == 0 && self.given_up.contains(&(worker, lower, upper));
        let shard = &world.shards[shard];
        left.extend(match given_up {
            true => expected.leave_out(shard, frontier),
            false => expected.advance(shard, frontier),
        });
        for (time, key) in left {
            self.check_letter(view, time, &key)?;
        }
        Ok(())
    }

    fn check_view(&self, world: &World, view: usize, before: Option<u64>) -> Verdict {
        let Some(expected) = &self.expected[view] else {
            return Ok(());
        };
        match &self.store {
            Store::Tables(tables) => self.check_table(view, expected, &tables.0[view]),
            Store::Documents(documents) => {
                let visible = documents.visible(view).ok_or("readers find nothing")?;
                for key in expected.keyed.keys().chain(visible.keys()) {
                    self.check_doc(world, view, expected, key, visible.get(key), false)?;
                }
                Ok(())
            }
            Store::Effects(_) => self.check_effects(world, view, expected, before),
        }
    }

    fn check_table(&self, view: usize, expected: &Expected, table: &Table) -> Verdict {
        match table {
            Table::Keyed(found) => {
                let mut must = std::collections::BTreeMap::new();
                for (key, (time, value)) in &expected.keyed {
                    if is_refused(value.as_ref()) {
                        self.check_letter(view, *time, key)?;
                    } else {
                        must.insert(key.clone(), value.clone());
                    }
                }
                same(found, &must)
            }
            Table::Bag(found) => {
                let mut must = expected.bag.clone();
                must.retain(|row, _| !row.is_refused());
                same(found, &must)
            }
        }
    }

    fn check_letter(&self, view: usize, time: u64, key: &Key) -> Verdict {
        let letter = Letter {
            view,
            time,
            key: key.clone(),
        };
        if self.letters.contains(&letter) {
            Ok(())
        } else {
            Err(format!(
                "{key:?} at {time} was skipped without a dead letter"
            ))
        }
    }

    /// Whether a document, or its absence, is right: below the frontier it is what the view
    /// holds; at or above, where another worker may be ahead, a change that is true.
    pub(crate) fn check_doc(
        &self,
        world: &World,
        view: usize,
        expected: &Expected,
        key: &Key,
        doc: Option<&Doc>,
        strictly: bool,
    ) -> Verdict {
        let wrong = |must: &dyn std::fmt::Debug| {
            let upto = expected.upto;
            Err(format!("{key:?} is {doc:?}, must be {must:?} below {upto}"))
        };
        if let Some(doc) = doc
            && (doc.time >= expected.upto)
        {
            let shard = &world.shards[expected.shard];
            let must = truth(shard, key, doc.time, expected.snapshot);
            let shown = match &must {
                _ if strictly => None,
                Some(Upsert::Put(value)) if !is_refused(value.as_ref()) => Some(Some(value)),
                Some(_) => Some(None),
                None => None,
            };
            return if shown == Some(doc.value.as_ref()) {
                Ok(())
            } else {
                wrong(&must)
            };
        }
        let shown = doc.and_then(|doc| Some((doc.time, doc.value.clone()?)));
        let must = expected.keyed.get(key);
        if let Some((time, value)) = must
            && is_refused(value.as_ref())
        {
            self.check_letter(view, *time, key)?;
            return if shown.is_none() {
                Ok(())
            } else {
                wrong(&None::<()>)
            };
        }
        if shown.as_ref() == must {
            Ok(())
        } else {
            wrong(&must)
        }
    }

    /// Every change since the frontier before must have been delivered.
    fn check_effects(
        &self,
        world: &World,
        view: usize,
        expected: &Expected,
        before: Option<u64>,
    ) -> Verdict {
        let Store::Effects(effects) = &self.store else {
            return Ok(());
        };
        let shard = &world.shards[expected.shard];
        let from = before.unwrap_or(0).max(expected.snapshot + 1);
        let snapshot = (before.is_none_or(|before| before <= expected.snapshot))
            .then(|| (expected.snapshot, shard.at(expected.snapshot), true));
        let stream = shard.history.range(from..expected.upto.max(from));
        let stream = stream.map(|(time, changes)| (*time, changes.clone(), false));
        for (time, changes, of_snapshot) in snapshot.into_iter().chain(stream) {
            for (row, diff) in changes {
                if row.is_refused() {
                    self.check_letter(view, time, &row.key)?;
                    continue;
                }
                let subject = Subject {
                    view,
                    time,
                    row,
                    diff,
                    of_snapshot,
                };
                if !effects.by_subject.contains_key(&subject) {
                    return Err(format!("{subject:?} was not delivered"));
                }
            }
        }
        Ok(())
    }

    /// Judges documents right after a request for them landed: whoever sent it, readers must not
    /// see anything that is not so.
    pub(crate) fn landed(&self, world: &World, view: usize, keys: &[&Key]) -> Verdict {
        let (Store::Documents(documents), Some(expected)) = (&self.store, &self.expected[view])
        else {
            return Ok(());
        };
        let Some(visible) = documents.visible(view) else {
            return Ok(());
        };
        for key in keys {
            self.check_doc(world, view, expected, key, visible.get(*key), false)
                .map_err(|error| format!("view {view}, a request that landed: {error}"))?;
        }
        Ok(())
    }

    /// When nothing is on its way any more, every target equals its cut, without exceptions.
    pub(crate) fn check_at_rest(&self, world: &World) -> Verdict {
        for (view, expected) in self.expected.iter().enumerate() {
            let (Store::Documents(documents), Some(expected)) = (&self.store, expected) else {
                continue;
            };
            let visible = documents.visible(view).ok_or("readers find nothing")?;
            for (key, doc) in visible {
                self.check_doc(world, view, expected, key, Some(doc), true)
                    .map_err(|error| format!("view {view}, at rest: {error}"))?;
            }
        }
        Ok(())
    }

    /// Whether an effect is about something that happened.
    pub(crate) fn check_subject(&self, world: &World, subject: &Subject) -> Verdict {
        let happened = world.shards.iter().enumerate().any(|(index, shard)| {
            if subject.of_snapshot {
                return world.snapshots.contains(&(index, subject.time))
                    && shard.at(subject.time).get(&subject.row) == Some(&subject.diff);
            }
            let at = shard.history.get(&subject.time);
            at.is_some_and(|at| at.get(&subject.row) == Some(&subject.diff))
        });
        if happened {
            Ok(())
        } else {
            Err(format!("{subject:?} was delivered and never happened"))
        }
    }
}

fn same<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    found: &std::collections::BTreeMap<K, V>,
    must: &std::collections::BTreeMap<K, V>,
) -> Verdict {
    for (key, value) in must {
        match found.get(key) {
            Some(there) if there == value => {}
            there => return Err(format!("{key:?} is {there:?}, must be {value:?}")),
        }
    }
    match found.iter().find(|(key, _)| !must.contains_key(key)) {
        Some((key, value)) => Err(format!("{key:?} is {value:?}, must not be there")),
        None => Ok(()),
    }
}

//! Dead letters once more: what is written when an operator has mended the cause.
//!
//! Upsert: a dead letter is old, and its key may have changed since. What is written is therefore
//! not the row that was kept but what the object holds for the key just below the committed
//! frontier `F`, so that the target equals `SELECT ... AS OF F - 1` for it afterwards. Diff: the
//! change itself, with its own time, place and names.
//!
//! Either way the frontier stays where it is, and the write takes an epoch like any worker's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::batch::BatchInfo;
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::chunk::Chunk;
use crate::dead_letter::Entry;
use crate::decode::{DecodeError, Decoded, Decoder, Fields};
use crate::keys;
use crate::netting;
use crate::release::{StreamError, resume_as_of};
use crate::types::{CLOSED, Envelope, Frontier, Timestamp, View};

#[cfg(test)]
mod tests;

/// Why dead letters cannot be replayed. Never contains values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The target has no checkpoint, or one without a commit.
    #[error(
        "nothing is committed in the target yet, so the first snapshot will bring these rows: run the sink instead"
    )]
    NothingCommitted,
    /// A row would meet its own refusal, which has the same time.
    #[error(
        "the target is committed up to {frontier} only, and a dead letter is from {time}: run the sink until it has committed more, then try again"
    )]
    TooEarly {
        /// Of the checkpoint.
        frontier: Frontier,
        /// Of the dead letter.
        time: Timestamp,
    },
    /// The view is not one of this configuration.
    #[error(
        "a dead letter is of the view {view:?}, which this configuration does not have; choose others with --view, or discard it"
    )]
    OtherView {
        /// Of the dead letter.
        view: String,
    },
    /// The deployment is not that of this configuration.
    #[error(
        "a dead letter is of the sink id {found:?}, and the configuration has {expected:?}; choose others with --sink-id"
    )]
    OtherSink {
        /// Of the dead letter.
        found: String,
        /// Configured.
        expected: String,
    },
    /// The stream is not what was asked for.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The checkpoint cannot be written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

impl From<DecodeError> for ReplayError {
    fn from(error: DecodeError) -> Self {
        Self::Stream(error.into())
    }
}

/// Why a dead letter stays one although it was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stays {
    /// Several rows have its key, still.
    KeyViolation,
    /// It was kept without the values that are needed now, by an older version.
    NoValues,
    /// Its values are not of the columns that the view has now.
    OtherColumns,
    /// The sink refused it again.
    Refused,
}

impl std::fmt::Display for Stays {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::KeyViolation => "several rows still have its key",
            Self::NoValues => "it was kept by an older version, without what is needed now",
            Self::OtherColumns => "its columns are not those of the view any more",
            Self::Refused => "the sink refused it again",
        })
    }
}

/// The texts of the two writes: one takes the epoch, one writes the rows.
#[derive(Clone, Debug)]
pub struct Writes {
    /// What must be stored to begin with.
    pub stored: String,
    /// Takes the epoch.
    pub claim: String,
    /// Goes with the rows.
    pub next: String,
    /// The committed frontier, which stays.
    pub frontier: Frontier,
    epoch: u64,
    generation: u64,
}

impl Writes {
    /// `stored` is the text of `found`; `worker` must differ between any two replays.
    ///
    /// # Errors
    /// [`ReplayError::NothingCommitted`]; [`CheckpointError::TooLong`].
    pub fn new(
        stored: &str,
        found: &Checkpoint,
        component: &str,
        worker: u64,
    ) -> Result<Self, ReplayError> {
        let frontier = found.frontier.ok_or(ReplayError::NothingCommitted)?;
        let text = |attempt: u32| {
            let next = Checkpoint {
                epoch: found.epoch + 1,
                nonce: format!("{worker:016x}-{attempt}"),
                component: component.into(),
                ..found.clone()
            };
            next.encode()
        };
        Ok(Self {
            stored: stored.into(),
            claim: text(1)?,
            next: text(2)?,
            frontier,
            epoch: found.epoch + 1,
            generation: found.generation,
        })
    }

    /// What the sink is told: the rows are below what is committed.
    pub fn info(&self, rows: &[Arc<Chunk>]) -> BatchInfo {
        let first = rows.iter().flat_map(|c| &c.timestamps).min();
        BatchInfo {
            lower: first.copied().unwrap_or(self.frontier),
            upper: self.frontier,
            committed: Some(self.frontier),
            generation: self.generation,
            epoch: self.epoch,
            rows: rows.iter().map(|c| c.rows() as u64).sum(),
            bytes: rows.iter().map(|c| c.byte_len() as u64).sum(),
            snapshot_of: Vec::new(),
        }
    }
}

/// What is to be written for the chosen dead letters of one view.
#[derive(Debug)]
pub struct ViewReplay {
    sink_id: String,
    view: View,
    envelope: Envelope,
    as_of: Timestamp,
    started: bool,
    entries: Vec<Entry>,
    /// Keys whose row is not found yet.
    missing: BTreeSet<String>,
    wanted: BTreeSet<String>,
    rows: Chunk,
    stays: BTreeMap<String, Stays>,
}

impl ViewReplay {
    /// For the entries of view number `index`.
    ///
    /// # Errors
    /// [`ReplayError::TooEarly`] when one of them is not older than what is committed.
    pub fn new(
        sink_id: &str,
        index: u32,
        view: &View,
        envelope: Envelope,
        frontier: Frontier,
        entries: Vec<Entry>,
    ) -> Result<Self, ReplayError> {
        let as_of = resume_as_of(frontier);
        for entry in &entries {
            let time = entry.change.time;
            // A convergent target goes by the time: an equal one is not newer.
            let is_early = match envelope {
                Envelope::Upsert => frontier != CLOSED && time >= as_of,
                Envelope::Diff => time >= frontier,
            };
            if is_early {
                return Err(ReplayError::TooEarly { frontier, time });
            }
        }
        let wanted: BTreeSet<_> = entries.iter().map(|entry| entry.key.clone()).collect();
        Ok(Self {
            sink_id: sink_id.into(),
            envelope,
            as_of,
            started: false,
            missing: wanted.clone(),
            wanted,
            rows: Chunk::new(index, view.columns.iter().map(|c| &c.ty)),
            view: view.clone(),
            entries,
            stays: BTreeMap::new(),
        })
    }

    /// Where the object has to be read, as a snapshot and nothing more; `None` if the changes
    /// themselves are written.
    pub fn reads_at(&self) -> Option<Timestamp> {
        (self.envelope == Envelope::Upsert).then_some(self.as_of)
    }

    /// Takes in one row of the snapshot.
    ///
    /// # Errors
    /// When it is not what was asked for.
    pub fn accept(
        &mut self,
        decoder: &Decoder,
        row: &(impl Fields + ?Sized),
    ) -> Result<(), ReplayError> {
        let (time, is_violation) = match decoder.decode(row, &mut self.rows)? {
            Decoded::Progress(found) if !self.started && found != self.as_of => {
                let expected = self.as_of;
                return Err(StreamError::WrongStart { expected, found }.into());
            }
            Decoded::Progress(_) => {
                self.started = true;
                return Ok(());
            }
            Decoded::Change(time) => (time, false),
            Decoded::KeyViolation(time) => (time, true),
        };
        if !self.started {
            return Err(StreamError::NoStart.into());
        }
        let at = self.rows.rows() - 1;
        let key = keys::correlation_key(&self.sink_id, &self.view, &self.rows, at);
        let is_wanted = time == self.as_of && self.wanted.contains(&key);
        if is_violation || !is_wanted {
            self.rows.pop();
        }
        if is_wanted {
            self.missing.remove(&key);
            if is_violation {
                self.stays.insert(key, Stays::KeyViolation);
            }
        }
        Ok(())
    }

    /// The rows to write, once the whole snapshot is read, and which dead letters have none.
    ///
    /// # Errors
    /// When the stream had no beginning.
    pub fn finish(mut self) -> Result<Replayed, ReplayError> {
        if self.reads_at().is_some() && !self.started {
            return Err(StreamError::EndedBeforeStart.into());
        }
        let entries = std::mem::take(&mut self.entries);
        match self.envelope {
            Envelope::Upsert => self.delete_missing(&entries),
            Envelope::Diff => self.repeat_changes(&entries),
        }
        let chunks = match self.envelope {
            // Each key is there once; what is left of it is the order of keys.
            Envelope::Upsert => netting::net(&[Arc::new(self.rows)], &self.view.key),
            Envelope::Diff => vec![self.rows],
        };
        let mut chunks: Vec<_> = chunks.into_iter().filter(|c| c.rows() > 0).collect();
        if self.envelope == Envelope::Upsert {
            let mut ordinal = 0;
            for chunk in &mut chunks {
                for place in &mut chunk.ordinals {
                    *place = ordinal;
                    ordinal += 1;
                }
            }
        }
        Ok(Replayed {
            entries,
            stays: self.stays,
            rows: chunks.into_iter().map(Arc::new).collect(),
        })
    }

    /// What is not in the object any more is deleted.
    fn delete_missing(&mut self, entries: &[Entry]) {
        for key in std::mem::take(&mut self.missing) {
            let Some(entry) = entries.iter().find(|entry| entry.key == key) else {
                continue;
            };
            if let Err(stays) = self.push(entry, self.as_of, "delete") {
                self.stays.insert(key, stays);
            }
        }
    }

    /// The changes as they were, in the order in which they happened.
    fn repeat_changes(&mut self, entries: &[Entry]) {
        let mut entries: Vec<_> = entries.iter().collect();
        entries.sort_by_key(|entry| (entry.change.time, entry.change.ordinal));
        for entry in entries {
            let sign = if entry.change.op == "put" { "" } else { "-" };
            let diff = format!("{sign}{}", entry.change.count);
            match self.push(entry, entry.change.time, &diff) {
                Ok(()) => {
                    let place = u32::try_from(entry.change.ordinal).unwrap_or(u32::MAX);
                    if let Some(ordinal) = self.rows.ordinals.last_mut() {
                        *ordinal = place;
                    }
                }
                Err(stays) => {
                    self.stays.insert(entry.id.clone(), stays);
                }
            }
        }
    }

    /// Makes a row of the values that were kept, through the one decoder that there is.
    fn push(&mut self, entry: &Entry, time: Timestamp, does: &str) -> Result<(), Stays> {
        let text = entry.text.as_ref().ok_or(Stays::NoValues)?;
        let what = match self.envelope {
            Envelope::Upsert => "mz_state",
            Envelope::Diff => "mz_diff",
        };
        let mut names = vec!["mz_timestamp".into(), "mz_progressed".into(), what.into()];
        let mut values = vec![Some(time.to_string()), Some("f".into()), Some(does.into())];
        for (column, index) in self.view.columns.iter().zip(0..) {
            // A delete has the key alone.
            let has_value = self.envelope == Envelope::Diff || self.view.key.contains(&index);
            let value = match has_value {
                true => text.get(&column.name).ok_or(Stays::OtherColumns)?.clone(),
                false => None,
            };
            names.push(column.name.clone());
            values.push(value);
        }
        let values: Vec<_> = values
            .iter()
            .map(|v| v.as_deref().map(str::as_bytes))
            .collect();
        let decoder = Decoder::new(&self.view, self.envelope, &names);
        let before = self.rows.rows();
        let decoded = decoder.and_then(|d| d.decode(&values[..], &mut self.rows));
        if decoded.is_err() {
            // A row that was given up half way is none.
            while self.rows.rows() > before {
                self.rows.pop();
            }
            return Err(Stays::OtherColumns);
        }
        Ok(())
    }
}

/// What a view's dead letters have become.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Those that were chosen.
    pub entries: Vec<Entry>,
    /// What is to be written.
    pub rows: Vec<Arc<Chunk>>,
    /// By key (upsert) or id (diff).
    stays: BTreeMap<String, Stays>,
}

impl Replayed {
    /// The sink refused a row of this key, or with this id.
    pub fn refuse(&mut self, key: &str) {
        self.stays.insert(key.into(), Stays::Refused);
    }

    /// Whether a dead letter stays one, and why.
    pub fn stays(&self, entry: &Entry) -> Option<Stays> {
        let of = |name| self.stays.get(name).copied();
        of(&entry.key).or_else(|| of(&entry.id))
    }
}

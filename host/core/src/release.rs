//! Holds the changes of one view until a progress row closes their time.
//!
//! ```text
//!   row ──> open chunk ──seal──> segments (memory, then spilled) ──take──> batch
//!                                   released below the frontier
//! ```
//!
//! Rules (from recordings of a real server): the first progress row equals AS OF and proves
//! nothing; a progress row `T` closes everything below `T`; a timestamp never straddles two
//! of the server's batches.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::chunk::Chunk;
use crate::decode::{DecodeError, Decoded, Decoder, Fields};
use crate::planted::{self, Planted};
use crate::types::{CLOSED, Frontier, Timestamp};

#[cfg(test)]
mod tests;

/// A chunk is sealed when it reaches this many bytes.
pub const CHUNK_BYTES: usize = 1 << 20;

/// The stream broke a rule that everything else rests on. No values inside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// A row that cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A change at a time that had been closed.
    #[error("a change at {time} came after the frontier had reached {frontier}")]
    BelowFrontier {
        /// Of the change.
        time: Timestamp,
        /// Already announced.
        frontier: Frontier,
    },
    /// A progress row below an earlier one.
    #[error("the frontier went back from {from} to {to}")]
    FrontierWentBack {
        /// The earlier frontier.
        from: Frontier,
        /// The later, lower one.
        to: Frontier,
    },
    /// Changes come in time order between two progress rows.
    #[error("a change at {time} came after one at {after}")]
    OutOfOrder {
        /// Of the change.
        time: Timestamp,
        /// Of the change before it.
        after: Timestamp,
    },
    /// The stream does not start at the AS OF that was asked for.
    #[error("the stream starts at {found} where AS OF {expected} was asked for")]
    WrongStart {
        /// Asked for.
        expected: Timestamp,
        /// The first progress row.
        found: Timestamp,
    },
    /// A change before the first progress row.
    #[error("a change came before the first progress row")]
    NoStart,
    /// The end before anything was closed.
    #[error("the stream ended before anything of it was closed")]
    EndedBeforeStart,
}

/// Names a segment for as long as the process lives.
pub type SegmentId = u64;

/// A segment's name has the view above these bits, and counts below them.
const VIEW_BITS: u32 = 48;

/// A sealed run of rows.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Its name.
    pub id: SegmentId,
    /// Index of the view.
    pub view: u32,
    /// Number of rows.
    pub rows: usize,
    /// Size in memory, in bytes.
    pub bytes: usize,
    /// Time of the first row.
    pub min: Timestamp,
    /// Time of the last row.
    pub max: Timestamp,
    /// The rows; `None` once they are in the spill file.
    pub chunk: Option<Arc<Chunk>>,
}

impl Segment {
    /// Rows that were never held.
    pub(crate) fn alone(chunk: Arc<Chunk>) -> Self {
        Self {
            id: SegmentId::MAX,
            rows: chunk.rows(),
            bytes: chunk.byte_len(),
            min: chunk.timestamps.first().copied().unwrap_or_default(),
            max: chunk.timestamps.last().copied().unwrap_or_default(),
            view: chunk.view,
            chunk: Some(chunk),
        }
    }
}

/// Where a stream starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the snapshot, at an AS OF that the server chooses.
    Snapshot,
    /// With the snapshot at this AS OF.
    SnapshotAt(Timestamp),
    /// After everything below this frontier.
    Resume(Frontier),
}

/// The changes of one view that are not yet in a batch.
#[derive(Debug)]
pub struct Held {
    open: Chunk,
    open_is_continuation: bool,
    segments: VecDeque<Segment>,
    next_id: SegmentId,
    start: Start,
    /// A frontier at which a cut must be possible, see [`Self::set_boundary`].
    boundary: Option<Frontier>,
    /// Where the stream ends, see [`Self::set_end`].
    end: Frontier,
    /// The first progress row.
    as_of: Option<Timestamp>,
    /// The latest progress row.
    announced: Timestamp,
    /// No change below it may come any more.
    frontier: Frontier,
    last: Timestamp,
    next_ordinal: u32,
    /// Bytes of values accepted since the open chunk was measured.
    unmeasured: usize,
}

/// What accepting a row brought.
#[derive(Clone, Debug)]
pub enum Accepted {
    /// A change is held.
    Held,
    /// A progress row said nothing new.
    Nothing,
    /// Everything below this frontier is closed.
    Advanced(Frontier),
    /// Several rows have one key: it is left out of a snapshot, deleted later on, and to be
    /// reported. Carries the one row, with the key only.
    KeyViolation(Arc<Chunk>),
}

impl Start {
    /// Whether the stream begins with the snapshot.
    pub fn is_snapshot(self) -> bool {
        !matches!(self, Self::Resume(_))
    }
}

impl Held {
    /// Nothing yet. `empty` gives the shape of chunks.
    pub fn new(empty: Chunk, start: Start) -> Self {
        Self {
            // Segments of several views share one spill store.
            next_id: u64::from(empty.view) << VIEW_BITS,
            open: empty,
            open_is_continuation: false,
            segments: VecDeque::new(),
            start,
            boundary: None,
            end: CLOSED,
            as_of: None,
            announced: 0,
            frontier: match start {
                Start::Snapshot | Start::SnapshotAt(_) => 0,
                Start::Resume(frontier) => frontier,
            },
            last: 0,
            next_ordinal: 0,
            unmeasured: 0,
        }
    }

    /// Forgets what is held and expects a new stream. Gives the segments that were spilled.
    pub fn restart(&mut self, start: Start) -> Vec<SegmentId> {
        let spilled = self
            .segments
            .iter()
            .filter(|s| s.chunk.is_none())
            .map(|s| s.id)
            .collect();
        let kept = planted::is(Planted::UnclosedKept).then(|| self.open.clone());
        let next_id = self.next_id;
        *self = Self {
            next_id,
            ..Self::new(self.open.empty_like(), start)
        };
        if let Some(open) = kept {
            self.open = open;
        }
        spilled
    }

    /// Makes sure that [`Self::take_below`] can cut here, also among rows that were spilled: when
    /// another view joins with a snapshot just below `frontier`. To be called before any row.
    pub fn set_boundary(&mut self, frontier: Frontier) {
        self.boundary = Some(frontier);
    }

    /// The stream is asked for up to here, exclusive: the server leaves out what is later, but its
    /// progress rows go beyond (a recorded fact), and would close what was never sent. To be
    /// called before any row.
    pub fn set_end(&mut self, end: Frontier) {
        self.end = end;
    }

    /// Takes in one row.
    ///
    /// # Errors
    /// When the stream breaks a rule. What is held must then not be released any further.
    pub fn accept(
        &mut self,
        decoder: &Decoder,
        row: &(impl Fields + ?Sized),
    ) -> Result<Accepted, StreamError> {
        let (time, is_violation) = match decoder.decode(row, &mut self.open)? {
            Decoded::Progress(time) => return self.progress(time),
            Decoded::Change(time) => (time, false),
            // What the target holds for the key is no longer so, and the server says the same
            // when all of these rows go away at once: without a delete it would stay for ever.
            Decoded::KeyViolation(time) => (time, true),
        };
        let at = self.open.rows() - 1;
        let accepted = match is_violation {
            true => Accepted::KeyViolation(Arc::new(self.open.slice(at..at + 1))),
            false => Accepted::Held,
        };
        // A snapshot has nothing that could be deleted.
        let ignored = planted::is(Planted::KeyViolationIgnored);
        if is_violation && (self.in_snapshot(time) || ignored) {
            self.open.pop();
            self.check_time(time)?;
            return Ok(accepted);
        }
        self.check_time(time)?;
        if time != self.last && at == 0 {
            self.open_is_continuation = false;
        }
        if at > 0 && time != self.last && self.must_seal_between(at, time) {
            let rest = self.open.slice(at..at + 1);
            self.open.pop();
            self.seal();
            self.open = rest;
            self.open_is_continuation = false;
        }
        if time != self.last && !planted::is(Planted::OrdinalGoesOn) {
            self.next_ordinal = 0;
        }
        if let Some(ordinal) = self.open.ordinals.last_mut() {
            *ordinal = self.next_ordinal;
        }
        self.next_ordinal = self.next_ordinal.saturating_add(1);
        self.last = time;
        // Measuring costs a walk over the columns, so not at every row; but a few large rows
        // must not overflow a chunk.
        let size = |i| row.get(i).map_or(0, <[u8]>::len);
        self.unmeasured += (0..row.len()).map(size).sum::<usize>();
        if self.open.rows().is_multiple_of(64) || self.unmeasured >= CHUNK_BYTES {
            self.unmeasured = 0;
            if self.open.byte_len() >= CHUNK_BYTES {
                self.seal();
                self.open_is_continuation = true;
            }
        }
        Ok(accepted)
    }

    fn in_snapshot(&self, time: Timestamp) -> bool {
        self.start.is_snapshot() && self.as_of == Some(time)
    }

    /// Between two timestamps, whether the chunk ends there. A segment boundary inside a
    /// timestamp is never a place to commit, so a timestamp that spans segments gets its own.
    fn must_seal_between(&self, at: usize, time: Timestamp) -> bool {
        self.open_is_continuation
            || self.in_snapshot(self.last)
            || self.boundary.is_some_and(|at| self.last < at && at <= time)
            || (at.is_multiple_of(64) && self.open.byte_len() >= CHUNK_BYTES / 2)
    }

    fn check_time(&self, time: Timestamp) -> Result<(), StreamError> {
        if self.as_of.is_none() {
            return Err(StreamError::NoStart);
        }
        if time < self.frontier && !planted::is(Planted::ResumeTooEarly) {
            return Err(StreamError::BelowFrontier {
                time,
                frontier: self.frontier,
            });
        }
        if time < self.last {
            return Err(StreamError::OutOfOrder {
                time,
                after: self.last,
            });
        }
        Ok(())
    }

    fn progress(&mut self, time: Timestamp) -> Result<Accepted, StreamError> {
        if self.as_of.is_none() {
            let expected = match self.start {
                Start::Snapshot => time,
                Start::SnapshotAt(as_of) => as_of,
                Start::Resume(frontier) => resume_as_of(frontier),
            };
            if time != expected {
                return Err(StreamError::WrongStart {
                    expected,
                    found: time,
                });
            }
            if self.start.is_snapshot() {
                let early = u64::from(planted::is(Planted::CommitAtFirstProgress));
                self.frontier = time.saturating_add(early);
            }
            self.as_of = Some(time);
            self.announced = time;
            return Ok(Accepted::Nothing);
        }
        if time < self.announced {
            return Err(StreamError::FrontierWentBack {
                from: self.announced,
                to: time,
            });
        }
        self.announced = time;
        let time = time.min(self.end);
        if time <= self.frontier {
            return Ok(Accepted::Nothing);
        }
        self.frontier = time;
        Ok(Accepted::Advanced(time))
    }

    /// The stream ended cleanly: everything up to its end is closed; all there will ever be, when
    /// it has no bound.
    ///
    /// # Errors
    /// [`StreamError::EndedBeforeStart`].
    pub fn finish(&mut self) -> Result<(), StreamError> {
        self.frontier = self.frontier.max(self.end);
        // Also none when the bound is no later than AS OF: the server then leaves the snapshot out.
        self.closed()
            .map_or(Err(StreamError::EndedBeforeStart), |_| Ok(()))
    }

    /// The frontier below which everything is closed; `None` until something is.
    pub fn closed(&self) -> Option<Frontier> {
        let as_of = self.as_of?;
        (!self.start.is_snapshot() || self.frontier > as_of).then_some(self.frontier)
    }

    /// The snapshot's time, while the snapshot is expected or held.
    pub fn snapshot_at(&self) -> Option<Timestamp> {
        self.start.is_snapshot().then_some(self.as_of)?
    }

    /// Whether any change below `frontier` is held.
    pub fn has_rows_below(&self, frontier: Frontier) -> bool {
        let first = match self.segments.front() {
            Some(segment) => Some(segment.min),
            None => self.open.timestamps.first().copied(),
        };
        first.is_some_and(|first| first < frontier)
    }

    /// The greatest frontier, `below` at most, up to which [`Self::take_below`] can take: whole
    /// segments, so whole timestamps. With more than `max_bytes` of changes, an earlier one, but
    /// never so early that nothing would be taken.
    pub fn cut_at(&self, below: Frontier, max_bytes: usize) -> Frontier {
        let mut bytes = 0;
        let mut last = None;
        for segment in &self.segments {
            if segment.max >= below {
                // A segment across the frontier waits until all of it is closed.
                return below.min(segment.min);
            }
            if last.is_some_and(|last| segment.min > last) && bytes + segment.bytes > max_bytes {
                return segment.min;
            }
            bytes += segment.bytes;
            last = Some(segment.max);
        }
        below
    }

    /// Takes what is held below `upper`, in time order. From here on this is an ordinary stream
    /// that starts at `upper`.
    ///
    /// `upper` must be one that [`Self::cut_at`] gave, not above [`Self::closed`].
    pub fn take_below(&mut self, upper: Frontier) -> Vec<Segment> {
        let below = self.open.timestamps.partition_point(|t| *t < upper);
        if below > 0 {
            let rest = self.open.slice(below..self.open.rows());
            let released = if below == self.open.rows() {
                std::mem::replace(&mut self.open, rest)
            } else {
                let released = self.open.slice(0..below);
                self.open = rest;
                released
            };
            self.push_segment(released);
            self.open_is_continuation = false;
        }
        let mut segments = Vec::new();
        while self.segments.front().is_some_and(|next| next.max < upper) {
            segments.extend(self.segments.pop_front());
            if planted::is(Planted::SplitTimestamp) {
                break;
            }
        }
        self.start = Start::Resume(upper);
        segments
    }

    /// Seals the open chunk; in two when only a part of it is closed, so that the part can go.
    fn seal(&mut self) {
        let empty = self.open.empty_like();
        let chunk = std::mem::replace(&mut self.open, empty);
        let closed = chunk.timestamps.partition_point(|t| *t < self.frontier);
        if (1..chunk.rows()).contains(&closed) {
            self.push_segment(chunk.slice(0..closed));
            self.push_segment(chunk.slice(closed..chunk.rows()));
        } else {
            self.push_segment(chunk);
        }
    }

    fn push_segment(&mut self, chunk: Chunk) {
        let (Some(min), Some(max)) = (chunk.timestamps.first(), chunk.timestamps.last()) else {
            return;
        };
        self.segments.push_back(Segment {
            id: self.next_id,
            rows: chunk.rows(),
            bytes: chunk.byte_len(),
            min: *min,
            max: *max,
            view: chunk.view,
            chunk: Some(Arc::new(chunk)),
        });
        self.next_id += 1;
    }

    /// Bytes held in memory.
    pub fn memory_bytes(&self) -> usize {
        let sealed = self
            .segments
            .iter()
            .filter(|s| s.chunk.is_some())
            .map(|s| s.bytes)
            .sum::<usize>();
        sealed + self.open.byte_len()
    }

    /// The newest sealed rows in memory, to be spilled: the oldest are wanted first.
    pub fn spill_newest(&mut self) -> Option<(SegmentId, Arc<Chunk>, usize)> {
        let segment = self.segments.iter_mut().rev().find(|s| s.chunk.is_some())?;
        let chunk = segment.chunk.take()?;
        Some((segment.id, chunk, segment.bytes))
    }
}

/// The AS OF from which a consumer that holds everything below `frontier` resumes without the
/// snapshot. The only place where this `- 1` is: without a snapshot the server sends changes
/// strictly after AS OF.
pub fn resume_as_of(frontier: Frontier) -> Timestamp {
    if planted::is(Planted::ResumeAtFrontier) {
        return frontier;
    }
    if planted::is(Planted::ResumeTooEarly) {
        return frontier.saturating_sub(2);
    }
    frontier.saturating_sub(1)
}

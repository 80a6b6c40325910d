//! A subscription that is looked at and never resumed: any query, no target, no checkpoint.
//!
//! ```text
//!   row ──> held ──closed──> batch ──> lines, each a whole JSON object
//!             └─ too much for memory: to disk; too much for the disk: the end
//! ```
//!
//! Nothing of a timestamp is shown before it is closed. Reading never waits for whoever looks, so
//! that the server never has to keep rows.

use std::sync::Arc;
use std::time::Duration;

use crate::chunk::Chunk;
use crate::cut;
use crate::decode::{Decoder, Fields};
use crate::json;
use crate::release::{Accepted, Held, Segment, SegmentId, Start, StreamError};
use crate::statements;
use crate::types::{Column, ColumnType, Envelope, Frontier, Timestamp, View};

#[cfg(test)]
mod tests;

/// The format of a line, raised when its meaning changes.
const FORMAT: u32 = 1;

/// A FETCH comes back after this long without rows.
const FETCH_TIMEOUT: Duration = Duration::from_secs(1);

/// Without a row or an end for this long, the server is taken for dead: a snapshot takes as long
/// as its dataflow needs to start.
const SILENCE: Duration = Duration::from_secs(600);

/// What is looked at.
#[derive(Clone, Debug)]
pub struct LiveConfig {
    /// In SQL, see [`statements::by_id`] and [`statements::by_query`].
    pub of: String,
    /// What the catalog says of an object. The columns of a query are only known by their names:
    /// their values are then texts.
    pub columns: Option<Vec<Column>>,
    /// The columns that identify a row (upsert envelope); empty for the diff envelope.
    pub key: Vec<String>,
    /// Whether it begins with what is there already.
    pub with_snapshot: bool,
    /// When it begins; now, unless given.
    pub as_of: Option<Timestamp>,
    /// Where it ends, exclusive.
    pub up_to: Option<Frontier>,
    /// A frontier that moves without changes is told this often.
    pub idle_interval: Duration,
    /// Bytes of changes in memory.
    pub memory_bytes: usize,
    /// Bytes of changes on disk.
    pub spill_bytes: u64,
}

/// Why it ends early. Never contains values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The stream broke a rule.
    #[error("the change stream cannot be trusted: {0}")]
    Stream(#[from] StreamError),
    /// Whoever looks is slower than the changes, or one timestamp is too large.
    #[error(
        "more than {limit} bytes of changes wait to be shown: read standard output faster, ask for less, or raise --spill"
    )]
    TooSlow {
        /// The limit on disk, in bytes.
        limit: u64,
    },
    /// A key column that the query does not have.
    #[error("the result has no column {column:?}; it has {columns}")]
    NoKeyColumn {
        /// The key column.
        column: String,
        /// What there is.
        columns: String,
    },
}

/// What to do with the connection next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run this FETCH, and take the server for dead after so long without a row.
    Fetch {
        /// The SQL text.
        sql: String,
        /// How long.
        silence: Duration,
    },
    /// The stream has ended, and all that was read is closed.
    End,
}

/// Closed changes.
#[derive(Clone, Debug)]
pub struct LiveBatch {
    /// Where the batch before it ended; `None` for the first.
    pub lower: Option<Frontier>,
    /// Every change below it has been shown.
    pub upper: Frontier,
    /// Whether this is what was there already.
    pub is_snapshot: bool,
    /// The changes, in time order.
    pub segments: Vec<Segment>,
    /// Keys that several rows have at one time, with nothing but the key.
    pub key_violations: Vec<Arc<Chunk>>,
}

/// A subscription that is looked at.
#[derive(Debug)]
pub struct Live {
    config: LiveConfig,
    stream: Option<Stream>,
    lower: Option<Frontier>,
    proves_end: bool,
    has_ended: bool,
    last_shown: Duration,
    /// Bytes of what is being shown that are in memory.
    showing: usize,
    spilled: u64,
}

/// What is known once the columns are.
#[derive(Debug)]
struct Stream {
    names: Vec<String>,
    view: Arc<View>,
    decoder: Decoder,
    held: Held,
    key_violations: Vec<(Timestamp, Arc<Chunk>)>,
}

impl Live {
    /// Nothing read yet.
    pub fn new(config: LiveConfig) -> Self {
        Self {
            config,
            stream: None,
            lower: None,
            proves_end: false,
            has_ended: false,
            last_shown: Duration::ZERO,
            showing: 0,
            spilled: 0,
        }
    }

    /// Opens the cursor.
    pub fn statements(&self) -> [String; 2] {
        statements::subscribe_live(&statements::LiveSubscribe {
            of: self.config.of.clone(),
            key: &self.config.key,
            with_snapshot: self.config.with_snapshot,
            as_of: self.config.as_of,
            up_to: self.config.up_to,
        })
    }

    /// What to do after the cursor was opened, or after a FETCH that gave so many rows in so long.
    ///
    /// # Errors
    /// When the stream ended before anything of it was closed.
    pub fn next(&mut self, fetched: Option<(u64, Duration)>) -> Result<Next, LiveError> {
        let (rows, took) = fetched.unwrap_or((1, Duration::ZERO));
        if rows == 0 && self.proves_end {
            if let Some(stream) = &mut self.stream {
                stream.held.finish()?;
            }
            self.has_ended = true;
            return Ok(Next::End);
        }
        // A stream that ended answers an empty FETCH at once; one that is quiet, at the deadline.
        self.proves_end = rows == 0 && took < FETCH_TIMEOUT / 2;
        Ok(match self.proves_end {
            true => Next::Fetch {
                sql: statements::fetch_or_end(),
                silence: SILENCE,
            },
            false => Next::Fetch {
                sql: statements::fetch(FETCH_TIMEOUT),
                silence: FETCH_TIMEOUT + SILENCE,
            },
        })
    }

    /// Takes in one row. `names` are the columns of the result.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn handle_row(
        &mut self,
        names: &[String],
        row: &(impl Fields + ?Sized),
    ) -> Result<(), LiveError> {
        let stream = match &mut self.stream {
            Some(stream) if stream.names == names => stream,
            Some(stream) => {
                stream.decoder = Decoder::new(&stream.view, envelope(&self.config), names)
                    .map_err(StreamError::from)?;
                stream.names = names.to_vec();
                stream
            }
            None => self.stream.insert(Stream::new(&self.config, names)?),
        };
        if let Accepted::KeyViolation(chunk) = stream.held.accept(&stream.decoder, row)? {
            stream.key_violations.push((chunk.timestamps[0], chunk));
        }
        Ok(())
    }

    /// What has to go to disk, so that memory is bounded.
    ///
    /// # Errors
    /// [`LiveError::TooSlow`] when that is full as well.
    pub fn spill(&mut self) -> Result<Vec<(SegmentId, Arc<Chunk>)>, LiveError> {
        let mut spilled = Vec::new();
        let Some(stream) = &mut self.stream else {
            return Ok(spilled);
        };
        while stream.held.memory_bytes() + self.showing > self.config.memory_bytes {
            let Some((id, chunk, bytes)) = stream.held.spill_newest() else {
                break;
            };
            self.spilled += bytes as u64;
            spilled.push((id, chunk));
        }
        if self.spilled > self.config.spill_bytes {
            let limit = self.config.spill_bytes;
            return Err(LiveError::TooSlow { limit });
        }
        Ok(spilled)
    }

    /// The next closed changes, if there are any, or a frontier that has moved for long enough
    /// without. To be called while nothing is being shown.
    pub fn take(&mut self, now: Duration) -> Option<LiveBatch> {
        let stream = self.stream.as_mut()?;
        let closed = stream.held.closed()?;
        let is_due = self.lower.is_none()
            || self.has_ended
            || stream.held.has_rows_below(closed)
            || now.saturating_sub(self.last_shown) >= self.config.idle_interval;
        if !is_due {
            return None;
        }
        let mut taken = cut::take(
            std::slice::from_mut(&mut stream.held),
            self.lower,
            usize::MAX,
        )?;
        let mut is_snapshot = taken.snapshot_at.is_some();
        if is_snapshot && !self.config.with_snapshot {
            // There is none, only the time from which on changes come.
            is_snapshot = false;
            let lower = self.lower.or(Some(taken.upper));
            let more = cut::take(std::slice::from_mut(&mut stream.held), lower, usize::MAX);
            taken = more.unwrap_or(taken);
        }
        let upper = taken.upper;
        let violations = std::mem::take(&mut stream.key_violations);
        let (now_closed, later) = violations.into_iter().partition(|(time, _)| *time < upper);
        stream.key_violations = later;
        let now_closed: Vec<_> = now_closed;
        let in_memory = taken.segments.iter().filter(|s| s.chunk.is_some());
        self.showing = in_memory.map(|s| s.bytes).sum();
        self.last_shown = now;
        Some(LiveBatch {
            lower: self.lower.replace(upper),
            upper,
            is_snapshot,
            segments: taken.segments,
            key_violations: now_closed.into_iter().map(|(_, chunk)| chunk).collect(),
        })
    }

    /// When [`Self::take`] is to be called although no row has come, if it would give something.
    pub fn idle_until(&self) -> Option<Duration> {
        let closed = self.stream.as_ref()?.held.closed()?;
        let has_moved = self.lower.is_none_or(|lower| closed > lower);
        has_moved.then(|| self.last_shown.saturating_add(self.config.idle_interval))
    }

    /// A batch has been shown; gives what need not be kept on disk any more.
    pub fn shown(&mut self, batch: &LiveBatch) -> Vec<SegmentId> {
        self.showing = 0;
        let on_disk = batch.segments.iter().filter(|s| s.chunk.is_none());
        let ids = on_disk.map(|segment| {
            self.spilled = self.spilled.saturating_sub(segment.bytes as u64);
            segment.id
        });
        ids.collect()
    }

    /// What is seen; `None` before the first row.
    pub fn view(&self) -> Option<Arc<View>> {
        self.stream.as_ref().map(|stream| stream.view.clone())
    }
}

fn envelope(config: &LiveConfig) -> Envelope {
    match config.key.is_empty() {
        true => Envelope::Diff,
        false => Envelope::Upsert,
    }
}

impl Stream {
    fn new(config: &LiveConfig, names: &[String]) -> Result<Self, LiveError> {
        let of_subscribe = ["mz_timestamp", "mz_progressed", "mz_diff", "mz_state"];
        let by_name = || {
            // The columns that every SUBSCRIBE has come first, once; a query can have such names.
            let own = names.iter().enumerate();
            let own = own.filter(|(i, name)| *i > 2 || !of_subscribe.contains(&name.as_str()));
            own.map(|(_, name)| Column {
                name: name.clone(),
                ty: ColumnType::Text,
                nullable: true,
            })
            .collect()
        };
        let columns: Vec<Column> = config.columns.clone().unwrap_or_else(by_name);
        let position = |column: &String| {
            let found = columns.iter().position(|c| c.name == *column);
            found.ok_or_else(|| {
                let names: Vec<_> = columns.iter().map(|c| c.name.as_str()).collect();
                LiveError::NoKeyColumn {
                    column: column.clone(),
                    columns: names.join(", "),
                }
            })
        };
        let key = config.key.iter().map(position).collect::<Result<_, _>>()?;
        let view = View {
            name: String::new(),
            columns,
            key,
        };
        let start = match (config.as_of, config.with_snapshot) {
            (Some(as_of), true) => Start::SnapshotAt(as_of),
            // Without the snapshot, changes come strictly after AS OF.
            (Some(as_of), false) => Start::Resume(as_of.saturating_add(1)),
            (None, _) => Start::Snapshot,
        };
        let decoder = Decoder::new(&view, envelope(config), names).map_err(StreamError::from)?;
        let empty = Chunk::new(0, view.columns.iter().map(|c| &c.ty));
        let mut held = Held::new(empty, start);
        if let Some(end) = config.up_to {
            held.set_end(end);
        }
        Ok(Self {
            names: names.to_vec(),
            view: Arc::new(view),
            decoder,
            held,
            key_violations: Vec::new(),
        })
    }
}

/// One line: a batch, or a part of one that is too large for a line.
///
/// A JSON object: `format`; `lower` and `upper`, between which all changes are, `lower` null at
/// first; `snapshot`; `last`, false while more lines of this batch follow; `key_violations`, if
/// there are any; `rows` in the form that scripting guests get, see [`json`]. Numbers beyond 2^53
/// are strings.
pub fn line(batch: &LiveBatch, view: &View, rows: Option<(&Chunk, u64)>, is_last: bool) -> Vec<u8> {
    let exact = |n: u64| match n > 1 << 53 {
        true => format!("\"{n}\""),
        false => n.to_string(),
    };
    let mut out = format!(
        "{{\"format\":{FORMAT},\"lower\":{},\"upper\":{},\"snapshot\":{},\"last\":{is_last}",
        batch.lower.map_or_else(|| "null".into(), exact),
        exact(batch.upper),
        batch.is_snapshot,
    )
    .into_bytes();
    if is_last && !batch.key_violations.is_empty() {
        out.extend_from_slice(b",\"key_violations\":[");
        for (i, chunk) in batch.key_violations.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            let mut row = Vec::new();
            json::write_rows(chunk, view, 0, 0..1, &mut row);
            out.extend_from_slice(&row[1..row.len() - 1]);
        }
        out.push(b']');
    }
    out.extend_from_slice(b",\"rows\":");
    match rows {
        Some((chunk, first)) => json::write_rows(chunk, view, first, 0..chunk.rows(), &mut out),
        None => out.extend_from_slice(b"[]"),
    }
    out.extend_from_slice(b"}\n");
    out
}

//! The pull side of one subscription.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::datarow::RowBuffer;
use crate::envelope::Shape;
use crate::error::SqlError;
use crate::ledger::Ledger;
use crate::lock;
use crate::row::{Row, SharedChange};

/// What a subscription asked for, with its AS OF decided.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) shape: Shape,
    pub(crate) as_of: u64,
    pub(crate) snapshot: bool,
    pub(crate) up_to: Option<u64>,
    /// All updates between two progress rows must fit.
    pub(crate) max_batch_bytes: u64,
}

/// Why [`Feed::fill`] stopped.
pub(crate) enum Step {
    /// The buffer is full; there may be more.
    Full,
    /// Nothing more until a frontier moves, at the latest looked for at this time.
    Idle(Option<Instant>),
    /// The stream has ended: nothing will ever come again.
    Ended,
}

/// The rows of one subscription in order. Rows not taken stay for the next call.
pub(crate) trait Feed: Send + Sync {
    /// Adds what is ready to `out`, until it is full.
    ///
    /// # Errors
    /// What ends the stream; the rows in `out` come before it.
    fn fill(&mut self, out: &mut RowBuffer) -> Result<Step, SqlError>;

    /// What a server would hold for the client that it has not fetched, in bytes.
    fn waiting_bytes(&self) -> u64 {
        0
    }
}

/// Encoded messages that did not fit yet.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) bytes: Vec<u8>,
    taken: usize,
}

impl Pending {
    fn left(&self) -> u64 {
        (self.bytes.len() - self.taken) as u64
    }

    /// Moves messages to `out`; false if `out` became full with some left.
    pub(crate) fn drain(&mut self, out: &mut RowBuffer) -> bool {
        while self.taken < self.bytes.len() {
            if out.is_full() {
                return false;
            }
            let rest = &self.bytes[self.taken..];
            let length = u32::from_be_bytes([rest[1], rest[2], rest[3], rest[4]]) as usize + 1;
            out.push(&rest[..length]);
            self.taken += length;
        }
        self.bytes.clear();
        self.taken = 0;
        true
    }
}

enum Phase {
    Start,
    Snapshot,
    Running { frontier: u64 },
    Ended,
}

/// A subscription to an object with a history of its own.
pub(crate) struct LedgerFeed {
    ledger: Arc<Mutex<Ledger>>,
    request: Request,
    phase: Phase,
    pending: Pending,
}

impl LedgerFeed {
    pub(crate) fn new(ledger: Arc<Mutex<Ledger>>, request: Request) -> Self {
        Self {
            ledger,
            request,
            phase: Phase::Start,
            pending: Pending::default(),
        }
    }

    /// Encodes the next batch; false if the frontier has not moved.
    fn next_batch(&mut self) -> Result<bool, SqlError> {
        let Request {
            shape,
            as_of,
            snapshot,
            up_to,
            max_batch_bytes,
        } = &self.request;
        let out = &mut self.pending.bytes;
        let ledger = lock(&self.ledger);
        let (lower, upper) = match self.phase {
            Phase::Start => {
                if shape.progress {
                    shape.progress_row(out, *as_of);
                }
                self.phase = Phase::Snapshot;
                return Ok(true);
            }
            Phase::Snapshot if ledger.finished() => (*as_of, u64::MAX),
            Phase::Snapshot if ledger.upper() > *as_of => (*as_of, ledger.upper()),
            Phase::Running { frontier } => match ledger.next_upper(frontier) {
                Some(upper) => (frontier - 1, upper),
                None => return Ok(false),
            },
            Phase::Snapshot | Phase::Ended => return Ok(false),
        };
        if let Some(error) = ledger.error_at(upper.saturating_sub(1)) {
            return Err(error);
        }
        if matches!(self.phase, Phase::Snapshot) && *snapshot {
            encode(shape, out, *as_of, ledger.contents(*as_of));
        }
        for (time, changes) in ledger.between(lower, up_to.unwrap_or(u64::MAX).min(upper)) {
            encode(shape, out, time, changes.clone());
        }
        if out.len() as u64 > *max_batch_bytes {
            out.clear();
            return Err(too_large(*max_batch_bytes));
        }
        if ledger.finished() {
            self.phase = Phase::Ended;
            return Ok(true);
        }
        if shape.progress {
            shape.progress_row(out, upper);
        }
        self.phase = match up_to {
            Some(end) if *end <= upper => Phase::Ended,
            _ => Phase::Running { frontier: upper },
        };
        Ok(true)
    }
}

impl Feed for LedgerFeed {
    fn fill(&mut self, out: &mut RowBuffer) -> Result<Step, SqlError> {
        loop {
            if !self.pending.drain(out) {
                return Ok(Step::Full);
            }
            if matches!(self.phase, Phase::Ended) {
                return Ok(Step::Ended);
            }
            if !self.next_batch()? {
                return Ok(Step::Idle(None));
            }
        }
    }

    fn waiting_bytes(&self) -> u64 {
        let ledger = lock(&self.ledger);
        let Phase::Running { frontier } = self.phase else {
            return self.pending.left();
        };
        let changes = ledger.between(frontier - 1, ledger.upper());
        let rows = changes.flat_map(|(_, changes)| changes);
        let bytes: u64 = rows.map(|(row, _)| row_bytes(row)).sum();
        let messages = ledger.steps_after(frontier);
        self.pending.left() + bytes + messages * MESSAGE_OVERHEAD
    }
}

/// What a server counts for each message that waits, besides its rows.
const MESSAGE_OVERHEAD: u64 = 1024;

fn row_bytes(row: &Row) -> u64 {
    row.iter().flatten().map(|value| value.len() as u64).sum()
}

/// `limit` is in bytes.
fn too_large(limit: u64) -> SqlError {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(size, _)| limit >= *size);
    let limit = match unit {
        Some((size, name)) => format!("{:.1} {name}", limit as f64 / size as f64),
        None => format!("{limit} B"),
    };
    SqlError::new("XX000", format!("result exceeds max size of {limit}"))
}

fn encode(shape: &Shape, out: &mut Vec<u8>, time: u64, mut changes: Vec<SharedChange>) {
    let mut text = itoa::Buffer::new();
    let time = text.format(time).as_bytes();
    for row in shape.rows(&mut changes) {
        shape.data_row(out, time, &row);
    }
}

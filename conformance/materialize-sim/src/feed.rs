//! The pull side of one subscription.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::datarow::RowBuffer;
use crate::envelope::Shape;
use crate::ledger::Ledger;
use crate::lock;
use crate::row::{SharedChange, consolidate};

/// What a subscription asked for, with its AS OF decided.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) shape: Shape,
    pub(crate) as_of: u64,
    pub(crate) snapshot: bool,
    pub(crate) up_to: Option<u64>,
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
    fn fill(&mut self, out: &mut RowBuffer) -> Step;
}

/// Encoded messages that did not fit yet.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) bytes: Vec<u8>,
    taken: usize,
}

impl Pending {
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

/// A subscription to a table, or to a view of one.
pub(crate) struct LedgerFeed {
    ledger: Arc<Mutex<Ledger>>,
    project: Option<Vec<usize>>,
    request: Request,
    phase: Phase,
    pending: Pending,
}

impl LedgerFeed {
    pub(crate) fn new(
        ledger: Arc<Mutex<Ledger>>,
        project: Option<Vec<usize>>,
        request: Request,
    ) -> Self {
        Self {
            ledger,
            project,
            request,
            phase: Phase::Start,
            pending: Pending::default(),
        }
    }

    /// Encodes the next batch; false if the frontier has not moved.
    fn next_batch(&mut self) -> bool {
        let Request {
            shape,
            as_of,
            snapshot,
            up_to,
        } = &self.request;
        let out = &mut self.pending.bytes;
        let ledger = lock(&self.ledger);
        let (lower, upper) = match self.phase {
            Phase::Start => {
                if shape.progress {
                    shape.progress_row(out, *as_of);
                }
                self.phase = Phase::Snapshot;
                return true;
            }
            Phase::Snapshot if ledger.finished() => {
                if *snapshot {
                    let contents = project(ledger.contents(*as_of), self.project.as_deref());
                    encode(shape, out, *as_of, contents);
                }
                self.phase = Phase::Ended;
                return true;
            }
            Phase::Snapshot if ledger.upper() > *as_of => {
                if *snapshot {
                    let contents = project(ledger.contents(*as_of), self.project.as_deref());
                    encode(shape, out, *as_of, contents);
                }
                (*as_of, ledger.upper())
            }
            Phase::Running { frontier } => match ledger.next_upper(frontier) {
                Some(upper) => (frontier - 1, upper),
                None => return false,
            },
            Phase::Snapshot | Phase::Ended => return false,
        };
        for (time, changes) in ledger.between(lower, up_to.unwrap_or(u64::MAX).min(upper)) {
            encode(
                shape,
                out,
                time,
                project(changes.clone(), self.project.as_deref()),
            );
        }
        if shape.progress {
            shape.progress_row(out, upper);
        }
        self.phase = match up_to {
            Some(end) if *end <= upper => Phase::Ended,
            _ => Phase::Running { frontier: upper },
        };
        true
    }
}

impl Feed for LedgerFeed {
    fn fill(&mut self, out: &mut RowBuffer) -> Step {
        loop {
            if !self.pending.drain(out) {
                return Step::Full;
            }
            if matches!(self.phase, Phase::Ended) {
                return Step::Ended;
            }
            if !self.next_batch() {
                return Step::Idle(None);
            }
        }
    }
}

/// The same changes with only these columns.
pub(crate) fn project(changes: Vec<SharedChange>, columns: Option<&[usize]>) -> Vec<SharedChange> {
    let Some(columns) = columns else {
        return changes;
    };
    let projected: Vec<SharedChange> = changes
        .iter()
        .map(|(row, diff)| {
            (
                Arc::new(columns.iter().map(|c| row[*c].clone()).collect()),
                *diff,
            )
        })
        .collect();
    consolidate(&projected)
}

fn encode(shape: &Shape, out: &mut Vec<u8>, time: u64, mut changes: Vec<SharedChange>) {
    let mut text = itoa::Buffer::new();
    let time = text.format(time).as_bytes();
    for row in shape.rows(&mut changes) {
        shape.data_row(out, time, &row);
    }
}

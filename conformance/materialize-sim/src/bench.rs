//! A generated table for measurements: every row is a function of its number.

use std::sync::Arc;

use crate::datarow::{self, RowBuffer};
use crate::envelope::State;
use crate::error::SqlError;
use crate::feed::{Feed, Request, Step};
use crate::row::Row;
use crate::types::{BOOL, Column, INT4, INT8, NUMERIC, TEXT};
use crate::wall_clock;

/// Length of one step of changes, in milliseconds.
const STEP: u64 = 1000;

/// What a generated table holds.
#[derive(Debug, Clone, Copy)]
pub struct BenchOptions {
    /// Rows of the snapshot, all at one timestamp.
    pub rows: u64,
    /// Rows updated each second after that, at most `rows`; 0 for none.
    pub changes_per_second: u64,
}

/// The table `(id bigint, a int, b bigint, price numeric, name text, note text, flag bool, at timestamptz)`.
pub(crate) struct Bench {
    pub(crate) columns: Vec<Column>,
    pub(crate) start: u64,
    rows: u64,
    rate: u64,
}

impl Bench {
    pub(crate) fn new(options: BenchOptions) -> Self {
        let column = |name: &str, sql_type: &str, oid| Column::exact(name, sql_type, oid, -1);
        let columns = vec![
            column("id", "bigint", INT8).not_null(),
            column("a", "integer", INT4),
            column("b", "bigint", INT8),
            Column::exact("price", "numeric", NUMERIC, 2_555_910),
            column("name", "text", TEXT),
            column("note", "text", TEXT),
            column("flag", "boolean", BOOL),
            column("at", "timestamp with time zone", 1184),
        ];
        let rate = options.changes_per_second.min(options.rows);
        Self {
            columns,
            start: wall_clock(),
            rows: options.rows,
            rate,
        }
    }

    /// Times below this have happened. Changes come at whole steps after the start.
    pub(crate) fn upper(&self) -> u64 {
        wall_clock().max(self.start + 1)
    }

    /// Number of single-row updates at or before `time`.
    fn updates(&self, time: u64) -> u64 {
        time.saturating_sub(self.start) / STEP * self.rate
    }

    /// Every row of the contents at `as_of`.
    pub(crate) fn for_each_row(&self, as_of: u64, mut each: impl FnMut(&Row, i64)) {
        if as_of < self.start {
            return;
        }
        let mut bytes = Vec::new();
        for id in 0..self.rows {
            bytes.clear();
            write_row(&mut bytes, id, self.version(id, self.updates(as_of)));
            each(&decode(&bytes), 1);
        }
    }

    /// How often row `id` was written by the first `updates` updates.
    fn version(&self, id: u64, updates: u64) -> u64 {
        match self.rows {
            0 => 0,
            rows => updates / rows + u64::from(id < updates % rows),
        }
    }
}

/// The values of a row as they stand in a message.
fn write_row(out: &mut Vec<u8>, id: u64, version: u64) {
    let mixed = (id ^ (version << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    datarow::integer(out, id);
    datarow::integer(out, (mixed >> 33) as i32);
    datarow::integer(out, (mixed >> 1) as i64);
    // A price always has two digits that are not zero behind the point.
    let cents = mixed >> 48;
    let price = [digit(cents / 10 % 9 + 1), digit(cents % 9 + 1)];
    pieces(
        out,
        &[itoa::Buffer::new().format(cents).as_bytes(), b".", &price],
    );
    let mut number = itoa::Buffer::new();
    let number = number.format(id).as_bytes();
    pieces(out, &[b"item-", number]);
    let mut count = itoa::Buffer::new();
    pieces(
        out,
        &[
            b"row ",
            number,
            b" of a generated table, v",
            count.format(version).as_bytes(),
        ],
    );
    datarow::value(out, Some(if mixed & 1 == 0 { b"t" } else { b"f" }));
    let minute = id / 60 % 60;
    let clock = [
        digit(minute / 10),
        digit(minute % 10),
        b':',
        digit(id % 60 / 10),
        digit(id % 10),
    ];
    pieces(out, &[b"2026-01-01 00:", &clock, b"+00"]);
}

fn digit(number: u64) -> u8 {
    b'0' + (number % 10) as u8
}

fn pieces(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&(length as i32).to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn decode(mut bytes: &[u8]) -> Row {
    let mut row = Row::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (text, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        row.push(Some(String::from_utf8_lossy(text).into_owned()));
        bytes = rest;
    }
    row
}

enum Phase {
    Start,
    Snapshot {
        next: u64,
        updates: u64,
    },
    /// The next single-row update (and whether its retraction was sent), up to the frontier.
    Stream {
        next: u64,
        retracted: bool,
        frontier: u64,
    },
    Ended,
}

pub(crate) struct BenchFeed {
    bench: Arc<Bench>,
    request: Request,
    phase: Phase,
    upper: u64,
}

impl BenchFeed {
    /// # Errors
    /// 0A000 for a key other than `id`.
    pub(crate) fn new(bench: Arc<Bench>, request: Request) -> Result<Self, SqlError> {
        if request.shape.key.as_ref().is_some_and(|key| *key != [0]) {
            return Err(SqlError::unsupported(
                "another key than (id) for a generated table",
            ));
        }
        Ok(Self {
            upper: request.as_of,
            bench,
            request,
            phase: Phase::Start,
        })
    }

    fn row(&self, out: &mut RowBuffer, time: &[u8], diff: i64, id: u64, version: u64) {
        let shape = &self.request.shape;
        let state = match shape.key {
            Some(_) => State::Named("upsert"),
            None => State::Diff(diff),
        };
        out.row(|bytes| {
            let at = shape.start_row(bytes, time, state);
            write_row(bytes, id, version);
            datarow::finish(bytes, at);
        });
    }

    fn snapshot(&self, out: &mut RowBuffer, mut next: u64, updates: u64) -> Phase {
        let time = self.request.as_of.to_string();
        let rows = if self.request.snapshot {
            self.bench.rows
        } else {
            0
        };
        while next < rows {
            if out.is_full() {
                return Phase::Snapshot { next, updates };
            }
            self.row(
                out,
                time.as_bytes(),
                1,
                next,
                self.bench.version(next, updates),
            );
            next += 1;
        }
        Phase::Stream {
            next: updates,
            retracted: false,
            frontier: self.request.as_of,
        }
    }

    /// Sends updates below `self.upper`, then its progress row.
    fn stream(&mut self, out: &mut RowBuffer, mut next: u64, mut retracted: bool) -> Option<Phase> {
        let end = self.request.up_to.unwrap_or(u64::MAX);
        let until = self.bench.updates(self.upper.min(end) - 1);
        while next < until {
            if out.is_full() {
                return Some(Phase::Stream {
                    next,
                    retracted,
                    frontier: self.request.as_of,
                });
            }
            let time = (self.bench.start + (next / self.bench.rate + 1) * STEP).to_string();
            let (id, version) = (next % self.bench.rows, next / self.bench.rows);
            if self.request.shape.key.is_none() && !retracted {
                self.row(out, time.as_bytes(), -1, id, version);
                retracted = true;
            } else {
                self.row(out, time.as_bytes(), 1, id, version + 1);
                (next, retracted) = (next + 1, false);
            }
        }
        if out.is_full() {
            return Some(Phase::Stream {
                next,
                retracted,
                frontier: self.request.as_of,
            });
        }
        if self.request.shape.progress {
            let upper = self.upper;
            out.row(|bytes| self.request.shape.progress_row(bytes, upper));
        }
        if self.upper >= end {
            return Some(Phase::Ended);
        }
        self.phase = Phase::Stream {
            next,
            retracted,
            frontier: self.upper,
        };
        None
    }
}

impl Feed for BenchFeed {
    fn fill(&mut self, out: &mut RowBuffer) -> Result<Step, SqlError> {
        Ok(self.next_rows(out))
    }
}

impl BenchFeed {
    fn next_rows(&mut self, out: &mut RowBuffer) -> Step {
        loop {
            if out.is_full() {
                return Step::Full;
            }
            self.phase = match self.phase {
                Phase::Start => {
                    if self.request.shape.progress {
                        let as_of = self.request.as_of;
                        out.row(|bytes| self.request.shape.progress_row(bytes, as_of));
                    }
                    let updates = self.bench.updates(self.request.as_of);
                    Phase::Snapshot { next: 0, updates }
                }
                Phase::Snapshot { next, updates } => {
                    if self.bench.upper() <= self.request.as_of {
                        // The next tick is soon enough to look again.
                        return Step::Idle(None);
                    }
                    self.snapshot(out, next, updates)
                }
                Phase::Stream {
                    next,
                    retracted,
                    frontier,
                } => {
                    if frontier >= self.upper {
                        self.upper = self.bench.upper();
                        if frontier >= self.upper {
                            return Step::Idle(None);
                        }
                    }
                    match self.stream(out, next, retracted) {
                        Some(phase) => phase,
                        None => return Step::Idle(None),
                    }
                }
                Phase::Ended => return Step::Ended,
            };
        }
    }
}

//! A subscription to a recording: rows are encoded once, then copied and patched.

use std::sync::Arc;

use crate::datarow::RowBuffer;
use crate::envelope::Shape;
use crate::error::SqlError;
use crate::feed::{Feed, Request, Step};
use crate::recording::Recording;
use crate::row::SharedChange;

/// One encoded DataRow of cycle 0 and where to patch it for another cycle or time.
struct Template {
    /// Relative time.
    time: u64,
    start: usize,
    /// The length field of the grown column, and the end of its value.
    grown: (usize, usize),
    end: usize,
}

/// Where the digits of `mz_timestamp` begin in a message: type, length, count, length.
const TIME_AT: usize = 1 + 4 + 2 + 4;

/// Encoded rows in one piece of memory.
struct Templates<'a> {
    shape: &'a Shape,
    recording: &'a Recording,
    bytes: Vec<u8>,
    rows: Vec<Template>,
}

impl Templates<'_> {
    fn add(&mut self, time: u64, mut changes: Vec<SharedChange>) {
        let sent = self
            .shape
            .order
            .iter()
            .position(|at| *at == self.recording.grown_column);
        let absolute = (self.recording.start + time).to_string();
        for row in self.shape.rows(&mut changes) {
            let start = self.bytes.len();
            self.shape
                .data_row(&mut self.bytes, absolute.as_bytes(), &row);
            let end = self.bytes.len();
            let field = self.shape.meta_columns() + sent.unwrap_or(0);
            let grown = field_range(&self.bytes[start..end], field);
            self.rows.push(Template {
                time,
                start,
                grown: (start + grown.0, start + grown.1),
                end,
            });
        }
    }
}

/// Position of the length field, and end, of one value of a message.
fn field_range(message: &[u8], field: usize) -> (usize, usize) {
    let mut at = 7;
    for index in 0.. {
        let bytes = [
            message[at],
            message[at + 1],
            message[at + 2],
            message[at + 3],
        ];
        let end = at + 4 + i32::from_be_bytes(bytes).max(0) as usize;
        if index == field {
            return (at, end);
        }
        at = end;
    }
    (at, at)
}

#[derive(Clone, Copy)]
enum Phase {
    Start,
    /// Rows of the contents at AS OF, from this cycle and template.
    Snapshot {
        cycle: u64,
        row: usize,
    },
    /// The changes, from this cycle, batch and template.
    Stream {
        cycle: u64,
        batch: usize,
        row: usize,
    },
    /// Only the frontier moves.
    After,
    Ended,
}

pub(crate) struct RecordingFeed {
    recording: Arc<Recording>,
    request: Request,
    bytes: Vec<u8>,
    /// The changes of a cycle, and per batch where its rows end.
    changes: Vec<Template>,
    batch_ends: Vec<usize>,
    /// The contents of a whole cycle, and of the cycle AS OF is in.
    complete: Vec<Template>,
    partial: Vec<Template>,
    as_of: (u64, u64),
    phase: Phase,
    frontier: u64,
    time_text: (u64, String),
}

impl RecordingFeed {
    pub(crate) fn new(recording: Arc<Recording>, request: Request) -> Self {
        recording.begin();
        let as_of = recording.position(request.as_of);
        let mut templates = Templates {
            shape: &request.shape,
            recording: &recording,
            bytes: Vec::new(),
            rows: Vec::new(),
        };
        let mut batch_ends = Vec::with_capacity(recording.batches.len());
        for batch in &recording.batches {
            for (time, changes) in &batch.times {
                templates.add(*time, changes.clone());
            }
            batch_ends.push(templates.rows.len());
        }
        let changes = std::mem::take(&mut templates.rows);
        if request.snapshot && as_of.0 > 0 {
            templates.add(0, recording.cycle_contents(u64::MAX));
        }
        let complete = std::mem::take(&mut templates.rows);
        if request.snapshot && as_of.0 < recording.cycles {
            templates.add(0, recording.cycle_contents(as_of.1));
        }
        let partial = std::mem::take(&mut templates.rows);
        let bytes = std::mem::take(&mut templates.bytes);
        let frontier = request.as_of;
        Self {
            recording,
            request,
            bytes,
            changes,
            batch_ends,
            complete,
            partial,
            as_of,
            phase: Phase::Start,
            frontier,
            time_text: (0, String::new()),
        }
    }

    fn set_time(&mut self, time: u64) {
        if self.time_text.0 != time {
            self.time_text = (time, time.to_string());
        }
    }

    /// Copies a template with the time in `time_text`, moved to `cycle`.
    fn copy(&self, out: &mut RowBuffer, template: &Template, cycle: u64) {
        let source = &self.bytes;
        out.row(|out| {
            let at = out.len();
            if cycle == 0 || source[template.grown.0] == 0xff {
                out.extend_from_slice(&source[template.start..template.end]);
            } else {
                let (length_at, value_end) = template.grown;
                out.extend_from_slice(&source[template.start..length_at]);
                // The text came from a `str` and was cut at the ends of a value.
                let old = std::str::from_utf8(&source[length_at + 4..value_end]).unwrap_or("");
                let grown = self.recording.grown(old, cycle);
                crate::datarow::value(out, Some(grown.as_bytes()));
                out.extend_from_slice(&source[value_end..template.end]);
                crate::datarow::finish(out, at);
            }
            let digits = self.time_text.1.as_bytes();
            out[at + TIME_AT..at + TIME_AT + digits.len()].copy_from_slice(digits);
        });
    }

    fn snapshot(&mut self, out: &mut RowBuffer, mut cycle: u64, mut row: usize) -> Phase {
        self.set_time(self.request.as_of);
        loop {
            let rows = if cycle < self.as_of.0 {
                &self.complete
            } else {
                &self.partial
            };
            while row < rows.len() {
                if out.is_full() {
                    return Phase::Snapshot { cycle, row };
                }
                self.copy(out, &rows[row], cycle);
                row += 1;
            }
            if cycle >= self.as_of.0 {
                return self.after_as_of();
            }
            (cycle, row) = (cycle + 1, 0);
        }
    }

    /// Where the changes after AS OF begin.
    fn after_as_of(&self) -> Phase {
        let (cycle, time) = self.as_of;
        if cycle >= self.recording.cycles {
            return Phase::After;
        }
        let row = self.changes.partition_point(|t| t.time <= time);
        match self.recording.batches.iter().position(|b| b.upper > time) {
            Some(batch) => Phase::Stream { cycle, batch, row },
            None => Phase::After,
        }
    }

    fn up_to(&self) -> u64 {
        self.request.up_to.unwrap_or(u64::MAX)
    }

    fn progress(&mut self, out: &mut RowBuffer, frontier: u64) -> bool {
        if self.request.shape.progress && frontier > self.frontier {
            out.row(|bytes| self.request.shape.progress_row(bytes, frontier));
        }
        self.frontier = self.frontier.max(frontier);
        frontier >= self.up_to()
    }

    /// Sends rows of one batch; the next phase, and whether the batch was completed.
    fn batch(&mut self, out: &mut RowBuffer, cycle: u64, batch: usize, mut row: usize) -> Phase {
        let offset = cycle * self.recording.span;
        while row < self.batch_ends[batch] {
            if out.is_full() {
                return Phase::Stream { cycle, batch, row };
            }
            let time = self.recording.start + offset + self.changes[row].time;
            if time < self.up_to() {
                self.set_time(time);
                self.copy(out, &self.changes[row], cycle);
            }
            row += 1;
        }
        if out.is_full() {
            return Phase::Stream { cycle, batch, row };
        }
        let upper = self.recording.start + offset + self.recording.batches[batch].upper;
        if self.progress(out, upper) {
            Phase::Ended
        } else if batch + 1 < self.batch_ends.len() {
            Phase::Stream {
                cycle,
                batch: batch + 1,
                row,
            }
        } else if cycle + 1 < self.recording.cycles {
            Phase::Stream {
                cycle: cycle + 1,
                batch: 0,
                row: 0,
            }
        } else {
            Phase::After
        }
    }
}

impl Feed for RecordingFeed {
    fn fill(&mut self, out: &mut RowBuffer) -> Result<Step, SqlError> {
        Ok(self.next_rows(out))
    }
}

impl RecordingFeed {
    fn next_rows(&mut self, out: &mut RowBuffer) -> Step {
        let revealed = self.recording.revealed();
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
                    Phase::Snapshot { cycle: 0, row: 0 }
                }
                Phase::Snapshot { .. } if revealed <= self.request.as_of => {
                    return Step::Idle(
                        self.recording
                            .reveals_at(self.request.as_of.saturating_add(1)),
                    );
                }
                Phase::Snapshot { .. } if !self.request.snapshot => self.after_as_of(),
                Phase::Snapshot { cycle, row } => self.snapshot(out, cycle, row),
                Phase::Stream { cycle, batch, row } => {
                    let upper = self.recording.start
                        + cycle * self.recording.span
                        + self.recording.batches[batch].upper;
                    if upper > revealed {
                        return Step::Idle(self.recording.reveals_at(upper));
                    }
                    self.batch(out, cycle, batch, row)
                }
                Phase::After => {
                    if self.progress(out, revealed) {
                        Phase::Ended
                    } else {
                        return Step::Idle(None);
                    }
                }
                Phase::Ended => return Step::Ended,
            };
        }
    }
}

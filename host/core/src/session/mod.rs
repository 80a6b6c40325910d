//! The session: one sink on one or several views, as a state machine without I/O.
//!
//! ```text
//!             Event ──> Session ──> Command
//!                        │    │
//!   source side:   Reader      Writer   : sink side
//!   a Member for each view,    open, claim the epoch, write,
//!   and one beside them        read back, decide
//! ```
//!
//! How to drive it, in this order: [`Session::start`]; then, until [`Command::Stop`] comes,
//! carry out everything that [`Session::poll_command`] gives, and call [`Session::handle`] with
//! what came of it, [`Session::handle_rows`] with rows as they arrive (only while
//! [`Session::wants_rows`]), and [`Event::Timeout`] when [`Session::poll_timeout`] has passed.
//! Time is an argument: the time since some fixed start.
//!
//! Errors are sticky: after a failure the only command left is [`Command::Stop`], once a write
//! in flight has settled. Reading goes on during a write, so that the server never buffers for a
//! slow target; the two halves meet in `Session::pump` alone.

mod command;
mod config;
mod error;
mod identify;
mod member;
mod reader;
mod side;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::VecDeque;
use std::time::Duration;

pub use command::{Command, DeadLetter, Event, Notice, Outcome, SourceCommand, SourceEvent, Write};
pub use config::{OnFailure, OnHistoryLoss, OnKeyViolation, SessionConfig, ViewConfig};
pub use error::SessionError;

use crate::batch::SinkError;
use crate::catalog::Change;
use crate::decode::Fields;
use crate::planted::{self, Planted};
use crate::types::Frontier;
use reader::Reader;
use writer::Writer;

/// Time since some fixed start.
pub type Now = Duration;

/// One sink on its views. See the module's documentation for how to drive it.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    reader: Reader,
    writer: Writer,
    commands: VecDeque<Command>,
    /// What was told about views, so that a look-up does not say it again.
    told: Vec<(usize, Change)>,
    /// Whether the checkpoint was found ahead of the objects, once.
    is_ahead: bool,
    now: Now,
    /// Set once it is known how this ends.
    ending: Option<Outcome>,
    stopped: bool,
}

impl Session {
    /// A session that has not started. `seed` must differ between workers: nonces and jitter
    /// come from it.
    pub fn new(config: SessionConfig, seed: u64) -> Self {
        Self {
            reader: Reader::new(seed ^ 0x5eed_5eed, config.views.len()),
            config,
            writer: Writer::new(seed),
            commands: VecDeque::new(),
            told: Vec::new(),
            is_ahead: false,
            now: Duration::ZERO,
            ending: None,
            stopped: false,
        }
    }

    /// Starts. To be called once, first.
    pub fn start(&mut self, now: Now) {
        self.now = now;
        self.reader.connect(&mut self.commands);
    }

    /// The next thing to do.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// When to call [`Self::handle`] with [`Event::Timeout`], if nothing else comes first.
    pub fn poll_timeout(&self) -> Option<Now> {
        let commit = self.next_commit().filter(|at| *at > self.now);
        let maintenance = self.writer.next_maintenance(&self.config);
        let maintenance = maintenance.filter(|at| *at > self.now);
        [
            self.reader.timeout(),
            self.writer.timeout(),
            commit,
            maintenance,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether rows of this connection may be handed over now; when not, leave them in the socket.
    pub fn wants_rows(&self, connection: usize) -> bool {
        self.reader.wants_rows(connection, &self.config)
    }

    /// The committed frontier.
    pub fn committed(&self) -> Option<Frontier> {
        self.writer.committed()
    }

    /// The frontier below which everything of every view has been read.
    pub fn read_frontier(&self) -> Option<Frontier> {
        self.reader.closed()
    }

    /// Changes read since the last call; progress rows are none.
    pub fn take_changes_read(&mut self) -> u64 {
        self.reader.take_changes_read()
    }

    /// Bytes of changes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.writer.memory_bytes() + self.reader.memory_bytes()
    }

    /// Bytes of changes on disk.
    pub fn spilled_bytes(&self) -> u64 {
        self.reader.spilled_bytes()
    }

    /// Takes rows of the FETCH that runs on a connection. `names` are the columns of the result.
    pub fn handle_rows<R: Fields>(
        &mut self,
        now: Now,
        connection: usize,
        names: &[String],
        rows: impl IntoIterator<Item = R>,
    ) {
        self.now = now;
        if self.ending.is_some() {
            return;
        }
        for row in rows {
            let accepted =
                self.reader
                    .handle_row(connection, names, &row, &self.config, &mut self.commands);
            if let Err(error) = accepted {
                self.fail(error);
                break;
            }
        }
        self.pump();
    }

    /// Takes an event.
    pub fn handle(&mut self, now: Now, event: Event) {
        self.now = now;
        if self.stopped {
            return;
        }
        let (config, out) = (&self.config, &mut self.commands);
        match event {
            Event::Source { connection, event } => {
                let committed = self.writer.committed();
                let outcome = self
                    .reader
                    .handle(now, connection, event, committed, config, out);
                self.after_reading(outcome);
            }
            Event::SinkOpened(_) if self.ending.is_some() && self.writer.is_opening_to_claim() => {
                // An epoch is not worth taking any more.
                self.writer.stop();
            }
            Event::SinkOpened(result) => {
                let outcome = self.writer.handle_opened(now, result, config, out);
                self.after_writing(outcome);
            }
            Event::Written(result) => {
                let outcome = self.writer.handle_written(now, result, config, out);
                self.after_writing(outcome);
            }
            Event::CheckpointRead(result) => {
                let outcome = self.writer.handle_read(now, result, config, out);
                self.after_writing(outcome);
            }
            Event::Maintained(result) => {
                let outcome = self.writer.handle_maintained(now, result, out);
                self.after_writing(outcome);
            }
            Event::Timeout => {
                let committed = self.writer.committed();
                self.reader.handle_timeout(now, committed, out);
                let outcome = self.writer.handle_timeout(now, config, out);
                self.after_writing(outcome);
            }
            Event::SpillFailed(message) => self.fail(SessionError::Spill(message)),
            Event::DeadLetterFailed(message) => {
                // A write that was to follow would commit past the rows.
                let writes = self.commands.len();
                self.commands.retain(|c| !matches!(c, Command::Write(_)));
                if self.commands.len() < writes {
                    self.writer.stop();
                }
                self.fail(SessionError::DeadLetter(message));
            }
            Event::Shutdown => self.end(Outcome::ShutDown),
        }
        self.pump();
    }

    fn after_reading(&mut self, outcome: reader::Outcome) {
        match outcome {
            reader::Outcome::Nothing => {}
            reader::Outcome::Failed(error) => self.fail(error),
            reader::Outcome::Resolved => {
                if let Err(error) = self.identify() {
                    self.fail(error.into());
                }
            }
        }
    }

    fn after_writing(&mut self, outcome: writer::Outcome) {
        let done = self.writer.take_done();
        self.reader.release(&done, &mut self.commands);
        match outcome {
            writer::Outcome::Nothing => {}
            writer::Outcome::Opened(found) => {
                if let Err(error) = self.adopt(found) {
                    self.writer.stop();
                    self.fail(error);
                }
            }
            writer::Outcome::Rewound { .. } if self.ending.is_some() => {}
            writer::Outcome::Rewound { snapshot_of } => {
                if self.writer.committed().is_some() {
                    let views = snapshot_of.into_iter().map(|view| view as usize);
                    self.reader.expire(views);
                }
                self.reader.reconnect(&mut self.commands);
            }
            writer::Outcome::Failed(error) => {
                self.writer.stop();
                self.fail(error);
            }
        }
    }

    fn fail(&mut self, error: SessionError) {
        self.end(Outcome::Failed(error));
    }

    fn end(&mut self, outcome: Outcome) {
        // The first reason counts, but a failure outweighs a request to stop.
        let replaces = match &self.ending {
            None => true,
            Some(Outcome::ShutDown) => matches!(outcome, Outcome::Failed(_)),
            Some(_) => false,
        };
        if replaces {
            self.ending = Some(outcome);
        }
        self.reader.stop(&mut self.commands);
    }

    /// Where the halves meet: whatever can be started is started.
    fn pump(&mut self) {
        if self.stopped {
            return;
        }
        if self.ending.is_none()
            && self.reader.is_ended()
            && self.writer.is_complete(self.config.end())
        {
            self.end(Outcome::Finished);
        }
        if let Some(outcome) = &self.ending {
            if !self.writer.is_in_flight() {
                self.commands.push_back(Command::Stop(outcome.clone()));
                self.writer.stop();
                self.stopped = true;
            }
            return;
        }
        if self.reader.is_resolved() {
            if self.writer.is_unopened() {
                self.writer.open(&mut self.commands);
            } else if self.has_claimed() {
                self.begin();
            }
        }
        self.maintain_if_due();
        self.write_if_due();
        let for_held = self
            .config
            .memory_bytes
            .saturating_sub(self.writer.memory_bytes());
        self.reader.spill(for_held, &mut self.commands);
        if self.ending.is_none() && self.writer.is_ready() && self.reader.is_stuck(&self.config) {
            self.fail(SessionError::TimestampTooLarge {
                limit: self.config.spill_quota(),
            });
            self.pump();
        }
    }

    fn has_claimed(&self) -> bool {
        // Until the epoch is ours nothing was read, so there is nothing to take up.
        self.writer.is_ready() || self.reader.has_read()
    }

    fn begin(&mut self) {
        // What was handed to the writer is replayable here, so reading goes on after it.
        let forgets = planted::is(Planted::HandedOverForgotten);
        let lower = self.reader.lower().filter(|_| !forgets);
        let from = lower.max(self.writer.committed());
        match from.map_or(Ok(true), |from| self.has_reached(from)) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                self.fail(error.into());
                self.pump();
                return;
            }
        }
        if self.writer.is_complete(self.config.end()) {
            self.end(Outcome::Finished);
            self.pump();
            return;
        }
        if from.is_some() && !self.reader.expired().is_empty() {
            // The generation of a new snapshot is durable before its first row.
            if !self.writer.is_ready() {
                return;
            }
            if !self.writer.has_raised_generation() {
                let raised = self
                    .writer
                    .raise_generation(&self.config, &mut self.commands);
                if let Err(error) = raised {
                    self.writer.stop();
                    self.fail(error);
                    self.pump();
                }
                return;
            }
        }
        let Some(views) = self.writer.views() else {
            return;
        };
        let (config, out) = (&self.config, &mut self.commands);
        self.reader.begin(self.now, from, views, config, out);
    }

    /// When the next commit may start, if there is something to commit.
    fn next_commit(&self) -> Option<Now> {
        if !self.writer.is_ready() {
            return None;
        }
        let closed = self.reader.closed()?;
        if self.reader.lower().is_some_and(|lower| closed <= lower) {
            return None;
        }
        // The first commit proves that the snapshot is whole, however small; the last one ends;
        // and with full buffers there is nothing to wait for.
        let at_once = self.writer.committed().is_none()
            || self.reader.is_ended()
            || self.reader.is_full(&self.config);
        let interval = if at_once {
            Duration::ZERO
        } else if self.reader.has_closed_rows() {
            self.config.commit_interval
        } else {
            self.config
                .idle_commit_interval
                .max(self.config.commit_interval)
        };
        Some(self.writer.last_commit().saturating_add(interval))
    }

    /// Before the next write: under a steady load the sink would never be idle.
    fn maintain_if_due(&mut self) {
        let due = self.writer.next_maintenance(&self.config);
        if self.ending.is_none() && due.is_some_and(|at| at <= self.now) {
            self.writer.maintain(&mut self.commands);
        }
    }

    fn write_if_due(&mut self) {
        if self.next_commit().is_none_or(|at| at > self.now) {
            return;
        }
        let Some((taken, lower)) = self.reader.take(self.config.max_commit_bytes) else {
            return;
        };
        let written = self
            .writer
            .write(taken, lower, &self.config, &mut self.commands);
        if let Err(error) = written {
            self.writer.stop();
            self.fail(error);
            self.pump();
        }
    }
}

// The driver moves a session between threads.
const _: fn() = || {
    fn assert_send<T: Send>() {}
    assert_send::<Session>();
    assert_send::<Command>();
    assert_send::<Event>();
    assert_send::<SinkError>();
};

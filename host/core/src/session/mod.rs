//! The session: one sink on one view, as a state machine without I/O.
//!
//! ```text
//!             Event ──> Session ──> Command
//!                        │    │
//!   source side:   Reader      Writer   : sink side
//!   connect, look up,          open, claim the epoch, write,
//!   subscribe, fetch           read back, decide
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
mod error;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub use command::{Command, Event, Notice, Outcome, Write};
pub use error::SessionError;

use crate::batch::SinkError;
use crate::catalog::Object;
use crate::decode::Fields;
use crate::release::Start;
use crate::retry::RetryPolicy;
use crate::types::{Envelope, Frontier};
use reader::Reader;
use writer::Writer;

/// Time since some fixed start.
pub type Now = Duration;

/// What does not change while a session runs.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Identity of the deployment.
    pub sink_id: String,
    /// Digest of the component.
    pub component_digest: String,
    /// The object to subscribe to.
    pub object: String,
    /// The view's name for the sink; the object's last part when absent.
    pub view_name: Option<String>,
    /// Key columns, in order.
    pub key: Vec<String>,
    /// How changes are asked for.
    pub envelope: Envelope,
    /// Whether the sink wants only the last change per key of a batch.
    pub netted: bool,
    /// The cluster to subscribe on; the role's default when absent.
    pub cluster: Option<String>,
    /// Start although a failure may outlast the object's history.
    pub allow_short_retention: bool,
    /// Minimum time between commits.
    pub commit_interval: Duration,
    /// Minimum time between commits that only move the frontier.
    pub idle_commit_interval: Duration,
    /// A batch is split at timestamps when it is larger, in bytes of memory.
    pub max_commit_bytes: usize,
    /// Changes held in memory, in bytes, before they are spilled.
    pub memory_bytes: usize,
    /// Changes held on disk, in bytes, before reading pauses.
    pub spill_bytes: u64,
    /// For everything that is tried again.
    pub retry: RetryPolicy,
}

/// One sink on one view. See the module's documentation for how to drive it.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    reader: Reader,
    writer: Writer,
    commands: VecDeque<Command>,
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
            config,
            reader: Reader::new(seed ^ 0x5eed_5eed),
            writer: Writer::new(seed),
            commands: VecDeque::new(),
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
        [self.reader.timeout(), self.writer.timeout(), commit]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether rows may be handed over now; when not, leave them in the socket.
    pub fn wants_rows(&self) -> bool {
        self.reader.spilled_bytes() < self.config.spill_bytes
    }

    /// The committed frontier.
    pub fn committed(&self) -> Option<Frontier> {
        self.writer.committed()
    }

    /// The frontier below which everything has been read.
    pub fn read_frontier(&self) -> Option<Frontier> {
        self.reader.held().and_then(|held| held.closed())
    }

    /// Bytes of changes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.writer.memory_bytes() + self.reader.held().map_or(0, |held| held.memory_bytes())
    }

    /// Bytes of changes on disk.
    pub fn spilled_bytes(&self) -> u64 {
        self.reader.spilled_bytes()
    }

    /// Takes rows of the running FETCH. `names` are the columns of the result.
    pub fn handle_rows<R: Fields>(
        &mut self,
        now: Now,
        names: &[String],
        rows: impl IntoIterator<Item = R>,
    ) {
        self.now = now;
        if self.ending.is_some() {
            return;
        }
        for row in rows {
            let accepted = self
                .reader
                .handle_row(names, &row, &self.config, &mut self.commands);
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
            Event::Connected(result) => {
                let outcome = self.reader.handle_connected(now, result, config, out);
                self.after_reading(outcome);
            }
            Event::Ran(result) => {
                let outcome = self.reader.handle_ran(now, result, config, out);
                self.after_reading(outcome);
            }
            Event::Fetched(result) => {
                let outcome = self.reader.handle_fetched(now, result, config, out);
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
            Event::Timeout => {
                self.reader.handle_timeout(now, out);
                let outcome = self.writer.handle_timeout(now, config, out);
                self.after_writing(outcome);
            }
            Event::SpillFailed(message) => self.fail(SessionError::Spill(message)),
            Event::Shutdown => self.end(Outcome::ShutDown),
        }
        self.pump();
    }

    fn after_reading(&mut self, outcome: reader::Outcome) {
        match outcome {
            reader::Outcome::Nothing => {}
            reader::Outcome::Failed(error) => self.fail(error),
            reader::Outcome::Resolved(object) => {
                if let Err(error) = self.identify(&object) {
                    self.fail(error);
                }
            }
        }
    }

    fn after_writing(&mut self, outcome: writer::Outcome) {
        let done = self.writer.take_done();
        self.reader.release(&done, &mut self.commands);
        match outcome {
            writer::Outcome::Nothing | writer::Outcome::Claimed | writer::Outcome::Committed => {}
            writer::Outcome::Rewound if self.ending.is_some() => {}
            writer::Outcome::Rewound => self.reader.reconnect(&mut self.commands),
            writer::Outcome::Failed(error) => {
                self.writer.stop();
                self.fail(error);
            }
        }
    }

    /// The object was looked up: at first the sink is opened for it, later it must be the same.
    fn identify(&mut self, object: &Object) -> Result<(), SessionError> {
        let config = &self.config;
        let name = config.view_name.as_ref().unwrap_or(&object.full_name[2]);
        let view = object.view(name, &config.key, config.envelope)?;
        let identity = object.identity(&view, config.envelope);
        if let Some(then) = self.writer.identity() {
            crate::catalog::check_identity(then, &identity)?;
            if then.id != identity.id {
                self.commands
                    .push_back(Command::Tell(Notice::ReplacementApplied {
                        from: then.id.clone(),
                        to: identity.id.clone(),
                    }));
            }
        }
        self.writer.identify(Arc::new(view), identity);
        Ok(())
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
        if self.ending.is_none() && self.reader.is_ended() && self.writer.is_complete() {
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
                self.subscribe();
            }
        }
        self.write_if_due();
        let for_held = self
            .config
            .memory_bytes
            .saturating_sub(self.writer.memory_bytes());
        self.reader.spill(for_held, &mut self.commands);
        if !self.wants_rows() && self.writer.is_ready() {
            self.fail(SessionError::TimestampTooLarge {
                limit: self.config.spill_bytes,
            });
            self.pump();
        }
    }

    fn has_claimed(&self) -> bool {
        // Until the epoch is ours nothing was read, so there is nothing to take up.
        self.writer.is_ready() || self.reader.held().is_some()
    }

    fn subscribe(&mut self) {
        if self.writer.is_complete() {
            self.end(Outcome::Finished);
            self.pump();
            return;
        }
        // What was handed to the writer is replayable here, so reading goes on after it.
        let start = match self.reader.lower().max(self.writer.committed()) {
            Some(frontier) => Start::Resume(frontier),
            None => Start::Snapshot,
        };
        if let Some(view) = self.writer.view() {
            self.reader
                .subscribe(start, &view, &self.config, &mut self.commands);
        }
    }

    /// When the next commit may start, if there is something to commit.
    fn next_commit(&self) -> Option<Now> {
        if !self.writer.is_ready() {
            return None;
        }
        let held = self.reader.held()?;
        let closed = held.closed()?;
        if self.reader.lower().is_some_and(|lower| closed <= lower) {
            return None;
        }
        // The first commit proves that the snapshot is whole, however small; the last one ends;
        // and with full buffers there is nothing to wait for.
        let at_once =
            self.writer.committed().is_none() || self.reader.is_ended() || !self.wants_rows();
        let interval = if at_once {
            Duration::ZERO
        } else if held.has_closed_rows() {
            self.config.commit_interval
        } else {
            self.config
                .idle_commit_interval
                .max(self.config.commit_interval)
        };
        Some(self.writer.last_commit().saturating_add(interval))
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

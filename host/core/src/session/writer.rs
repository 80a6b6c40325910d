//! The half of the session that talks to the sink: open, claim the epoch, write, find out.

mod attempt;
mod maintain;
mod settle;
mod skip;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::command::{Command, Notice};
use super::{Now, SessionConfig, SessionError};
use crate::batch::{BatchInfo, Failure, SinkError};
use crate::catalog::Reconciled;
use crate::checkpoint::{Checkpoint, ViewIdentity};
use crate::planted::{self, Planted};
use crate::release::Segment;
use crate::retry::{Entropy, Retries};
use crate::types::{Frontier, View};

/// A write that is not known to be done.
#[derive(Debug)]
struct InFlight {
    info: BatchInfo,
    segments: Vec<Segment>,
    next: Checkpoint,
    next_text: String,
    purpose: Purpose,
    /// The retry budget is spent: once it is known that the write was not applied, it is skipped.
    give_up: Option<SessionError>,
    /// The sink's own account, when the outcome of the last attempt is unknown.
    unknown: Option<Failure>,
}

/// What a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To take the epoch.
    Claim,
    /// To store the generation of the snapshot that follows.
    Generation,
    Batch,
    /// To go on after a batch that was given up.
    Skip,
}

#[derive(Debug)]
enum State {
    /// Waits for the view to be known.
    Unopened,
    Opening(Option<Box<InFlight>>),
    /// Open, and the session looks at what is stored.
    Opened,
    /// Open and claimed, nothing in flight.
    Ready,
    Writing(Box<InFlight>),
    ReadingBack(Box<InFlight>),
    Maintaining,
    Waiting {
        until: Now,
        then: Then,
    },
    Stopped,
}

#[derive(Debug)]
enum Then {
    Open(Option<Box<InFlight>>),
    Claim,
    Write(Box<InFlight>),
    ReadBack(Box<InFlight>),
}

/// What the session needs to know after an event.
#[derive(Debug)]
pub(super) enum Outcome {
    Nothing,
    /// The sink is open, and holds this checkpoint.
    Opened(Option<Checkpoint>),
    /// An earlier attempt landed: read again from the committed frontier.
    Rewound {
        /// The views of which a snapshot was given up.
        snapshot_of: Vec<u32>,
    },
    Failed(SessionError),
}

#[derive(Debug)]
pub(super) struct Writer {
    state: State,
    retries: Retries,
    entropy: Entropy,
    worker: String,
    attempt: u64,
    views: Option<Arc<[View]>>,
    /// What the views are, in the same order.
    identities: Vec<ViewIdentity>,
    /// What the target's contents came from, where they are still to be replaced by a snapshot.
    former: BTreeMap<u32, ViewIdentity>,
    epoch: u64,
    generation: u64,
    /// Whether the generation was raised for a snapshot that is not committed yet.
    has_raised_generation: bool,
    /// The text known to be stored.
    expected: Option<String>,
    committed: Option<Frontier>,
    last_commit: Now,
    /// Whether this worker has committed a batch.
    has_committed: bool,
    /// When housekeeping last ended.
    last_maintenance: Option<Now>,
    done_segments: Vec<Segment>,
}

impl Writer {
    pub(super) fn new(seed: u64) -> Self {
        let mut entropy = Entropy::new(seed);
        Self {
            state: State::Unopened,
            retries: Retries::default(),
            worker: format!("{:016x}", entropy.next()),
            entropy,
            attempt: 0,
            views: None,
            identities: Vec::new(),
            former: BTreeMap::new(),
            epoch: 0,
            generation: 0,
            has_raised_generation: false,
            expected: None,
            committed: None,
            last_commit: Duration::ZERO,
            has_committed: false,
            last_maintenance: None,
            done_segments: Vec::new(),
        }
    }

    pub(super) fn is_unopened(&self) -> bool {
        matches!(self.state, State::Unopened)
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    /// Whether a call to the sink may have effects that are not known yet.
    pub(super) fn is_in_flight(&self) -> bool {
        matches!(
            self.state,
            State::Opening(_) | State::Writing(_) | State::ReadingBack(_) | State::Maintaining
        )
    }

    pub(super) fn committed(&self) -> Option<Frontier> {
        self.committed
    }

    pub(super) fn last_commit(&self) -> Now {
        self.last_commit
    }

    /// Bytes of the write in flight that are in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.in_flight_segments()
            .filter(|s| s.chunk.is_some())
            .map(|s| s.bytes)
            .sum()
    }

    fn in_flight_segments(&self) -> impl Iterator<Item = &Segment> {
        let in_flight = match &self.state {
            State::Writing(f) | State::ReadingBack(f) | State::Opening(Some(f)) => Some(f),
            State::Waiting { then, .. } => match then {
                Then::Open(f) => f.as_ref(),
                Then::Write(f) | Then::ReadBack(f) => Some(f),
                Then::Claim => None,
            },
            State::Unopened
            | State::Opening(None)
            | State::Opened
            | State::Ready
            | State::Maintaining
            | State::Stopped => None,
        };
        in_flight.into_iter().flat_map(|f| &f.segments)
    }

    /// Segments that were committed or given up since the last call.
    pub(super) fn take_done(&mut self) -> Vec<Segment> {
        std::mem::take(&mut self.done_segments)
    }

    pub(super) fn timeout(&self) -> Option<Now> {
        match &self.state {
            State::Waiting { until, .. } => Some(*until),
            _ => None,
        }
    }

    pub(super) fn stop(&mut self) {
        self.state = State::Stopped;
    }

    /// The views are known, at first or anew: what the next checkpoints say of them. Whether the
    /// sink sees other columns than before.
    pub(super) fn identify(&mut self, now: Vec<Reconciled>) -> bool {
        let (views, identities): (Vec<_>, Vec<_>) =
            now.into_iter().map(|now| (now.view, now.identity)).unzip();
        let is_other = self.views.as_deref().is_some_and(|known| *known != *views);
        self.views = Some(views.into());
        self.identities = identities;
        is_other
    }

    /// What the views are; empty until they are known.
    pub(super) fn identities(&self) -> &[ViewIdentity] {
        &self.identities
    }

    /// The target still holds the contents of another object, until a snapshot replaces them.
    pub(super) fn keep_identity(&mut self, view: usize, then: ViewIdentity) {
        self.former.entry(view as u32).or_insert(then);
    }

    pub(super) fn views(&self) -> Option<Arc<[View]>> {
        self.views.clone()
    }

    /// Whether this worker's epoch is stored.
    #[cfg(test)]
    pub(super) fn has_claimed(&self) -> bool {
        self.expected
            .as_ref()
            .is_some_and(|text| text.contains(&self.worker))
    }

    pub(super) fn has_raised_generation(&self) -> bool {
        self.has_raised_generation
    }

    pub(super) fn open(&mut self, out: &mut VecDeque<Command>) {
        self.reopen(None, out);
    }

    /// What the sink was opened to find does not count: it is opened again once the views are
    /// known anew.
    pub(super) fn forget_opened(&mut self) {
        self.state = State::Unopened;
    }

    /// The target holds all that is wanted, so no epoch is taken.
    pub(super) fn nothing_left(&mut self, committed: Frontier) {
        self.committed = Some(committed);
    }

    /// Whether the sink is opened for the first time, or to claim again: nothing is at stake.
    pub(super) fn is_opening_to_claim(&self) -> bool {
        matches!(self.state, State::Opening(None))
    }

    fn reopen(&mut self, pending: Option<Box<InFlight>>, out: &mut VecDeque<Command>) {
        if let Some(views) = &self.views {
            out.push_back(Command::OpenSink {
                views: views.clone(),
            });
            self.state = State::Opening(pending);
        }
    }

    pub(super) fn handle_timeout(
        &mut self,
        now: Now,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        if self.timeout().is_none_or(|until| now < until) {
            return Outcome::Nothing;
        }
        let State::Waiting { then, .. } = std::mem::replace(&mut self.state, State::Stopped) else {
            return Outcome::Nothing;
        };
        match then {
            Then::Open(pending) => self.reopen(pending, out),
            // Read again what the other worker left.
            Then::Claim => self.reopen(None, out),
            Then::Write(in_flight) => return self.send_again(in_flight, config, out),
            Then::ReadBack(in_flight) => {
                out.push_back(Command::ReadCheckpoint);
                self.state = State::ReadingBack(in_flight);
            }
        }
        Outcome::Nothing
    }

    pub(super) fn handle_opened(
        &mut self,
        now: Now,
        result: Result<Option<String>, SinkError>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        let pending = match std::mem::replace(&mut self.state, State::Stopped) {
            State::Opening(pending) => pending,
            other => return self.unexpected("SinkOpened", other),
        };
        match (result, pending) {
            // The wait for this attempt came before the sink was opened again.
            (Ok(stored), Some(in_flight)) if stored == self.expected => {
                self.not_applied(in_flight, config, out)
            }
            (Ok(stored), Some(in_flight)) => {
                self.settle(now, stored.as_deref(), in_flight, config, out)
            }
            (Ok(stored), None) => {
                let found = stored
                    .as_deref()
                    .map(|text| Checkpoint::parse(text, &config.sink_id));
                match found.transpose() {
                    Ok(found) => {
                        self.former.clear();
                        self.expected = stored;
                        self.state = State::Opened;
                        Outcome::Opened(found)
                    }
                    Err(error) => Outcome::Failed(error.into()),
                }
            }
            (Err(error), pending) => {
                self.retry(now, "open", error, Then::Open(pending), config, out)
            }
        }
    }

    pub(super) fn handle_written(
        &mut self,
        now: Now,
        result: Result<(), SinkError>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        let mut in_flight = match std::mem::replace(&mut self.state, State::Stopped) {
            State::Writing(in_flight) => in_flight,
            other => return self.unexpected("Written", other),
        };
        match result {
            Ok(()) => {
                let text = in_flight.next_text.clone();
                self.commit(now, text, in_flight, out)
            }
            Err(SinkError::Conflict(found)) => {
                self.settle(now, found.as_deref(), in_flight, config, out)
            }
            Err(error @ SinkError::Retryable(_)) => {
                self.retry(now, "write", error, Then::Write(in_flight), config, out)
            }
            Err(error @ SinkError::Trapped(_)) => self.retry(
                now,
                "write",
                error,
                Then::Open(Some(in_flight)),
                config,
                out,
            ),
            Err(SinkError::Unknown(_)) if planted::is(Planted::UnknownIsCommitted) => {
                let text = in_flight.next_text.clone();
                self.commit(now, text, in_flight, out)
            }
            Err(error @ SinkError::Unknown(_)) if planted::is(Planted::NoReadBack) => {
                self.retry(now, "write", error, Then::Write(in_flight), config, out)
            }
            Err(SinkError::Unknown(failure)) => {
                in_flight.unknown = Some(failure.clone());
                out.push_back(Command::Tell(Notice::Retrying {
                    error: SessionError::SinkUnknown(failure),
                    wait: Duration::ZERO,
                    failures: self.retries.failures(),
                    is_first: !self.has_committed,
                }));
                out.push_back(Command::ReadCheckpoint);
                self.state = State::ReadingBack(in_flight);
                Outcome::Nothing
            }
            Err(SinkError::Permanent(failure)) => {
                Outcome::Failed(SessionError::SinkPermanent(failure))
            }
            Err(SinkError::Limit(failure)) => Outcome::Failed(SessionError::SinkLimit(failure)),
        }
    }

    pub(super) fn handle_read(
        &mut self,
        now: Now,
        result: Result<Option<String>, SinkError>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        let in_flight = match std::mem::replace(&mut self.state, State::Stopped) {
            State::ReadingBack(in_flight) => in_flight,
            other => return self.unexpected("CheckpointRead", other),
        };
        match result {
            Ok(stored) => self.settle(now, stored.as_deref(), in_flight, config, out),
            Err(error @ SinkError::Trapped(_)) => self.retry(
                now,
                "checkpoint",
                error,
                Then::Open(Some(in_flight)),
                config,
                out,
            ),
            Err(error) => self.retry(
                now,
                "checkpoint",
                error,
                Then::ReadBack(in_flight),
                config,
                out,
            ),
        }
    }

    /// Whether everything that can ever come is committed.
    pub(super) fn is_complete(&self, end: Frontier) -> bool {
        self.committed.is_some_and(|committed| committed >= end)
    }

    fn retry(
        &mut self,
        now: Now,
        call: &'static str,
        error: SinkError,
        then: Then,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        let asked = match &error {
            SinkError::Retryable(f) | SinkError::Unknown(f) => f
                .retry_after_ms
                .map(|ms| Duration::from_millis(u64::from(ms))),
            _ => None,
        };
        let error = of_sink(error, call);
        if !matches!(
            error,
            SessionError::SinkRetryable(_)
                | SessionError::SinkUnknown(_)
                | SessionError::SinkTrapped(_)
        ) {
            return Outcome::Failed(error);
        }
        let jitter = self.entropy.unit();
        let Some(wait) = self.retries.next_wait(&config.retry, asked, jitter) else {
            return self.give_up(error, then, config, out);
        };
        out.push_back(Command::Tell(Notice::Retrying {
            error,
            wait,
            failures: self.retries.failures(),
            is_first: !self.has_committed,
        }));
        self.state = State::Waiting {
            until: now.saturating_add(wait),
            then,
        };
        Outcome::Nothing
    }

    fn unexpected(&mut self, event: &'static str, state: State) -> Outcome {
        let name = state.name();
        self.state = state;
        Outcome::Failed(SessionError::Unexpected { event, state: name })
    }
}

/// What a failure of a call other than `write` means.
fn of_sink(error: SinkError, call: &'static str) -> SessionError {
    match error {
        SinkError::Retryable(f) => SessionError::SinkRetryable(f),
        SinkError::Unknown(f) => SessionError::SinkUnknown(f),
        SinkError::Trapped(f) => SessionError::SinkTrapped(f),
        SinkError::Permanent(f) => SessionError::SinkPermanent(f),
        SinkError::Limit(f) => SessionError::SinkLimit(f),
        SinkError::Conflict(_) => SessionError::SinkConfused(call),
    }
}

impl State {
    fn name(&self) -> &'static str {
        match self {
            Self::Unopened => "the sink is not open",
            Self::Opening(_) => "the sink is opening",
            Self::Opened => "the stored checkpoint is looked at",
            Self::Ready => "nothing is in flight",
            Self::Writing(_) => "a write is in flight",
            Self::ReadingBack(_) => "the checkpoint is read back",
            Self::Maintaining => "housekeeping is under way",
            Self::Waiting { .. } => "waiting to try again",
            Self::Stopped => "stopped",
        }
    }
}

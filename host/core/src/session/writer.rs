//! The half of the session that talks to the sink: open, claim the epoch, write, find out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::command::{Command, Notice, Write};
use super::error::{Found, SessionError};
use super::{Now, SessionConfig};
use crate::batch::{BatchInfo, Failure, SinkError};
use crate::checkpoint::{Checkpoint, FORMAT, ViewIdentity};
use crate::release::{Segment, Taken};
use crate::retry::{Entropy, Retries};
use crate::types::{CLOSED, Envelope, Frontier, View};

/// A write that is not known to be done.
#[derive(Debug)]
struct InFlight {
    info: BatchInfo,
    segments: Vec<Segment>,
    next: Checkpoint,
    next_text: String,
    is_claim: bool,
    /// The sink's own account, when the outcome of the last attempt is unknown.
    unknown: Option<Failure>,
}

#[derive(Debug)]
enum State {
    /// Waits for the view to be known.
    Unopened,
    Opening(Option<Box<InFlight>>),
    /// Open and claimed, nothing in flight.
    Ready,
    Writing(Box<InFlight>),
    ReadingBack(Box<InFlight>),
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
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    Nothing,
    /// The epoch is ours; read from here.
    Claimed,
    /// A batch is committed, and these segments are no longer needed.
    Committed,
    /// An earlier attempt landed: read again from the committed frontier.
    Rewound,
    Failed(SessionError),
}

#[derive(Debug)]
pub(super) struct Writer {
    state: State,
    retries: Retries,
    entropy: Entropy,
    worker: String,
    attempt: u64,
    view: Option<Arc<View>>,
    identity: Option<ViewIdentity>,
    epoch: u64,
    generation: u64,
    /// The text known to be stored.
    expected: Option<String>,
    committed: Option<Frontier>,
    last_commit: Now,
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
            view: None,
            identity: None,
            epoch: 0,
            generation: 0,
            expected: None,
            committed: None,
            last_commit: Duration::ZERO,
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
            State::Opening(_) | State::Writing(_) | State::ReadingBack(_)
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
            State::Unopened | State::Opening(None) | State::Ready | State::Stopped => None,
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

    /// The view is known, at first or anew: what the next checkpoints say of it.
    pub(super) fn identify(&mut self, view: Arc<View>, identity: ViewIdentity) {
        self.view = Some(view);
        self.identity = Some(identity);
    }

    pub(super) fn identity(&self) -> Option<&ViewIdentity> {
        self.identity.as_ref()
    }

    pub(super) fn view(&self) -> Option<Arc<View>> {
        self.view.clone()
    }

    pub(super) fn open(&mut self, out: &mut VecDeque<Command>) {
        self.reopen(None, out);
    }

    /// Whether the sink is opened for the first time, or to claim again: nothing is at stake.
    pub(super) fn is_opening_to_claim(&self) -> bool {
        matches!(self.state, State::Opening(None))
    }

    fn reopen(&mut self, pending: Option<Box<InFlight>>, out: &mut VecDeque<Command>) {
        if let Some(view) = &self.view {
            out.push_back(Command::OpenSink { view: view.clone() });
            self.state = State::Opening(pending);
        }
    }

    /// Hands a batch over.
    pub(super) fn write(
        &mut self,
        taken: Taken,
        lower: Frontier,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), SessionError> {
        let info = BatchInfo {
            lower,
            upper: taken.upper,
            committed: self.committed,
            generation: self.generation,
            epoch: self.epoch,
            rows: taken.segments.iter().map(|s| s.rows as u64).sum(),
            bytes: taken.segments.iter().map(|s| s.bytes as u64).sum(),
            snapshot_of: if taken.snapshot { vec![0] } else { Vec::new() },
        };
        let next = self.checkpoint(Some(taken.upper), config);
        self.send(
            Box::new(InFlight {
                info,
                segments: taken.segments,
                next,
                next_text: String::new(),
                is_claim: false,
                unknown: None,
            }),
            config,
            out,
        )
    }

    fn checkpoint(&self, frontier: Option<Frontier>, config: &SessionConfig) -> Checkpoint {
        Checkpoint {
            format: FORMAT,
            sink_id: config.sink_id.clone(),
            epoch: self.epoch,
            nonce: String::new(),
            generation: self.generation,
            frontier,
            component: config.component_digest.clone(),
            views: self.identity.iter().cloned().collect(),
        }
    }

    /// Takes the next epoch with a write of nothing.
    fn claim(
        &mut self,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), SessionError> {
        if self.committed.is_none() {
            // A snapshot will follow. Its generation is durable before its first row: a worker
            // that comes after a crash in the middle of it must take a higher one.
            self.generation += 1;
        }
        let at = self.committed.unwrap_or(0);
        let info = BatchInfo {
            lower: at,
            upper: at,
            committed: self.committed,
            generation: self.generation,
            epoch: self.epoch,
            rows: 0,
            bytes: 0,
            snapshot_of: Vec::new(),
        };
        let next = self.checkpoint(self.committed, config);
        self.send(
            Box::new(InFlight {
                info,
                segments: Vec::new(),
                next,
                next_text: String::new(),
                is_claim: true,
                unknown: None,
            }),
            config,
            out,
        )
    }

    /// Every attempt has a text of its own, so that one that lands late is recognised.
    fn send(
        &mut self,
        mut in_flight: Box<InFlight>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), SessionError> {
        self.attempt += 1;
        in_flight.unknown = None;
        in_flight.next.nonce = format!("{}-{}", self.worker, self.attempt);
        in_flight.next_text = in_flight.next.encode()?;
        let spans_timestamps = match (in_flight.segments.first(), in_flight.segments.last()) {
            (Some(first), Some(last)) => first.min < last.max,
            _ => false,
        };
        // Only the upsert envelope has a last change per key.
        let nets = config.netted && config.envelope == Envelope::Upsert && spans_timestamps;
        let key = self.view.as_ref().map(|v| v.key.clone());
        out.push_back(Command::Write(Box::new(Write {
            info: in_flight.info.clone(),
            segments: in_flight.segments.clone(),
            net_by: key.filter(|_| nets),
            expected: self.expected.clone(),
            next: in_flight.next_text.clone(),
        })));
        self.state = State::Writing(in_flight);
        Ok(())
    }

    fn send_again(
        &mut self,
        in_flight: Box<InFlight>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        match self.send(in_flight, config, out) {
            Ok(()) => Outcome::Nothing,
            Err(error) => Outcome::Failed(error),
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
                self.send_again(in_flight, config, out)
            }
            (Ok(stored), Some(in_flight)) => {
                self.settle(now, stored.as_deref(), in_flight, config, out)
            }
            (Ok(stored), None) => match self.adopt(stored, config, out) {
                Ok(()) => Outcome::Nothing,
                Err(error) => Outcome::Failed(error),
            },
            (Err(error), pending) => {
                self.retry(now, "open", error, Then::Open(pending), config, out)
            }
        }
    }

    /// Takes over what the target holds, and claims the next epoch.
    fn adopt(
        &mut self,
        stored: Option<String>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), SessionError> {
        match &stored {
            None => {
                self.epoch = 1;
                self.generation = 0;
                self.committed = None;
            }
            Some(text) => {
                let found = Checkpoint::parse(text, &config.sink_id)?;
                if let (Some(then), Some(now)) = (found.views.first(), self.identity()) {
                    crate::catalog::check_identity(then, now)?;
                    if then.id != now.id {
                        out.push_back(Command::Tell(Notice::ReplacementApplied {
                            from: then.id.clone(),
                            to: now.id.clone(),
                        }));
                    }
                }
                if found.component != config.component_digest {
                    out.push_back(Command::Tell(Notice::ComponentChanged {
                        from: found.component.clone(),
                        to: config.component_digest.clone(),
                    }));
                }
                self.epoch = found.epoch + 1;
                self.generation = found.generation;
                self.committed = found.frontier;
            }
        }
        self.expected = stored;
        self.claim(config, out)
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
            Err(SinkError::Unknown(failure)) => {
                in_flight.unknown = Some(failure.clone());
                out.push_back(Command::Tell(Notice::Retrying {
                    error: SessionError::SinkUnknown(failure),
                    wait: Duration::ZERO,
                    failures: self.retries.failures(),
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

    /// Decides what a stored text means for the write in flight.
    fn settle(
        &mut self,
        now: Now,
        stored: Option<&str>,
        in_flight: Box<InFlight>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        match self.compare(stored, &in_flight, config) {
            Found::Committed { text } => self.commit(now, text, in_flight, out),
            Found::Expected => {
                let error = match in_flight.unknown.clone() {
                    Some(failure) => SinkError::Unknown(failure),
                    None => SinkError::Retryable(Failure {
                        code: "not-applied".into(),
                        message: "the write did not reach the target".into(),
                        retry_after_ms: None,
                    }),
                };
                self.retry(now, "write", error, Then::Write(in_flight), config, out)
            }
            Found::Earlier { text, frontier } => {
                self.expected = Some(text);
                if frontier == self.committed {
                    return self.send_again(in_flight, config, out);
                }
                self.committed = frontier;
                self.done_segments.extend(in_flight.segments);
                self.state = State::Ready;
                Outcome::Rewound
            }
            // Losing the race for an epoch, to another claim or to a commit of the worker before
            // us, is no failure yet: look again, a little later.
            Found::Stop(
                SessionError::Fenced { found, .. } | SessionError::CheckpointWentBack { found, .. },
            ) if in_flight.is_claim => {
                out.push_back(Command::Tell(Notice::ClaimLost { epoch: found }));
                let jitter = self.entropy.unit();
                match self.retries.next_wait(&config.retry, None, jitter) {
                    Some(wait) => {
                        self.state = State::Waiting {
                            until: now.saturating_add(wait),
                            then: Then::Claim,
                        };
                        Outcome::Nothing
                    }
                    None => Outcome::Failed(SessionError::Fenced {
                        found,
                        epoch: self.epoch,
                    }),
                }
            }
            Found::Stop(error) => Outcome::Failed(error),
        }
    }

    /// Compares whole texts first; only when that fails does the host look inside.
    fn compare(&self, stored: Option<&str>, in_flight: &InFlight, config: &SessionConfig) -> Found {
        if stored == Some(&in_flight.next_text) {
            return Found::Committed {
                text: in_flight.next_text.clone(),
            };
        }
        if stored == self.expected.as_deref() {
            return Found::Expected;
        }
        let Some(text) = stored else {
            return Found::Stop(SessionError::CheckpointLost);
        };
        let found = match Checkpoint::parse(text, &config.sink_id) {
            Ok(found) => found,
            Err(error) => return Found::Stop(error.into()),
        };
        let ours = found.epoch == self.epoch && found.nonce.starts_with(&self.worker);
        if found.epoch < self.epoch {
            Found::Stop(SessionError::CheckpointWentBack {
                found: found.epoch,
                epoch: self.epoch,
            })
        } else if !ours {
            Found::Stop(SessionError::Fenced {
                found: found.epoch,
                epoch: self.epoch,
            })
        } else if found.frontier >= in_flight.next.frontier {
            Found::Committed { text: text.into() }
        } else if found.frontier < self.committed {
            Found::Stop(SessionError::CheckpointWentBack {
                found: found.epoch,
                epoch: self.epoch,
            })
        } else {
            Found::Earlier {
                text: text.into(),
                frontier: found.frontier,
            }
        }
    }

    fn commit(
        &mut self,
        now: Now,
        text: String,
        in_flight: Box<InFlight>,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        self.retries.reset();
        self.expected = Some(text);
        self.last_commit = now;
        self.done_segments.extend(in_flight.segments);
        self.state = State::Ready;
        if in_flight.is_claim {
            out.push_back(Command::Tell(Notice::Claimed {
                epoch: self.epoch,
                frontier: self.committed,
            }));
            return Outcome::Claimed;
        }
        self.committed = Some(in_flight.info.upper);
        out.push_back(Command::Tell(Notice::Committed {
            rows: in_flight.info.rows,
            bytes: in_flight.info.bytes,
            frontier: in_flight.info.upper,
        }));
        Outcome::Committed
    }

    /// Whether everything that can ever come is committed.
    pub(super) fn is_complete(&self) -> bool {
        self.committed == Some(CLOSED)
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
        let error = match error {
            SinkError::Retryable(f) => SessionError::SinkRetryable(f),
            SinkError::Unknown(f) => SessionError::SinkUnknown(f),
            SinkError::Trapped(f) => SessionError::SinkTrapped(f),
            SinkError::Permanent(f) => return Outcome::Failed(SessionError::SinkPermanent(f)),
            SinkError::Limit(f) => return Outcome::Failed(SessionError::SinkLimit(f)),
            SinkError::Conflict(_) => return Outcome::Failed(SessionError::SinkConfused(call)),
        };
        let jitter = self.entropy.unit();
        let Some(wait) = self.retries.next_wait(&config.retry, asked, jitter) else {
            return Outcome::Failed(error);
        };
        out.push_back(Command::Tell(Notice::Retrying {
            error,
            wait,
            failures: self.retries.failures(),
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

impl State {
    fn name(&self) -> &'static str {
        match self {
            Self::Unopened => "the sink is not open",
            Self::Opening(_) => "the sink is opening",
            Self::Ready => "nothing is in flight",
            Self::Writing(_) => "a write is in flight",
            Self::ReadingBack(_) => "the checkpoint is read back",
            Self::Waiting { .. } => "waiting to try again",
            Self::Stopped => "stopped",
        }
    }
}

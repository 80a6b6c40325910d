//! What a text found in the target means for a write in flight.

use std::collections::VecDeque;

use super::{InFlight, Outcome, Purpose, State, Then, Writer};
use crate::batch::{Failure, SinkError};
use crate::checkpoint::{Checkpoint, ViewIdentity};
use crate::planted::{self, Planted};
use crate::session::command::{Command, Notice};
use crate::session::{Now, SessionConfig, SessionError};
use crate::types::Frontier;

/// What is known about a checkpoint found in the target, compared with ours.
#[derive(Debug, PartialEq)]
enum Found {
    /// What we expected: our write was not applied.
    Expected,
    /// Ours, at or past what we wanted.
    Committed {
        /// The stored text.
        text: String,
    },
    /// Ours, from an earlier attempt that landed late.
    Earlier {
        /// The stored text.
        text: String,
        /// Its frontier.
        frontier: Option<Frontier>,
    },
    /// Somebody else's: stop.
    Stop(SessionError),
}

impl Writer {
    /// Decides what a stored text means for the write in flight.
    pub(super) fn settle(
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
                // What was written of a snapshot has this generation, and is not what comes next.
                self.has_raised_generation = false;
                self.done_segments.extend(in_flight.segments);
                self.state = State::Ready;
                Outcome::Rewound {
                    snapshot_of: in_flight.info.snapshot_of,
                }
            }
            // Losing the race for an epoch, to another claim or to a commit of the worker before
            // us, is no failure yet: look again, a little later.
            Found::Stop(
                SessionError::Fenced { found, .. } | SessionError::CheckpointWentBack { found, .. },
            ) if in_flight.purpose == Purpose::Claim => {
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
        let ours = found.epoch == self.epoch
            && (found.nonce.starts_with(&self.worker) || planted::is(Planted::EpochOfAnother));
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

    pub(super) fn commit(
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
        match in_flight.purpose {
            Purpose::Claim => {
                // A snapshot that a former worker announced was not committed.
                self.has_raised_generation = false;
                out.push_back(Command::Tell(Notice::Claimed {
                    epoch: self.epoch,
                    frontier: self.committed,
                }));
            }
            Purpose::Generation => self.has_raised_generation = true,
            Purpose::Batch | Purpose::Skip => {
                let info = in_flight.info;
                self.committed = Some(info.upper);
                self.has_committed = true;
                if !info.snapshot_of.is_empty() {
                    self.has_raised_generation = false;
                    self.replaced(&info.snapshot_of, &in_flight.next.views);
                }
                out.push_back(Command::Tell(Notice::Committed {
                    rows: info.rows,
                    bytes: info.bytes,
                    frontier: info.upper,
                }));
            }
        }
        Outcome::Nothing
    }

    /// The contents of these views are now of the objects that were `written` with them. By then
    /// the names may already stand for others.
    fn replaced(&mut self, views: &[u32], written: &[ViewIdentity]) {
        for view in views {
            let index = *view as usize;
            match (written.get(index), self.identities.get(index)) {
                (Some(written), Some(now)) if written != now => {
                    self.former.insert(*view, written.clone());
                }
                _ => drop(self.former.remove(view)),
            }
        }
    }
}

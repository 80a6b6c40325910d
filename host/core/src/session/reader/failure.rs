//! What an error of the source means for the reading: again, or the end.

use std::collections::VecDeque;

use super::{Outcome, Phase, Reader};
use crate::classify::{self, ErrorClass, classify};
use crate::session::command::{Command, Notice};
use crate::session::member::Trouble;
use crate::session::{Now, OnHistoryLoss, SessionConfig, SessionError};

impl Reader {
    pub(super) fn failed(
        &mut self,
        now: Now,
        view: usize,
        trouble: Trouble,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        let (phase, error) = match trouble {
            Trouble::Server(phase, error) => (phase, error),
            Trouble::Final(error) => return Outcome::Failed(error),
        };
        let class = classify(phase, error.code.as_deref(), &error.message);
        let again = match class {
            ErrorClass::HistoryLost if self.looked_up_again => self.history_lost(view, config, out),
            class => self.may_pass(class, phase),
        };
        let failure = match class {
            ErrorClass::Transient if !self.was_connected => SessionError::Unreachable(error),
            class => SessionError::Server { class, error },
        };
        self.again(now, again, failure, config, out)
    }

    /// Whether a failure may be gone when all is done again from the start.
    fn may_pass(&mut self, class: ErrorClass, phase: classify::Phase) -> bool {
        match class {
            // Before the first connection a supervisor restarts us better than we could wait.
            ErrorClass::Transient => self.was_connected,
            ErrorClass::FellBehind => true,
            ErrorClass::CredentialsExpired => {
                !std::mem::replace(&mut self.renewed_credentials, true)
            }
            // The look-up may know better what is the matter: an index that was made since, an
            // object that is gone or is another one.
            ErrorClass::HistoryLost => !std::mem::replace(&mut self.looked_up_again, true),
            ErrorClass::ObjectDropped => !std::mem::replace(&mut self.looked_up_again, true),
            ErrorClass::Fatal if phase == classify::Phase::Declare => {
                !std::mem::replace(&mut self.looked_up_again, true)
            }
            _ => false,
        }
    }

    /// Whether the policy has an answer.
    fn history_lost(
        &mut self,
        view: usize,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> bool {
        // Without a commit there is no history to lose, and nothing to skip.
        if config.on_history_loss == OnHistoryLoss::Stall || self.lower.is_none() {
            return false;
        }
        match config.on_history_loss {
            OnHistoryLoss::SkipToNow => self.skipping.insert(view),
            _ => self.expired.insert(view),
        };
        let object = self.members[view].object().map(|object| object.name());
        out.push_back(Command::Tell(Notice::HistoryLost {
            object: object.unwrap_or_default(),
            policy: config.on_history_loss,
        }));
        true
    }

    /// The connection beside the views failed.
    pub(super) fn side_failed(
        &mut self,
        now: Now,
        trouble: Trouble,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        let is_needless = self.side.only_looks() || !matches!(self.phase, Phase::Holding(_));
        match trouble {
            // How far the history reaches is worth knowing, and no more; and what has begun to
            // read holds its own history.
            Trouble::Server(_, error) if is_needless => {
                self.side.disconnect(out);
                out.push_back(Command::Tell(Notice::MarginUnknown { error }));
                Outcome::Nothing
            }
            Trouble::Final(_) if is_needless => {
                self.side.disconnect(out);
                Outcome::Nothing
            }
            Trouble::Final(error) => Outcome::Failed(error),
            Trouble::Server(phase, error) => {
                let class = classify(phase, error.code.as_deref(), &error.message);
                let again = self.may_pass(class, phase);
                self.again(
                    now,
                    again,
                    SessionError::Server { class, error },
                    config,
                    out,
                )
            }
        }
    }

    /// Starts over after a wait, if that may help and the budget allows; else that was it.
    pub(super) fn again(
        &mut self,
        now: Now,
        again: bool,
        failure: SessionError,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        self.disconnect(out);
        let jitter = self.entropy.unit();
        let wait = again
            .then(|| self.retries.next_wait(&config.retry, None, jitter))
            .flatten();
        let Some(wait) = wait else {
            self.phase = Phase::Stopped;
            return Outcome::Failed(failure);
        };
        out.push_back(Command::Tell(Notice::Retrying {
            error: failure,
            wait,
            failures: self.retries.failures(),
            is_first: false,
        }));
        self.phase = Phase::Waiting {
            until: now.saturating_add(wait),
        };
        Outcome::Nothing
    }
}

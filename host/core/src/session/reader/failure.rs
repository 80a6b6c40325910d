//! What an error of the source means for the reading: again, or the end.

use std::collections::VecDeque;

use super::{Outcome, Reader, State};
use crate::catalog::CatalogError;
use crate::classify::{ErrorClass, Phase, classify};
use crate::server_error::ServerError;
use crate::session::command::{Command, Notice};
use crate::session::{Now, SessionConfig, SessionError};

impl Reader {
    pub(super) fn failed(
        &mut self,
        now: Now,
        phase: Phase,
        error: ServerError,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        let class = classify(phase, error.code.as_deref(), &error.message);
        let failure = SessionError::Server { class, error };
        let again = match class {
            // Before the first connection a supervisor restarts us better than we could wait.
            ErrorClass::Transient => self.was_connected,
            ErrorClass::FellBehind => true,
            ErrorClass::CredentialsExpired => {
                !std::mem::replace(&mut self.renewed_credentials, true)
            }
            // The look-up may know better what is the matter: an index that was made since, an
            // object that is gone or is another one.
            ErrorClass::HistoryLost => !std::mem::replace(&mut self.looked_up_again, true),
            ErrorClass::Fatal if phase == Phase::Declare => {
                !std::mem::replace(&mut self.looked_up_again, true)
            }
            _ => false,
        };
        out.push_back(Command::Disconnect);
        let jitter = self.entropy.unit();
        let wait = again
            .then(|| self.retries.next_wait(&config.retry, None, jitter))
            .flatten();
        let Some(wait) = wait else {
            self.state = State::Stopped;
            return Outcome::Failed(failure);
        };
        out.push_back(Command::Tell(Notice::Retrying {
            error: failure,
            wait,
            failures: self.retries.failures(),
        }));
        self.state = State::Waiting {
            until: now.saturating_add(wait),
        };
        Outcome::Nothing
    }

    /// An object that was found once and is not there now was not misspelt.
    pub(super) fn missing(&self, error: CatalogError) -> CatalogError {
        match (error, &self.object) {
            (CatalogError::Unknown(_), Some(object)) => CatalogError::Dropped(object.name()),
            (error, _) => error,
        }
    }

    pub(super) fn unexpected(&self, event: &'static str) -> Outcome {
        Outcome::Failed(SessionError::Unexpected {
            event,
            state: match self.state {
                State::Idle => "not connected",
                State::Connecting => "connecting",
                State::Settings(_) => "setting the session up",
                State::Cluster | State::LookingUp(_) => "looking the object up",
                State::Resolved => "the object is known",
                State::Declaring(_) => "declaring the cursor",
                State::Fetching { .. } => "fetching",
                State::Waiting { .. } => "waiting to reconnect",
                State::Ended => "the stream has ended",
                State::Stopped => "stopped",
            },
        })
    }
}

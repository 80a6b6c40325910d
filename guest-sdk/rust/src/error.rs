//! How a sink fails.

use crate::batch::PullError;

/// Why a call failed, and with that what the host does next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing was committed; the host tries again after a pause.
    #[error("{0}")]
    Retryable(Failure),
    /// Nothing was committed and trying again cannot help: the host stops at once.
    #[error("{0}")]
    Permanent(Failure),
    /// It may or may not have been committed: the host reads the checkpoint back.
    #[error("{0}")]
    Unknown(Failure),
    /// The stored checkpoint is not the expected text. Holds what was found, none when the
    /// target has no checkpoint.
    #[error("the stored checkpoint is not the expected one")]
    Conflict(Option<String>),
}

/// What went wrong. It is shown to an operator: no row values, no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Failure {
    /// Stable and machine-readable, lower-case-with-dashes, for example `rate-limited`.
    pub code: String,
    /// What happened, to what, and what to do next.
    pub message: String,
    /// How long the target asked to be left alone.
    pub retry_after_ms: Option<u32>,
}

impl Failure {
    /// A failure without a wish for a pause.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Failure {
            code: code.into(),
            message: message.into(),
            retry_after_ms: None,
        }
    }

    /// Adds how long the target asked to be left alone, in milliseconds.
    #[must_use]
    pub fn retry_after_ms(mut self, pause: Option<u32>) -> Self {
        self.retry_after_ms = pause;
        self
    }
}

impl Error {
    /// [`Error::Retryable`] from a code and a message.
    pub fn retryable(code: impl Into<String>, message: impl Into<String>) -> Self {
        Error::Retryable(Failure::new(code, message))
    }

    /// [`Error::Permanent`] from a code and a message.
    pub fn permanent(code: impl Into<String>, message: impl Into<String>) -> Self {
        Error::Permanent(Failure::new(code, message))
    }

    /// [`Error::Unknown`] from a code and a message.
    pub fn unknown(code: impl Into<String>, message: impl Into<String>) -> Self {
        Error::Unknown(Failure::new(code, message))
    }
}

impl From<PullError> for Error {
    fn from(error: PullError) -> Self {
        match error {
            PullError::SourceLost(message) => Error::retryable("source-lost", message),
            PullError::Limit(message) => Error::permanent("batch-limit", message),
            PullError::Malformed(message) => Error::permanent("malformed-chunk", message),
        }
    }
}

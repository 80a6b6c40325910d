//! How a sink says that something did not work.

use crate::host::HttpError;
use crate::sink::PullError;

/// What happened, for people and scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Stable and machine-readable: lower case with dashes, at most 64 characters.
    pub code: String,
    /// What happened and what to do, at most 2 KiB. Never row values.
    pub message: String,
    /// How long the target asked to be left alone, in milliseconds.
    pub retry_after_ms: Option<u32>,
}

/// Why a call did not work. Be honest: what the host does next depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Nothing was committed; trying again may help.
    Retryable(Failure),
    /// Nothing was committed; trying again cannot help. The host stops at once.
    Permanent(Failure),
    /// It may or may not have been committed. The host reads the checkpoint back.
    Unknown(Failure),
    /// The stored checkpoint was not the expected text. Carries what was found.
    Conflict(Option<String>),
}

impl Error {
    /// See [`Error::Retryable`].
    pub fn retryable(code: &str, message: impl Into<String>) -> Self {
        Self::Retryable(failure(code, message))
    }

    /// See [`Error::Permanent`].
    pub fn permanent(code: &str, message: impl Into<String>) -> Self {
        Self::Permanent(failure(code, message))
    }

    /// See [`Error::Unknown`].
    pub fn unknown(code: &str, message: impl Into<String>) -> Self {
        Self::Unknown(failure(code, message))
    }

    /// With the wait that the target asked for, in milliseconds.
    #[must_use]
    pub fn after(mut self, retry_after_ms: Option<u32>) -> Self {
        if let Self::Retryable(failure) | Self::Unknown(failure) = &mut self {
            failure.retry_after_ms = retry_after_ms;
        }
        self
    }
}

fn failure(code: &str, message: impl Into<String>) -> Failure {
    Failure {
        code: code.into(),
        message: message.into(),
        retry_after_ms: None,
    }
}

impl From<PullError> for Error {
    fn from(error: PullError) -> Self {
        match error {
            PullError::SourceLost(message) => Self::retryable("source-lost", message),
            PullError::Limit(message) => Self::permanent("host-limit", message),
        }
    }
}

/// Right for a request that may be repeated. For one that must not, look at
/// [`HttpError::MaybeSent`] first and answer [`Error::Unknown`].
impl From<HttpError> for Error {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Denied(message) => Self::permanent("http-denied", message),
            HttpError::NotSent(message) => Self::retryable("http-not-sent", message),
            HttpError::MaybeSent(message) => Self::retryable("http-maybe-sent", message),
            HttpError::Limit(message) => Self::permanent("http-limit", message),
            HttpError::Invalid(message) => Self::permanent("http-invalid", message),
        }
    }
}

//! What an error of the server means: all matching of server text is in this one function.
//!
//! Codes are shared between unrelated conditions, so some classes need the text. Texts differ
//! between versions; where two are known, both are here. Text that matches nothing fails
//! visibly as [`ErrorClass::Fatal`] or [`ErrorClass::StreamPoisoned`], and never loops.
//! Pinned by `conformance/vectors/error_classes.json`.

use serde::{Deserialize, Serialize};

/// What was going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Connecting, settings, catalog look-ups.
    SetUp,
    /// BEGIN and DECLARE: the server only plans here.
    Declare,
    /// A FETCH: here AS OF is checked and the dataflow runs.
    Fetch,
}

/// What is to be done about an error, see the table in the protocol's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorClass {
    /// Reconnect with backoff.
    Transient,
    /// Reconnect once.
    CredentialsExpired,
    /// Somebody cancelled us on purpose.
    Canceled,
    /// We read too slowly: resume from the last commit.
    FellBehind,
    /// A batch over the server's limit: a retry repeats it.
    ResultTooLarge,
    /// The history from which to resume is gone.
    HistoryLost,
    /// The object, or its cluster, was dropped.
    ObjectDropped,
    /// The dataflow computes an error until data or view change.
    StreamPoisoned,
    /// Everything else.
    Fatal,
}

/// Classifies an error: `code` is the SQLSTATE, `None` when the connection itself failed.
pub fn classify(phase: Phase, code: Option<&str>, message: &str) -> ErrorClass {
    use ErrorClass as C;
    let Some(code) = code else {
        return C::Transient;
    };
    let dropped = message.starts_with("subscribe has been terminated because underlying")
        && message.ends_with("was dropped");
    match code {
        "08000" | "08001" | "08003" | "08004" | "08006" | "57P01" | "57P02" | "57P03" | "57P05"
        | "25P03" => C::Transient,
        "28000" if message.contains("expired") => C::CredentialsExpired,
        "57014" => C::Canceled,
        "53200" => C::FellBehind,
        "42704" if phase == Phase::Fetch => C::ObjectDropped,
        "22000"
            if message.starts_with("could not find a valid timestamp for the query")
                || (message.starts_with("Timestamp (")
                    && message.contains("is not valid for all inputs")) =>
        {
            C::HistoryLost
        }
        "XX000" if dropped => C::ObjectDropped,
        "XX000" if message.starts_with("SUBSCRIBE fell behind") => C::FellBehind,
        // "result exceeds max size of 1.0 MiB", later "total result exceeds max size of ...".
        "XX000" if message.contains("result exceeds max size") => C::ResultTooLarge,
        "XX000" if phase == Phase::Fetch => C::StreamPoisoned,
        _ => C::Fatal,
    }
}

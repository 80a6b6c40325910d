//! What a server, or the connection to it, reported: raw, not yet classified.

/// Where an error came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server sent an ErrorResponse.
    Server,
    /// The connection could not be made, broke, or went silent.
    Connection,
}

/// An error as it was reported. Never contains credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}{}", part("; ", .detail), part("; hint: ", .hint))]
pub struct ServerError {
    /// Where it came from.
    pub kind: ErrorKind,
    /// SQLSTATE; `None` when the connection itself failed.
    pub code: Option<String>,
    /// The primary message.
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
    /// What might help.
    pub hint: Option<String>,
}

fn part(lead: &str, text: &Option<String>) -> String {
    text.as_ref()
        .map_or_else(String::new, |text| format!("{lead}{text}"))
}

//! What can go wrong: for the caller of the library, and on the wire.

/// An error of the simulator's own API (not one that a client is sent).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The listening socket could not be opened or asked for its address.
    #[error("cannot listen on {address}: {source}; choose another address or port 0")]
    Listen {
        /// The address as given.
        address: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The certificate or key given for TLS cannot be used.
    #[error("the TLS certificate or key cannot be used: {0}; give one PEM chain and one PEM key")]
    Tls(String),
    /// No object of this name.
    #[error("there is no object {0:?}; create it first, names are [database.][schema.]name")]
    UnknownObject(String),
    /// An object of this name exists.
    #[error("an object {0:?} exists already; drop it first or use another name")]
    Exists(String),
    /// A type name that the simulator does not know.
    #[error(
        "unknown type {0:?}; use a name as in CREATE TABLE, or give the OID with Column::exact"
    )]
    UnknownType(String),
    /// A change whose row has the wrong number of values.
    #[error("a row for {object:?} must have {expected} values, this one has {got}")]
    Width {
        /// The object.
        object: String,
        /// Number of columns of the object.
        expected: usize,
        /// Number of values given.
        got: usize,
    },
    /// Changes can only be applied to tables and materialized views made by hand.
    #[error("{0:?} cannot be changed: it follows a recording, a generator, or is constant")]
    NotWritable(String),
    /// A recorded stream that cannot be read.
    #[error("cannot replay {file}: {reason}")]
    Recording {
        /// The file.
        file: String,
        /// What is wrong, with the line where known.
        reason: String,
    },
}

/// An error as the client sees it.
#[derive(Debug, Clone)]
pub(crate) struct SqlError {
    pub(crate) severity: &'static str,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    /// Where in the statement, in characters from 1.
    pub(crate) position: Option<usize>,
}

impl SqlError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "ERROR",
            code,
            message: message.into(),
            detail: None,
            position: None,
        }
    }

    pub(crate) fn fatal(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "FATAL",
            ..Self::new(code, message)
        }
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new("42601", message)
    }

    pub(crate) fn unsupported(what: impl std::fmt::Display) -> Self {
        Self::new("0A000", format!("the simulator does not support {what}"))
    }

    pub(crate) fn unknown_item(name: &str) -> Self {
        Self::new("XX000", format!("unknown catalog item '{name}'"))
    }
}

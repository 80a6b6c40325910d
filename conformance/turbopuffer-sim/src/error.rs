//! An answer that refuses a request: HTTP status and text.
//!
//! Texts name attributes, limits and types, never values of documents.

use std::fmt;

/// A refused request. Serialized as `{"status":"error","error":"<text>"}`.
#[derive(Debug, thiserror::Error)]
#[error("{status}: {text}")]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) text: String,
}

pub(crate) type Result<T> = std::result::Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(status: u16, text: impl fmt::Display) -> Self {
        Self {
            status,
            text: text.to_string(),
        }
    }

    /// 400: the request is well formed and not acceptable.
    pub(crate) fn bad(text: impl fmt::Display) -> Self {
        Self::new(400, text)
    }

    /// 422: the JSON has the wrong shape.
    pub(crate) fn shape(text: impl fmt::Display) -> Self {
        Self::new(422, text)
    }

    /// 400: the real service can do it, this emulator does not.
    pub(crate) fn unsupported(what: impl fmt::Display) -> Self {
        Self::bad(format_args!("{what} is not supported by this emulator"))
    }

    pub(crate) fn missing_namespace(name: &str) -> Self {
        Self::new(404, format_args!("namespace '{name}' was not found"))
    }
}

/// Broken JSON is 400, JSON of the wrong shape is 422.
impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        Self::new(if error.is_data() { 422 } else { 400 }, error)
    }
}

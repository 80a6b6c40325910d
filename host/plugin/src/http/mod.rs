//! Outgoing HTTP, limited to what the operator granted.
//!
//! ```text
//!   Request ──> client: policy, headers, secrets ──> address: resolve, check ──> dial what was checked
//!   Response <── size limit, secrets taken out again <─────────────────────────────┘
//! ```
//!
//! No redirects are followed, and no proxy of the environment is used. Nothing in here knows
//! wasmtime: any other way for a guest to the network has to go through the same client.

mod address;
mod client;
mod policy;
mod secrets;
#[cfg(test)]
mod tests;

pub use client::{Exchange, HttpClient, HttpOptions, HttpSetupError};
pub use policy::{HttpPolicy, PolicyError};
pub use secrets::Secret;

/// A request as the guest makes it. May hold rows, so it has no `Debug`.
pub struct Request {
    /// The method, in capitals.
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// Names and values; values may hold `{{secret:NAME}}`.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Time allowed, in milliseconds, if less than the host allows.
    pub timeout_ms: Option<u32>,
}

/// The answer to a request.
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpError {
    /// Not granted. The text names the line to add.
    Denied(String),
    /// Certainly not processed by the server.
    NotSent(String),
    /// May have been processed.
    MaybeSent(String),
    /// A limit of the host. The text names the setting.
    Limit(String),
    /// Not a request that can be sent.
    Invalid(String),
}

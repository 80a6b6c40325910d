//! Outgoing HTTP, limited to what the operator granted.

/// A request as the guest makes it.
pub struct Request {
    /// The method.
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Time allowed, in milliseconds.
    pub timeout_ms: Option<u32>,
}

/// The answer to a request.
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpError {
    /// Not granted.
    Denied(String),
    /// Certainly not processed by the server.
    NotSent(String),
    /// May have been processed.
    MaybeSent(String),
    /// A limit of the host.
    Limit(String),
    /// Not a request.
    Invalid(String),
}

/// A request under way.
pub struct Exchange;

impl Exchange {
    /// Waits for the answer.
    pub async fn wait(self) -> Result<Response, HttpError> {
        Err(HttpError::Denied("nothing is granted".to_owned()))
    }
}

/// Sends what is granted.
#[derive(Clone)]
pub struct HttpClient;

impl HttpClient {
    /// A client that is granted nothing.
    pub fn deny_all() -> Self {
        Self
    }

    /// Starts a request.
    pub fn start(&self, _request: Request) -> Result<Exchange, HttpError> {
        Err(HttpError::Denied("nothing is granted".to_owned()))
    }
}

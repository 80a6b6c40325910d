//! Outgoing HTTP, limited to what the operator allowed.

/// A request. A header may contain `{{secret:NAME}}`; the host puts the value in on
/// the way out.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST`, ...
    pub method: String,
    /// Absolute, `http` or `https`.
    pub url: String,
    /// Names and values, in order.
    pub headers: Vec<(String, String)>,
    /// May be empty.
    pub body: Vec<u8>,
    /// From start to the last byte of the answer; none takes the host's default.
    pub timeout_ms: Option<u32>,
}

/// An answer, whatever its status.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status code.
    pub status: u16,
    /// Names and values, in order.
    pub headers: Vec<(String, String)>,
    /// May be empty.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of that name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        self.headers
            .iter()
            .find(found)
            .map(|(_, value)| value.as_str())
    }

    /// The pause the server asked for, in milliseconds: `retry-after-ms`, or `retry-after` in
    /// whole seconds. A date in `retry-after` is not understood and gives none.
    pub fn retry_after_ms(&self) -> Option<u32> {
        let number = |name| self.header(name)?.trim().parse::<u32>().ok();
        number("retry-after-ms").or_else(|| number("retry-after")?.checked_mul(1000))
    }
}

// Bodies hold rows and headers may hold what a server considers secret.
impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {} ({} bytes)",
            self.method,
            self.url,
            self.body.len()
        )
    }
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {} ({} bytes)", self.status, self.body.len())
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// Not granted. The text names the line to add to the configuration.
    #[error("{0}")]
    Denied(String),
    /// Certainly not processed by the server.
    #[error("{0}")]
    NotSent(String),
    /// May have been processed: timeout or reset after sending began.
    #[error("{0}")]
    MaybeSent(String),
    /// A size or rate limit of the host.
    #[error("{0}")]
    Limit(String),
    /// Not a valid request.
    #[error("{0}")]
    Invalid(String),
}

/// A request in flight. Dropping it abandons it; the server may still process it.
pub trait Exchange {
    /// Waits for the answer.
    fn wait(self) -> Result<Response, HttpError>;
}

/// The capability to send HTTP requests.
pub trait Http {
    /// A request in flight.
    type Exchange: Exchange;

    /// Starts a request; several may be in flight.
    fn start(&self, request: Request) -> Result<Self::Exchange, HttpError>;

    /// Sends a request and waits for its answer.
    fn send(&self, request: Request) -> Result<Response, HttpError> {
        self.start(request)?.wait()
    }
}

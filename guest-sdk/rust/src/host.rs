//! What a sink can reach: capabilities, each a trait, so that a sink runs natively too.

/// An HTTP request. A header may contain `{{secret:NAME}}`; the host puts the value in on the
/// way out, for the hosts that the secret is granted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST`, ...
    pub method: String,
    /// Absolute; must be granted.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body, possibly empty.
    pub body: Vec<u8>,
    /// In milliseconds; the host has its own limit too.
    pub timeout_ms: Option<u32>,
}

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of this name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// What `Retry-After` asks for in seconds, as milliseconds.
    pub fn retry_after_ms(&self) -> Option<u32> {
        let seconds: f64 = self.header("retry-after")?.trim().parse().ok()?;
        (0.0..1e6).contains(&seconds).then_some((seconds * 1000.0) as u32)
    }
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpError {
    /// Not granted. The text names the line to add to the configuration.
    Denied(String),
    /// Certainly not processed by the server.
    NotSent(String),
    /// May have been processed.
    MaybeSent(String),
    /// A size or rate limit of the host.
    Limit(String),
    /// Not a request that can be sent.
    Invalid(String),
}

/// Outgoing HTTP, limited to what the operator allowed.
pub trait Http {
    /// A request on its way.
    type Exchange;

    /// Sends a request without waiting; several may be on their way.
    ///
    /// # Errors
    /// When it is refused before anything was sent.
    fn start(&self, request: Request) -> Result<Self::Exchange, HttpError>;

    /// Waits for the response.
    ///
    /// # Errors
    /// When there is none.
    fn wait(&self, exchange: Self::Exchange) -> Result<Response, HttpError>;

    /// Sends a request and waits.
    ///
    /// # Errors
    /// When there is no response.
    fn send(&self, request: Request) -> Result<Response, HttpError> {
        self.start(request).and_then(|exchange| self.wait(exchange))
    }
}

/// Time.
pub trait Clock {
    /// Wall clock, in milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
}

/// How important a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For the author of the sink.
    Debug,
    /// Worth knowing.
    Info,
    /// Something is odd.
    Warn,
    /// Something does not work.
    Error,
}

/// Log lines, which the host limits. Never log row values.
pub trait Log {
    /// Emits one line.
    fn log(&self, level: Level, message: &str);
}

/// Randomness.
pub trait Random {
    /// Random bytes.
    fn bytes(&self, len: u32) -> Vec<u8>;
}

/// Stands for the host's capabilities, which exist only inside a component: natively, a sink is
/// used with an implementation of its own.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

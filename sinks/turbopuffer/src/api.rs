//! Requests to turbopuffer, and what their answers mean for a sink.

use mz_sink_guest::{Error, Http, HttpError, Request, Response};
use serde_json::Value;

/// How much of the server's own text goes into a message, in characters.
const MAX_QUOTE: usize = 300;

/// The service, as one deployment sees it.
#[derive(Debug)]
pub struct Api<H> {
    /// Capabilities.
    pub host: H,
    base_url: String,
    authorization: String,
}

impl<H: Http> Api<H> {
    /// Talks to the service at `base_url`; the host puts the key in on the way out.
    pub fn new(host: H, base_url: String, api_key_secret: &str) -> Self {
        Self {
            host,
            base_url,
            authorization: format!("Bearer {{{{secret:{api_key_secret}}}}}"),
        }
    }

    fn post(&self, namespace: &str, suffix: &str, body: Vec<u8>) -> Request {
        Request {
            method: "POST".into(),
            url: format!("{}/v2/namespaces/{namespace}{suffix}", self.base_url),
            headers: vec![
                ("authorization".into(), self.authorization.clone()),
                ("content-type".into(), "application/json".into()),
            ],
            body,
            timeout_ms: None,
        }
    }

    /// Starts a write without waiting for it.
    ///
    /// # Errors
    /// When it may not be sent.
    pub fn start_write(&self, namespace: &str, body: Vec<u8>) -> Result<H::Exchange, Error> {
        Ok(self.host.start(self.post(namespace, "", body))?)
    }

    /// Waits for a write that may be repeated: whatever is not known to have failed for good
    /// may be tried again.
    ///
    /// # Errors
    /// When it was not applied, or may not have been.
    pub fn finish_write(&self, exchange: H::Exchange) -> Result<Value, Error> {
        let response = self.host.wait(exchange)?;
        answer(&response, Error::retryable)
    }

    /// A write that may be repeated.
    ///
    /// # Errors
    /// As [`Self::finish_write`].
    pub fn write(&self, namespace: &str, body: &Value) -> Result<Value, Error> {
        let exchange = self.start_write(namespace, body.to_string().into_bytes())?;
        self.finish_write(exchange)
    }

    /// A write on which a commit hangs: when its outcome is not known, that is what it says.
    ///
    /// # Errors
    /// [`Error::Unknown`] when it may have been applied; others when it was not.
    pub fn commit(&self, namespace: &str, body: &Value) -> Result<Value, Error> {
        let request = self.post(namespace, "", body.to_string().into_bytes());
        match self.host.send(request) {
            Ok(response) => answer(&response, Error::unknown),
            // A response over the host's limit was still a response to something applied.
            Err(HttpError::MaybeSent(m) | HttpError::Limit(m)) => {
                Err(Error::unknown("http-maybe-sent", m))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A query; `None` when the namespace does not exist.
    ///
    /// # Errors
    /// When there is no usable answer.
    pub fn query(&self, namespace: &str, body: &Value) -> Result<Option<Value>, Error> {
        let request = self.post(namespace, "/query", body.to_string().into_bytes());
        let response = self.host.send(request)?;
        if response.status == 404 && says_error(&response) {
            return Ok(None);
        }
        answer(&response, Error::retryable).map(Some)
    }
}

/// Whether an error answer comes from the service and not from something in between.
fn says_error(response: &Response) -> bool {
    serde_json::from_slice::<Value>(&response.body).is_ok_and(|body| body["error"].is_string())
}

/// The body of a success, or what the failure means. `unsure` makes the error for answers that
/// do not say whether the request was applied.
fn answer(response: &Response, unsure: fn(&str, String) -> Error) -> Result<Value, Error> {
    let status = response.status;
    let body = serde_json::from_slice::<Value>(&response.body).ok();
    let text = body
        .as_ref()
        .and_then(|body| body["error"].as_str())
        .map_or_else(
            || format!("status {status} without an error text"),
            |text| {
                format!(
                    "status {status}: {}",
                    text.chars().take(MAX_QUOTE).collect::<String>()
                )
            },
        );
    match (status, body) {
        (200, Some(body)) if body.is_object() => Ok(body),
        (200..=299, _) => Err(unsure(
            "bad-answer",
            format!("turbopuffer answered with status {status} and something that is not its JSON"),
        )),
        (401 | 403, _) => Err(Error::permanent(
            "turbopuffer-unauthorized",
            format!(
                "turbopuffer refuses the API key ({text}); check the secret that sink.api_key_secret names"
            ),
        )),
        (404, _) => Err(Error::permanent(
            "turbopuffer-namespace-missing",
            format!(
                "turbopuffer does not know the namespace ({text}); somebody deleted it, or \
                 sink.base_url points elsewhere"
            ),
        )),
        (429, _) => Err(Error::retryable(
            "turbopuffer-busy",
            format!("turbopuffer asks for patience ({text})"),
        )
        .after(response.retry_after_ms())),
        (408 | 409 | 500.., _) => Err(unsure(
            "turbopuffer-unavailable",
            format!("turbopuffer has a problem ({text})"),
        )
        .after(response.retry_after_ms())),
        _ => Err(Error::permanent(
            "turbopuffer-refused",
            format!("turbopuffer refuses the request ({text})"),
        )),
    }
}

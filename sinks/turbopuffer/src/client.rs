//! Requests to turbopuffer, and what their answers mean. The one place where a status or an
//! answer's text is looked at.

use mz_sink_guest::{Error, Exchange, Failure, Http, HttpError, Request, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::config::Config;
use crate::schema::Table;

/// Most characters of the server's own text in a message.
const MAX_SERVER_TEXT: usize = 300;

/// Namespaces in a page of a listing: the most that turbopuffer gives.
const PAGE: usize = 1000;

/// Why a request did not succeed. What follows from it depends on what was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Certainly not processed; another try may succeed.
    NotProcessed(Failure),
    /// May have been processed.
    MaybeProcessed(Failure),
    /// Refused; another try is refused as well.
    Refused(Failure),
    /// Refused because of what was asked: it may not fit what the namespace holds, such as
    /// another type for an attribute.
    BadRequest(Failure),
    /// turbopuffer says that the namespace does not exist.
    NoNamespace(Failure),
}

impl Trouble {
    /// For requests that may be sent again without harm, and to a namespace that must be there.
    pub(crate) fn of_idempotent(self) -> Error {
        match self {
            Trouble::NotProcessed(failure) | Trouble::MaybeProcessed(failure) => {
                Error::Retryable(failure)
            }
            Trouble::Refused(failure)
            | Trouble::BadRequest(failure)
            | Trouble::NoNamespace(failure) => Error::Permanent(failure),
        }
    }
}

/// The answer to a write, as far as it matters here.
#[derive(Debug, Deserialize)]
pub(crate) struct Written {
    status: String,
    rows_upserted: Option<u64>,
    rows_patched: Option<u64>,
    rows_deleted: Option<u64>,
    rows_remaining: Option<bool>,
    #[serde(default)]
    patched_ids: Vec<Value>,
}

impl Written {
    /// Rows that an upsert wrote; conditions may have skipped others.
    pub(crate) fn rows_upserted(&self) -> u64 {
        self.rows_upserted.unwrap_or(0)
    }

    /// Rows that a patch changed.
    pub(crate) fn rows_patched(&self) -> u64 {
        self.rows_patched.unwrap_or(0)
    }

    /// The ids of the rows that a patch changed, if they were asked for.
    pub(crate) fn patched_ids(&self) -> &[Value] {
        &self.patched_ids
    }

    /// Rows that a filter deleted.
    pub(crate) fn rows_deleted(&self) -> u64 {
        self.rows_deleted.unwrap_or(0)
    }

    /// Whether a filter may have matched more rows than one request touches.
    pub(crate) fn rows_remaining(&self) -> bool {
        self.rows_remaining.unwrap_or(false)
    }
}

/// Sends requests with the key's placeholder; the host puts the key in.
pub(crate) struct Client<H> {
    host: H,
    base_url: String,
    authorization: String,
    pub(crate) timeout_ms: u32,
}

/// A write in flight.
pub(crate) struct Writing<E> {
    exchange: E,
    namespace: String,
    quotable: Quotable,
}

/// Whether the server's own words may be told. It may quote what it refuses, and row values must
/// not get into messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotable {
    Yes,
    HoldsRows,
}

impl<H: Http> Client<H> {
    pub(crate) fn new(host: H, config: &Config) -> Result<Self, Error> {
        Ok(Client {
            host,
            base_url: config.base_url()?,
            authorization: format!("Bearer {{{{secret:{}}}}}", config.api_key_secret),
            timeout_ms: config.timeout_ms,
        })
    }

    pub(crate) fn host(&self) -> &H {
        &self.host
    }

    /// Starts a write of rows to a namespace.
    pub(crate) fn start_write_of_rows(
        &self,
        namespace: &str,
        body: Vec<u8>,
    ) -> Result<Writing<H::Exchange>, Trouble> {
        self.start_write(namespace, body, Quotable::HoldsRows)
    }

    fn start_write(
        &self,
        namespace: &str,
        body: Vec<u8>,
        quotable: Quotable,
    ) -> Result<Writing<H::Exchange>, Trouble> {
        let request = self.post(&format!("/v2/namespaces/{namespace}"), body);
        match self.host.start(request) {
            Ok(exchange) => Ok(Writing {
                exchange,
                namespace: namespace.to_owned(),
                quotable,
            }),
            Err(error) => Err(unanswered(namespace, error)),
        }
    }

    /// Writes something other than rows and waits for the answer.
    pub(crate) fn write(&self, namespace: &str, body: Vec<u8>) -> Result<Written, Trouble> {
        self.start_write(namespace, body, Quotable::Yes)?.wait()
    }

    /// Declares a schema and waits for the answer. Without `create`, the namespace must be there.
    pub(crate) fn declare(
        &self,
        namespace: &str,
        create: bool,
        table: &Table,
    ) -> Result<Written, Trouble> {
        let mut body = format!(r#"{{"create_namespace":{create},"#).into_bytes();
        table.push_schema(&mut body);
        body.push(b'}');
        self.write(namespace, body)
    }

    /// Asks a namespace.
    pub(crate) fn query<T: DeserializeOwned>(
        &self,
        namespace: &str,
        body: Vec<u8>,
    ) -> Result<T, Trouble> {
        let request = self.post(&format!("/v2/namespaces/{namespace}/query"), body);
        let response = self.host.start(request).and_then(Exchange::wait);
        answered(namespace, response, Quotable::Yes)
    }

    /// Whether a namespace is there.
    pub(crate) fn exists(&self, namespace: &str) -> Result<bool, Trouble> {
        let body = br#"{"rank_by":["id","asc"],"limit":1,"consistency":{"level":"strong"}}"#;
        match self.query::<IgnoredAny>(namespace, body.to_vec()) {
            Ok(_) => Ok(true),
            Err(Trouble::NoNamespace(_)) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    /// Deletes a namespace. False when there is none.
    pub(crate) fn delete(&self, namespace: &str) -> Result<bool, Trouble> {
        let request = Request {
            method: "DELETE".into(),
            ..self.post(&format!("/v2/namespaces/{namespace}"), Vec::new())
        };
        let response = self.host.start(request).and_then(Exchange::wait);
        match answered::<IgnoredAny>(namespace, response, Quotable::Yes) {
            Ok(_) => Ok(true),
            Err(Trouble::NoNamespace(_)) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    /// A page of the namespaces whose names begin with `prefix`, and where the next one begins.
    pub(crate) fn list(
        &self,
        prefix: &str,
        cursor: Option<&str>,
    ) -> Result<(Vec<String>, Option<String>), Trouble> {
        let mut path = format!("/v1/namespaces?prefix={prefix}&page_size={PAGE}");
        if let Some(cursor) = cursor {
            path.push_str("&cursor=");
            path.extend(utf8_percent_encode(cursor, NON_ALPHANUMERIC));
        }
        let request = Request {
            method: "GET".into(),
            ..self.post(&path, Vec::new())
        };
        let response = self.host.start(request).and_then(Exchange::wait);
        let listing: Listing = answered(prefix, response, Quotable::Yes)?;
        let names = listing.namespaces.into_iter().map(|n| n.id).collect();
        Ok((names, listing.next_cursor))
    }

    fn post(&self, path: &str, body: Vec<u8>) -> Request {
        Request {
            method: "POST".into(),
            url: format!("{}{path}", self.base_url),
            headers: vec![
                ("authorization".into(), self.authorization.clone()),
                ("content-type".into(), "application/json".into()),
            ],
            body,
            timeout_ms: Some(self.timeout_ms),
        }
    }
}

impl<E: Exchange> Writing<E> {
    /// Waits for the answer.
    pub(crate) fn wait(self) -> Result<Written, Trouble> {
        let written: Written = answered(&self.namespace, self.exchange.wait(), self.quotable)?;
        if written.status == "OK" {
            Ok(written)
        } else {
            Err(Trouble::MaybeProcessed(Failure::new(
                "unexpected-answer",
                format!(
                    "turbopuffer answered a write to `{}` with a status other than OK",
                    self.namespace
                ),
            )))
        }
    }
}

fn unanswered(namespace: &str, error: HttpError) -> Trouble {
    let failure = |code, why: &str, text: &str| {
        Failure::new(
            code,
            format!("request to namespace `{namespace}` {why}: {text}"),
        )
    };
    match &error {
        // The host's text names the line to add to the configuration.
        HttpError::Denied(text) => Trouble::Refused(Failure::new("http-denied", text)),
        HttpError::NotSent(text) => {
            Trouble::NotProcessed(failure("not-sent", "could not be sent", text))
        }
        HttpError::MaybeSent(text) => {
            Trouble::MaybeProcessed(failure("no-answer", "was not answered", text))
        }
        HttpError::Limit(text) => {
            Trouble::NotProcessed(failure("http-limit", "met a limit of the host", text))
        }
        HttpError::Invalid(text) => {
            Trouble::Refused(failure("invalid-request", "is not valid HTTP", text))
        }
    }
}

fn answered<T: DeserializeOwned>(
    namespace: &str,
    response: Result<Response, HttpError>,
    quotable: Quotable,
) -> Result<T, Trouble> {
    let response = response.map_err(|error| unanswered(namespace, error))?;
    if response.status == 200 {
        return serde_json::from_slice(&response.body).map_err(|_| {
            Trouble::MaybeProcessed(Failure::new(
                "unexpected-answer",
                format!(
                    "namespace `{namespace}`: the answer is not what turbopuffer sends. \
                     Check `base_url`"
                ),
            ))
        });
    }
    let refusal: Option<ServerError> = serde_json::from_slice(&response.body).ok();
    let genuine = refusal.is_some();
    let text = match (quotable, refusal) {
        (Quotable::HoldsRows, _) => "its words are left out, since they may hold row values".into(),
        (Quotable::Yes, Some(refusal)) => refusal.error,
        (Quotable::Yes, None) => String::from_utf8_lossy(&response.body).into_owned(),
    };
    let (code, hint) = match response.status {
        401 => ("unauthorized", " Check the secret with the API key."),
        403 => ("forbidden", " The API key may not do this."),
        404 if genuine => ("no-namespace", ""),
        404 => ("not-found", " Check `base_url`."),
        413 => ("request-too-large", " Lower `max_request_bytes`."),
        429 => ("rate-limited", ""),
        300..=399 => (
            "redirected",
            " Redirects are not followed: check `base_url`.",
        ),
        500.. => ("server-error", ""),
        _ => ("refused", ""),
    };
    let failure = Failure::new(
        code,
        format!(
            "turbopuffer answered {} for namespace `{namespace}`: {}{hint}",
            response.status,
            shortened(&text)
        ),
    )
    .retry_after_ms(response.retry_after_ms());
    Err(match response.status {
        400 => Trouble::BadRequest(failure),
        404 if genuine => Trouble::NoNamespace(failure),
        // A conflict with other work in the namespace, and too many requests.
        409 | 425 | 429 => Trouble::NotProcessed(failure),
        // 202: not done yet. 408: gave up waiting. 5xx: no telling.
        200..=299 | 408 | 500.. => Trouble::MaybeProcessed(failure),
        _ => Trouble::Refused(failure),
    })
}

#[derive(Deserialize)]
struct Listing {
    namespaces: Vec<Listed>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
}

#[derive(Deserialize)]
struct ServerError {
    error: String,
}

/// Short, and on one line.
fn shortened(text: &str) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = chars.by_ref().take(MAX_SERVER_TEXT).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

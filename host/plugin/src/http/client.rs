//! Sends what is granted, within limits, and says honestly whether it may have been processed.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, redirect};
use rustls::ClientConfig;
use rustls::crypto::ring;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use url::Url;

use super::address::{CheckedResolver, RefusedAddress};
use super::policy::HttpPolicy;
use super::secrets::{Secret, Secrets};
use super::{HttpError, Request, Response};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Larger response bodies are not searched for secrets that come back, in bytes.
const MAX_MASKED_BODY: usize = 1 << 20;

/// Headers that decide how a message is framed or routed, which is the host's business; so are
/// all that begin with `proxy-`.
const HOST_HEADERS: [&str; 9] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
];

/// How a client is made.
#[derive(Debug)]
pub struct HttpOptions {
    /// Where requests may go.
    pub policy: HttpPolicy,
    /// Secrets, and where they may go.
    pub secrets: Vec<Secret>,
    /// For a whole exchange, at most.
    pub timeout: Duration,
    /// Bytes of a request body, at most.
    pub request_bytes: usize,
    /// Bytes of a response body, at most.
    pub response_bytes: usize,
    /// Exchanges at one time; more wait for their turn.
    pub in_flight: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            policy: HttpPolicy::default(),
            secrets: Vec::new(),
            timeout: Duration::from_secs(60),
            request_bytes: 64 << 20,
            response_bytes: 64 << 20,
            in_flight: 16,
        }
    }
}

/// Why there can be no client at all.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up: {0}")]
pub struct HttpSetupError(String);

/// Sends what is granted. Clones share connections and limits.
#[derive(Clone)]
pub struct HttpClient {
    shared: Arc<Shared>,
}

struct Shared {
    /// `None` when nothing is granted.
    client: Option<reqwest::Client>,
    options: HttpOptions,
    secrets: Secrets,
    slots: Semaphore,
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpClient")
            .field("policy", &self.shared.options.policy)
            .finish_non_exhaustive()
    }
}

/// A request under way. Dropping it gives it up; the server may process it all the same.
pub struct Exchange {
    task: JoinHandle<Result<Response, HttpError>>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Exchange {
    /// Waits for the answer.
    ///
    /// # Errors
    /// See [`HttpError`].
    pub async fn wait(mut self) -> Result<Response, HttpError> {
        let lost = |_| HttpError::MaybeSent("the request was given up".into());
        (&mut self.task).await.map_err(lost)?
    }
}

impl HttpClient {
    /// A client that is granted nothing.
    pub fn deny_all() -> Self {
        Self::with(None, HttpOptions::default())
    }

    /// A client with these grants.
    ///
    /// # Errors
    /// When the system's certificates cannot be used.
    pub fn new(options: HttpOptions) -> Result<Self, HttpSetupError> {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls()?)
            .dns_resolver(CheckedResolver {
                private: options.policy.private().to_vec(),
            })
            .redirect(redirect::Policy::none())
            .no_proxy()
            // Even if another crate switches the features on: sizes count as received.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .build()
            .map_err(|e| HttpSetupError(e.to_string()))?;
        Ok(Self::with(Some(client), options))
    }

    fn with(client: Option<reqwest::Client>, mut options: HttpOptions) -> Self {
        let secrets = Secrets(std::mem::take(&mut options.secrets));
        let slots = Semaphore::new(options.in_flight.clamp(1, Semaphore::MAX_PERMITS));
        Self {
            shared: Arc::new(Shared {
                client,
                options,
                secrets,
                slots,
            }),
        }
    }

    /// Starts a request on the current tokio runtime.
    ///
    /// # Errors
    /// When it is refused before anything is sent.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(&self, request: Request) -> Result<Exchange, HttpError> {
        let shared = self.shared.clone();
        let ready = shared.prepare(request)?;
        Ok(Exchange {
            task: tokio::spawn(async move { shared.exchange(ready).await }),
        })
    }
}

/// Certificates are checked against the system's roots.
fn tls() -> Result<ClientConfig, HttpSetupError> {
    let mut roots = rustls::RootCertStore::empty();
    // A root that cannot be read only makes fewer servers trusted.
    for certificate in rustls_native_certs::load_native_certs().certs {
        let _ = roots.add(certificate);
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| HttpSetupError(e.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// A request with the secrets in it. Has no `Debug` for that reason.
struct Ready {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Vec<u8>,
    timeout: Duration,
}

impl Shared {
    fn prepare(&self, request: Request) -> Result<Ready, HttpError> {
        let invalid = |message: String| HttpError::Invalid(message);
        let method = match request.method.as_str() {
            "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" => {
                Method::from_bytes(request.method.as_bytes())
                    .map_err(|_| invalid("the method is not one".into()))?
            }
            _ => {
                return Err(invalid(
                    "the method must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS".into(),
                ));
            }
        };
        let url =
            Url::parse(&request.url).map_err(|e| invalid(format!("the URL is not one: {e}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid(
                "the URL has a user in it: use a header with a secret".into(),
            ));
        }
        if let Some(denial) = self.options.policy.denial(&url) {
            return Err(HttpError::Denied(denial));
        }
        let limit = self.options.request_bytes;
        if request.body.len() > limit {
            return Err(HttpError::Limit(format!(
                "the request body has more than {limit} bytes; limits.http_request allows no more"
            )));
        }
        Ok(Ready {
            headers: self.headers(&request.headers, &url)?,
            body: request.body,
            timeout: request
                .timeout_ms
                .map_or(self.options.timeout, |ms| Duration::from_millis(ms.into()))
                .min(self.options.timeout),
            method,
            url,
        })
    }

    fn headers(&self, headers: &[(String, String)], url: &Url) -> Result<HeaderMap, HttpError> {
        let mut map = HeaderMap::with_capacity(headers.len());
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| HttpError::Invalid("a header name is not valid".into()))?;
            if HOST_HEADERS.contains(&name.as_str()) || name.as_str().starts_with("proxy-") {
                return Err(HttpError::Invalid(format!(
                    "the header {name} is set by the host"
                )));
            }
            let filled = self
                .secrets
                .fill(value.as_bytes(), url)
                .map_err(HttpError::Denied)?;
            let bytes = filled.as_deref().unwrap_or(value.as_bytes());
            let mut ready = HeaderValue::from_bytes(bytes).map_err(|_| {
                HttpError::Invalid(format!("the value of the header {name} is not valid"))
            })?;
            ready.set_sensitive(filled.is_some());
            map.append(name, ready);
        }
        Ok(map)
    }

    async fn exchange(&self, ready: Ready) -> Result<Response, HttpError> {
        // The semaphore is never closed.
        let _slot = self
            .slots
            .acquire()
            .await
            .map_err(|e| HttpError::NotSent(e.to_string()))?;
        let Some(client) = &self.client else {
            return Err(HttpError::Denied("nothing is granted".into()));
        };
        let timeout = ready.timeout;
        let exchange = async {
            let request = client
                .request(ready.method, ready.url)
                .headers(ready.headers)
                .body(ready.body);
            let response = request.send().await.map_err(|e| self.failure(e))?;
            self.read(response).await
        };
        // Whether it had got beyond connecting is not known here, so it may have been processed.
        tokio::time::timeout(timeout, exchange)
            .await
            .map_err(|_| HttpError::MaybeSent(format!("no answer within {timeout:?}")))?
    }

    async fn read(&self, mut response: reqwest::Response) -> Result<Response, HttpError> {
        let limit = self.options.response_bytes;
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), self.secrets.mask(value))
            })
            .collect();
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|e| self.failure(e))? {
            if body.len() + part.len() > limit {
                return Err(HttpError::Limit(format!(
                    "the response has more than {limit} bytes; limits.http_response allows no more"
                )));
            }
            body.extend_from_slice(&part);
        }
        if body.len() <= MAX_MASKED_BODY {
            body = self.secrets.mask_bytes(body);
        }
        Ok(Response {
            status,
            headers,
            body,
        })
    }

    /// What went wrong, without the URL and without secrets.
    fn failure(&self, error: reqwest::Error) -> HttpError {
        let not_sent = error.is_connect() || error.is_builder();
        let error = error.without_url();
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            if let Some(refused) = inner.downcast_ref::<RefusedAddress>() {
                return HttpError::Denied(refused.to_string());
            }
            text += &format!(": {inner}");
            source = inner.source();
        }
        let text = self.secrets.mask(text);
        if not_sent {
            HttpError::NotSent(text)
        } else {
            HttpError::MaybeSent(text)
        }
    }
}

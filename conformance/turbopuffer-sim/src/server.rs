//! The listening side: connections, bodies, and the life of the server.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::exchange::{Ending, answer};
use crate::fault::{FaultRule, Faults};
use crate::requests::{RequestCount, RequestLog, RequestSummary};
use crate::store::Store;

/// What a server accepts, in bytes and rows. Defaults are the documented limits of the real
/// service; tests make them smaller.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest request body, in bytes after decompression.
    pub request_bytes: usize,
    /// Largest document, in bytes.
    pub document_bytes: usize,
    /// Longest attribute value, in bytes.
    pub attribute_bytes: usize,
    /// Longest value of a filterable attribute, in bytes; for arrays, of one element.
    pub filterable_bytes: usize,
    /// Most rows one `delete_by_filter` may delete.
    pub delete_by_filter_rows: usize,
    /// Most rows one `patch_by_filter` may change.
    pub patch_by_filter_rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: 512 << 20,
            document_bytes: 64 << 20,
            attribute_bytes: 8 << 20,
            filterable_bytes: 4 << 10,
            delete_by_filter_rows: 5_000_000,
            patch_by_filter_rows: 50_000,
        }
    }
}

/// How a server is started.
#[derive(Clone)]
pub struct Options {
    /// Where to listen. By default a free port of 127.0.0.1.
    pub address: SocketAddr,
    /// When set, every API request must carry it as a bearer token, else it gets 401. The
    /// control endpoints under `/_sim` are always open.
    pub api_key: Option<String>,
    /// See [`Limits`].
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            api_key: None,
            limits: Limits::default(),
        }
    }
}

/// Everything that requests share.
pub(crate) struct Shared {
    pub(crate) api_key: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) store: Store,
    faults: Mutex<Faults>,
    requests: Mutex<RequestLog>,
}

impl Shared {
    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn requests(&self) -> MutexGuard<'_, RequestLog> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running emulator. Dropping it stops it too, without waiting.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Starts listening, on the current tokio runtime.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            api_key: options.api_key,
            limits: options.limits,
            store: Store::default(),
            faults: Mutex::default(),
            requests: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// The base URL for clients, such as `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds fault rules after those that are there.
    pub fn add_faults(&self, rules: impl IntoIterator<Item = FaultRule>) {
        self.shared.faults().add(rules);
    }

    /// Removes all fault rules. Faults that are under way continue.
    pub fn clear_faults(&self) {
        self.shared.faults().clear();
    }

    /// The last 1,000 requests that ended, oldest first.
    pub fn requests(&self) -> Vec<RequestSummary> {
        self.shared.requests().last()
    }

    /// All requests that ended, counted by route and status.
    pub fn request_counts(&self) -> Vec<RequestCount> {
        self.shared.requests().counts()
    }

    /// Stops listening and closes every connection, also those with a request under way.
    pub async fn shutdown(mut self) {
        self.accepting.abort();
        // The only error is the cancellation that was just asked for.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and ends the connections.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, shared.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// How a request can end a connection instead of answering.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Cut {
    #[error("the connection is closed by a fault")]
    Close,
    #[error("the connection is reset by a fault")]
    Reset,
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let service = service_fn(move |request: Request<Incoming>| {
        let shared = shared.clone();
        Box::pin(async move {
            match answer(&shared, request).await {
                Ending::Answer(response) => Ok(response),
                Ending::Cut(cut) => Err(cut),
            }
        })
    });
    let mut connection = http1::Builder::new()
        .max_buf_size(1 << 20)
        .serve_connection(TokioIo::new(stream), service);
    let result: Result<(), hyper::Error> =
        poll_fn(|context| connection.poll_without_shutdown(context)).await;
    let stream = connection.into_parts().io.into_inner();
    if let Err(error) = result {
        let cut = std::error::Error::source(&error).and_then(|e| e.downcast_ref::<Cut>());
        if matches!(cut, Some(Cut::Reset))
            && let Err(error) = stream.set_zero_linger()
        {
            tracing::debug!(%error, "cannot reset a connection");
        }
        tracing::debug!(%error, "connection ended");
    }
}

/// An answer with a body that is complete.
pub(crate) type Answer = Response<Full<Bytes>>;

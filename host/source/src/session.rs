//! One connection to Materialize.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use mz_sink_core::catalog::Table;
use mz_sink_core::server_error::ServerError;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, SimpleQueryMessage, SimpleQueryStream};

use crate::block::RowBlock;
use crate::error;
use crate::options::ConnectOptions;

/// A statement other than a FETCH must be answered within this. A cluster without replicas never
/// answers.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// How long closing waits for the goodbye to be sent.
const GOODBYE_LIMIT: Duration = Duration::from_millis(250);

/// A connection to Materialize that runs one statement at a time. Dropping it closes the socket.
pub struct Session {
    target: String,
    mz_version: Option<String>,
    client: Client,
    task: ConnectionTask,
    /// Why the connection ended; set before the client can notice that it did.
    lost: Arc<OnceLock<ServerError>>,
    fetch: Option<Fetch>,
}

struct Fetch {
    stream: Pin<Box<SimpleQueryStream>>,
    names: Arc<Vec<String>>,
    /// How it ended, where rows that came before had to be handed out first.
    ended: Option<Result<(), ServerError>>,
}

/// Reads and writes the socket, until it is dropped.
struct ConnectionTask(JoinHandle<()>);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Session {
    /// Connects and authenticates, within the connect timeout (10 s unless the URL has another).
    /// Must be called on a tokio runtime.
    ///
    /// # Errors
    /// What the server reported, or why it could not be reached or trusted.
    pub async fn connect(options: &ConnectOptions) -> Result<Self, ServerError> {
        let target = options.target().to_owned();
        let connecting = options.config().connect(options.tls());
        // The timeout of the library covers the TCP handshake only.
        let limit = options.connect_timeout();
        let (client, mut connection) = tokio::time::timeout(limit, connecting)
            .await
            .map_err(|_| {
                error::connection(format!(
                    "cannot connect to {target}: no answer within {limit:?}; check \
                     materialize.url, the network, and that the server is up"
                ))
            })?
            .map_err(|error| error::connecting(&target, &error))?;
        let mz_version = connection.parameter("mz_version").map(Into::into);
        let lost = Arc::new(OnceLock::new());
        let (why, name) = (lost.clone(), target.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = (&mut connection).await {
                why.get_or_init(|| error::running(&name, &error));
            }
            drop(connection);
        });
        Ok(Self {
            target,
            mz_version,
            client,
            task: ConnectionTask(task),
            lost,
            fetch: None,
        })
    }

    /// The server's version, such as `v26.23.1 (4d0f6b2)`, as it said when the session began;
    /// `None` if it is not Materialize.
    pub fn mz_version(&self) -> Option<&str> {
        self.mz_version.as_deref()
    }

    /// Runs one statement and collects its rows: for small answers.
    ///
    /// # Errors
    /// What the server reported, a lost connection, no answer within 60 s, or a FETCH that is
    /// running: the answer would have to wait for its end.
    pub async fn query(&self, sql: &str) -> Result<Table, ServerError> {
        if self.fetch.is_some() {
            return Err(error::connection("a FETCH is running".into()));
        }
        let messages = tokio::time::timeout(ANSWER_LIMIT, self.client.simple_query(sql))
            .await
            .map_err(|_| {
                error::connection(format!(
                    "{} gave no answer to a statement within {ANSWER_LIMIT:?}; check that the \
                     cluster has replicas and is not overloaded",
                    self.target
                ))
            })?
            .map_err(|error| self.reported(&error))?;
        let mut rows = Vec::new();
        for message in messages {
            if let SimpleQueryMessage::Row(row) = message {
                let values = (0..row.len()).map(|index| Ok(row.try_get(index)?.map(Into::into)));
                let values: Result<Vec<_>, Error> = values.collect();
                rows.push(values.map_err(|error| self.reported(&error))?);
            }
        }
        Ok(Table { rows })
    }

    /// Starts a FETCH, one statement, whose rows come from [`Self::next_block`]. One that is
    /// running is given up: its remaining rows are read and dropped before this one starts.
    ///
    /// # Errors
    /// A lost connection. What the server says comes from `next_block`.
    pub async fn fetch(&mut self, sql: &str) -> Result<(), ServerError> {
        self.fetch = None;
        let stream = self.client.simple_query_raw(sql).await;
        let stream = stream.map_err(|error| self.reported(&error))?;
        self.fetch = Some(Fetch {
            stream: Box::pin(stream),
            names: Arc::default(),
            ended: None,
        });
        Ok(())
    }

    /// Waits for rows of the running FETCH and puts those that are there into `block`, up to
    /// about 256 KiB or 4096 rows, replacing what it held. `true` if the FETCH is complete; the
    /// block may hold its last rows. Rows that came before an error are handed out before it.
    ///
    /// Cancel-safe: no row is taken from the connection before the wait is over.
    ///
    /// # Errors
    /// What the server reported, a lost connection, nothing received for `silence`, or no FETCH
    /// that is running. The FETCH is over then.
    pub async fn next_block(
        &mut self,
        block: &mut RowBlock,
        silence: Duration,
    ) -> Result<bool, ServerError> {
        let Some(fetch) = &mut self.fetch else {
            return Err(error::connection("no FETCH is running".into()));
        };
        block.clear(fetch.names.clone());
        if fetch.ended.is_none() {
            let Ok(first) = tokio::time::timeout(silence, fetch.stream.next()).await else {
                self.fetch = None;
                return Err(error::connection(format!(
                    "{} sent nothing for {silence:?}, not even progress; the cluster may be \
                     overloaded or the connection dead",
                    self.target
                )));
            };
            let mut next = Some(first);
            while let Some(message) = next {
                fetch.ended = match message {
                    None => Some(Ok(())),
                    Some(message) => fetch
                        .take(message, block)
                        .err()
                        .map(|error| Err(reported(&self.lost, &self.target, &error))),
                };
                if fetch.ended.is_some() || block.is_full() {
                    break;
                }
                next = fetch.stream.next().now_or_never();
            }
        }
        match fetch.ended.take() {
            None => Ok(false),
            Some(Err(error)) if !block.is_empty() => {
                fetch.ended = Some(Err(error));
                Ok(false)
            }
            Some(end) => {
                self.fetch = None;
                end.map(|()| true)
            }
        }
    }

    /// Closes the connection, with a goodbye to the server unless a FETCH is running: its end
    /// would have to be waited for.
    pub async fn close(self) {
        let Self {
            client,
            mut task,
            fetch,
            ..
        } = self;
        drop(client);
        if fetch.is_none() {
            // Without an end in time there is none to be had.
            let _ = tokio::time::timeout(GOODBYE_LIMIT, &mut task.0).await;
        }
        if !task.0.is_finished() {
            task.0.abort();
            // An aborted task reports that it was aborted.
            let _ = (&mut task.0).await;
        }
    }

    fn reported(&self, error: &Error) -> ServerError {
        reported(&self.lost, &self.target, error)
    }
}

/// A client only learns that the connection is closed; its task knows why.
fn reported(lost: &OnceLock<ServerError>, target: &str, error: &Error) -> ServerError {
    match lost.get() {
        Some(why) if error.is_closed() => why.clone(),
        _ => error::running(target, error),
    }
}

impl Fetch {
    fn take(
        &mut self,
        message: Result<SimpleQueryMessage, Error>,
        block: &mut RowBlock,
    ) -> Result<(), Error> {
        match message? {
            SimpleQueryMessage::RowDescription(columns) => {
                let names = columns.iter().map(|column| column.name().to_owned());
                self.names = Arc::new(names.collect());
                block.clear(self.names.clone());
            }
            SimpleQueryMessage::Row(row) => block.push(&row)?,
            _ => {}
        }
        Ok(())
    }
}

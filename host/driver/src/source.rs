//! What the driver needs of a source, and the task that runs it.

use std::future::Future;
use std::time::Duration;

use mz_sink_core::catalog::Table;
use mz_sink_core::decode::Fields;
use mz_sink_core::server_error::ServerError;
use mz_sink_core::session::Command;
use tokio::sync::mpsc;

/// Blocks that may be read ahead of the run loop.
const BLOCKS_AHEAD: usize = 4;

/// Whether a FETCH goes on after a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockEnd {
    /// More may come.
    More,
    /// The FETCH is complete; the block may hold its last rows.
    Complete,
}

/// Rows that arrived together.
pub trait RowBlock: Default + Send + 'static {
    /// One row.
    type Row<'a>: Fields
    where
        Self: 'a;

    /// The names of the columns.
    fn names(&self) -> &[String];

    /// The rows, in order.
    fn rows(&self) -> impl Iterator<Item = Self::Row<'_>>;
}

/// Materialize, or something that behaves like it.
pub trait Source: Send + 'static {
    /// Rows that arrived together.
    type Block: RowBlock;

    /// Opens a connection, closing an earlier one.
    fn connect(&mut self) -> impl Future<Output = Result<(), ServerError>> + Send;

    /// Runs one statement and collects its rows.
    fn run(&mut self, sql: &str) -> impl Future<Output = Result<Table, ServerError>> + Send;

    /// Starts a FETCH.
    fn fetch(&mut self, sql: &str) -> impl Future<Output = Result<(), ServerError>> + Send;

    /// Waits for rows of the running FETCH and puts all that are there into `block`, replacing
    /// what it held. Fails after `silence` without any. Must be cancel-safe.
    fn next_block(
        &mut self,
        block: &mut Self::Block,
        silence: Duration,
    ) -> impl Future<Output = Result<BlockEnd, ServerError>> + Send;

    /// Closes the connection, if there is one.
    fn disconnect(&mut self) -> impl Future<Output = ()> + Send;
}

/// What the source task reports. `connection` counts connections, so that what an abandoned one
/// still had to say can be told apart.
pub(crate) struct Report<B> {
    pub(crate) connection: u64,
    pub(crate) what: What<B>,
}

pub(crate) enum What<B> {
    Connected(Result<(), ServerError>),
    Ran(Result<Table, ServerError>),
    Rows(B),
    Fetched(Result<(), ServerError>),
}

/// The two ends of a running source task.
pub(crate) struct SourceTask<B> {
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) reports: mpsc::Receiver<Report<B>>,
    task: tokio::task::JoinHandle<()>,
}

impl<B> Drop for SourceTask<B> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn spawn<S: Source>(mut source: S) -> SourceTask<S::Block> {
    let (commands, mut inbox) = mpsc::unbounded_channel::<Command>();
    let (outbox, reports) = mpsc::channel(BLOCKS_AHEAD);
    let task = tokio::spawn(async move {
        let mut connection = 0;
        let mut interrupted = None;
        loop {
            let command = match interrupted.take() {
                Some(command) => command,
                None => match inbox.recv().await {
                    Some(command) => command,
                    None => break,
                },
            };
            let what = match command {
                Command::Connect => What::Connected(source.connect().await),
                Command::Run { sql } => What::Ran(source.run(&sql).await),
                Command::Disconnect => {
                    source.disconnect().await;
                    connection += 1;
                    continue;
                }
                Command::Fetch { sql, silence } => {
                    let fetching = fetch(&mut source, &sql, silence, connection, &outbox);
                    tokio::select! {
                        biased;
                        // Only a Disconnect comes during a FETCH.
                        command = inbox.recv() => {
                            interrupted = command;
                            if interrupted.is_none() {
                                break;
                            }
                            continue;
                        }
                        result = fetching => What::Fetched(result),
                    }
                }
                _ => continue,
            };
            if outbox.send(Report { connection, what }).await.is_err() {
                break;
            }
        }
        source.disconnect().await;
    });
    SourceTask {
        commands,
        reports,
        task,
    }
}

async fn fetch<S: Source>(
    source: &mut S,
    sql: &str,
    silence: Duration,
    connection: u64,
    outbox: &mpsc::Sender<Report<S::Block>>,
) -> Result<(), ServerError> {
    source.fetch(sql).await?;
    loop {
        let mut block = S::Block::default();
        let end = source.next_block(&mut block, silence).await?;
        let what = What::Rows(block);
        // A closed channel means that the run loop has ended; the select above notices.
        let _ = outbox.send(Report { connection, what }).await;
        if end == BlockEnd::Complete {
            return Ok(());
        }
    }
}

//! What the driver needs of a source, and the task that runs it.

use std::future::Future;
use std::task::{Context, Poll};
use std::time::Duration;

use mz_sink_core::catalog::Table;
use mz_sink_core::decode::Fields;
use mz_sink_core::server_error::ServerError;
use mz_sink_core::session::SourceCommand;
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
    commands: mpsc::UnboundedSender<SourceCommand>,
    reports: mpsc::Receiver<Report<B>>,
    /// How many connections were given up.
    connection: u64,
    task: tokio::task::JoinHandle<()>,
}

impl<B> SourceTask<B> {
    pub(crate) fn send(&mut self, command: SourceCommand) {
        if matches!(command, SourceCommand::Disconnect) {
            self.connection += 1;
        }
        // A task that is gone is noticed where its reports are awaited.
        let _ = self.commands.send(command);
    }

    /// The next report of the connection that is not given up; ready with `None` when the task
    /// is gone.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<What<B>>> {
        loop {
            match std::task::ready!(self.reports.poll_recv(context)) {
                Some(report) if report.connection != self.connection => {}
                report => return Poll::Ready(report.map(|report| report.what)),
            }
        }
    }
}

/// The next report of any of the tasks that `wants` lets through, and which. They take turns:
/// `turn` counts. `None` when a task is gone.
pub(crate) async fn next_report<B>(
    tasks: &mut [SourceTask<B>],
    turn: &mut usize,
    wants: impl Fn(usize) -> bool,
) -> Option<(usize, What<B>)> {
    std::future::poll_fn(|context| {
        let count = tasks.len();
        for step in 0..count {
            let index = (*turn + step) % count;
            if wants(index)
                && let Poll::Ready(what) = tasks[index].poll(context)
            {
                *turn = index + 1;
                return Poll::Ready(what.map(|what| (index, what)));
            }
        }
        Poll::Pending
    })
    .await
}

impl<B> Drop for SourceTask<B> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn spawn<S: Source>(mut source: S) -> SourceTask<S::Block> {
    let (commands, mut inbox) = mpsc::unbounded_channel::<SourceCommand>();
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
                SourceCommand::Connect => What::Connected(source.connect().await),
                SourceCommand::Run { sql } => What::Ran(source.run(&sql).await),
                SourceCommand::Disconnect => {
                    source.disconnect().await;
                    connection += 1;
                    continue;
                }
                SourceCommand::Fetch { sql, silence } => {
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
        connection: 0,
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

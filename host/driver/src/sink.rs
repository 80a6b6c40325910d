//! What the driver needs of a sink, and the task that runs it.

use std::future::Future;

use mz_sink_core::batch::{BatchRows, SinkError};
use mz_sink_core::session::{Command, Event, SessionError};
use mz_sink_core::types::{Frontier, View};
use tokio::sync::mpsc;

use crate::batch::Prepare;

/// A sink: a component in the sandbox, or native code in a test.
pub trait Sink: Send + 'static {
    /// Makes the target ready and returns the stored checkpoint. Also after a failure that cost
    /// the sink its state.
    fn open(
        &mut self,
        views: &[View],
    ) -> impl Future<Output = Result<Option<String>, SinkError>> + Send;

    /// Reads the checkpoint back, seeing the latest commit.
    fn checkpoint(&mut self) -> impl Future<Output = Result<Option<String>, SinkError>> + Send;

    /// Writes the rows and replaces the checkpoint `expected` by `next`.
    fn write(
        &mut self,
        rows: Box<dyn BatchRows>,
        expected: Option<String>,
        next: String,
    ) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Does housekeeping, if the sink has any.
    fn maintain(
        &mut self,
        committed: Frontier,
    ) -> impl Future<Output = Result<(), SinkError>> + Send {
        let _ = committed;
        std::future::ready(Ok(()))
    }

    /// Ends it.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}

/// What a failure of a sink means where nothing is tried again.
pub fn sink_error(error: SinkError) -> SessionError {
    match error {
        SinkError::Retryable(failure) => SessionError::SinkRetryable(failure),
        SinkError::Permanent(failure) => SessionError::SinkPermanent(failure),
        SinkError::Unknown(failure) => SessionError::SinkUnknown(failure),
        SinkError::Trapped(failure) => SessionError::SinkTrapped(failure),
        SinkError::Limit(failure) => SessionError::SinkLimit(failure),
        SinkError::Conflict(_) => SessionError::SinkConfused("open"),
        _ => SessionError::Unexpected {
            event: "an answer",
            state: "writing",
        },
    }
}

/// The two ends of a running sink task.
pub(crate) struct SinkTask {
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
    task: tokio::task::JoinHandle<()>,
}

impl SinkTask {
    /// Closes the sink and waits for it.
    pub(crate) async fn close(mut self) {
        let (commands, _) = mpsc::unbounded_channel();
        self.commands = commands;
        // A panic in the sink has been reported by the runtime; there is nothing left to close.
        let _ = (&mut self.task).await;
    }
}

impl Drop for SinkTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn spawn<S: Sink>(mut sink: S, prepare: Prepare) -> SinkTask {
    let (commands, mut inbox) = mpsc::unbounded_channel::<Command>();
    let (outbox, events) = mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        while let Some(command) = inbox.recv().await {
            let event = match command {
                Command::OpenSink { views } => Event::SinkOpened(sink.open(&views).await),
                Command::ReadCheckpoint => Event::CheckpointRead(sink.checkpoint().await),
                Command::Write(write) => {
                    let result = match prepare.batch(&write) {
                        Ok(rows) => sink.write(Box::new(rows), write.expected, write.next).await,
                        Err(error) => Err(error),
                    };
                    Event::Written(result)
                }
                Command::Maintain { committed } => {
                    Event::Maintained(sink.maintain(committed).await)
                }
                _ => continue,
            };
            if outbox.send(event).is_err() {
                break;
            }
        }
        sink.close().await;
    });
    SinkTask {
        commands,
        events,
        task,
    }
}

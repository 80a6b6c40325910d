//! What goes into the session and what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use super::{OnHistoryLoss, SessionError};
use crate::batch::{BatchInfo, SinkError};
use crate::catalog::{Change, Table};
use crate::chunk::Chunk;
use crate::release::{Segment, SegmentId, Start};
use crate::server_error::ServerError;
use crate::types::{Frontier, View};

/// What happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Answers [`Command::Source`].
    Source {
        /// Which connection.
        connection: usize,
        /// What came of it.
        event: SourceEvent,
    },
    /// Answers [`Command::OpenSink`].
    SinkOpened(Result<Option<String>, SinkError>),
    /// Answers [`Command::Write`].
    Written(Result<(), SinkError>),
    /// Answers [`Command::ReadCheckpoint`].
    CheckpointRead(Result<Option<String>, SinkError>),
    /// Answers [`Command::Maintain`].
    Maintained(Result<(), SinkError>),
    /// [`Command::Spill`] failed: the disk is full or gone.
    SpillFailed(String),
    /// [`Command::DeadLetter`] failed: its rows must not be committed past.
    DeadLetterFailed(String),
    /// The time given by `Session::poll_timeout` has come.
    Timeout,
    /// An operator asks for a clean end.
    Shutdown,
}

/// What came of a [`SourceCommand`].
#[derive(Debug)]
pub enum SourceEvent {
    /// Answers [`SourceCommand::Connect`].
    Connected(Result<(), ServerError>),
    /// Answers [`SourceCommand::Run`].
    Ran(Result<Table, ServerError>),
    /// Answers [`SourceCommand::Fetch`], after its rows went to `Session::handle_rows`.
    Fetched(Result<(), ServerError>),
}

impl SourceEvent {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Connected(_) => "Connected",
            Self::Ran(_) => "Ran",
            Self::Fetched(_) => "Fetched",
        }
    }
}

/// What is to be done. Commands to one connection, and commands to the sink, are each carried
/// out one at a time and in order; the connections and the sink run side by side. All other
/// commands are carried out at once, before the next is taken.
#[derive(Debug)]
#[non_exhaustive]
pub enum Command {
    /// For a connection to Materialize.
    Source {
        /// Which one: that of the view with this index, or, after those, the one beside them.
        connection: usize,
        /// What.
        command: SourceCommand,
    },
    /// Sink: (re-)open it for these views.
    OpenSink {
        /// Columns and keys.
        views: Arc<[View]>,
    },
    /// Sink: write a batch and replace the checkpoint.
    Write(Box<Write>),
    /// Sink: read the checkpoint back.
    ReadCheckpoint,
    /// Sink: do housekeeping.
    Maintain {
        /// The committed frontier.
        committed: Frontier,
    },
    /// Keep these rows on disk until they are asked for or forgotten.
    Spill {
        /// Their name.
        id: SegmentId,
        /// The rows.
        chunk: Arc<Chunk>,
    },
    /// These rows are no longer needed.
    Forget {
        /// Names of spilled rows.
        ids: Vec<SegmentId>,
    },
    /// Put rows into the dead-letter log, durably.
    DeadLetter(Box<DeadLetter>),
    /// Something worth telling.
    Tell(Notice),
    /// The end: close the sink if it is open. Nothing follows.
    Stop(Outcome),
}

/// What is to be done with a connection.
#[derive(Debug)]
pub enum SourceCommand {
    /// Open it.
    Connect,
    /// Run one statement and collect its rows.
    Run {
        /// The SQL text.
        sql: String,
    },
    /// Run a FETCH, handing rows on as they come.
    Fetch {
        /// The SQL text.
        sql: String,
        /// Without a row or an end for this long, the server is taken for dead.
        silence: Duration,
    },
    /// Close it. What it still has to say is of no interest.
    Disconnect,
}

/// Rows that never reach the target.
#[derive(Debug)]
pub struct DeadLetter {
    /// The views that the rows are of.
    pub views: Arc<[View]>,
    /// The rows.
    pub segments: Vec<Segment>,
    /// Why, in a word: `key-violation`, or the code of the failure.
    pub category: String,
    /// Why, in a sentence. Never contains values.
    pub message: String,
}

/// One write.
#[derive(Debug)]
pub struct Write {
    /// What the sink is told. `rows` is before netting.
    pub info: BatchInfo,
    /// The views that the rows are of.
    pub views: Arc<[View]>,
    /// The rows: view by view, each in time order.
    pub segments: Vec<Segment>,
    /// Whether to keep only the last change per key.
    pub net: bool,
    /// The text that must be stored.
    pub expected: Option<String>,
    /// The text to store.
    pub next: String,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The stream ended and everything is committed.
    Finished,
    /// On request; what was in flight is committed.
    ShutDown,
    /// An error that needs somebody.
    Failed(SessionError),
}

/// Something worth telling people and metrics. Never contains values.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// The object was found.
    Resolved {
        /// Its full name.
        object: String,
        /// Its catalog id.
        id: String,
    },
    /// Something about the object is not as it was in the checkpoint, within what is allowed.
    ObjectChanged {
        /// The object.
        object: String,
        /// What.
        change: Change,
    },
    /// The history since the last commit is gone, and the policy has an answer.
    HistoryLost {
        /// The object.
        object: String,
        /// What is done about it.
        policy: OnHistoryLoss,
    },
    /// How far the history of an object still reaches back behind what is committed.
    Margin {
        /// The object.
        object: String,
        /// In milliseconds; a resume is not possible once it is negative.
        margin_ms: i64,
        /// Whether a failure may outlast it.
        is_low: bool,
    },
    /// How far the history reaches could not be found out.
    MarginUnknown {
        /// Why.
        error: ServerError,
    },
    /// A batch was given up and is in the dead-letter log.
    Skipped {
        /// Its rows.
        rows: u64,
        /// Everything below it was committed before.
        lower: Frontier,
        /// The frontier after it.
        upper: Frontier,
        /// Why.
        error: SessionError,
    },
    /// The component is not the one that wrote the checkpoint.
    ComponentChanged {
        /// Digest in the checkpoint.
        from: String,
        /// Digest now.
        to: String,
    },
    /// This worker has its epoch.
    Claimed {
        /// The epoch.
        epoch: u64,
        /// Committed so far.
        frontier: Option<Frontier>,
    },
    /// A SUBSCRIBE was declared.
    Subscribing {
        /// The object.
        object: String,
        /// From where.
        start: Start,
    },
    /// A batch is committed.
    Committed {
        /// Rows before netting.
        rows: u64,
        /// Their size in memory.
        bytes: u64,
        /// The committed frontier.
        frontier: Frontier,
    },
    /// Something failed and is tried again.
    Retrying {
        /// What went wrong, with the next step.
        error: SessionError,
        /// After how long.
        wait: Duration,
        /// Failures in a row so far.
        failures: u32,
        /// Whether this worker has not committed anything yet: the same batch may have failed
        /// before it started.
        is_first: bool,
    },
    /// The sink's housekeeping failed. The next one comes in its time.
    MaintenanceFailed {
        /// Why.
        error: SessionError,
    },
    /// Another worker raced us for the epoch.
    ClaimLost {
        /// The epoch that it took.
        epoch: u64,
    },
}

//! What goes into the session and what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use super::SessionError;
use crate::batch::{BatchInfo, SinkError};
use crate::catalog::Table;
use crate::chunk::Chunk;
use crate::release::{Segment, SegmentId, Start};
use crate::server_error::ServerError;
use crate::types::{Frontier, Timestamp, View};

/// What happened. Each answers one [`Command`], except the last two.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Answers [`Command::Connect`].
    Connected(Result<(), ServerError>),
    /// Answers [`Command::Run`].
    Ran(Result<Table, ServerError>),
    /// Answers [`Command::Fetch`], after its rows went to `Session::handle_rows`.
    Fetched(Result<(), ServerError>),
    /// Answers [`Command::OpenSink`].
    SinkOpened(Result<Option<String>, SinkError>),
    /// Answers [`Command::Write`].
    Written(Result<(), SinkError>),
    /// Answers [`Command::ReadCheckpoint`].
    CheckpointRead(Result<Option<String>, SinkError>),
    /// [`Command::Spill`] failed: the disk is full or gone.
    SpillFailed(String),
    /// The time given by `Session::poll_timeout` has come.
    Timeout,
    /// An operator asks for a clean end.
    Shutdown,
}

/// What is to be done. Commands to the source, and commands to the sink, are each carried out
/// one at a time and in order; the two sides run side by side.
#[derive(Debug)]
#[non_exhaustive]
pub enum Command {
    /// Source: open a connection.
    Connect,
    /// Source: run one statement and collect its rows.
    Run {
        /// The SQL text.
        sql: String,
    },
    /// Source: run a FETCH, handing rows on as they come.
    Fetch {
        /// The SQL text.
        sql: String,
        /// Without a row or an end for this long, the server is taken for dead.
        silence: Duration,
    },
    /// Source: close the connection, if there is one.
    Disconnect,
    /// Sink: (re-)open it for this view.
    OpenSink {
        /// Columns and key.
        view: Arc<View>,
    },
    /// Sink: write a batch and replace the checkpoint.
    Write(Box<Write>),
    /// Sink: read the checkpoint back.
    ReadCheckpoint,
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
    /// Something worth telling.
    Tell(Notice),
    /// The end: close the sink if it is open. Nothing follows.
    Stop(Outcome),
}

/// One write.
#[derive(Debug)]
pub struct Write {
    /// What the sink is told. `rows` is before netting.
    pub info: BatchInfo,
    /// The rows, in time order.
    pub segments: Vec<Segment>,
    /// Net by these columns before handing over.
    pub net_by: Option<Vec<usize>>,
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
    /// A replacement was applied to the object since the checkpoint was written.
    ReplacementApplied {
        /// Catalog id in the checkpoint.
        from: String,
        /// Catalog id now.
        to: String,
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
    },
    /// Several rows have one key: the key is left out at this time.
    KeyViolation {
        /// When.
        time: Timestamp,
    },
    /// Another worker raced us for the epoch.
    ClaimLost {
        /// The epoch that it took.
        epoch: u64,
    },
}

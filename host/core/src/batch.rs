//! What a sink is given: a batch of closed changes, pulled in chunks.

use std::sync::Arc;

use crate::chunk::Chunk;
use crate::types::{Frontier, Timestamp};

/// What is known about a batch before its rows are pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchInfo {
    /// Everything in `[lower, upper)`, nothing outside.
    pub lower: Timestamp,
    /// Becomes the committed frontier.
    pub upper: Frontier,
    /// The frontier committed before this batch; `None` before the first commit.
    pub committed: Option<Frontier>,
    /// Raised, and stored, before the first row of a snapshot is written: rows that an earlier
    /// attempt left behind have a lower one.
    pub generation: u64,
    /// The worker's epoch.
    pub epoch: u64,
    /// Rows that will be pulled.
    pub rows: u64,
    /// Their size in memory, in bytes.
    pub bytes: u64,
    /// Views whose rows here are a whole snapshot. Empty for ordinary changes.
    pub snapshot_of: Vec<u32>,
}

/// Why rows of a batch could not be pulled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// The rows are gone: the write must be given up and tried again.
    #[error("the rows of this batch are no longer available: {0}")]
    SourceLost(String),
    /// A limit of the host.
    #[error("{0}")]
    Limit(String),
}

/// The rows of one batch, pulled in order. Implemented by the driver, used by the plugin.
pub trait BatchRows: Send {
    /// What is known about the batch.
    fn info(&self) -> &BatchInfo;

    /// The next rows with the position of the first of them in the batch; `None` at the end.
    /// A chunk has at most about `max_bytes` bytes and at least one row.
    ///
    /// # Errors
    /// [`PullError`] when spilled rows cannot be read back.
    fn next(&mut self, max_bytes: usize) -> Result<Option<(u64, Arc<Chunk>)>, PullError>;

    /// Back to the first row.
    fn rewind(&mut self);

    /// Refuses the row at position `row`; the rest may still be committed. Durable on return.
    ///
    /// # Errors
    /// [`PullError`] when there is no such row, or the rejection could not be made durable.
    fn reject(&mut self, row: u64, category: &str, message: &str) -> Result<(), PullError>;
}

/// A sink's own account of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Stable and machine-readable, such as `rate-limited`.
    pub code: String,
    /// For people. Already limited in length and free of control characters.
    pub message: String,
    /// How long the target asked us to wait, in milliseconds.
    pub retry_after_ms: Option<u32>,
}

/// How a call to a sink can fail.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SinkError {
    /// Nothing was committed; trying again may help.
    Retryable(Failure),
    /// Nothing was committed; trying again cannot help.
    Permanent(Failure),
    /// It may or may not have been committed.
    Unknown(Failure),
    /// The stored checkpoint was not the expected text. Carries what was found.
    Conflict(Option<String>),
    /// The guest trapped, timed out or broke the contract. The instance is gone; whatever
    /// it was doing may or may not have been committed. `open` makes a new one.
    Trapped(Failure),
    /// A limit set by the operator was met. The instance is gone, as after a trap.
    Limit(Failure),
}

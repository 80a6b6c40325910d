//! The batch being written.

use crate::chunk::Chunk;

/// What a batch holds, and where it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Info {
    /// The batch is everything in `[lower, upper)`, in milliseconds of Materialize time. Equal
    /// when there is no data and only the checkpoint moves.
    pub lower: u64,
    /// Becomes the committed frontier.
    pub upper: u64,
    /// The frontier committed before; none before the first commit.
    pub committed: Option<u64>,
    /// Raised before each attempt to take a snapshot again.
    pub generation: u64,
    /// Taken by a worker when it starts; a higher one fences a lower one.
    pub epoch: u64,
    /// Rows in the batch.
    pub rows: u64,
    /// About how many bytes they have.
    pub bytes: u64,
    /// Indexes of the views whose rows in this batch are a whole snapshot: what the target holds
    /// for them is to be replaced. Empty for ordinary changes.
    pub snapshot_of: Vec<u32>,
}

/// Why rows could not be pulled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PullError {
    /// The stream behind the batch broke: roll back. Becomes a retryable error.
    #[error("{0}")]
    SourceLost(String),
    /// A limit of the host. Becomes a permanent error, since a retry meets it again.
    #[error("{0}")]
    Limit(String),
    /// The chunk is not well-formed. Becomes a permanent error.
    #[error("{0}")]
    Malformed(String),
}

/// The rows of one write, pulled piece by piece so that they need not fit into memory.
pub trait Batch {
    /// What the batch holds.
    fn info(&self) -> Info;

    /// The next rows, at most about `max_bytes`; none at the end.
    fn next(&mut self, max_bytes: u32) -> Result<Option<Chunk>, PullError>;

    /// The same rows as a JSON array. Shares its position with [`Batch::next`].
    fn next_json(&mut self, max_bytes: u32) -> Result<Option<String>, PullError>;

    /// Back to the first row.
    fn rewind(&mut self);

    /// Refuses the row at a position ([`Row::position`](crate::Row::position)); the rest may
    /// still be committed. The refusal is durable when this returns. `category` is
    /// lower-case-with-dashes; neither text may hold a row value.
    fn reject(&mut self, row: u64, category: &str, message: &str) -> Result<(), PullError>;
}

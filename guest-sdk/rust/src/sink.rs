//! What a sink author implements.

use crate::error::Error;
use crate::model::{BatchInfo, Context, Description};
use crate::rows::Chunk;

/// Why rows could not be pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullError {
    /// The stream behind the batch broke: roll back and answer [`Error::Retryable`].
    SourceLost(String),
    /// A limit of the host.
    Limit(String),
}

/// The batch being written. Over when [`Sink::write`] returns.
pub trait Batch {
    /// What is known about it.
    fn info(&self) -> BatchInfo;

    /// The next rows, about `max_bytes` at most; `None` at the end.
    ///
    /// # Errors
    /// See [`PullError`].
    fn next(&mut self, max_bytes: u32) -> Result<Option<Chunk>, PullError>;

    /// Back to the first row.
    fn rewind(&mut self);

    /// Refuses one row; the rest may still be committed. Durable when it returns.
    ///
    /// # Errors
    /// See [`PullError`].
    fn reject(&mut self, row: u64, category: &str, message: &str) -> Result<(), PullError>;
}

/// A destination of changes.
pub trait Sink: Sized {
    /// The capabilities it uses; [`crate::Host`] in a component.
    type Host;

    /// What it is. Called before anything else, with nothing granted.
    fn describe() -> Description;

    /// Makes the target ready and returns the stored checkpoint, if any. May be called again.
    ///
    /// # Errors
    /// When the target is not ready.
    fn open(host: Self::Host, context: &Context) -> Result<(Self, Option<String>), Error>;

    /// Reads the checkpoint back, seeing the latest commit.
    ///
    /// # Errors
    /// When it cannot be read.
    fn checkpoint(&mut self) -> Result<Option<String>, Error>;

    /// Writes the batch and replaces the checkpoint `expected` (none: absent) by `next`.
    /// Compare the whole text; it is opaque, at most 64 KiB.
    ///
    /// # Errors
    /// See [`Error`].
    fn write(
        &mut self,
        batch: &mut dyn Batch,
        expected: Option<&str>,
        next: &str,
    ) -> Result<(), Error>;

    /// Lets go of the target.
    fn close(self) {}
}

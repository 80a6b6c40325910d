//! What a sink author implements.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::batch::Batch;
use crate::error::Error;
use crate::view::View;

/// What a sink promises about its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// Data and checkpoint commit in one transaction: exactly-once state.
    Transactional,
    /// Idempotent by key and timestamp: equals the cut after every completed batch.
    Convergent,
    /// Events: effects first, checkpoint after.
    AtLeastOnce,
}

/// The form of changes a sink wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Envelope {
    /// New row or deletion, by key.
    Upsert,
    /// Rows with positive or negative multiplicity.
    Diff,
}

/// What a sink says about itself. The schema of its configuration is taken from
/// [`Sink::Config`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Short, lower-case.
    pub name: String,
    /// Usually `env!("CARGO_PKG_VERSION")`.
    pub version: String,
    /// What it promises about its target.
    pub guarantee: Guarantee,
    /// The form of changes it wants.
    pub envelope: Envelope,
    /// Only the last change per key of a batch is wanted (upsert envelope).
    pub netted: bool,
}

/// What a sink gets when it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context<C> {
    /// Names this deployment's checkpoint in the target.
    pub sink_id: String,
    /// The sink's own configuration.
    pub config: C,
    /// What is subscribed; chunks refer to it by index.
    pub views: Vec<View>,
}

/// A sink: writes batches into a target and keeps a checkpoint there.
pub trait Sink: Sized {
    /// Where the sink's capabilities come from; bounds on it (`H: Http + Log`) say which. In a
    /// component it is `Imports`.
    type Host;

    /// The sink's configuration. Put `#[serde(deny_unknown_fields)]` on it.
    type Config: DeserializeOwned + JsonSchema;

    /// What the sink is. Called before anything else, without configuration.
    fn describe() -> Description;

    /// Makes the target ready (idempotent) and returns the stored checkpoint, if any.
    fn open(
        host: Self::Host,
        context: Context<Self::Config>,
    ) -> Result<(Self, Option<String>), Error>;

    /// Reads the checkpoint back from the target, seeing the latest commit.
    fn checkpoint(&mut self) -> Result<Option<String>, Error>;

    /// Writes the batch and replaces the checkpoint `expected` (none: absent) by `next`,
    /// comparing the whole text; [`Error::Conflict`] when another text is stored. The text is
    /// opaque, at most 64 KiB. A batch may have no rows: then only the checkpoint moves.
    fn write<B: Batch>(
        &mut self,
        batch: &mut B,
        expected: Option<&str>,
        next: &str,
    ) -> Result<(), Error>;

    /// Called once at a clean end.
    fn close(&mut self) {}
}

/// Housekeeping between batches, for a sink that has some: `export!(MySink<Imports>, Maintain)`.
pub trait Maintain: Sink {
    /// Called now and then after a commit; `committed` is the committed frontier. Writes wait
    /// meanwhile, so do a bounded amount of work and go on at the next call. A failure is logged
    /// and no more, so nothing that readers rely on may depend on it, and it must not do what
    /// would harm a newer worker.
    fn maintain(&mut self, committed: u64) -> Result<(), Error>;
}

/// Reading the target back, to compare it with the views: `export!(MySink<Imports>, ReadBack)`.
pub trait ReadBack: Sink {
    /// A page of the live rows of one view, at most `max` of them.
    fn rows(&mut self, view: usize, after: Option<&[u8]>, max: u32) -> Result<Page, Error>;
}

/// Rows read back from the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// A JSON array of objects, the values as in the `row` of [`Batch::next_json`].
    pub rows: String,
    /// Where the next page begins; none after the last one.
    pub next: Option<Vec<u8>>,
}

//! What a sink is told, and what it tells about itself.

use serde::de::DeserializeOwned;

use crate::error::Error;

/// How a column's values travel; see [`crate::Values`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// `boolean`
    Boolean,
    /// `smallint`
    Int16,
    /// `integer`
    Int32,
    /// `bigint`
    Int64,
    /// `uint2`
    Uint16,
    /// `uint4`
    Uint32,
    /// `uint8`
    Uint64,
    /// `real`
    Float32,
    /// `double precision`
    Float64,
    /// `numeric`, with its scale where it is fixed
    Numeric(Option<u8>),
    /// `text` and its kin
    Text,
    /// `bytea`
    Bytes,
    /// `uuid`
    Uuid,
    /// `jsonb`
    Json,
    /// `date`
    Date,
    /// `time`
    Time,
    /// `timestamp without time zone`
    Timestamp,
    /// `timestamp with time zone`
    TimestampTz,
    /// `interval`
    Interval,
    /// `mz_timestamp`
    MzTimestamp,
    /// Any other type, by its SQL name; values travel as text
    Other(String),
}

/// A column of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: ColumnType,
    /// Whether it may be NULL.
    pub nullable: bool,
}

/// One subscribed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its name in the configuration.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Indexes into `columns`; empty when there is no key.
    pub key: Vec<u32>,
}

/// How changes are expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// Per key and time: the new row, or a delete.
    Upsert,
    /// Rows with positive or negative multiplicity.
    Diff,
}

/// What a sink promises about its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// Data and checkpoint commit in one transaction: exactly-once state.
    Transactional,
    /// Idempotent by key and timestamp: equals the cut after every completed batch.
    Convergent,
    /// Events: effects first, checkpoint after.
    AtLeastOnce,
}

/// What a sink is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it promises.
    pub guarantee: Guarantee,
    /// How it wants changes.
    pub envelope: Envelope,
    /// Whether it wants only the last change per key of a batch.
    pub netted: bool,
    /// JSON Schema of its configuration.
    pub config_schema: String,
}

impl Description {
    /// A description whose configuration is a `C`. The version is `0.0.0`; nothing is netted.
    pub fn new<C: schemars::JsonSchema>(
        name: &str,
        guarantee: Guarantee,
        envelope: Envelope,
    ) -> Self {
        Self {
            name: name.into(),
            version: "0.0.0".into(),
            guarantee,
            envelope,
            netted: false,
            config_schema: schemars::schema_for!(C).as_value().to_string(),
        }
    }
}

/// What a sink is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Identity of the deployment.
    pub sink_id: String,
    /// The sink's own configuration as JSON.
    pub config: String,
    /// The subscribed objects.
    pub views: Vec<View>,
}

impl Context {
    /// Reads the configuration.
    ///
    /// # Errors
    /// [`Error::Permanent`] naming what is wrong, without quoting values.
    pub fn parse_config<C: DeserializeOwned>(&self) -> Result<C, Error> {
        serde_json::from_str(&self.config)
            .map_err(|e| Error::permanent("bad-config", format!("the [sink] settings: {e}")))
    }
}

/// What is known about a batch before its rows are pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchInfo {
    /// Everything in `[lower, upper)` is in the batch.
    pub lower: u64,
    /// Becomes the committed frontier.
    pub upper: u64,
    /// The frontier committed before; `None` before the first commit.
    pub committed: Option<u64>,
    /// Raised before each (re-)snapshot attempt.
    pub generation: u64,
    /// The worker's epoch.
    pub epoch: u64,
    /// Rows that will be pulled.
    pub rows: u64,
    /// Their size in the host's memory, in bytes.
    pub bytes: u64,
    /// Views whose rows are a whole snapshot.
    pub snapshot_of: Vec<u32>,
}

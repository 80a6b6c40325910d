//! The data model that host and guests share: views, columns, envelopes.
//!
//! Mirrors `wit/v0.1/types.wit`.

use serde::{Deserialize, Serialize};

/// Materialize logical time: milliseconds since the Unix epoch.
pub type Timestamp = u64;

/// An exclusive upper bound: every change below it is covered, none at or above.
pub type Frontier = Timestamp;

/// The frontier of a collection that can never change again.
pub const CLOSED: Frontier = u64::MAX;

/// The type of a column, which decides how its values travel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// `uint4`, and `oid`
    Uint32,
    /// `uint8`
    Uint64,
    /// `real`
    Float32,
    /// `double precision`
    Float64,
    /// `numeric`, with its scale where the type fixes one. At most 39 digits.
    Numeric(Option<u8>),
    /// `text`, `varchar`, `char`
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
    /// Anything else (arrays, lists, maps, ranges, ...) by its SQL name. Values travel as text.
    Other(String),
}

/// A column of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, unique within the view.
    pub name: String,
    /// Its type.
    pub ty: ColumnType,
    /// Whether a put row may hold NULL in it.
    pub nullable: bool,
}

/// One subscribed object as a sink sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The name that the configuration gives it.
    pub name: String,
    /// The data columns, in the order of the object.
    pub columns: Vec<Column>,
    /// Indexes into `columns`; empty when there is no key.
    pub key: Vec<usize>,
}

/// How changes are expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Envelope {
    /// Per key and time: the new row, or a delete.
    Upsert,
    /// Rows with positive or negative multiplicity.
    Diff,
}

/// What a sink promises about its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// Data and checkpoint commit in one transaction: exactly-once state.
    Transactional,
    /// Idempotent by key and timestamp: equals the cut after every completed batch.
    Convergent,
    /// Events: effects first, checkpoint after.
    AtLeastOnce,
}

/// What a row does to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// A new or changed row (upsert), or positive multiplicity (diff).
    Put = 0,
    /// A deleted key (upsert), or negative multiplicity (diff).
    Delete = 1,
}

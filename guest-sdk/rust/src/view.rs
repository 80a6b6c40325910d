//! What is subscribed: views and their columns.

/// One subscribed object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Its name in the configuration.
    pub name: String,
    /// Its columns, in the order in which chunks carry them.
    pub columns: Vec<Column>,
    /// Indexes into `columns`; empty when the object has no key.
    pub key: Vec<usize>,
}

/// One column of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The column's name in Materialize.
    pub name: String,
    /// Its type in Materialize.
    pub ty: ColumnType,
    /// False only when Materialize knows that no value is NULL.
    pub nullable: bool,
}

/// A Materialize type. Each variant names the [`Values`](crate::Values) that carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnType {
    /// `boolean`, as booleans.
    Boolean,
    /// `smallint`, as ints.
    Int16,
    /// `integer`, as ints.
    Int32,
    /// `bigint`, as ints.
    Int64,
    /// `uint2`, as uints.
    Uint16,
    /// `uint4`, as uints.
    Uint32,
    /// `uint8`, as uints.
    Uint64,
    /// `real`, as floats.
    Float32,
    /// `double precision`, as floats.
    Float64,
    /// `numeric`, as text: exact, 39 digits, `NaN` possible. Holds its scale where it is fixed.
    Numeric(Option<u8>),
    /// `text` and its relatives, as text.
    Text,
    /// `bytea`, as bytes.
    Bytes,
    /// `uuid`, as text.
    Uuid,
    /// `jsonb`, as text.
    Json,
    /// `date`, as ints: days since 1970-01-01.
    Date,
    /// `time`, as ints: microseconds since midnight.
    Time,
    /// `timestamp`, as ints: microseconds since 1970-01-01.
    Timestamp,
    /// `timestamp with time zone`, as ints: microseconds since 1970-01-01 UTC.
    TimestampTz,
    /// `interval`, as text.
    Interval,
    /// `mz_timestamp`, as uints: milliseconds since 1970-01-01.
    MzTimestamp,
    /// Any other type by its SQL name, as text.
    Other(String),
}

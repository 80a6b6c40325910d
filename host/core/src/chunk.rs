//! Rows in columns: the one form in which rows are held, spilled and handed to guests.
//!
//! ```text
//!   text row ──decode──> open Chunk ──seal──> shared Chunk ──> guest (packed columns, or JSON)
//!                                                  └─────────> spill file and back
//! ```

use serde::{Deserialize, Serialize};

use crate::types::{ColumnType, Op, Timestamp};

#[cfg(test)]
mod tests;

/// Strings or byte strings back to back: value `i` is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    /// One more than there are values; the first is 0.
    pub offsets: Vec<u32>,
    /// The values, back to back.
    pub data: Vec<u8>,
}

impl Default for Packed {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            data: Vec::new(),
        }
    }
}

impl Packed {
    /// Appends a value.
    pub fn push(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.offsets.push(self.data.len() as u32);
    }

    /// The value at `row`.
    ///
    /// # Panics
    /// When `row` is out of range, as for a slice.
    pub fn get(&self, row: usize) -> &[u8] {
        &self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

/// The values of one column. A NULL keeps its place with an arbitrary value.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Values {
    /// One byte per row, 0 or 1.
    Booleans(Vec<u8>),
    /// int16 to int64; date: days since 1970-01-01; time: microseconds since midnight;
    /// timestamps: microseconds since 1970-01-01 (UTC).
    Ints(Vec<i64>),
    /// uint16 to uint64, oid, mz_timestamp.
    Uints(Vec<u64>),
    /// real (widened) and double precision.
    Floats(Vec<f64>),
    /// text, json, uuid, numeric, interval and other types: UTF-8 in Materialize's own form.
    Texts(Packed),
    /// bytea.
    Bytes(Packed),
}

/// A borrowed value of a column.
#[derive(Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// See [`Values::Booleans`].
    Boolean(bool),
    /// See [`Values::Ints`].
    Int(i64),
    /// See [`Values::Uints`].
    Uint(u64),
    /// See [`Values::Floats`].
    Float(f64),
    /// See [`Values::Texts`].
    Text(&'a [u8]),
    /// See [`Values::Bytes`].
    Bytes(&'a [u8]),
}

impl Values {
    /// An empty column for values of type `ty`.
    pub fn for_type(ty: &ColumnType) -> Self {
        use ColumnType as T;
        match ty {
            T::Boolean => Self::Booleans(Vec::new()),
            T::Int16 | T::Int32 | T::Int64 | T::Date | T::Time | T::Timestamp | T::TimestampTz => {
                Self::Ints(Vec::new())
            }
            T::Uint16 | T::Uint32 | T::Uint64 | T::MzTimestamp => Self::Uints(Vec::new()),
            T::Float32 | T::Float64 => Self::Floats(Vec::new()),
            T::Bytes => Self::Bytes(Packed::default()),
            T::Numeric(_) | T::Text | T::Uuid | T::Json | T::Interval | T::Other(_) => {
                Self::Texts(Packed::default())
            }
        }
    }

    fn empty_like(&self) -> Self {
        match self {
            Self::Booleans(_) => Self::Booleans(Vec::new()),
            Self::Ints(_) => Self::Ints(Vec::new()),
            Self::Uints(_) => Self::Uints(Vec::new()),
            Self::Floats(_) => Self::Floats(Vec::new()),
            Self::Texts(_) => Self::Texts(Packed::default()),
            Self::Bytes(_) => Self::Bytes(Packed::default()),
        }
    }

    /// Appends the placeholder of a NULL.
    pub(crate) fn push_null(&mut self) {
        match self {
            Self::Booleans(v) => v.push(0),
            Self::Ints(v) => v.push(0),
            Self::Uints(v) => v.push(0),
            Self::Floats(v) => v.push(0.0),
            Self::Texts(p) | Self::Bytes(p) => p.push(b""),
        }
    }

    fn push_from(&mut self, other: &Self, row: usize) {
        match (self, other) {
            (Self::Booleans(a), Self::Booleans(b)) => a.push(b[row]),
            (Self::Ints(a), Self::Ints(b)) => a.push(b[row]),
            (Self::Uints(a), Self::Uints(b)) => a.push(b[row]),
            (Self::Floats(a), Self::Floats(b)) => a.push(b[row]),
            (Self::Texts(a), Self::Texts(b)) | (Self::Bytes(a), Self::Bytes(b)) => {
                a.push(b.get(row));
            }
            _ => unreachable!("chunks of one view share their column types"),
        }
    }

    fn byte_len(&self) -> usize {
        match self {
            Self::Booleans(v) => v.len(),
            Self::Ints(v) => v.len() * 8,
            Self::Uints(v) => v.len() * 8,
            Self::Floats(v) => v.len() * 8,
            Self::Texts(p) | Self::Bytes(p) => p.data.len() + p.offsets.len() * 4,
        }
    }

    fn truncate(&mut self, rows: usize) {
        match self {
            Self::Booleans(v) => v.truncate(rows),
            Self::Ints(v) => v.truncate(rows),
            Self::Uints(v) => v.truncate(rows),
            Self::Floats(v) => v.truncate(rows),
            Self::Texts(p) | Self::Bytes(p) => {
                p.offsets.truncate(rows + 1);
                p.data.truncate(p.offsets[rows] as usize);
            }
        }
    }

    fn get(&self, row: usize) -> Value<'_> {
        match self {
            Self::Booleans(v) => Value::Boolean(v[row] != 0),
            Self::Ints(v) => Value::Int(v[row]),
            Self::Uints(v) => Value::Uint(v[row]),
            Self::Floats(v) => Value::Float(v[row]),
            Self::Texts(p) => Value::Text(p.get(row)),
            Self::Bytes(p) => Value::Bytes(p.get(row)),
        }
    }
}

/// One column of a chunk.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnData {
    /// Bitmap, least significant bit first, 1 = not null; `None` when no value is null.
    pub validity: Option<Vec<u8>>,
    /// One value per row.
    pub values: Values,
}

impl ColumnData {
    /// An empty column for values of type `ty`.
    pub fn for_type(ty: &ColumnType) -> Self {
        Self {
            validity: None,
            values: Values::for_type(ty),
        }
    }

    /// Whether the value at `row` is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.validity
            .as_ref()
            .is_some_and(|bits| bits[row / 8] & (1 << (row % 8)) == 0)
    }

    /// The value at `row`.
    ///
    /// # Panics
    /// When `row` is out of range.
    pub fn get(&self, row: usize) -> Value<'_> {
        if self.is_null(row) {
            Value::Null
        } else {
            self.values.get(row)
        }
    }

    fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        if let Some(bits) = &mut self.validity {
            bits.truncate(rows.div_ceil(8));
            if !rows.is_multiple_of(8) {
                bits[rows / 8] &= (1u8 << (rows % 8)) - 1;
            }
        }
    }

    /// Records that the value just appended as number `row` is, or is not, NULL.
    pub(crate) fn mark(&mut self, row: usize, null: bool) {
        if null && self.validity.is_none() {
            // Every earlier row was not null.
            let mut bits = vec![0xff; row / 8];
            bits.push((1u8 << (row % 8)) - 1);
            self.validity = Some(bits);
            return;
        }
        if let Some(bits) = &mut self.validity {
            if row / 8 == bits.len() {
                bits.push(0);
            }
            if !null {
                bits[row / 8] |= 1 << (row % 8);
            }
        }
    }
}

/// Rows of one view, ordered by timestamp.
///
/// Every list has one entry per row. `Debug` prints sizes only, never values.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// Index of the view.
    pub view: u32,
    /// Non-decreasing.
    pub timestamps: Vec<Timestamp>,
    /// [`Op`] as a byte.
    pub ops: Vec<u8>,
    /// Absolute multiplicities (diff envelope); empty means 1 for every row.
    pub counts: Vec<u64>,
    /// Position of each row among all rows of its view and timestamp.
    pub ordinals: Vec<u32>,
    /// The data columns, in the order of the view.
    pub columns: Vec<ColumnData>,
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunk")
            .field("view", &self.view)
            .field("rows", &self.rows())
            .field("bytes", &self.byte_len())
            .finish_non_exhaustive()
    }
}

impl Chunk {
    /// An empty chunk of view number `view` with columns of these types.
    pub fn new<'a>(view: u32, types: impl IntoIterator<Item = &'a ColumnType>) -> Self {
        Self {
            view,
            timestamps: Vec::new(),
            ops: Vec::new(),
            counts: Vec::new(),
            ordinals: Vec::new(),
            columns: types.into_iter().map(ColumnData::for_type).collect(),
        }
    }

    /// An empty chunk with the view and column types of this one.
    pub fn empty_like(&self) -> Self {
        Self {
            view: self.view,
            timestamps: Vec::new(),
            ops: Vec::new(),
            counts: Vec::new(),
            ordinals: Vec::new(),
            columns: self
                .columns
                .iter()
                .map(|c| ColumnData {
                    validity: None,
                    values: c.values.empty_like(),
                })
                .collect(),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.timestamps.len()
    }

    /// Memory taken by the values, in bytes (an estimate: spare capacity is not counted).
    pub fn byte_len(&self) -> usize {
        let fixed = self.timestamps.len() * 13 + self.counts.len() * 8;
        let columns = self
            .columns
            .iter()
            .map(|c| c.values.byte_len() + c.validity.as_ref().map_or(0, Vec::len))
            .sum::<usize>();
        fixed + columns
    }

    /// What the row does.
    pub fn op(&self, row: usize) -> Op {
        if self.ops[row] == Op::Delete as u8 {
            Op::Delete
        } else {
            Op::Put
        }
    }

    /// The absolute multiplicity of the row.
    pub fn count(&self, row: usize) -> u64 {
        self.counts.get(row).copied().unwrap_or(1)
    }

    /// Records the multiplicity of row `at`, the next one.
    pub(crate) fn push_count(&mut self, at: usize, count: u64) {
        if count != 1 && self.counts.is_empty() {
            self.counts = vec![1; at];
        }
        if count != 1 || !self.counts.is_empty() {
            self.counts.push(count);
        }
    }

    /// Takes the last row off again.
    pub(crate) fn pop(&mut self) {
        let Some(row) = self.rows().checked_sub(1) else {
            return;
        };
        self.timestamps.truncate(row);
        self.ops.truncate(row);
        self.counts.truncate(row);
        self.ordinals.truncate(row);
        for column in &mut self.columns {
            column.truncate(row);
        }
    }

    /// Appends row `row` of `other`, a chunk of the same view.
    pub fn push_from(&mut self, other: &Chunk, row: usize) {
        let at = self.rows();
        self.timestamps.push(other.timestamps[row]);
        self.ops.push(other.ops[row]);
        self.ordinals.push(other.ordinals[row]);
        self.push_count(at, other.count(row));
        for (mine, theirs) in self.columns.iter_mut().zip(&other.columns) {
            mine.values.push_from(&theirs.values, row);
            mine.mark(at, theirs.is_null(row));
        }
    }

    /// A copy of the rows `range`.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Chunk {
        let mut out = self.empty_like();
        for row in range {
            out.push_from(self, row);
        }
        out
    }
}

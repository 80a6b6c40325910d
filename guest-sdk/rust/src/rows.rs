//! Rows in packed columns: read in place, without an allocation for each value.

use crate::model::ColumnType;

/// Strings or byte strings back to back: value `i` is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// One more than there are values.
    pub offsets: Vec<u32>,
    /// The values, back to back.
    pub data: Vec<u8>,
}

impl Packed {
    /// The value at `row`.
    ///
    /// # Panics
    /// When `row` is out of range.
    pub fn get(&self, row: usize) -> &[u8] {
        &self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

/// The values of one column. A NULL keeps its place.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// One byte per row, 0 or 1.
    Booleans(Vec<u8>),
    /// int16 to int64; date: days since 1970-01-01; time: microseconds since midnight;
    /// timestamps: microseconds since 1970-01-01 (UTC).
    Ints(Vec<i64>),
    /// uint16 to uint64, mz_timestamp.
    Uints(Vec<u64>),
    /// real and double precision.
    Floats(Vec<f64>),
    /// text, json, uuid, numeric, interval and other types: UTF-8 in Materialize's own form.
    Texts(Packed),
    /// bytea.
    Bytes(Packed),
}

/// One value, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    Text(&'a str),
    /// See [`Values::Bytes`].
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// Appends the value in Materialize's own text form. NULL appends nothing.
    pub fn write_text(self, ty: &ColumnType, out: &mut Vec<u8>) {
        match self {
            Value::Null => {}
            Value::Boolean(b) => out.push(if b { b't' } else { b'f' }),
            Value::Int(n) => match ty {
                ColumnType::Date => mz_sink_text::write_date(n, out),
                ColumnType::Time => mz_sink_text::write_time(n, out),
                ColumnType::Timestamp => mz_sink_text::write_timestamp(n, false, out),
                ColumnType::TimestampTz => mz_sink_text::write_timestamp(n, true, out),
                _ => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
            },
            Value::Uint(n) => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
            Value::Float(x) if *ty == ColumnType::Float32 => mz_sink_text::write_float32(x, out),
            Value::Float(x) => mz_sink_text::write_float64(x, out),
            Value::Text(t) => out.extend_from_slice(t.as_bytes()),
            Value::Bytes(b) => mz_sink_text::write_bytes(b, out),
        }
    }
}

/// One column of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnData {
    /// Bitmap, least significant bit first, 1 = not null; `None` when nothing is null.
    pub validity: Option<Vec<u8>>,
    /// One value per row.
    pub values: Values,
}

impl ColumnData {
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
            return Value::Null;
        }
        match &self.values {
            Values::Booleans(v) => Value::Boolean(v[row] != 0),
            Values::Ints(v) => Value::Int(v[row]),
            Values::Uints(v) => Value::Uint(v[row]),
            Values::Floats(v) => Value::Float(v[row]),
            // The host sends UTF-8; anything else would be its fault, and shows as empty.
            Values::Texts(p) => Value::Text(std::str::from_utf8(p.get(row)).unwrap_or_default()),
            Values::Bytes(p) => Value::Bytes(p.get(row)),
        }
    }
}

/// What a row does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new or changed row, or positive multiplicity.
    Put,
    /// A deleted key, or negative multiplicity.
    Delete,
}

/// Rows of one view. Every list has one entry per row unless it says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// Index of the view.
    pub view: u32,
    /// Number of rows.
    pub rows: u32,
    /// Position of the first row in the batch; [`crate::Batch::reject`] counts from there.
    pub first_row: u64,
    /// When each row changed.
    pub timestamps: Vec<u64>,
    /// 0 = put, 1 = delete.
    pub ops: Vec<u8>,
    /// Absolute multiplicity; empty means 1 for every row.
    pub counts: Vec<u64>,
    /// Position of each row within its timestamp.
    pub ordinals: Vec<u32>,
    /// The columns, in the order of the view.
    pub columns: Vec<ColumnData>,
}

impl Chunk {
    /// What the row does.
    ///
    /// # Panics
    /// When `row` is out of range.
    pub fn op(&self, row: usize) -> Op {
        if self.ops[row] == 1 {
            Op::Delete
        } else {
            Op::Put
        }
    }
}

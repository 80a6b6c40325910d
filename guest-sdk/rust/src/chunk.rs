//! Rows in columns, read without copying and checked once.

use crate::batch::PullError;

/// What happened to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// The row is there (upsert envelope), or its multiplicity grew (diff envelope).
    Put,
    /// The row is gone: it carries its key and other values are null (upsert envelope); or its
    /// multiplicity fell (diff envelope).
    Delete,
}

/// One value, borrowed from its chunk. Which one a column has is on
/// [`ColumnType`](crate::ColumnType).
#[derive(Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    /// A boolean.
    Bool(bool),
    /// A signed integer, or a date or time as a count.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A float, possibly NaN or infinite.
    Float(f64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// Strings back to back: value `i` is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Clone, PartialEq, Eq)]
pub struct PackedTexts {
    offsets: Vec<u32>,
    data: String,
}

/// Byte strings back to back: value `i` is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Clone, PartialEq, Eq)]
pub struct PackedBytes {
    offsets: Vec<u32>,
    data: Vec<u8>,
}

/// All values of one column in a chunk; a null has a place whose content means nothing.
#[derive(Clone, PartialEq)]
pub enum Values {
    /// One byte per row, 0 or 1.
    Booleans(Vec<u8>),
    /// Signed integers and counts of days or microseconds.
    Ints(Vec<i64>),
    /// Unsigned integers.
    Uints(Vec<u64>),
    /// Floats.
    Floats(Vec<f64>),
    /// Texts.
    Texts(PackedTexts),
    /// Byte strings.
    Bytes(PackedBytes),
}

/// One column of a chunk.
#[derive(Clone, PartialEq)]
pub struct ColumnData {
    validity: Option<Vec<u8>>,
    values: Values,
}

/// What a chunk is made of, before it is checked.
#[derive(Clone, PartialEq)]
pub struct ChunkParts {
    /// Index of the view the rows belong to.
    pub view: u32,
    /// Number of rows.
    pub rows: u32,
    /// Position in the batch of the first row.
    pub first_row: u64,
    /// Materialize time of each row, in milliseconds.
    pub timestamps: Vec<u64>,
    /// For each row 0 = put, 1 = delete.
    pub ops: Vec<u8>,
    /// Multiplicity of each row (diff envelope); empty means 1 for all.
    pub counts: Vec<u64>,
    /// Position of each row within its timestamp.
    pub ordinals: Vec<u32>,
    /// One for each column of the view.
    pub columns: Vec<ColumnData>,
}

/// Rows of one view, column by column. Its lists are known to fit together.
#[derive(Clone, PartialEq)]
pub struct Chunk {
    parts: ChunkParts,
}

impl PackedTexts {
    /// Takes offsets (one more than there are values) and UTF-8 data, without copying either.
    pub fn new(offsets: Vec<u32>, data: Vec<u8>) -> Result<Self, PullError> {
        check_offsets(&offsets, data.len())?;
        let data = String::from_utf8(data).map_err(|_| malformed("text is not UTF-8"))?;
        if !data.is_ascii()
            && !offsets
                .iter()
                .all(|&offset| data.is_char_boundary(offset as usize))
        {
            return Err(malformed("a text offset is inside a character"));
        }
        Ok(PackedTexts { offsets, data })
    }

    /// Value `index`; empty beyond the last one.
    #[inline]
    pub fn get(&self, index: usize) -> &str {
        span(&self.offsets, index)
            .and_then(|(start, end)| self.data.get(start..end))
            .unwrap_or_default()
    }

    /// Length in bytes of the longest value.
    pub fn longest(&self) -> usize {
        longest(&self.offsets)
    }
}

impl PackedBytes {
    /// Takes offsets (one more than there are values) and data, without copying either.
    pub fn new(offsets: Vec<u32>, data: Vec<u8>) -> Result<Self, PullError> {
        check_offsets(&offsets, data.len())?;
        Ok(PackedBytes { offsets, data })
    }

    /// Value `index`; empty beyond the last one.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        span(&self.offsets, index)
            .and_then(|(start, end)| self.data.get(start..end))
            .unwrap_or_default()
    }

    /// Length in bytes of the longest value.
    pub fn longest(&self) -> usize {
        longest(&self.offsets)
    }
}

impl Values {
    /// Texts from anything that holds strings: for tests and native hosts.
    pub fn texts<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Values {
        let mut packed = PackedTexts {
            offsets: vec![0],
            data: String::new(),
        };
        for text in texts {
            packed.data.push_str(text.as_ref());
            packed.offsets.push(packed.data.len() as u32);
        }
        Values::Texts(packed)
    }

    fn len(&self) -> usize {
        match self {
            Values::Booleans(values) => values.len(),
            Values::Ints(values) => values.len(),
            Values::Uints(values) => values.len(),
            Values::Floats(values) => values.len(),
            Values::Texts(packed) => packed.offsets.len() - 1,
            Values::Bytes(packed) => packed.offsets.len() - 1,
        }
    }
}

impl ColumnData {
    /// A column. `validity` is a bitmap, least significant bit first, 1 = not null; none when no
    /// value is null.
    pub fn new(validity: Option<Vec<u8>>, values: Values) -> Self {
        ColumnData { validity, values }
    }

    /// All values, nulls included.
    #[inline]
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Whether some value may be null.
    #[inline]
    pub fn has_nulls(&self) -> bool {
        self.validity.is_some()
    }

    /// Whether the value of a row is null.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        match &self.validity {
            None => false,
            Some(bits) => bits
                .get(row / 8)
                .is_none_or(|byte| byte >> (row % 8) & 1 == 0),
        }
    }

    /// The value of a row; none for null and beyond the last row.
    #[inline]
    pub fn get(&self, row: usize) -> Option<ValueRef<'_>> {
        if self.is_null(row) || row >= self.values.len() {
            return None;
        }
        Some(match &self.values {
            Values::Booleans(values) => ValueRef::Bool(values[row] != 0),
            Values::Ints(values) => ValueRef::Int(values[row]),
            Values::Uints(values) => ValueRef::Uint(values[row]),
            Values::Floats(values) => ValueRef::Float(values[row]),
            Values::Texts(packed) => ValueRef::Text(packed.get(row)),
            Values::Bytes(packed) => ValueRef::Bytes(packed.get(row)),
        })
    }
}

impl Chunk {
    /// Checks that all lists have an entry for each row.
    pub fn new(parts: ChunkParts) -> Result<Self, PullError> {
        let rows = parts.rows as usize;
        for (what, len) in [
            ("timestamps", parts.timestamps.len()),
            ("ops", parts.ops.len()),
            ("ordinals", parts.ordinals.len()),
        ] {
            if len != rows {
                return Err(malformed(format!(
                    "the chunk has {rows} rows and {len} {what}"
                )));
            }
        }
        if !parts.counts.is_empty() && parts.counts.len() != rows {
            return Err(malformed("a chunk has counts for some of its rows"));
        }
        for (index, column) in parts.columns.iter().enumerate() {
            let short = column
                .validity
                .as_ref()
                .is_some_and(|bits| bits.len() < rows.div_ceil(8));
            if column.values.len() != rows || short {
                return Err(malformed(format!(
                    "column {index} of the chunk has not {rows} values"
                )));
            }
        }
        Ok(Chunk { parts })
    }

    /// Index of the view the rows belong to.
    pub fn view(&self) -> usize {
        self.parts.view as usize
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.parts.rows as usize
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.parts.rows == 0
    }

    /// All columns, in the view's order.
    pub fn columns(&self) -> &[ColumnData] {
        &self.parts.columns
    }

    /// Materialize time of each row, in milliseconds.
    pub fn timestamps(&self) -> &[u64] {
        &self.parts.timestamps
    }

    /// What happened to a row.
    ///
    /// # Panics
    ///
    /// When there is no such row.
    #[inline]
    pub fn op(&self, row: usize) -> Op {
        if self.parts.ops[row] == 0 {
            Op::Put
        } else {
            Op::Delete
        }
    }

    /// The position of a row in the batch, for [`Batch::reject`](crate::Batch::reject).
    #[inline]
    pub fn position(&self, row: usize) -> u64 {
        self.parts.first_row + row as u64
    }

    /// The rows one by one.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.len()).map(|index| Row { chunk: self, index })
    }
}

// Never row values.
impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chunk of {} rows of view {}", self.len(), self.view())
    }
}

/// One row of a chunk.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    chunk: &'a Chunk,
    index: usize,
}

impl<'a> Row<'a> {
    /// Its position in the batch, for [`Batch::reject`](crate::Batch::reject).
    pub fn position(&self) -> u64 {
        self.chunk.position(self.index)
    }

    /// Its Materialize time, in milliseconds.
    pub fn timestamp(&self) -> u64 {
        self.chunk.parts.timestamps[self.index]
    }

    /// What happened to it.
    pub fn op(&self) -> Op {
        self.chunk.op(self.index)
    }

    /// Its multiplicity: 1 under the upsert envelope.
    pub fn count(&self) -> u64 {
        self.chunk
            .parts
            .counts
            .get(self.index)
            .copied()
            .unwrap_or(1)
    }

    /// Its position within its timestamp: with sink id, view, timestamp and key columns it makes
    /// an idempotency key.
    pub fn ordinal(&self) -> u32 {
        self.chunk.parts.ordinals[self.index]
    }

    /// The value of a column; none for null and when there is no such column.
    pub fn value(&self, column: usize) -> Option<ValueRef<'a>> {
        self.chunk.parts.columns.get(column)?.get(self.index)
    }
}

fn malformed(message: impl Into<String>) -> PullError {
    PullError::Malformed(message.into())
}

fn check_offsets(offsets: &[u32], len: usize) -> Result<(), PullError> {
    let inside = offsets.last().is_some_and(|&last| last as usize <= len);
    if inside && offsets.is_sorted() {
        Ok(())
    } else {
        Err(malformed("the offsets of a packed column are out of order"))
    }
}

#[inline]
fn span(offsets: &[u32], index: usize) -> Option<(usize, usize)> {
    Some((
        *offsets.get(index)? as usize,
        *offsets.get(index + 1)? as usize,
    ))
}

fn longest(offsets: &[u32]) -> usize {
    let lengths = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
    lengths.max().unwrap_or(0)
}

//! Rows that arrived together, in one piece of memory.

use std::sync::Arc;

use mz_sink_core::decode::Fields;
use tokio_postgres::{Error, SimpleQueryRow};

/// Set in an end offset if the value is NULL. No `Vec` is long enough for an offset to reach it.
const NULL: usize = 1 << (usize::BITS - 1);

/// A block takes no more rows once it holds this many bytes of values.
const FULL_BYTES: usize = 256 * 1024;

/// A block takes no more rows than this.
const FULL_ROWS: usize = 4096;

/// Rows of a FETCH that arrived together.
#[derive(Default)]
pub struct RowBlock {
    names: Arc<Vec<String>>,
    data: Vec<u8>,
    /// Where each value ends in `data`, row by row.
    ends: Vec<usize>,
}

/// Shows sizes only: rows are somebody's data.
impl std::fmt::Debug for RowBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowBlock")
            .field("names", &self.names)
            .field("rows", &self.len())
            .field("bytes", &self.data.len())
            .finish()
    }
}

impl RowBlock {
    /// The names of the columns; empty before the first row of a FETCH.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ends
            .len()
            .checked_div(self.names.len())
            .unwrap_or_default()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The rows, in the order they came.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let width = self.names.len();
        (0..self.len()).map(move |row| Row {
            block: self,
            first: row * width,
        })
    }

    pub(crate) fn clear(&mut self, names: Arc<Vec<String>>) {
        self.names = names;
        self.data.clear();
        self.ends.clear();
    }

    pub(crate) fn is_full(&self) -> bool {
        self.data.len() >= FULL_BYTES || self.len() >= FULL_ROWS
    }

    pub(crate) fn push(&mut self, row: &SimpleQueryRow) -> Result<(), Error> {
        for index in 0..row.len() {
            let value = row.try_get(index)?;
            self.data
                .extend_from_slice(value.unwrap_or_default().as_bytes());
            let end = self.data.len();
            self.ends
                .push(if value.is_some() { end } else { end | NULL });
        }
        Ok(())
    }
}

/// One row of a [`RowBlock`].
#[derive(Clone, Copy)]
pub struct Row<'a> {
    block: &'a RowBlock,
    first: usize,
}

impl<'a> Row<'a> {
    /// The value at `index`; `None` for NULL and past the end.
    pub fn value(&self, index: usize) -> Option<&'a [u8]> {
        if index >= self.len() {
            return None;
        }
        let ends = &self.block.ends;
        let at = self.first + index;
        let start = at.checked_sub(1).map_or(0, |before| ends[before] & !NULL);
        let end = ends[at];
        (end & NULL == 0).then(|| &self.block.data[start..end])
    }
}

impl Fields for Row<'_> {
    fn len(&self) -> usize {
        self.block.names.len()
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        self.value(index)
    }
}

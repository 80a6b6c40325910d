//! How long rows get as JSON, before any of them has been seen.

use mz_sink_core::chunk::{ColumnData, Values};
use mz_sink_core::types::{Column, View};

/// What surrounds the columns of a row: its position, time, operation and so on, in bytes.
const ROW: usize = 80;
/// Quotes, colon and comma around a column's name, in bytes.
const NAME: usize = 4;
/// A value is about this many times as long as in a column: 8 bytes of a timestamp are 31 in JSON.
const VALUE: usize = 4;
/// What a chunk holds per row beside the columns, in bytes: time, operation, ordinal.
const FIXED: usize = 13;

/// JSON of this view's rows is at most about this many times as long as their columns. That is
/// for rows as short as they can be; with long texts it is less.
pub(crate) fn factor(view: &View) -> usize {
    let shortest = FIXED + view.columns.iter().map(width).sum::<usize>();
    let names = view.columns.iter().map(|c| c.name.len() + NAME);
    VALUE + (ROW + names.sum::<usize>()).div_ceil(shortest)
}

/// The least that a value takes in a chunk, in bytes. A NULL keeps its place.
fn width(column: &Column) -> usize {
    match ColumnData::for_type(&column.ty).values {
        Values::Booleans(_) => 1,
        Values::Ints(_) | Values::Uints(_) | Values::Floats(_) => 8,
        // The offset; the value may be empty.
        _ => 4,
    }
}

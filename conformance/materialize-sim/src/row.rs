//! Rows, changes, and the order a server sends them in.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::NUMERIC;

/// One row: the text of each value in the object's column order, `None` for NULL.
pub type Row = Vec<Option<String>>;

/// A row and its change in multiplicity.
pub type Change = (Row, i64);

/// A stored change; rows are shared between histories and subscriptions.
pub(crate) type SharedChange = (Arc<Row>, i64);

/// Adds up the changes of equal rows and drops what cancels out.
pub(crate) fn consolidate<'a>(
    changes: impl IntoIterator<Item = &'a SharedChange>,
) -> Vec<SharedChange> {
    let mut net: BTreeMap<&Arc<Row>, i64> = BTreeMap::new();
    for (row, diff) in changes {
        *net.entry(row).or_default() += diff;
    }
    net.into_iter()
        .filter(|(_, diff)| *diff != 0)
        .map(|(row, diff)| (row.clone(), diff))
        .collect()
}

/// Puts rows in the server's order: shorter encodings first, then by their values.
///
/// `oids` are the types of the columns.
pub(crate) fn sort_rows(changes: &mut [SharedChange], oids: &[u32]) {
    changes.sort_by_cached_key(|(row, _)| RowKey::new(row, oids));
}

/// Sort key of some values: the server compares packed rows, length first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    packed_length: usize,
    values: Vec<PackedKey>,
}

/// Sort key of one value as the server packs it: an integer is its bytes, the lowest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum PackedKey {
    Null,
    Integer {
        positive: bool,
        length: u32,
        bytes: u64,
    },
    Text(String),
}

/// Sort key of one value by what it means. A number written as one sorts as a number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ValueKey {
    Null,
    Integer(i64),
    Text(String),
}

impl ValueKey {
    pub(crate) fn new(value: Option<&str>) -> Self {
        match value {
            None => Self::Null,
            Some(text) => match text.parse() {
                Ok(number) => Self::Integer(number),
                Err(_) => Self::Text(text.to_owned()),
            },
        }
    }
}

impl PackedKey {
    fn new(value: Option<&str>) -> Self {
        match ValueKey::new(value) {
            ValueKey::Null => Self::Null,
            ValueKey::Text(text) => Self::Text(text),
            ValueKey::Integer(number) => Self::Integer {
                positive: number >= 0,
                length: (71 - number.unsigned_abs().leading_zeros()) / 8,
                bytes: (number as u64).swap_bytes(),
            },
        }
    }

    /// Roughly the bytes of the value in the server's packed form.
    fn packed_length(&self, text: Option<&str>, oid: u32) -> usize {
        match self {
            Self::Null => 1,
            // Three digits to a unit of two bytes, whatever the number.
            _ if oid == NUMERIC => 4 + 2 * text.map_or(0, str::len).div_ceil(3),
            Self::Integer { length, .. } => 1 + *length as usize,
            Self::Text(text) => 2 + text.len(),
        }
    }
}

impl RowKey {
    fn new(row: &Row, oids: &[u32]) -> Self {
        let values: Vec<_> = row.iter().map(|v| PackedKey::new(v.as_deref())).collect();
        let lengths = values.iter().zip(row).zip(oids);
        let packed_length = lengths
            .map(|((key, text), oid)| key.packed_length(text.as_deref(), *oid))
            .sum();
        Self {
            packed_length,
            values,
        }
    }
}

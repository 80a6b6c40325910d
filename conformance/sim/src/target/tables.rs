//! A target with transactions: data and checkpoint change together or not at all.

use std::collections::BTreeMap;

use mz_sink_core::types::Op;

use super::Change;
use crate::world::{Bag, Key, Text, add};

/// The tables, one for each view.
#[derive(Debug)]
pub(crate) struct Tables(pub(crate) Vec<Table>);

/// One table.
#[derive(Debug)]
pub(crate) enum Table {
    /// By key.
    Keyed(BTreeMap<Key, Option<Text>>),
    /// Rows with their multiplicities.
    Bag(Bag),
}

impl Tables {
    pub(crate) fn new(views: usize, upsert: bool) -> Self {
        let empty = || {
            if upsert {
                Table::Keyed(BTreeMap::new())
            } else {
                Table::Bag(Bag::new())
            }
        };
        Self((0..views).map(|_| empty()).collect())
    }

    /// The data of a transaction.
    pub(crate) fn apply(&mut self, snapshot_of: &[u32], changes: &[Change]) {
        for view in snapshot_of {
            match &mut self.0[*view as usize] {
                Table::Keyed(rows) => rows.clear(),
                Table::Bag(rows) => rows.clear(),
            }
        }
        for change in changes {
            match &mut self.0[change.view] {
                Table::Keyed(rows) if change.op == Op::Delete || change.refused => {
                    rows.remove(&change.row.key);
                }
                Table::Keyed(rows) => {
                    rows.insert(change.row.key.clone(), change.row.value.clone());
                }
                Table::Bag(_) if change.refused => {}
                Table::Bag(rows) => {
                    let count = change.count as i64;
                    let diff = if change.op == Op::Put { count } else { -count };
                    add(rows, &change.row, diff);
                }
            }
        }
    }
}

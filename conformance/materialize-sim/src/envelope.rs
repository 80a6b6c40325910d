//! From the changes of one timestamp to the rows a SUBSCRIBE sends for it.

use crate::datarow;
use crate::error::SqlError;
use crate::row::{SharedChange, ValueKey, sort_rows};
use crate::types::{BOOL, Column, INT8, NUMERIC, TEXT};

/// The shape of a subscription's rows.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// WITH (PROGRESS): a `mz_progressed` column and progress rows.
    pub(crate) progress: bool,
    /// Positions of the key columns in KEY order; `None` without an envelope.
    pub(crate) key: Option<Vec<usize>>,
    /// Positions of the object's columns in the order they are sent.
    pub(crate) order: Vec<usize>,
    /// The types of the object's columns.
    oids: Vec<u32>,
}

/// One row to send, before its timestamp is known.
pub(crate) struct OutputRow<'a> {
    /// `mz_state`, or `mz_diff` where there is no envelope.
    pub(crate) state: State,
    /// The data columns in the order they are sent.
    pub(crate) values: Vec<Option<&'a str>>,
}

/// What happened to a row or key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum State {
    Diff(i64),
    Named(&'static str),
}

impl Shape {
    /// # Errors
    /// XX000 for a key column that does not exist.
    pub(crate) fn new(
        progress: bool,
        key: Option<&[String]>,
        columns: &[Column],
    ) -> Result<Self, SqlError> {
        let oids = columns.iter().map(|c| c.oid).collect();
        let Some(names) = key else {
            return Ok(Self {
                progress,
                key: None,
                order: (0..columns.len()).collect(),
                oids,
            });
        };
        let key = names
            .iter()
            .map(|name| {
                columns.iter().position(|c| c.name == *name).ok_or_else(|| {
                    SqlError::new("XX000", format!("column \"{name}\" does not exist"))
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let rest = (0..columns.len()).filter(|at| !key.contains(at));
        let order = key.iter().copied().chain(rest).collect();
        Ok(Self {
            progress,
            key: Some(key),
            order,
            oids,
        })
    }

    /// The columns of the result.
    pub(crate) fn columns(&self, object: &[Column]) -> Vec<Column> {
        let mut columns = vec![Column::exact("mz_timestamp", "numeric", NUMERIC, 2_555_908)];
        if self.progress {
            columns.push(Column::exact("mz_progressed", "boolean", BOOL, -1));
        }
        columns.push(match self.key {
            None => Column::exact("mz_diff", "bigint", INT8, -1),
            Some(_) => Column::exact("mz_state", "text", TEXT, -1),
        });
        columns.extend(self.order.iter().map(|at| object[*at].clone()));
        columns
    }

    /// Number of columns before the data columns.
    pub(crate) fn meta_columns(&self) -> usize {
        2 + usize::from(self.progress)
    }

    /// The rows for the consolidated changes of one timestamp, in the order they are sent.
    pub(crate) fn rows<'a>(&self, changes: &'a mut [SharedChange]) -> Vec<OutputRow<'a>> {
        sort_rows(changes, &self.oids);
        match &self.key {
            None => changes
                .iter()
                .map(|(row, diff)| OutputRow {
                    state: State::Diff(*diff),
                    values: self.order.iter().map(|at| row[*at].as_deref()).collect(),
                })
                .collect(),
            Some(key) => {
                changes.sort_by_cached_key(|(row, _)| {
                    key.iter()
                        .map(|at| ValueKey::new(row[*at].as_deref()))
                        .collect::<Vec<_>>()
                });
                changes
                    .chunk_by(|(a, _), (b, _)| key.iter().all(|at| a[*at] == b[*at]))
                    .map(|group| self.upsert(group, key.len()))
                    .collect()
            }
        }
    }

    /// The envelope looks at one key and one timestamp at a time.
    fn upsert<'a>(&self, group: &'a [SharedChange], key_columns: usize) -> OutputRow<'a> {
        let inserted = group.iter().find(|(_, diff)| *diff == 1);
        let deleted = group.iter().find(|(_, diff)| *diff == -1);
        let (state, row) = match (group.len(), inserted, deleted) {
            (1, Some((row, _)), None) | (2, Some((row, _)), Some(_)) => ("upsert", Some(row)),
            (1, None, Some(_)) => ("delete", None),
            _ => ("key_violation", None),
        };
        let key_row = &group[0].0;
        let values = self.order.iter().enumerate().map(|(sent, at)| match row {
            Some(row) => row[*at].as_deref(),
            None if sent < key_columns => key_row[*at].as_deref(),
            None => None,
        });
        OutputRow {
            state: State::Named(state),
            values: values.collect(),
        }
    }

    /// Starts the message of a data row: everything before its data columns.
    pub(crate) fn start_row(&self, out: &mut Vec<u8>, time: &[u8], state: State) -> usize {
        let at = datarow::start(out, self.meta_columns() + self.order.len());
        datarow::value(out, Some(time));
        if self.progress {
            datarow::value(out, Some(b"f"));
        }
        match state {
            State::Diff(diff) => datarow::integer(out, diff),
            State::Named(name) => datarow::value(out, Some(name.as_bytes())),
        }
        at
    }

    /// The whole message of a data row.
    pub(crate) fn data_row(&self, out: &mut Vec<u8>, time: &[u8], row: &OutputRow<'_>) {
        let at = self.start_row(out, time, row.state);
        for value in &row.values {
            datarow::value(out, value.map(str::as_bytes));
        }
        datarow::finish(out, at);
    }

    /// The whole message of a progress row.
    pub(crate) fn progress_row(&self, out: &mut Vec<u8>, frontier: u64) {
        let at = datarow::start(out, self.meta_columns() + self.order.len());
        datarow::integer(out, frontier);
        datarow::value(out, Some(b"t"));
        for _ in 0..=self.order.len() {
            datarow::value(out, None);
        }
        datarow::finish(out, at);
    }
}

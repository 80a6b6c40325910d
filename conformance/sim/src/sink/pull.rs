//! Pulls the rows of a batch, as a component would, and refuses some.

use mz_sink_core::batch::{BatchInfo, BatchRows, PullError, SinkError};
use mz_sink_core::chunk::{Chunk, Value};
use mz_sink_core::keys::idempotency_key;
use mz_sink_core::types::{Op, View};

use super::{Answer, ModelSink, failure};
use crate::bug::ModelBug;
use crate::profile::Kind;
use crate::target::Change;
use crate::world::{Key, Row, Text};

impl ModelSink {
    /// All changes of the batch, in order.
    pub(super) fn pull(&mut self, mut rows: Box<dyn BatchRows>) -> Answer<Vec<Change>> {
        let lost = |error: PullError| {
            SinkError::Retryable(mz_sink_core::batch::Failure {
                message: error.to_string(),
                ..failure("rows-lost")
            })
        };
        let info = rows.info().clone();
        let mut changes: Vec<Change> = Vec::new();
        let most = self.dice.pick(&[1, 200, 64 << 10]);
        if self.dice.chance(100) {
            // A look at the first rows, and back.
            rows.next(most).map_err(lost)?;
            rows.rewind();
        }
        while let Some((at, chunk)) = rows.next(most).map_err(lost)? {
            if at != changes.len() as u64 {
                let worker = self.worker;
                self.sim
                    .broken(format!("worker {worker} pulled row {at} out of order"));
            }
            for index in 0..chunk.rows() {
                let change = self.change(&info, &chunk, index);
                changes.push(change);
            }
        }
        if changes.len() as u64 != info.rows {
            self.sim.broken(format!(
                "worker {} pulled {} rows of {}",
                self.worker,
                changes.len(),
                info.rows
            ));
        }
        for change in &changes {
            let snapshot = info.snapshot_of.contains(&(change.view as u32));
            let inside = match snapshot {
                true => change.time + 1 == info.upper,
                false => (info.lower..info.upper).contains(&change.time),
            };
            if !inside {
                self.sim.broken(format!(
                    "worker {} got a change at {} in [{}, {})",
                    self.worker, change.time, info.lower, info.upper
                ));
            }
        }
        let silent = self.sim.has_bug(ModelBug::SilentReject);
        for (at, change) in changes.iter().enumerate().filter(|(_, c)| c.refused) {
            if !silent || change.time % 4 > 0 {
                rows.reject(at as u64, "model", "refused by the model")
                    .map_err(lost)?;
            }
        }
        Ok(changes)
    }

    /// Only events need one.
    fn idempotency_key(&self, info: &BatchInfo, chunk: &Chunk, index: usize) -> Text {
        let kind = self.sim.state().profile.kind;
        if kind != Kind::AtLeastOnce {
            return Text::from("");
        }
        let sink_id = self.sim.state().targets[self.target].sink_id.clone();
        let of_snapshot = info.snapshot_of.contains(&chunk.view)
            && !self.sim.has_bug(ModelBug::SnapshotKeysAsChanges);
        let view = &self.views[chunk.view as usize];
        idempotency_key(&sink_id, view, chunk, index, of_snapshot).into()
    }

    fn change(&self, info: &BatchInfo, chunk: &Chunk, index: usize) -> Change {
        let view = chunk.view as usize;
        let op = chunk.op(index);
        let row = decoded(&self.views[view], chunk, index);
        Change {
            view,
            time: chunk.timestamps[index],
            idempotency_key: self.idempotency_key(info, chunk, index),
            op,
            count: chunk.count(index),
            refused: row.is_refused(),
            row,
        }
    }
}

/// Decodes a row by column name.
pub(crate) fn decoded(view: &View, chunk: &Chunk, index: usize) -> Row {
    let value = |name: &str| {
        let column = view.columns.iter().position(|column| column.name == name)?;
        Some(chunk.columns[column].get(index))
    };
    let text = |name: &str| match value(name) {
        Some(Value::Text(text)) => Some(Text::from(String::from_utf8_lossy(text))),
        _ => None,
    };
    Row {
        key: Key {
            id: match value("id") {
                Some(Value::Int(id)) => id,
                // No object has such an id: it will not go unnoticed.
                _ => i64::MIN,
            },
            tag: text("tag"),
        },
        value: text("value"),
    }
}

/// What a delete by key leaves of a row.
pub(super) fn is_put(change: &Change) -> bool {
    change.op == Op::Put && !change.refused
}

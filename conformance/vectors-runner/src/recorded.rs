//! What a real server sent for one subscription, from the first row to batches.

use std::slice;

use mz_sink_core::chunk::{Chunk, Value as Held};
use mz_sink_core::cut;
use mz_sink_core::decode::Decoder;
use mz_sink_core::release::{Held as HeldRows, Start};
use mz_sink_core::types::{Envelope, View};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::stream::{From, InputColumn, Row, empty, error, op, text_of, view};

#[derive(Deserialize)]
pub(crate) struct Subscription {
    envelope: Envelope,
    key: Vec<String>,
    columns: Vec<InputColumn>,
    start: From,
    up_to: Option<u64>,
    names: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
    /// Whether the server told that nothing follows.
    end: bool,
}

pub(crate) fn stream(input: Subscription) -> Result<Value, String> {
    let view = view(&input.columns, &input.key)?;
    let decoder = match Decoder::new(&view, input.envelope, &input.names) {
        Ok(decoder) => decoder,
        Err(found) => return Ok(error(&found)),
    };
    let start = input.start.start();
    let mut held = HeldRows::new(empty(&view), start);
    if let Some(end) = input.up_to {
        held.set_end(end);
    }
    for row in input.rows {
        if let Err(found) = held.accept(&decoder, &Row(row)) {
            return Ok(error(&found));
        }
    }
    if input.end
        && let Err(found) = held.finish()
    {
        return Ok(error(&found));
    }
    let mut lower = match start {
        Start::Resume(frontier) => Some(frontier),
        _ => None,
    };
    let mut batches = Vec::new();
    while let Some(taken) = cut::take(slice::from_mut(&mut held), lower, usize::MAX) {
        lower = Some(taken.upper);
        let chunks = taken.segments.iter().flat_map(|segment| &segment.chunk);
        let rows = chunks.flat_map(|chunk| (0..chunk.rows()).map(|row| one(&view, chunk, row)));
        batches.push(json!({
            "upper": taken.upper.to_string(),
            "snapshot": taken.snapshot_at.is_some(),
            "rows": rows.collect::<Result<Vec<_>, _>>()?,
        }));
    }
    Ok(batches.into())
}

/// Time, what it does, how often, and the values as the server writes them.
fn one(view: &View, chunk: &Chunk, row: usize) -> Result<Value, String> {
    let values = view.columns.iter().zip(&chunk.columns);
    let texts = values.map(|(column, values)| match values.get(row) {
        Held::Null => Ok(Value::Null),
        value => Ok(json!(text_of(value, &column.ty)?)),
    });
    Ok(json!([
        chunk.timestamps[row],
        op(chunk, row),
        chunk.count(row),
        texts.collect::<Result<Vec<Value>, String>>()?,
    ]))
}

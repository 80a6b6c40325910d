//! The names of changes.

use mz_sink_core::decode::Decoder;
use mz_sink_core::keys::{correlation_key, idempotency_key};
use mz_sink_core::release::{Accepted, Held as HeldRows};
use mz_sink_core::types::{Envelope, View};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::stream::{From, InputColumn, Row, empty, view};

/// A stream, and the changes of it whose names are asked for.
#[derive(Deserialize)]
pub(crate) struct Named {
    sink_id: String,
    view: String,
    envelope: Envelope,
    key: Vec<String>,
    columns: Vec<InputColumn>,
    start: From,
    names: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
    /// Whether the rows are taken for those of a snapshot.
    #[serde(default)]
    snapshot: bool,
}

/// The names of all changes, and the text that each idempotency key is the digest of.
pub(crate) fn keys(input: Named) -> Result<Value, String> {
    let view = View {
        name: input.view,
        ..view(&input.columns, &input.key)?
    };
    let decoder = Decoder::new(&view, input.envelope, &input.names).map_err(|e| e.to_string())?;
    let mut held = HeldRows::new(empty(&view), input.start.start());
    let mut frontier = 0;
    for row in input.rows {
        let accepted = held.accept(&decoder, &Row(row));
        if let Accepted::Advanced(to) = accepted.map_err(|e| e.to_string())? {
            frontier = to;
        }
    }
    let upper = held.cut_at(frontier, usize::MAX);
    let mut named = Vec::new();
    for segment in held.take_below(upper) {
        let Some(chunk) = segment.chunk else { continue };
        for row in 0..chunk.rows() {
            named.push(json!({
                "idempotency": idempotency_key(&input.sink_id, &view, &chunk, row, input.snapshot),
                "correlation": correlation_key(&input.sink_id, &view, &chunk, row),
            }));
        }
    }
    Ok(named.into())
}

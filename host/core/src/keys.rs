//! Names for changes and for what they are about, the same on every repeat.
//!
//! An effect that cannot be undone is made harmless to repeat by a name that the other side
//! remembers. The position in a batch is no such name, since batches are cut anew after a
//! restart; the position within a timestamp is, since a timestamp always has the same rows in
//! the same order. Pinned by `conformance/vectors/keys.json`.

use sha2::{Digest, Sha256};

use crate::chunk::{Chunk, Value};
use crate::text;
use crate::types::View;

/// Names one change: 64 lower-case hex digits, the SHA-256 of the canonical JSON array of
/// `"change"` or `"snapshot"`, sink id, view name, time, key and position within the time.
///
/// A row of a snapshot is not the change that had the same key at the same time: a worker that
/// lost its epoch may have sent the one, and its successor, which took its snapshot earlier, the
/// other.
pub fn idempotency_key(
    sink_id: &str,
    view: &View,
    chunk: &Chunk,
    row: usize,
    is_snapshot: bool,
) -> String {
    hash(&serde_json::json!([
        if is_snapshot { "snapshot" } else { "change" },
        sink_id,
        view.name,
        chunk.timestamps[row].to_string(),
        key(view, chunk, row),
        chunk.ordinals[row],
    ]))
}

/// Names what a change is about, whenever it happens: the SHA-256 of sink id, view name and key.
pub fn correlation_key(sink_id: &str, view: &View, chunk: &Chunk, row: usize) -> String {
    hash(&serde_json::json!([
        sink_id,
        view.name,
        key(view, chunk, row)
    ]))
}

/// The key for people: a JSON array of its values in Materialize's own text form.
pub fn key_text(view: &View, chunk: &Chunk, row: usize) -> String {
    serde_json::json!(key(view, chunk, row)).to_string()
}

/// The values of the key columns in Materialize's own text form.
fn key(view: &View, chunk: &Chunk, row: usize) -> Vec<Option<String>> {
    let text_of = |column: &usize| match chunk.columns[*column].get(row) {
        Value::Null => None,
        value => {
            let mut text = Vec::new();
            text::write(value, &view.columns[*column].ty, &mut text);
            Some(String::from_utf8_lossy(&text).into_owned())
        }
    };
    view.key.iter().map(text_of).collect()
}

fn hash(parts: &serde_json::Value) -> String {
    // An array of strings, numbers and such always has a canonical form.
    let text = serde_json_canonicalizer::to_string(parts).unwrap_or_else(|_| parts.to_string());
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

//! The last change per key over a batch, in key order, with the greatest timestamp.
//!
//! For sinks that only want the outcome. Dropping an older change of a key is safe exactly
//! because the newer one, with its greater timestamp, is in the same batch.

use std::sync::Arc;

use crate::chunk::{Chunk, Value};
use crate::planted::{self, Planted};

#[cfg(test)]
mod tests;

/// Rows per chunk of the result.
const CHUNK_ROWS: usize = 8192;

/// Nets chunks of one view, given in time order, by the columns `key`.
///
/// The order is that of the values; for types that travel as text, such as `numeric`, it is that
/// of their text.
pub fn net(chunks: &[Arc<Chunk>], key: &[usize]) -> Vec<Chunk> {
    let Some(first) = chunks.first() else {
        return Vec::new();
    };
    let mut arena = Vec::new();
    let mut rows = Vec::with_capacity(chunks.iter().map(|c| c.rows()).sum());
    for (c, chunk) in chunks.iter().enumerate() {
        for row in 0..chunk.rows() {
            let start = arena.len();
            for column in key {
                write_ordered(chunk.columns[*column].get(row), &mut arena);
            }
            rows.push((start..arena.len(), c, row));
        }
    }
    // Equal keys stay in time order: the position breaks the tie.
    rows.sort_unstable_by(|a, b| {
        (&arena[a.0.clone()], a.1, a.2).cmp(&(&arena[b.0.clone()], b.1, b.2))
    });
    let mut out: Vec<Chunk> = Vec::new();
    for (i, (bytes, c, row)) in rows.iter().enumerate() {
        let superseded = rows
            .get(i + 1)
            .is_some_and(|next| arena[next.0.clone()] == arena[bytes.clone()]);
        let repeats = i > 0 && arena[rows[i - 1].0.clone()] == arena[bytes.clone()];
        let left_out = match planted::is(Planted::NettingKeepsFirst) {
            true => repeats,
            false => superseded,
        };
        if left_out {
            continue;
        }
        if out.last().is_none_or(|chunk| chunk.rows() == CHUNK_ROWS) {
            out.push(first.empty_like());
        }
        if let Some(chunk) = out.last_mut() {
            chunk.push_from(&chunks[*c], *row);
        }
    }
    out
}

/// Bytes that compare as the values do, and of which none is a prefix of another.
fn write_ordered(value: Value<'_>, out: &mut Vec<u8>) {
    let bytes = |b: &[u8], out: &mut Vec<u8>| {
        for byte in b {
            out.push(*byte);
            if *byte == 0 {
                out.push(0xff);
            }
        }
        out.extend_from_slice(&[0, 0]);
    };
    out.push(u8::from(value != Value::Null));
    match value {
        Value::Null => {}
        Value::Boolean(b) => out.push(u8::from(b)),
        Value::Int(n) => out.extend_from_slice(&(n as u64 ^ 1 << 63).to_be_bytes()),
        Value::Uint(n) => out.extend_from_slice(&n.to_be_bytes()),
        Value::Float(x) => {
            // The two zeros are one key, and so are all NaNs.
            let x = if x == 0.0 {
                0.0
            } else if x.is_nan() {
                f64::NAN
            } else {
                x
            };
            let bits = x.to_bits();
            let ordered = if bits >> 63 == 1 {
                !bits
            } else {
                bits | 1 << 63
            };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        Value::Text(t) | Value::Bytes(t) => bytes(t, out),
    }
}

//! The JSON form of rows, for scripting guests.
//!
//! One array of
//! `{"i": position, "view": index, "ts": time, "ord": ordinal, "op": "put" | "delete", "n": count, "row": {column: value}}`.
//! Exact in every language: integers beyond 2^53, numeric, NaN and infinities are JSON
//! strings; dates, times, intervals, bytes, jsonb and every other type are strings in
//! Materialize's own text form. NULL is `null`.

use crate::chunk::{Chunk, Value};
use crate::text;
use crate::types::{ColumnType, Op, View};

/// The largest integer that every JSON reader keeps exact: 2^53.
const EXACT: u64 = 1 << 53;

/// Appends rows `range` of `chunk` as one JSON array. `first_row` is the position in the batch
/// of the chunk's first row.
pub fn write_rows(
    chunk: &Chunk,
    view: &View,
    first_row: u64,
    range: std::ops::Range<usize>,
    out: &mut Vec<u8>,
) {
    let names: Vec<Vec<u8>> = view
        .columns
        .iter()
        .map(|c| {
            let mut name = Vec::new();
            write_string(c.name.as_bytes(), &mut name);
            name.push(b':');
            name
        })
        .collect();
    out.push(b'[');
    for (n, row) in range.enumerate() {
        if n > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"i\":");
        write_uint(first_row + row as u64, out);
        out.extend_from_slice(b",\"view\":");
        write_uint(u64::from(chunk.view), out);
        out.extend_from_slice(b",\"ts\":");
        write_uint(chunk.timestamps[row], out);
        out.extend_from_slice(b",\"ord\":");
        write_uint(u64::from(chunk.ordinals[row]), out);
        out.extend_from_slice(match chunk.op(row) {
            Op::Put => b",\"op\":\"put\",\"n\":",
            Op::Delete => b",\"op\":\"delete\",\"n\":",
        });
        write_uint(chunk.count(row), out);
        out.extend_from_slice(b",\"row\":{");
        for (i, (column, name)) in view.columns.iter().zip(&names).enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(name);
            write_value(chunk.columns[i].get(row), &column.ty, out);
        }
        out.extend_from_slice(b"}}");
    }
    out.push(b']');
}

fn write_uint(n: u64, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(n).as_bytes();
    if n > EXACT {
        out.push(b'"');
        out.extend_from_slice(digits);
        out.push(b'"');
    } else {
        out.extend_from_slice(digits);
    }
}

fn write_value(value: Value<'_>, ty: &ColumnType, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Boolean(b) => out.extend_from_slice(if b { b"true" } else { b"false" }),
        Value::Uint(n) => write_uint(n, out),
        Value::Int(n)
            if matches!(
                ty,
                ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64
            ) && n.unsigned_abs() <= EXACT =>
        {
            text::write(value, ty, out);
        }
        Value::Float(x) if x.is_finite() => {
            // JSON readers drop the sign of the integer -0.
            if x == 0.0 && x.is_sign_negative() {
                out.extend_from_slice(b"-0.0");
            } else {
                text::write(value, ty, out);
            }
        }
        Value::Text(t) => write_string(t, out),
        Value::Int(_) | Value::Float(_) | Value::Bytes(_) => {
            let mut form = Vec::new();
            text::write(value, ty, &mut form);
            write_string(&form, out);
        }
    }
}

/// Writes UTF-8 text as a JSON string.
fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut clean = 0;
    for (i, &b) in text.iter().enumerate() {
        let escape: &[u8] = match b {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0..=0x1f => b"",
            _ => continue,
        };
        out.extend_from_slice(&text[clean..i]);
        if escape.is_empty() {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            out.extend_from_slice(b"\\u00");
            out.push(DIGITS[usize::from(b >> 4)]);
            out.push(DIGITS[usize::from(b & 15)]);
        } else {
            out.extend_from_slice(escape);
        }
        clean = i + 1;
    }
    out.extend_from_slice(&text[clean..]);
    out.push(b'"');
}

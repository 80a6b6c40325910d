//! Rows as the JSON body of a write, column by column, straight from the chunk.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mz_sink_guest::{Chunk, ColumnData, Error, Op, ValueRef, Values};

use crate::ids;
use crate::schema::{Attribute, Table};
use crate::transform::{self, SOURCE_HASH};
use crate::types::{Encoding, PlainText};
use crate::vector;

/// What is the same for all rows of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) generation: u64,
    pub(crate) written_at_ms: u64,
}

/// Whether stored documents are compared first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Only documents older than the row are replaced.
    NewerWins,
    /// Into a namespace that this attempt made.
    Load,
}

/// A stale write, or one sent twice, meets a document that is not older, and is skipped. The
/// null arm is for documents that this sink did not write.
const NEWER_WINS: &str = concat!(
    r#","upsert_condition":["Or",[["mz_timestamp","Lt",{"$ref_new":"mz_timestamp"}],"#,
    r#"["mz_timestamp","Eq",null]]]"#
);

/// A tombstone that hides what is older than a refused row is from just before that row: the row
/// itself, mended and sent again at its own time, is newer than it.
const OLDER_GOES: &str = concat!(
    r#","upsert_condition":["Or",[["mz_timestamp","Lte",{"$ref_new":"mz_timestamp"}],"#,
    r#"["mz_timestamp","Eq",null]]]"#
);

/// A row whose vectors still fit keeps them; any other is left for an upsert.
const SAME_VECTORS: &str = concat!(
    r#","patch_condition":["And",[["mz_timestamp","Lt",{"$ref_new":"mz_timestamp"}],"#,
    r#"["source_hash","Eq",{"$ref_new":"source_hash"}],["deleted","Eq",false]]]"#,
    r#","return_affected_ids":true"#
);

/// The vectors that were made for rows of a chunk: by row, one for each transform, as they go
/// into a request.
pub(crate) type Made = HashMap<u32, Vec<String>>;

/// The body of a write with these rows of a chunk. Rows without vectors in `made` get
/// placeholders.
pub(crate) fn body(
    table: &Table,
    chunk: &Chunk,
    rows: &[u32],
    stamp: Stamp,
    mode: Mode,
    made: &Made,
    capacity: usize,
) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(capacity);
    open(Kind::Upsert, table, chunk, rows, stamp, &mut out)?;
    for attribute in &table.attributes {
        push_attribute(table, attribute, chunk, rows, &mut out)?;
    }
    for (index, transform) in table.transforms.iter().enumerate() {
        open_column(&transform.attribute, &mut out);
        let placeholder = table.placeholder(&transform.attribute);
        separated(rows, &mut out, |row, out| {
            let vector = made.get(&(row as u32)).and_then(|made| made.get(index));
            push_quoted(vector.map_or(placeholder, String::as_str), out);
        });
    }
    if !table.transforms.is_empty() {
        push_source_hash(table, chunk, rows, &mut out);
    }
    close(table, mode, &mut out);
    Ok(out)
}

/// The body of a write that keeps the vectors of documents whose sources have not changed.
pub(crate) fn patch(
    table: &Table,
    chunk: &Chunk,
    rows: &[u32],
    stamp: Stamp,
) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    open(Kind::Patch, table, chunk, rows, stamp, &mut out)?;
    for attribute in &table.attributes {
        if !matches!(attribute.encoding, Encoding::Vector { .. }) {
            push_attribute(table, attribute, chunk, rows, &mut out)?;
        }
    }
    push_source_hash(table, chunk, rows, &mut out);
    out.extend_from_slice(b"]}");
    out.extend_from_slice(SAME_VECTORS.as_bytes());
    close_schema(table, &mut out);
    Ok(out)
}

/// The id of a row's document.
pub(crate) fn id(table: &Table, chunk: &Chunk, row: usize) -> Result<serde_json::Value, Error> {
    let mut out = Vec::new();
    let sound = ids::push_id(&table.id, chunk, row, &mut Vec::new(), &mut out);
    let id = serde_json::from_slice(&out).ok().filter(|_| sound);
    id.ok_or_else(|| mismatch(table))
}

fn open_column(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"],");
    push_json_text(name.as_bytes(), out);
    out.extend_from_slice(b":[");
}

fn push_attribute(
    table: &Table,
    attribute: &Attribute,
    chunk: &Chunk,
    rows: &[u32],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    open_column(&attribute.name, out);
    let column = &chunk.columns()[attribute.column];
    let pushed = match (attribute.encoding, column.values()) {
        (Encoding::Vector { .. }, Values::Texts(texts)) => {
            let placeholder = table.placeholder(&attribute.name);
            separated(rows, out, |row, out| {
                let numbers = (!column.is_null(row)).then(|| vector::parsed(texts.get(row)));
                match numbers.flatten() {
                    Some(numbers) => push_quoted(&vector::encoded(&numbers), out),
                    None => push_quoted(placeholder, out),
                }
            });
            true
        }
        _ => push_column(attribute, column, rows, out),
    };
    if pushed { Ok(()) } else { Err(mismatch(table)) }
}

fn push_source_hash(table: &Table, chunk: &Chunk, rows: &[u32], out: &mut Vec<u8>) {
    open_column(SOURCE_HASH, out);
    separated(rows, out, |row, out| {
        match transform::source_hash(table, chunk, row) {
            Some(hash) => push_quoted(&hash, out),
            None => out.extend_from_slice(b"null"),
        }
    });
}

/// For text that needs no escapes.
fn push_quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// What becomes of documents that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Replaced whole, or made.
    Upsert,
    /// Only the attributes that are told; none is made.
    Patch,
    /// Replaced by a tombstone from just before the row.
    Hide,
}

/// The body of a write that hides the documents of these rows, whatever the rows hold: only the
/// key is looked at.
pub(crate) fn tombstones(
    table: &Table,
    chunk: &Chunk,
    rows: &[u32],
    stamp: Stamp,
) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    open(Kind::Hide, table, chunk, rows, stamp, &mut out)?;
    for (attribute, placeholder) in &table.placeholders {
        open_column(attribute, &mut out);
        separated(rows, &mut out, |_, out| push_quoted(placeholder, out));
    }
    out.extend_from_slice(b"]}");
    out.extend_from_slice(OLDER_GOES.as_bytes());
    close_schema(table, &mut out);
    Ok(out)
}

/// Everything up to the values of the last column that every document has.
fn open(
    kind: Kind,
    table: &Table,
    chunk: &Chunk,
    rows: &[u32],
    stamp: Stamp,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    // Never create: a stale worker must not revive a deleted namespace.
    out.extend_from_slice(match kind {
        Kind::Patch => br#"{"create_namespace":false,"patch_columns":{"id":["#.as_slice(),
        Kind::Upsert | Kind::Hide => br#"{"create_namespace":false,"upsert_columns":{"id":["#,
    });
    let mut scratch = Vec::new();
    let mut sound = true;
    separated(rows, out, |row, out| {
        sound &= ids::push_id(&table.id, chunk, row, &mut scratch, out);
    });
    if !sound {
        return Err(mismatch(table));
    }
    let mut digits = itoa::Buffer::new();
    out.extend_from_slice(br#"],"mz_timestamp":["#);
    separated(rows, out, |row, out| {
        let time = chunk.timestamps()[row];
        let time = match kind {
            Kind::Upsert | Kind::Patch => time,
            Kind::Hide => time.saturating_sub(1),
        };
        out.extend_from_slice(digits.format(time).as_bytes());
    });
    out.extend_from_slice(br#"],"deleted":["#);
    separated(rows, out, |row, out| {
        out.extend_from_slice(match (kind, chunk.op(row)) {
            (Kind::Hide, _) | (_, Op::Delete) => b"true",
            (_, Op::Put) => b"false",
        });
    });
    for (name, value) in [
        (&br#"],"generation":["#[..], stamp.generation),
        (br#"],"written_at":["#, stamp.written_at_ms),
    ] {
        out.extend_from_slice(name);
        let text = digits.format(value).as_bytes();
        separated(rows, out, |_, out| out.extend_from_slice(text));
    }
    Ok(())
}

fn close(table: &Table, mode: Mode, out: &mut Vec<u8>) {
    out.extend_from_slice(b"]}");
    if mode == Mode::NewerWins {
        out.extend_from_slice(NEWER_WINS.as_bytes());
    }
    close_schema(table, out);
}

fn close_schema(table: &Table, out: &mut Vec<u8>) {
    out.push(b',');
    table.push_schema(out);
    out.push(b'}');
}

fn mismatch(table: &Table) -> Error {
    Error::permanent(
        "malformed-chunk",
        format!(
            "a chunk of view `{}` does not have the values its column types promise",
            table.view
        ),
    )
}

/// Calls `push` for each row, with commas between.
#[inline]
fn separated(rows: &[u32], out: &mut Vec<u8>, mut push: impl FnMut(usize, &mut Vec<u8>)) {
    for (index, &row) in rows.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push(row as usize, out);
    }
}

/// One column, the types decided once and not for each value. False when they do not agree.
fn push_column(
    attribute: &Attribute,
    column: &ColumnData,
    rows: &[u32],
    out: &mut Vec<u8>,
) -> bool {
    match (attribute.encoding, column.values()) {
        (Encoding::Bool, Values::Booleans(values)) => push_values(column, rows, out, |row, out| {
            push_bool(values[row] != 0, out);
        }),
        (Encoding::Integer | Encoding::Unsigned, Values::Ints(values)) => {
            push_values(column, rows, out, |row, out| {
                out.extend_from_slice(itoa::Buffer::new().format(values[row]).as_bytes());
            });
        }
        (Encoding::Integer, Values::Uints(values)) => push_values(column, rows, out, |row, out| {
            out.extend_from_slice(itoa::Buffer::new().format(values[row]).as_bytes());
        }),
        (Encoding::Float, Values::Floats(values)) => push_values(column, rows, out, |row, out| {
            push_number(values[row], out);
        }),
        (Encoding::Float32, Values::Floats(values)) => {
            push_values(column, rows, out, |row, out| {
                push_number32(values[row] as f32, out);
            });
        }
        (Encoding::NumericAsFloat, Values::Texts(texts)) => {
            push_values(column, rows, out, |row, out| {
                push_number(texts.get(row).parse().unwrap_or(f64::NAN), out);
            });
        }
        (Encoding::Text, Values::Texts(texts)) => push_values(column, rows, out, |row, out| {
            push_json_text(texts.get(row).as_bytes(), out);
        }),
        (Encoding::Datetime, Values::Ints(values)) => push_values(column, rows, out, |row, out| {
            push_datetime(values[row], out);
        }),
        (Encoding::Plain(plain), _) => {
            let mut sound = true;
            push_values(column, rows, out, |row, out| {
                out.push(b'"');
                sound &= column
                    .get(row)
                    .is_some_and(|value| push_plain(value, plain, out));
                out.push(b'"');
            });
            return sound;
        }
        _ => return false,
    }
    true
}

#[inline]
fn push_values(
    column: &ColumnData,
    rows: &[u32],
    out: &mut Vec<u8>,
    mut push: impl FnMut(usize, &mut Vec<u8>),
) {
    if column.has_nulls() {
        separated(rows, out, |row, out| {
            if column.is_null(row) {
                out.extend_from_slice(b"null");
            } else {
                push(row, out);
            }
        });
    } else {
        separated(rows, out, push);
    }
}

/// Appends the text of a value, without quotes. False when the value is of another type.
pub(crate) fn push_plain(value: ValueRef<'_>, plain: PlainText, out: &mut Vec<u8>) -> bool {
    match (plain, value) {
        (PlainText::Bool, ValueRef::Bool(value)) => push_bool(value, out),
        (PlainText::Integer, ValueRef::Int(value)) => {
            out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        }
        (PlainText::Integer, ValueRef::Uint(value)) => {
            out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        }
        (PlainText::Float, ValueRef::Float(value)) => {
            mz_sink_guest::text::write_float64(value, out)
        }
        (PlainText::Float32, ValueRef::Float(value)) => {
            mz_sink_guest::text::write_float32(value, out)
        }
        (PlainText::Date, ValueRef::Int(value)) => mz_sink_guest::text::write_date(value, out),
        (PlainText::Time, ValueRef::Int(value)) => mz_sink_guest::text::write_time(value, out),
        (PlainText::Timestamp, ValueRef::Int(value)) => {
            mz_sink_guest::text::write_timestamp(value, false, out);
        }
        (PlainText::TimestampTz, ValueRef::Int(value)) => {
            mz_sink_guest::text::write_timestamp(value, true, out);
        }
        (PlainText::Base64, ValueRef::Bytes(value)) => {
            out.extend_from_slice(STANDARD.encode(value).as_bytes());
        }
        _ => return false,
    }
    true
}

/// ISO 8601 in UTC. Years before 1 and after 9999 were refused before.
fn push_datetime(micros: i64, out: &mut Vec<u8>) {
    const DATE_LEN: usize = "2024-03-02".len();
    out.push(b'"');
    let start = out.len();
    mz_sink_guest::text::write_timestamp(micros, false, out);
    if let Some(separator) = out.get_mut(start + DATE_LEN) {
        *separator = b'T';
    }
    out.extend_from_slice(b"Z\"");
}

fn push_bool(value: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// A row with a value that is not finite was refused before; JSON has no word for it.
fn push_number(value: f64, out: &mut Vec<u8>) {
    if value.is_finite() {
        out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes());
    } else {
        out.extend_from_slice(b"null");
    }
}

fn push_number32(value: f32, out: &mut Vec<u8>) {
    if value.is_finite() {
        out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes());
    } else {
        out.extend_from_slice(b"null");
    }
}

/// Appends UTF-8 text as a JSON string.
pub(crate) fn push_json_text(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    // Without a branch in the loop, so that it becomes vector instructions.
    let escapes = text.iter().fold(false, |any, &byte| {
        any | (byte < b' ') | (byte == b'"') | (byte == b'\\')
    });
    if !escapes {
        out.extend_from_slice(text);
        out.push(b'"');
        return;
    }
    let mut copied = 0;
    for (index, &byte) in text.iter().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text[copied..index]);
        copied = index + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(control >> 4)]);
                out.push(HEX[usize::from(control & 15)]);
            }
        }
    }
    out.extend_from_slice(&text[copied..]);
    out.push(b'"');
}

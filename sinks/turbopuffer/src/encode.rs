//! Documents as the JSON columns of a write request, appended without an allocation per value.

use mz_sink_guest::{Chunk, ColumnData, Op, Value, Values};

use crate::config::NonFinite;
use crate::ids;
use crate::mapping::{Attribute, Form, IdForm, Mapping};

/// Longest value of an attribute, in bytes (API limit).
const MAX_VALUE: usize = 8 << 20;

/// Longest value of a filterable attribute, in bytes (API limit).
const MAX_FILTERABLE: usize = 4 << 10;

/// A replayed or stale write meets a newer document and is skipped.
const CONDITION: &str =
    r#"["Or",[["mz_timestamp","Lt",{"$ref_new":"mz_timestamp"}],["mz_timestamp","Eq",null]]]"#;

/// A row that cannot become a document.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Its position in the chunk.
    pub row: usize,
    /// Stable and machine-readable.
    pub category: &'static str,
    /// For people; no values.
    pub message: String,
}

/// The documents of one request, by column.
#[derive(Debug)]
pub struct Documents<'a> {
    mapping: &'a Mapping,
    non_finite: NonFinite,
    generation: u64,
    now_ms: u64,
    rows: usize,
    ids: Vec<u8>,
    timestamps: Vec<u8>,
    deleted: Vec<u8>,
    attributes: Vec<Vec<u8>>,
    scratch: Vec<u8>,
}

impl<'a> Documents<'a> {
    /// No documents yet.
    pub fn new(mapping: &'a Mapping, non_finite: NonFinite, generation: u64, now_ms: u64) -> Self {
        Self {
            mapping,
            non_finite,
            generation,
            now_ms,
            rows: 0,
            ids: Vec::new(),
            timestamps: Vec::new(),
            deleted: Vec::new(),
            attributes: vec![Vec::new(); mapping.attributes.len()],
            scratch: Vec::new(),
        }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// About the size of the request, in bytes.
    pub fn byte_len(&self) -> usize {
        let attributes: usize = self.attributes.iter().map(Vec::len).sum();
        attributes + self.ids.len() + self.timestamps.len() + self.deleted.len() + self.rows * 18
    }

    /// Appends the rows of a chunk but for those that do not fit, which it gives back.
    pub fn push(&mut self, chunk: &Chunk) -> Vec<Unfit> {
        let rows = chunk.rows as usize;
        let mut unfit = Vec::new();
        let mut fits = vec![true; rows];
        for row in 0..rows {
            if let Err(reason) = self.check(chunk, row) {
                fits[row] = false;
                unfit.push(reason);
            }
        }
        let kept: Vec<usize> = (0..rows).filter(|row| fits[*row]).collect();
        for &row in &kept {
            self.push_id(chunk, row);
            push_uint(chunk.timestamps[row], &mut self.timestamps);
            let deleted: &[u8] = match chunk.op(row) {
                Op::Put => b"false,",
                Op::Delete => b"true,",
            };
            self.deleted.extend_from_slice(deleted);
        }
        for (attribute, out) in self.mapping.attributes.iter().zip(&mut self.attributes) {
            let column = &chunk.columns[attribute.column];
            push_column(
                column,
                attribute,
                &self.mapping.types[attribute.column],
                &kept,
                out,
            );
        }
        self.rows += kept.len();
        unfit
    }

    fn check(&self, chunk: &Chunk, row: usize) -> Result<(), Unfit> {
        let unfit = |category, message: String| Unfit {
            row,
            category,
            message,
        };
        for key in &self.mapping.key {
            let value = chunk.columns[*key].get(row);
            match value {
                Value::Null => {
                    return Err(unfit("null-key", "a key column is NULL".into()));
                }
                Value::Int(n) if n < 0 && self.mapping.id == IdForm::Uint => {
                    return Err(unfit(
                        "negative-key",
                        "the key is negative and sink.signed_keys is \"uint\"".into(),
                    ));
                }
                _ => {}
            }
        }
        for attribute in &self.mapping.attributes {
            let column = &chunk.columns[attribute.column];
            let limit = if attribute.filterable {
                MAX_FILTERABLE
            } else {
                MAX_VALUE
            };
            match (&column.values, attribute.form) {
                (Values::Texts(p) | Values::Bytes(p), Form::Text) => {
                    let len = (p.offsets[row + 1] - p.offsets[row]) as usize;
                    // Bytes become two digits each.
                    let len = match &column.values {
                        Values::Bytes(_) => len * 2 + 2,
                        _ => len,
                    };
                    if len > limit {
                        return Err(unfit(
                            "value-too-long",
                            format!("{:?} has more than {limit} bytes", attribute.name),
                        ));
                    }
                }
                (Values::Floats(v), Form::Float)
                    if !v[row].is_finite()
                        && self.non_finite == NonFinite::Reject
                        && !column.is_null(row) =>
                {
                    return Err(unfit(
                        "non-finite",
                        format!("{:?} is NaN or infinite", attribute.name),
                    ));
                }
                (Values::Texts(p), Form::NumericFloat)
                    if self.non_finite == NonFinite::Reject
                        && p.get(row).eq_ignore_ascii_case(b"nan") =>
                {
                    return Err(unfit("non-finite", format!("{:?} is NaN", attribute.name)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn push_id(&mut self, chunk: &Chunk, row: usize) {
        let (mapping, out) = (self.mapping, &mut self.ids);
        match mapping.id {
            IdForm::Uint => {
                let n = match chunk.columns[mapping.key[0]].get(row) {
                    Value::Int(n) => n.unsigned_abs(),
                    Value::Uint(n) => n,
                    _ => 0,
                };
                push_uint(n, out);
            }
            IdForm::Uuid | IdForm::String => {
                let parts = mapping
                    .key
                    .iter()
                    .map(|key| (chunk.columns[*key].get(row), &mapping.types[*key]));
                let mut id = Vec::new();
                // NULL keys were refused by `check`.
                let _ = ids::write(parts, &mut self.scratch, &mut id);
                push_string(&id, out);
                out.push(b',');
            }
        }
    }

    /// The request body.
    pub fn into_body(self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.byte_len() + self.mapping.schema.len() + 512);
        body.extend_from_slice(b"{\"upsert_columns\":{");
        let column = |name: &str, values: &[u8], body: &mut Vec<u8>| {
            push_string(name.as_bytes(), body);
            body.extend_from_slice(b":[");
            // Without the comma after the last value.
            body.extend_from_slice(&values[..values.len().saturating_sub(1)]);
            body.extend_from_slice(b"],");
        };
        column("id", &self.ids, &mut body);
        column("mz_timestamp", &self.timestamps, &mut body);
        column("deleted", &self.deleted, &mut body);
        for (attribute, values) in self.mapping.attributes.iter().zip(&self.attributes) {
            column(&attribute.name, values, &mut body);
        }
        for (name, n) in [("generation", self.generation), ("written_at", self.now_ms)] {
            let mut values = Vec::new();
            for _ in 0..self.rows {
                push_uint(n, &mut values);
            }
            column(name, &values, &mut body);
        }
        body.pop();
        body.extend_from_slice(b"},\"upsert_condition\":");
        body.extend_from_slice(CONDITION.as_bytes());
        body.extend_from_slice(b",\"create_namespace\":false,\"schema\":");
        body.extend_from_slice(self.mapping.schema.as_bytes());
        body.push(b'}');
        body
    }
}

fn push_uint(n: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
    out.push(b',');
}

/// Appends the kept values of a column, each with a comma behind it.
fn push_column(
    column: &ColumnData,
    attribute: &Attribute,
    ty: &mz_sink_guest::ColumnType,
    kept: &[usize],
    out: &mut Vec<u8>,
) {
    match (&column.values, attribute.form) {
        (Values::Booleans(v), _) => each(column, kept, out, |row, out| {
            out.extend_from_slice(if v[row] == 0 { b"false" } else { b"true" });
        }),
        (Values::Ints(v), Form::Int) => each(column, kept, out, |row, out| {
            out.extend_from_slice(itoa::Buffer::new().format(v[row]).as_bytes());
        }),
        (Values::Uints(v), _) => each(column, kept, out, |row, out| {
            out.extend_from_slice(itoa::Buffer::new().format(v[row]).as_bytes());
        }),
        (Values::Floats(v), _) => each(column, kept, out, |row, out| {
            if v[row].is_finite() {
                out.extend_from_slice(ryu::Buffer::new().format_finite(v[row]).as_bytes());
            } else {
                out.extend_from_slice(b"null");
            }
        }),
        (Values::Texts(p), Form::NumericFloat) => each(column, kept, out, |row, out| {
            let parsed = std::str::from_utf8(p.get(row))
                .ok()
                .and_then(|t| t.parse().ok());
            match parsed {
                Some(x) if f64::is_finite(x) => {
                    out.extend_from_slice(ryu::Buffer::new().format_finite(x).as_bytes());
                }
                _ => out.extend_from_slice(b"null"),
            }
        }),
        (Values::Texts(p), _) => each(column, kept, out, |row, out| push_string(p.get(row), out)),
        (Values::Ints(_) | Values::Bytes(_), _) => {
            let mut text = Vec::new();
            each(column, kept, out, |row, out| {
                text.clear();
                column.get(row).write_text(ty, &mut text);
                push_string(&text, out);
            });
        }
    }
}

/// Appends the kept rows of a column with `write`, NULLs as null.
fn each(
    column: &ColumnData,
    kept: &[usize],
    out: &mut Vec<u8>,
    mut write: impl FnMut(usize, &mut Vec<u8>),
) {
    for &row in kept {
        if column.is_null(row) {
            out.extend_from_slice(b"null");
        } else {
            write(row, out);
        }
        out.push(b',');
    }
}

/// Whether a byte must be escaped in a JSON string.
const ESCAPED: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 0x20 {
        table[b] = true;
        b += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table
};

/// Appends UTF-8 text as a JSON string.
pub fn push_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.iter().position(|b| ESCAPED[usize::from(*b)]) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            control => out.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

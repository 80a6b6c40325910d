//! Document ids: equal for equal keys, different for different ones, at most 64 bytes.
//!
//! | key | id |
//! | --- | --- |
//! | unsigned integer | itself |
//! | uuid | itself |
//! | one column of another type | its text |
//! | several columns | `3:abc2:42`: each text behind its length |
//! | the last two, when empty, longer than 64 bytes, or like the next line | `sha256:` and the digest in base64url |
//!
//! The rule follows from the key's column types, never from a row, so a namespace has one kind.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mz_sink_guest::{Chunk, ValueRef};
use sha2::{Digest, Sha256};

use crate::encode::{push_json_text, push_plain};
use crate::schema::{IdRule, KeyText};

/// turbopuffer's limit in bytes.
const MAX_LEN: usize = 64;

const HASHED: &[u8] = b"sha256:";

/// Appends the id of a row as JSON. `scratch` is overwritten. False when the chunk has not the
/// values that the key's types promise.
pub(crate) fn push_id(
    rule: &IdRule,
    chunk: &Chunk,
    row: usize,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> bool {
    let value = |column: usize| chunk.columns().get(column)?.get(row);
    match rule {
        IdRule::Uint { column } => match value(*column) {
            Some(ValueRef::Uint(id)) => {
                out.extend_from_slice(itoa::Buffer::new().format(id).as_bytes());
            }
            _ => return false,
        },
        IdRule::NonNegative { column } => match value(*column) {
            Some(ValueRef::Int(id)) if id >= 0 => {
                out.extend_from_slice(itoa::Buffer::new().format(id).as_bytes());
            }
            _ => return false,
        },
        IdRule::Uuid { column } => match value(*column) {
            Some(ValueRef::Text(id)) => push_json_text(id.as_bytes(), out),
            _ => return false,
        },
        IdRule::Text { column, text } => {
            scratch.clear();
            if !push_text(value(*column), *text, scratch) {
                return false;
            }
            push_bounded(scratch, out);
        }
        IdRule::Composite { parts } => {
            scratch.clear();
            for (column, text) in parts {
                // The length is not known before the text is made.
                let start = scratch.len();
                if !push_text(value(*column), *text, scratch) {
                    return false;
                }
                let mut length = itoa::Buffer::new();
                let length = length.format(scratch.len() - start).bytes();
                scratch.splice(start..start, length.chain([b':']));
            }
            push_bounded(scratch, out);
        }
    }
    true
}

/// The id for a text that is not from a row, such as a sink id.
pub(crate) fn bounded(text: &str) -> String {
    if fits(text.as_bytes()) {
        text.to_owned()
    } else {
        String::from_utf8_lossy(&hashed(text.as_bytes())).into_owned()
    }
}

/// Appends the text of a value. False, and nothing appended, when it is null or of another type.
pub(crate) fn push_text(value: Option<ValueRef<'_>>, text: KeyText, out: &mut Vec<u8>) -> bool {
    match (value, text) {
        (Some(ValueRef::Text(value)), KeyText::AsIs) => out.extend_from_slice(value.as_bytes()),
        // Both zeros are one key.
        (Some(ValueRef::Float(value)), KeyText::Plain(plain)) => {
            return push_plain(ValueRef::Float(value + 0.0), plain, out);
        }
        (Some(value), KeyText::Plain(plain)) => return push_plain(value, plain, out),
        _ => return false,
    }
    true
}

fn push_bounded(text: &[u8], out: &mut Vec<u8>) {
    if fits(text) {
        push_json_text(text, out);
    } else {
        push_json_text(&hashed(text), out);
    }
}

fn fits(text: &[u8]) -> bool {
    !text.is_empty() && text.len() <= MAX_LEN && !text.starts_with(HASHED)
}

fn hashed(text: &[u8]) -> Vec<u8> {
    let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(text));
    [HASHED, digest.as_bytes()].concat()
}

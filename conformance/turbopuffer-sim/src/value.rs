//! Attribute values and document ids, as compact as they can be without a column store.

use std::cmp::Ordering;
use std::fmt;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::text::Text;

/// One value of a document, or of a request that has not been checked yet.
///
/// Right after parsing only the JSON kinds occur (`Null`, `Bool`, `Int` for negative
/// integers, `Uint`, `Float`, `Text`, `Array`); coercion to the attribute's type makes the
/// others. After coercion all values of an attribute are of one kind or null.
#[derive(Clone)]
pub(crate) enum Value {
    /// Not mentioned by this row of a request. Never stored.
    Absent,
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    /// Milliseconds since 1970 UTC.
    Datetime(i64),
    Uuid([u8; 16]),
    Text(Text),
    Array(Box<[Value]>),
    Vector(Box<[f32]>),
}

const _: () = assert!(size_of::<Value>() == 24);

/// The part of a value that filters and orderings compare.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Uuid(&'a [u8; 16]),
    Bytes(&'a [u8]),
}

impl View<'_> {
    pub(crate) fn is_null(self) -> bool {
        matches!(self, View::Null)
    }

    /// Null is lowest. Values of different kinds never meet: literals are coerced.
    pub(crate) fn compare(self, other: View<'_>) -> Ordering {
        match (self, other) {
            (View::Null, View::Null) => Ordering::Equal,
            (View::Null, _) => Ordering::Less,
            (_, View::Null) => Ordering::Greater,
            (View::Bool(a), View::Bool(b)) => a.cmp(&b),
            (View::Int(a), View::Int(b)) => a.cmp(&b),
            (View::Uint(a), View::Uint(b)) => a.cmp(&b),
            (View::Float(a), View::Float(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (View::Uuid(a), View::Uuid(b)) => a.cmp(b),
            (View::Bytes(a), View::Bytes(b)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }
}

impl Value {
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Value::Null | Value::Absent)
    }

    /// Arrays and vectors have no order; they are compared element by element elsewhere.
    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Value::Absent | Value::Null | Value::Array(_) | Value::Vector(_) => View::Null,
            Value::Bool(value) => View::Bool(*value),
            Value::Int(value) | Value::Datetime(value) => View::Int(*value),
            Value::Uint(value) => View::Uint(*value),
            Value::Float(value) => View::Float(*value),
            Value::Uuid(value) => View::Uuid(value),
            Value::Text(value) => View::Bytes(value.as_bytes()),
        }
    }

    /// Size in bytes as billed and limited.
    pub(crate) fn logical_bytes(&self) -> usize {
        match self {
            Value::Absent | Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Int(_) | Value::Uint(_) | Value::Float(_) | Value::Datetime(_) => 8,
            Value::Uuid(_) => 16,
            Value::Text(value) => value.len(),
            Value::Array(values) => values.iter().map(Value::logical_bytes).sum(),
            Value::Vector(values) => values.len() * 4,
        }
    }

    /// What JSON kind this was, for messages.
    pub(crate) fn json_kind(&self) -> &'static str {
        match self {
            Value::Absent | Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Uint(_) => "integer",
            Value::Float(_) => "float",
            Value::Datetime(_) | Value::Uuid(_) | Value::Text(_) => "string",
            Value::Array(_) | Value::Vector(_) => "array",
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an attribute value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Uint(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(Text::new(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values.into()))
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Absent | Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Int(value) => serializer.serialize_i64(*value),
            Value::Uint(value) => serializer.serialize_u64(*value),
            Value::Float(value) => serializer.serialize_f64(*value),
            Value::Datetime(value) => serializer.collect_str(&datetime_text(*value)),
            Value::Uuid(value) => serializer.serialize_str(&uuid_text(value)),
            Value::Text(value) => serializer.serialize_str(value.as_str()),
            Value::Array(values) => serializer.collect_seq(values.iter()),
            Value::Vector(values) => serializer.collect_seq(values.iter()),
        }
    }
}

/// A document's id. All ids of a namespace are of one kind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Id {
    Uint(u64),
    Uuid([u8; 16]),
    Text(Text),
}

impl Id {
    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Id::Uint(value) => View::Uint(*value),
            Id::Uuid(value) => View::Uuid(value),
            Id::Text(value) => View::Bytes(value.as_bytes()),
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Id::Uint(value) => serializer.serialize_u64(*value),
            Id::Uuid(value) => serializer.serialize_str(&uuid_text(value)),
            Id::Text(value) => serializer.serialize_str(value.as_str()),
        }
    }
}

/// `2024-03-02T00:00:00.000000000Z`.
pub(crate) fn datetime_text(milliseconds: i64) -> String {
    match jiff::Timestamp::from_millisecond(milliseconds) {
        Ok(timestamp) => timestamp.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").to_string(),
        Err(_) => String::new(),
    }
}

pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    let digits = hex::encode(uuid);
    [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ]
    .join("-")
}

/// Accepts the 36-character form and 32 bare digits.
pub(crate) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let mut uuid = [0; 16];
    if text.len() == 36 {
        let bytes = text.as_bytes();
        if [8, 13, 18, 23].iter().any(|&at| bytes[at] != b'-') {
            return None;
        }
        hex::decode_to_slice(text.replace('-', ""), &mut uuid).ok()?;
    } else {
        hex::decode_to_slice(text, &mut uuid).ok()?;
    }
    Some(uuid)
}

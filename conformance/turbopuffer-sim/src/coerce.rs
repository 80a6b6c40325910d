//! From JSON kinds to an attribute's type, with the limits of values.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Refusal, Result};
use crate::schema::{Attribute, Kind, Type};
use crate::server::Limits;
use crate::value::{Id, Value, parse_uuid};

const MAX_ID_BYTES: usize = 64;

/// Coerces all values of a column in place. Returns the longest value in bytes.
pub(crate) fn coerce_column(
    values: &mut [Value],
    attribute: &Attribute,
    limits: &Limits,
) -> Result<usize> {
    let element_limit = if attribute.filterable {
        limits.filterable_bytes
    } else {
        limits.attribute_bytes
    };
    let mut longest = 0;
    for value in values {
        coerce(value, attribute.ty).map_err(|problem| {
            Refusal::bad(format_args!("attribute `{}`: {problem}", attribute.name))
        })?;
        let size = match value {
            Value::Text(text) => check_element(text.len(), element_limit, attribute)?,
            Value::Array(elements) => {
                let mut size = 0;
                for element in elements {
                    size += check_element(element.logical_bytes(), element_limit, attribute)?;
                }
                size
            }
            _ => continue,
        };
        if size > limits.attribute_bytes {
            return Err(too_long(size, limits.attribute_bytes, attribute));
        }
        longest = longest.max(size);
    }
    Ok(longest)
}

fn check_element(size: usize, limit: usize, attribute: &Attribute) -> Result<usize> {
    if size > limit {
        return Err(too_long(size, limit, attribute));
    }
    Ok(size)
}

fn too_long(size: usize, limit: usize, attribute: &Attribute) -> Refusal {
    let which = if attribute.filterable {
        "filterable "
    } else {
        ""
    };
    Refusal::bad(format_args!(
        "{which}attribute `{}` has a value of {size} bytes, the limit is {limit}",
        attribute.name
    ))
}

/// Coerces one value in place.
pub(crate) fn coerce(value: &mut Value, ty: Type) -> std::result::Result<(), String> {
    match ty {
        Type::Scalar(kind) => coerce_scalar(value, kind),
        Type::Array(kind) => match value {
            Value::Absent | Value::Null => Ok(()),
            Value::Array(elements) => elements.iter_mut().try_for_each(|element| {
                if element.is_null() {
                    return Err("arrays cannot contain null".to_owned());
                }
                coerce_scalar(element, kind)
            }),
            other => Err(mismatch(&ty.name(), other)),
        },
        Type::Vector { dims, .. } => coerce_vector(value, dims),
    }
}

fn coerce_scalar(value: &mut Value, kind: Kind) -> std::result::Result<(), String> {
    let coerced = match (&*value, kind) {
        (Value::Absent | Value::Null, _)
        | (Value::Text(_), Kind::String)
        | (Value::Uint(_), Kind::Uint)
        | (Value::Float(_), Kind::Float)
        | (Value::Bool(_), Kind::Bool) => return Ok(()),
        (Value::Int(_), Kind::Int) => return Ok(()),
        (Value::Uint(number), Kind::Int) => i64::try_from(*number).ok().map(Value::Int),
        (Value::Uint(number), Kind::Float) => Some(Value::Float(*number as f64)),
        (Value::Int(number), Kind::Float) => Some(Value::Float(*number as f64)),
        (Value::Text(text), Kind::Uuid) => Some(Value::Uuid(
            parse_uuid(text.as_str()).ok_or("failed to parse as UUID")?,
        )),
        (Value::Text(text), Kind::Datetime) => {
            Some(Value::Datetime(parse_datetime(text.as_str())?))
        }
        _ => None,
    };
    *value = match (coerced, &*value, kind) {
        (Some(coerced), ..) => coerced,
        (None, Value::Float(_) | Value::Uint(_), Kind::Int) => {
            return Err("number cannot be represented as signed 64-bit integer".to_owned());
        }
        (None, Value::Float(_) | Value::Int(_), Kind::Uint) => {
            return Err("number cannot be represented as unsigned 64-bit integer".to_owned());
        }
        (None, other, _) => return Err(mismatch(kind.name(), other)),
    };
    Ok(())
}

fn mismatch(expected: &str, got: &Value) -> String {
    format!(
        "type mismatch, expected {expected}, but got {}",
        got.json_kind()
    )
}

/// The date is mandatory; time and zone are not. Finer than milliseconds is cut off.
fn parse_datetime(text: &str) -> std::result::Result<i64, String> {
    text.parse::<jiff::Timestamp>()
        .or_else(|_| jiff::tz::TimeZone::UTC.to_timestamp(text.parse()?))
        .map(|timestamp| timestamp.as_nanosecond().div_euclid(1_000_000) as i64)
        .map_err(|_| "failed to parse as DateTime: not enough information".to_owned())
}

fn coerce_vector(value: &mut Value, dims: usize) -> std::result::Result<(), String> {
    let vector: Vec<f32> = match &*value {
        Value::Vector(vector) => vector.to_vec(),
        Value::Absent | Value::Null => return Ok(()),
        Value::Text(text) => decode_vector(text.as_str()).map_err(|refusal| refusal.text)?,
        Value::Array(elements) => elements
            .iter()
            .map(|element| match element {
                Value::Uint(number) => Ok(*number as f32),
                Value::Int(number) => Ok(*number as f32),
                Value::Float(number) => Ok(*number as f32),
                other => Err(mismatch("a number", other)),
            })
            .collect::<std::result::Result<_, _>>()?,
        other => return Err(mismatch("a vector", other)),
    };
    if vector.len() != dims {
        return Err(format!("expected {dims} dimensions, got {}", vector.len()));
    }
    if vector.iter().any(|number| !number.is_finite()) {
        return Err("vector elements must be finite".to_owned());
    }
    *value = Value::Vector(vector.into());
    Ok(())
}

/// Little-endian `f32`s in base64.
pub(crate) fn decode_vector(text: &str) -> Result<Vec<f32>> {
    let bytes = STANDARD
        .decode(text)
        .map_err(|_| Refusal::bad("vector is not valid base64"))?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(Refusal::bad(
            "base64 vector is not a sequence of 4-byte floats",
        ));
    }
    Ok(numbers
        .iter()
        .map(|number| f32::from_le_bytes(*number))
        .collect())
}

pub(crate) fn encode_vector(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    STANDARD.encode(bytes)
}

/// The kind of ids that an undeclared namespace gets from its first id.
pub(crate) fn infer_id_kind(value: &Value) -> Kind {
    match value {
        Value::Text(_) => Kind::String,
        _ => Kind::Uint,
    }
}

/// Turns a parsed value into an id of the given kind.
pub(crate) fn coerce_id(value: Value, kind: Kind) -> Result<Id> {
    let kind_of_json = value.json_kind();
    match (value, kind) {
        (Value::Uint(number), Kind::Uint) => Ok(Id::Uint(number)),
        (Value::Int(_) | Value::Float(_), Kind::Uint) => Err(Refusal::bad(
            "id cannot be represented as unsigned 64-bit integer",
        )),
        (Value::Text(text), Kind::String) if text.len() > MAX_ID_BYTES => {
            Err(Refusal::bad(format_args!(
                "id of {} bytes is too long, the limit is {MAX_ID_BYTES}",
                text.len()
            )))
        }
        (Value::Text(text), Kind::String) => Ok(Id::Text(text)),
        (Value::Text(text), Kind::Uuid) => parse_uuid(text.as_str())
            .map(Id::Uuid)
            .ok_or_else(|| Refusal::bad("id is not a valid UUID")),
        _ => Err(Refusal::bad(format_args!(
            "id type mismatch: expected {}, but got {kind_of_json}",
            kind.name()
        ))),
    }
}

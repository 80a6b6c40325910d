//! Durations and sizes as they are written in the file.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

/// No setting makes sense with more, and sums with a clock stay in range.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// No setting makes sense with more, and sums stay in range.
const LARGEST: u64 = 1 << 50;

/// A duration with its unit.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let duration = humantime::parse_duration(&text).map_err(|_| {
        Error::custom(
            r#"not a duration; write a number with a unit, such as "500ms", "10s" or "2min""#,
        )
    })?;
    if duration > LONGEST {
        return Err(Error::custom("must be at most a year"));
    }
    Ok(duration)
}

/// A number of bytes with its unit.
pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let size: bytesize::ByteSize = text.parse().map_err(|_| {
        Error::custom(r#"not a size; write a number with a unit, such as "64MiB" or "4GiB""#)
    })?;
    if size.as_u64() > LARGEST {
        return Err(Error::custom("must be at most 1PiB"));
    }
    Ok(size.as_u64())
}

/// TOML as the JSON that a sink gets. Dates become texts.
///
/// # Errors
/// The path of a number that JSON does not have.
pub(super) fn json(path: &str, value: &toml::Value) -> Result<serde_json::Value, String> {
    use serde_json::Value as Json;
    Ok(match value {
        toml::Value::String(text) => Json::String(text.clone()),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(*number)
            .map(Json::Number)
            .ok_or(path)?,
        toml::Value::Boolean(value) => (*value).into(),
        toml::Value::Datetime(time) => Json::String(time.to_string()),
        toml::Value::Array(values) => values
            .iter()
            .enumerate()
            .map(|(index, value)| json(&format!("{path}[{index}]"), value))
            .collect::<Result<_, _>>()?,
        toml::Value::Table(table) => Json::Object(object(path, table)?),
    })
}

/// [`json`] of a table.
pub(super) fn object(
    path: &str,
    table: &toml::Table,
) -> Result<serde_json::Map<String, serde_json::Value>, String> {
    table
        .iter()
        .map(|(name, value)| Ok((name.clone(), json(&format!("{path}.{name}"), value)?)))
        .collect()
}

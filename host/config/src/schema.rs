//! Whether the sink's own settings are what its schema asks for.

use std::path::Path;

use serde_json::Value;

use super::error::ConfigError;

/// Settings that one error names at most.
const SHOWN: usize = 5;

/// Checks the `[sink]` table of `file` against the JSON schema that the sink came with. Nothing is
/// looked up: a schema that refers to another document is refused.
///
/// # Errors
/// [`ConfigError::Sink`] names the settings, never a value. [`ConfigError::Schema`] if the schema
/// is at fault.
pub(super) fn validate(schema_json: &str, config: &Value, file: &Path) -> Result<(), ConfigError> {
    let schema: Value = serde_json::from_str(schema_json)
        .map_err(|error| ConfigError::Schema(format!("not JSON: {error}")))?;
    let validator = jsonschema::validator_for(&schema)
        .map_err(|error| ConfigError::Schema(error.to_string()))?;
    let wrong: Vec<_> = validator
        .iter_errors(config)
        .take(SHOWN)
        .map(|error| {
            let place = place(config, error.instance_path().as_str());
            format!("{place}: {}", error.masked_with("the value"))
        })
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(ConfigError::Sink {
            file: file.to_owned(),
            wrong,
        })
    }
}

/// A JSON pointer as the path of a field in the file.
fn place(config: &Value, pointer: &str) -> String {
    let mut place = String::from("sink");
    let mut at = Some(config);
    for part in pointer.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        if at.is_some_and(Value::is_array) {
            place.push_str(&format!("[{name}]"));
        } else {
            place.push_str(&format!(".{name}"));
        }
        at = at.and_then(|value| value.pointer(&format!("/{part}")));
    }
    place
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn validate_here(schema: &str, config: &Value) -> Result<(), ConfigError> {
        validate(schema, config, Path::new("dir/my.toml"))
    }

    fn schema() -> String {
        json!({
            "type": "object",
            "required": ["namespace"],
            "additionalProperties": false,
            "properties": {
                "namespace": { "type": "string", "pattern": "^[a-z]+$" },
                "mode": { "enum": ["fast", "safe"] },
                "list": { "type": "array", "items": { "type": "integer", "minimum": 3 } },
                "either": { "anyOf": [{ "type": "integer" }, { "const": "x" }] },
            },
        })
        .to_string()
    }

    #[test]
    fn settings_that_the_schema_allows_are_fine() {
        let config = json!({ "namespace": "abc", "mode": "fast", "list": [3] });
        validate_here(&schema(), &config).unwrap();
    }

    #[test]
    fn what_is_wrong_is_named_without_its_value() {
        for (config, says) in [
            (json!({}), "sink: \"namespace\" is a required property"),
            (json!({ "namespace": "HUNTER2" }), "sink.namespace: "),
            (
                json!({ "namespace": { "a": "HUNTER2" } }),
                "sink.namespace: ",
            ),
            (
                json!({ "namespace": "a", "mode": "HUNTER2" }),
                "sink.mode: ",
            ),
            (
                json!({ "namespace": "a", "list": [5, "HUNTER2"] }),
                "sink.list[1]: ",
            ),
            (
                json!({ "namespace": "a", "either": "HUNTER2" }),
                "sink.either: ",
            ),
            (
                json!({ "namespace": "a", "nonsense": "HUNTER2" }),
                "nonsense",
            ),
        ] {
            let error = validate_here(&schema(), &config).unwrap_err();
            let text = format!("{error}");
            assert!(text.contains(says), "{text}");
            assert!(text.starts_with("dir/my.toml: sink"), "{text}");
            assert!(!format!("{error:?}{text}").contains("HUNTER2"), "{text}");
        }
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_the_sinks_fault() {
        for schema in [
            "",
            r#"{"type": 7}"#,
            r#"{"$ref": "http://127.0.0.1:1/schema.json"}"#,
            r#"{"$ref": "file:///etc/hostname"}"#,
        ] {
            let error = validate_here(schema, &json!({})).unwrap_err();
            assert!(matches!(error, ConfigError::Schema(_)), "{schema}: {error}");
        }
    }
}

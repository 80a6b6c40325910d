//! The settings of a sink as a list, from the JSON schema that it came with.

use serde_json::Value;

use crate::output::one_line;

/// Deepest table whose settings are listed by themselves. A schema may refer to itself.
const DEEPEST: usize = 3;

/// Settings that are listed at most, and kinds of value that one has at most: the schema is a
/// stranger's, and the list must end.
const MOST: usize = 500;
const MOST_KINDS: usize = 16;

/// One setting.
struct Setting {
    /// Its path below `[sink]`.
    name: String,
    kind: String,
    required: bool,
    default: Option<String>,
    about: String,
}

/// Two lines for each setting, or one without a description: the required ones first.
pub fn list(schema: &Value) -> String {
    let mut settings = Vec::new();
    collect(schema, schema, "", DEEPEST, &mut settings);
    settings.sort_by_key(|setting| !setting.required);
    let longest = |settings: &[Setting], part: fn(&Setting) -> &str| {
        let widths = settings.iter().map(|s| part(s).chars().count());
        widths.max().unwrap_or_default()
    };
    let names = longest(&settings, |s| &s.name);
    let mut text = String::new();
    for setting in &settings {
        let need = match (setting.required, &setting.default) {
            (true, _) => "required".to_owned(),
            (false, Some(default)) => format!("default {default}"),
            (false, None) => "optional".to_owned(),
        };
        text += &format!("  {:<names$}  {}; {need}\n", setting.name, setting.kind);
        if !setting.about.is_empty() {
            text += &format!("  {:<names$}    {}\n", "", setting.about);
        }
    }
    match settings.len() {
        0 => text + "  none\n",
        MOST => text + "  and maybe more: `--json` shows the schema\n",
        _ => text,
    }
}

/// The settings of one table, with those of the tables in it.
fn collect(root: &Value, table: &Value, path: &str, depth: usize, settings: &mut Vec<Setting>) {
    let required: Vec<_> = table["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, given) in table["properties"].as_object().into_iter().flatten() {
        if settings.len() == MOST {
            return;
        }
        let schema = resolved(root, given);
        let about = [given, schema]
            .iter()
            .find_map(|schema| schema["description"].as_str())
            .unwrap_or_default();
        let default = given.get("default").or_else(|| schema.get("default"));
        let path = format!("{path}{}", one_line(name));
        settings.push(Setting {
            kind: kind(root, schema, DEEPEST),
            required: required.contains(&name.as_str()),
            // No value is the same as no setting.
            default: default
                .filter(|value| !value.is_null())
                .map(|value| one_line(&value.to_string())),
            about: one_line(about),
            name: path.clone(),
        });
        if depth > 0 {
            collect(root, schema, &format!("{path}."), depth - 1, settings);
        }
    }
}

/// The schema that another refers to, in the same document.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut at = schema;
    for _ in 0..DEEPEST {
        let pointer = at["$ref"].as_str().and_then(|name| name.strip_prefix('#'));
        match pointer.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => at = target,
            None => break,
        }
    }
    at
}

/// What can be written, in the words of the configuration file.
fn kind(root: &Value, schema: &Value, depth: usize) -> String {
    let schema = resolved(root, schema);
    if depth == 0 {
        return "value".into();
    }
    if let Some(value) = schema.get("const") {
        return one_line(&value.to_string());
    }
    if let Some(values) = schema["enum"].as_array() {
        return either(
            values
                .iter()
                .filter(|v| !v.is_null())
                .map(|v| one_line(&v.to_string())),
        );
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(schemas) = schema[choice].as_array() {
            let some = schemas.iter().filter(|s| s["type"] != "null");
            return either(some.map(|s| kind(root, s, depth - 1)));
        }
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect::<Vec<_>>(),
    };
    // Whatever may be null may be left out.
    let types = types.into_iter().filter(|name| *name != "null");
    let of = |word: &str, part: &str| match schema.get(part) {
        Some(inner) if inner.is_object() => {
            format!("{word} of {}", kind(root, inner, depth - 1))
        }
        _ => word.to_owned(),
    };
    either(types.map(|name| match name {
        "string" => "text".into(),
        "integer" | "number" => format!("{name}{}", range(schema)),
        "boolean" => "true or false".into(),
        "array" => of("list", "items"),
        "object" => of("table", "additionalProperties"),
        other => one_line(other),
    }))
}

fn either(mut kinds: impl Iterator<Item = String>) -> String {
    let shown: Vec<_> = kinds.by_ref().take(MOST_KINDS).collect();
    match (shown.is_empty(), kinds.next()) {
        (true, _) => "any value".into(),
        (false, None) => shown.join(" or "),
        (false, Some(_)) => format!("{} or others", shown.join(" or ")),
    }
}

fn range(schema: &Value) -> String {
    let bound = |name| schema.get(name).filter(|bound: &&Value| bound.is_number());
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        (Some(least), None) => format!(" from {least}"),
        (None, Some(most)) => format!(" up to {most}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_setting_has_its_type_default_need_and_meaning_in_one_list() {
        let schema = json!({
            "required": ["where"],
            "properties": {
                "count": { "type": "integer", "minimum": 1, "maximum": 64, "default": 4,
                           "description": "Most of\nthem." },
                "least": { "type": "number", "minimum": 0.5 },
                "maybe": { "type": ["string", "null"], "default": null },
                "mode": { "$ref": "#/$defs/Mode", "description": "How." },
                "names": { "type": "array", "items": { "type": "string" }, "default": [] },
                "rename": { "type": "object", "additionalProperties": { "$ref": "#/$defs/Mode" } },
                "tls": { "type": "object", "required": ["on"],
                         "properties": { "on": { "type": "boolean" } } },
                "where": { "type": "string", "description": "A place." },
                "whatever": true,
            },
            "$defs": { "Mode": { "oneOf": [{ "const": "fast" }, { "enum": ["safe", "slow"] }] } },
        });
        let expected = "  \
  tls.on    true or false; required
  where     text; required
              A place.
  count     integer from 1 to 64; default 4
              Most of them.
  least     number from 0.5; optional
  maybe     text; optional
  mode      \"fast\" or \"safe\" or \"slow\"; optional
              How.
  names     list of text; default []
  rename    table of \"fast\" or \"safe\" or \"slow\"; optional
  tls       table; optional
  whatever  any value; optional
";
        assert_eq!(list(&schema), expected);
    }

    #[test]
    fn a_schema_that_refers_to_itself_or_is_none_ends() {
        let schema = json!({ "properties": { "a": { "$ref": "#" } } });
        assert!(list(&schema).contains("  a.a.a "), "{}", list(&schema));
        let wide = (0..100).map(|n| (n.to_string(), json!({ "$ref": "#" })));
        let schema = json!({ "properties": serde_json::Map::from_iter(wide) });
        assert_eq!(list(&schema).lines().count(), MOST + 1);
        let wide: Vec<_> = (0..100).map(|_| json!({ "$ref": "#/$defs/a" })).collect();
        let schema = json!({ "$defs": { "a": { "anyOf": wide } },
                             "properties": { "a": { "$ref": "#/$defs/a" } } });
        assert!(list(&schema).contains(" or others; optional\n"));
        let schema = json!({ "properties": { "a": { "$ref": "#/properties/a" } } });
        assert_eq!(list(&schema), "  a  any value; optional\n");
        assert_eq!(list(&Value::Null), "  none\n");
    }

    #[test]
    fn what_a_component_says_controls_no_terminal() {
        let said = "a\u{1b}[2J\nb";
        let schema = json!({ "properties": {
            said: { "type": said, "default": said, "description": said },
        } });
        let text = list(&schema);
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert_eq!(text.lines().count(), 2, "{text:?}");
    }
}

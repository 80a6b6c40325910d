//! The configuration that tests start from.

use serde_json::json;

/// What the emulator asks for; no output of the program may hold it.
pub const API_KEY: &str = "canary-api-key-6f1d";

/// A complete configuration with short waits; tests change it with [`edited`].
pub(crate) fn config(
    materialize_url: &str,
    object: &str,
    key: &[&str],
    target_url: &str,
    cache: &std::path::Path,
) -> String {
    format!(
        r#"sink_id = "e2e"

[materialize]
url = {url}

[source]
object = {object}
key = {key}

[commit]
idle_interval = "50ms"

[retry]
attempts = 10
min_backoff = "10ms"
max_backoff = "200ms"

[dead_letter]
path = "dead-letters.jsonl"

[grants]
http = [{target}]

[secrets.turbopuffer_api_key]
env = "TURBOPUFFER_API_KEY"

[limits]
http_timeout = "10s"

[component]
cache_dir = {cache}

[sink]
base_url = {target}
namespace = "e2e"
control_namespace = "checkpoints"
"#,
        url = json!(materialize_url),
        object = json!(object),
        key = json!(key),
        target = json!(target_url),
        cache = json!(cache),
    )
}

/// `text` with `from` replaced by `to`.
///
/// # Panics
/// When `from` is not in it: the test would test something else.
#[must_use]
pub fn edited(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from:?} is not in:\n{text}");
    text.replacen(from, to, 1)
}

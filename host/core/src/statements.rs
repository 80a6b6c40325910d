//! Every SQL text that is sent to Materialize.

use std::time::Duration;

use crate::release::{Start, resume_as_of};
use crate::types::Envelope;

/// The name of the one cursor of a session.
const CURSOR: &str = "mz_wasm_sink";

/// Quotes an identifier.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a string.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// What a session needs before anything else: values in the text form that the decoder knows,
/// and no limit on how long a cursor may be open.
pub fn session_settings(cluster: Option<&str>) -> Vec<String> {
    let mut statements = vec![
        "SET timezone = 'UTC'".to_string(),
        "SET statement_timeout = 0".to_string(),
        "SET idle_in_transaction_session_timeout = 0".to_string(),
    ];
    if let Some(cluster) = cluster {
        statements.push(format!("SET cluster = {}", identifier(cluster)));
    }
    statements
}

/// Opens the cursor, in a transaction, by catalog id: what was checked is what is read.
pub fn subscribe(
    id: &str,
    full_name: &[String; 3],
    envelope: Envelope,
    key: &[String],
    start: Start,
) -> [String; 2] {
    let [database, schema, name] = full_name.each_ref().map(|part| identifier(part));
    let envelope = match envelope {
        Envelope::Upsert => {
            let key: Vec<_> = key.iter().map(|k| identifier(k)).collect();
            format!(" ENVELOPE UPSERT (KEY ({}))", key.join(", "))
        }
        Envelope::Diff => String::new(),
    };
    let options = match start {
        Start::Snapshot => "WITH (PROGRESS)".to_string(),
        Start::Resume(frontier) => format!(
            "WITH (PROGRESS, SNAPSHOT = false) AS OF {}",
            resume_as_of(frontier)
        ),
    };
    [
        "BEGIN".to_string(),
        format!(
            "DECLARE {CURSOR} CURSOR FOR SUBSCRIBE [{id} AS {database}.{schema}.{name}]{envelope} {options}"
        ),
    ]
}

/// Fetches what comes within `timeout`; rows are sent as they come.
pub fn fetch(timeout: Duration) -> String {
    format!(
        "FETCH ALL {CURSOR} WITH (timeout = '{}ms')",
        timeout.as_millis()
    )
}

/// Waits for the next rows however long it takes: an empty answer proves that the stream ended,
/// which a FETCH with a timeout cannot.
pub fn fetch_or_end() -> String {
    format!("FETCH ALL {CURSOR}")
}

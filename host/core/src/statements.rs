//! Every SQL text that is sent to Materialize.

use std::time::Duration;

use crate::release::{Start, resume_as_of};
use crate::types::{Envelope, Frontier, Timestamp};

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
    up_to: Option<Frontier>,
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
        Start::SnapshotAt(as_of) => format!("WITH (PROGRESS) AS OF {as_of}"),
        Start::Resume(frontier) => format!(
            "WITH (PROGRESS, SNAPSHOT = false) AS OF {}",
            resume_as_of(frontier)
        ),
    };
    let up_to = up_to.map_or_else(String::new, |t| format!(" UP TO {t}"));
    [
        "BEGIN".to_string(),
        format!(
            "DECLARE {CURSOR} CURSOR FOR SUBSCRIBE [{id} AS {database}.{schema}.{name}]{envelope} {options}{up_to}"
        ),
    ]
}

/// What a subscription that is never resumed reads, and from when on.
#[derive(Clone, Debug)]
pub struct LiveSubscribe<'a> {
    /// In SQL: `[u1 AS "db"."schema"."name"]`, or a query in parentheses.
    pub of: String,
    /// The key columns of the upsert envelope; empty for the diff envelope.
    pub key: &'a [String],
    /// Whether it begins with what is there already.
    pub with_snapshot: bool,
    /// When it begins; now, unless given.
    pub as_of: Option<Timestamp>,
    /// Where it ends, exclusive.
    pub up_to: Option<Frontier>,
}

/// An object by its id and full name, as SUBSCRIBE takes it.
pub fn by_id(id: &str, full_name: &[String; 3]) -> String {
    let name = full_name.each_ref().map(|part| identifier(part)).join(".");
    format!("[{id} AS {name}]")
}

/// A query as SUBSCRIBE takes it. A comment at its end must not hide what follows.
pub fn by_query(query: &str) -> String {
    format!("({}\n)", query.trim().trim_end_matches(';'))
}

/// Opens the cursor of a subscription that is never resumed, in a transaction.
pub fn subscribe_live(live: &LiveSubscribe<'_>) -> [String; 2] {
    let mut sql = format!("DECLARE {CURSOR} CURSOR FOR SUBSCRIBE {}", live.of);
    if !live.key.is_empty() {
        let key: Vec<_> = live.key.iter().map(|k| identifier(k)).collect();
        sql += &format!(" ENVELOPE UPSERT (KEY ({}))", key.join(", "));
    }
    sql += match live.with_snapshot {
        true => " WITH (PROGRESS)",
        false => " WITH (PROGRESS, SNAPSHOT = false)",
    };
    if let Some(as_of) = live.as_of {
        sql += &format!(" AS OF {as_of}");
    }
    if let Some(up_to) = live.up_to {
        sql += &format!(" UP TO {up_to}");
    }
    ["BEGIN".to_string(), sql]
}

/// Fetches what comes within `timeout`; rows are sent as they come.
pub fn fetch(timeout: Duration) -> String {
    format!(
        "FETCH ALL {CURSOR} WITH (timeout = '{}ms')",
        timeout.as_millis()
    )
}

/// Fetches one row, or none when there is none within `timeout`.
pub fn fetch_one(timeout: Duration) -> String {
    format!(
        "FETCH 1 {CURSOR} WITH (timeout = '{}ms')",
        timeout.as_millis()
    )
}

/// Waits for the next rows however long it takes: an empty answer proves that the stream ended,
/// which a FETCH with a timeout cannot.
pub fn fetch_or_end() -> String {
    format!("FETCH ALL {CURSOR}")
}

/// Opens a transaction in which several objects are read at one time, and names them: while it
/// is open, each of them stays readable at that time, whatever its retention (a recorded fact).
/// [`held_timestamp`] then tells the time.
pub fn hold_readable<'a>(names: impl IntoIterator<Item = &'a [String; 3]>) -> Vec<String> {
    let mut statements = vec!["BEGIN READ ONLY ISOLATION LEVEL SERIALIZABLE".to_string()];
    statements.extend(names.into_iter().map(|name| {
        let name = name.each_ref().map(|part| identifier(part)).join(".");
        format!("SELECT mz_now() FROM {name} LIMIT 1")
    }));
    statements
}

/// Asks for the time of the transaction that [`hold_readable`] opened.
pub fn held_timestamp() -> String {
    "SELECT mz_now()".to_string()
}

/// Asks for the times at which objects can be read. An object has one global id for each
/// replacement that was applied to it, of which the newest counts.
pub fn frontiers<'a>(ids: impl IntoIterator<Item = &'a str>) -> String {
    let ids: Vec<_> = ids.into_iter().map(literal).collect();
    format!(
        "SELECT g.id, g.global_id, f.read_frontier, f.write_frontier \
         FROM mz_internal.mz_object_global_ids g \
         JOIN mz_internal.mz_frontiers f ON f.object_id = g.global_id WHERE g.id IN ({})",
        ids.join(", ")
    )
}

/// Asks what the objects with these catalog ids are called; [`crate::catalog::names`] reads it.
pub fn names<'a>(ids: impl IntoIterator<Item = &'a str>) -> String {
    let ids: Vec<_> = ids.into_iter().map(literal).collect();
    format!(
        "SELECT id, database_name, schema_name, name \
         FROM mz_internal.mz_object_fully_qualified_names WHERE id IN ({})",
        ids.join(", ")
    )
}

/// Asks whether the times of an object come from a source with `ENVELOPE MATERIALIZE`: a row
/// when they do.
pub fn own_timeline(id: &str) -> String {
    let id = literal(id);
    format!(
        "SELECT s.id FROM mz_catalog.mz_sources s WHERE s.envelope_type = 'materialize' \
         AND (s.id = {id} OR s.id IN (SELECT d.referenced_object_id \
         FROM mz_internal.mz_object_transitive_dependencies d WHERE d.object_id = {id})) LIMIT 1"
    )
}

//! What is said and stored: statements, catalog types, checkpoints.

use std::time::Duration;

use mz_sink_core::catalog::{LookUp, column_type};
use mz_sink_core::checkpoint::Checkpoint;
use mz_sink_core::chunk::Values;
use mz_sink_core::release::Start;
use mz_sink_core::statements;
use mz_sink_core::types::{ColumnType, Envelope};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{hold, variant};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum From {
    Snapshot,
    SnapshotAt(u64),
    Resume(u64),
}

#[derive(Deserialize)]
pub(crate) struct Subscribe {
    id: String,
    name: [String; 3],
    envelope: Envelope,
    key: Vec<String>,
    start: From,
    up_to: Option<u64>,
}

#[derive(Deserialize)]
pub(crate) struct Settings {
    cluster: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Statement {
    Subscribe(Subscribe),
    Settings(Settings),
    FetchMs(u64),
    FetchOrEnd(()),
    LookUp(String),
    HoldReadable(Vec<[String; 3]>),
    HeldTimestamp(()),
    Frontiers(Vec<String>),
    OwnTimeline(String),
}

pub(crate) fn statements(input: Statement) -> Value {
    match input {
        Statement::Subscribe(s) => {
            let start = match s.start {
                From::Snapshot => Start::Snapshot,
                From::SnapshotAt(as_of) => Start::SnapshotAt(as_of),
                From::Resume(frontier) => Start::Resume(frontier),
            };
            json!(statements::subscribe(
                &s.id, &s.name, s.envelope, &s.key, start, s.up_to
            ))
        }
        Statement::Settings(s) => json!(statements::session_settings(s.cluster.as_deref())),
        Statement::FetchMs(ms) => json!([statements::fetch(Duration::from_millis(ms))]),
        Statement::FetchOrEnd(()) => json!([statements::fetch_or_end()]),
        Statement::LookUp(name) => match LookUp::new(&name) {
            Ok(look_up) => json!([look_up.query()]),
            Err(error) => json!({ "error": variant(&error) }),
        },
        Statement::HoldReadable(names) => json!(statements::hold_readable(&names)),
        Statement::HeldTimestamp(()) => json!([statements::held_timestamp()]),
        Statement::Frontiers(ids) => {
            json!([statements::frontiers(ids.iter().map(String::as_str))])
        }
        Statement::OwnTimeline(id) => json!([statements::own_timeline(&id)]),
    }
}

#[derive(Deserialize)]
pub(crate) struct CatalogType {
    r#type: String,
    type_mod: i64,
}

pub(crate) fn column_types(input: CatalogType) -> Value {
    let ty = column_type(&input.r#type, input.type_mod);
    let name = match &ty {
        ColumnType::Numeric(None) => "numeric".to_string(),
        ColumnType::Numeric(Some(scale)) => format!("numeric {scale}"),
        ColumnType::Other(name) => format!("other {name}"),
        ColumnType::TimestampTz => "timestamptz".into(),
        other => variant(other),
    };
    let values = match Values::for_type(&ty) {
        Values::Booleans(_) => "boolean",
        Values::Ints(_) => "int",
        Values::Uints(_) => "uint",
        Values::Floats(_) => "float",
        Values::Texts(_) => "text",
        Values::Bytes(_) => "bytes",
        _ => "unknown",
    };
    json!({ "type": name, "values": values })
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Stored {
    Encode {
        encode: Checkpoint,
    },
    Parse {
        parse: String,
        sink_id: String,
        pad_to: Option<usize>,
    },
}

pub(crate) fn checkpoint(input: Stored) -> Result<Value, String> {
    let encoded = |checkpoint: &Checkpoint| checkpoint.encode().map_err(|e| e.to_string());
    match input {
        Stored::Encode { encode } => {
            let text = encoded(&encode)?;
            let again = Checkpoint::parse(&text, &encode.sink_id).map_err(|e| e.to_string())?;
            hold(again == encode, || {
                format!("what is written is read as {again:?}")
            })?;
            Ok(json!({ "text": text }))
        }
        Stored::Parse {
            parse,
            sink_id,
            pad_to,
        } => {
            let mut text = parse;
            let spaces = pad_to.unwrap_or(0).saturating_sub(text.len());
            text.extend(std::iter::repeat_n(' ', spaces));
            match Checkpoint::parse(&text, &sink_id) {
                Ok(found) => {
                    let checkpoint: Value =
                        serde_json::from_str(&encoded(&found)?).map_err(|e| e.to_string())?;
                    Ok(json!({ "checkpoint": checkpoint }))
                }
                Err(error) => {
                    let shown = error.to_string();
                    hold(shown.len() < 300, || {
                        format!("an error quotes the text: {shown}")
                    })?;
                    Ok(json!({ "error": variant(&error) }))
                }
            }
        }
    }
}

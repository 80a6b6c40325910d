//! Reading a view's documents back as rows, to compare them with the view.
//!
//! What `types` made lossy comes back as it is stored. Vectors that were made are left out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mz_sink_guest::{Clock, Error, Http, Log, Page, ReadBack};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::client::Trouble;
use crate::schema::{Attribute, IdRule, Table};
use crate::sink::Turbopuffer;
use crate::types::{Encoding, PlainText};

/// Most documents that turbopuffer gives at once.
const MAX_PAGE: u32 = 10_000;

/// The largest integer that every JSON reader keeps exact: 2^53.
const EXACT: u64 = 1 << 53;

#[derive(Deserialize)]
struct Found {
    rows: Vec<Map<String, Value>>,
}

/// In the order of the documents' ids.
impl<H: Http + Clock + Log> ReadBack for Turbopuffer<H> {
    fn rows(&mut self, view: usize, after: Option<&[u8]>, max: u32) -> Result<Page, Error> {
        let no_view = || Error::permanent("no-view", format!("there is no view {view}"));
        let table = self.tables.get(view).ok_or_else(no_view)?;
        let incarnations = self.control.incarnations();
        let Some(namespace) = incarnations.active.get(view).and_then(Option::as_ref) else {
            // Nothing was ever loaded.
            return Ok(Page {
                rows: "[]".into(),
                next: None,
            });
        };
        let limit = max.clamp(1, MAX_PAGE);
        let mut filters = vec![json!(["deleted", "Eq", false])];
        if let Some(after) = after {
            let id: Value = serde_json::from_slice(after)
                .map_err(|_| Error::permanent("no-page", "a page begins somewhere unknown"))?;
            filters.push(json!(["id", "Gt", id]));
        }
        let names: Vec<&str> = table.attributes.iter().map(|a| a.name.as_str()).collect();
        let query = json!({
            "rank_by": ["id", "asc"],
            "filters": ["And", filters],
            "limit": limit,
            "include_attributes": names,
            "consistency": { "level": "strong" },
        });
        let found = self.client.query(namespace, query.to_string().into_bytes());
        let found: Found = match found {
            Ok(found) => found,
            Err(Trouble::NoNamespace(_)) => {
                let namespace = namespace.clone();
                let view = table.view.clone();
                return Err(self.control.missing(&self.client, &view, &namespace));
            }
            Err(trouble) => return Err(trouble.of_idempotent()),
        };
        let last = found.rows.last().and_then(|document| document.get("id"));
        let next = last.filter(|_| found.rows.len() >= limit as usize);
        let next = next.map(|id| id.to_string().into_bytes());
        let rows: Vec<Value> = found.rows.iter().map(|d| row(table, d)).collect();
        Ok(Page {
            rows: Value::Array(rows).to_string(),
            next,
        })
    }
}

fn row(table: &Table, document: &Map<String, Value>) -> Value {
    let mut row = Map::new();
    if let IdRule::Uint { column } | IdRule::NonNegative { column } | IdRule::Uuid { column } =
        table.id
        && let (Some(name), Some(id)) = (table.columns.get(column), document.get("id"))
    {
        // Where the key is its own id, it may be stored only once.
        row.insert(name.clone(), exact(id.clone()));
    }
    for attribute in &table.attributes {
        if let Some(name) = table.columns.get(attribute.column) {
            let stored = document.get(&attribute.name).cloned();
            let value = stored.map_or(Value::Null, |stored| of_column(attribute, stored));
            row.insert(name.clone(), value);
        }
    }
    Value::Object(row)
}

/// The value as the contract's JSON rows have it.
fn of_column(attribute: &Attribute, stored: Value) -> Value {
    let (Encoding::Plain(plain), Value::String(text)) = (attribute.encoding, &stored) else {
        return match attribute.encoding {
            Encoding::Integer | Encoding::Unsigned => exact(stored),
            _ => stored,
        };
    };
    let number = || text.parse::<serde_json::Number>().ok().map(Value::Number);
    let converted = match plain {
        PlainText::Bool => Some(json!(text == "true")),
        PlainText::Integer => number().map(exact),
        // NaN and infinities are text there as well.
        PlainText::Float | PlainText::Float32 => number(),
        PlainText::Base64 => {
            let bytes = STANDARD.decode(text).ok();
            bytes.map(|bytes| json!(format!("\\x{}", hex::encode(bytes))))
        }
        PlainText::Date | PlainText::Time | PlainText::Timestamp | PlainText::TimestampTz => None,
    };
    converted.unwrap_or(stored)
}

/// Integers beyond 2^53 are text.
fn exact(value: Value) -> Value {
    let magnitude = value.as_u64().or(value.as_i64().map(i64::unsigned_abs));
    match magnitude {
        Some(magnitude) if magnitude > EXACT => json!(value.to_string()),
        _ => value,
    }
}

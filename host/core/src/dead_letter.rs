//! Rows that never reached the target: the format in which they are kept, and which of them are
//! meant.
//!
//! A file of JSON lines. Format 2 is written; format 1, which had no `text` and no `snapshot`, is
//! still read. Both are pinned by the golden files beside this one.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::chunk::{Chunk, Value};
use crate::types::{Timestamp, View};
use crate::{json, keys, text};

#[cfg(test)]
mod tests;

/// The format that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 2;

/// A row that never reaches the target.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// Its view.
    pub view: &'a View,
    /// The chunk that it is in.
    pub chunk: &'a Chunk,
    /// Its index in the chunk.
    pub row: usize,
    /// Whether it is of a snapshot.
    pub is_snapshot: bool,
    /// Why, in a word.
    pub category: &'a str,
    /// Why, in a sentence. Without values.
    pub message: &'a str,
}

impl Refused<'_> {
    /// What is kept of it: one line with its newline.
    pub fn line(&self, sink_id: &str) -> Vec<u8> {
        let Self {
            view, chunk, row, ..
        } = *self;
        let mut form = Vec::new();
        json::write_rows(chunk, view, 0, row..row + 1, &mut form);
        let form = serde_json::from_slice(&form).unwrap_or(serde_json::Value::Null);
        let texts = view.columns.iter().zip(&chunk.columns).map(|(c, values)| {
            let text = match values.get(row) {
                Value::Null => None,
                value => {
                    let mut text = Vec::new();
                    text::write(value, &c.ty, &mut text);
                    Some(String::from_utf8_lossy(&text).into_owned())
                }
            };
            (c.name.as_str(), text)
        });
        let mut line = serde_json::json!({
            "format": FORMAT,
            "id": keys::idempotency_key(sink_id, view, chunk, row, self.is_snapshot),
            "sink_id": sink_id,
            "view": view.name,
            "key": keys::correlation_key(sink_id, view, chunk, row),
            "category": self.category,
            "message": self.message,
            "snapshot": self.is_snapshot,
            "change": form[0],
            "text": texts.collect::<BTreeMap<_, _>>(),
        })
        .to_string()
        .into_bytes();
        line.push(b'\n');
        line
    }
}

/// A dead letter as it is kept.
#[derive(Clone, Debug, Deserialize)]
pub struct Entry {
    /// Names the change: the same whenever it is met again.
    pub id: String,
    /// The deployment that the row was for.
    pub sink_id: String,
    /// Its view.
    pub view: String,
    /// Names what the change is about, see [`keys::correlation_key`].
    pub key: String,
    /// Why, in a word.
    pub category: String,
    /// Why, in a sentence.
    pub message: String,
    /// What was to be done, in the form that scripting guests get.
    pub change: Change,
    /// Whether it is of a snapshot. Since format 2.
    #[serde(default)]
    pub snapshot: bool,
    /// The values in Materialize's own text form, by column. Since format 2.
    #[serde(default)]
    pub text: Option<BTreeMap<String, Option<String>>>,
    /// The line as it was read, without its newline.
    #[serde(skip)]
    pub line: String,
}

/// What was to be done with a row.
#[derive(Clone, Debug, Deserialize)]
pub struct Change {
    /// When it happened.
    #[serde(rename = "ts", deserialize_with = "number")]
    pub time: Timestamp,
    /// Its place within the time.
    #[serde(rename = "ord", deserialize_with = "number")]
    pub ordinal: u64,
    /// `put` or `delete`.
    pub op: String,
    /// How often (diff envelope).
    #[serde(rename = "n", deserialize_with = "number")]
    pub count: u64,
    /// The values.
    pub row: serde_json::Map<String, serde_json::Value>,
}

/// A number, or a text with one: JSON numbers stop being exact at 2^53.
fn number<'de, D: serde::Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Number(u64),
        Text(String),
    }
    match Form::deserialize(d)? {
        Form::Number(number) => Ok(number),
        Form::Text(text) => text.parse().map_err(serde::de::Error::custom),
    }
}

/// Why a file of dead letters cannot be read. Never contains values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Edited by hand, or something else.
    #[error(
        "line {line} is not a dead letter: restore the file, or take the line out, which gives the row up"
    )]
    Damaged {
        /// Counted from 1.
        line: usize,
    },
    /// Written by a later version.
    #[error(
        "line {line} has format {found}, and this version reads up to {FORMAT}: use the newer version again, or a newer one than that"
    )]
    NewerFormat {
        /// Counted from 1.
        line: usize,
        /// In the line.
        found: u32,
    },
}

/// The content of a file.
#[derive(Clone, Debug, Default)]
pub struct Letters {
    /// Each dead letter once, in the order in which they were first met.
    pub entries: Vec<Entry>,
    /// Whether the last line was cut off while it was written: its row was never given up, and
    /// comes again.
    pub is_cut: bool,
}

impl Letters {
    /// Reads a whole file.
    ///
    /// # Errors
    /// [`ReadError`] for the first line that is not a dead letter. A last line without its
    /// newline is none.
    pub fn parse(text: &str) -> Result<Self, ReadError> {
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        let mut letters = Self::default();
        let mut known = BTreeSet::new();
        let (whole, cut) = match text.rfind('\n') {
            Some(end) => text.split_at(end + 1),
            None => ("", text),
        };
        letters.is_cut = !cut.is_empty();
        for (line, number) in whole.lines().zip(1..) {
            let damaged = |_| ReadError::Damaged { line: number };
            let Versioned { format } = serde_json::from_str(line).map_err(damaged)?;
            if format > FORMAT {
                return Err(ReadError::NewerFormat {
                    line: number,
                    found: format,
                });
            }
            let entry: Entry = serde_json::from_str(line).map_err(damaged)?;
            if format == 0 || !matches!(entry.change.op.as_str(), "put" | "delete") {
                return Err(ReadError::Damaged { line: number });
            }
            // A write that is tried again refuses its rows again.
            if known.insert(entry.id.clone()) {
                letters.entries.push(Entry {
                    line: line.into(),
                    ..entry
                });
            }
        }
        Ok(letters)
    }

    /// The text of a file with those for which `keeps` is true.
    pub fn text(&self, keeps: impl Fn(&Entry) -> bool) -> String {
        let kept = self.entries.iter().filter(|entry| keeps(entry));
        kept.map(|entry| format!("{}\n", entry.line)).collect()
    }
}

/// Which dead letters are meant: those that fit all that is given.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Beginnings of ids.
    pub ids: Vec<String>,
    /// The view.
    pub view: Option<String>,
    /// The category.
    pub category: Option<String>,
    /// The deployment.
    pub sink_id: Option<String>,
}

/// An id that does not say which dead letter is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// None begins so.
    #[error("there is no dead letter {0}; `dlq list` shows which there are")]
    Unknown(String),
    /// Several do.
    #[error("{0} begins several ids; write more of it")]
    Ambiguous(String),
}

impl Selection {
    /// The ids of those that are meant.
    ///
    /// # Errors
    /// [`SelectionError`] for the first beginning that is not that of exactly one id.
    pub fn of<'a>(&self, entries: &'a [Entry]) -> Result<Vec<&'a Entry>, SelectionError> {
        for begin in &self.ids {
            let mut fit = entries.iter().filter(|entry| entry.id.starts_with(begin));
            match (fit.next(), fit.next()) {
                (Some(_), None) => {}
                (None, _) => return Err(SelectionError::Unknown(begin.clone())),
                (Some(_), Some(_)) => return Err(SelectionError::Ambiguous(begin.clone())),
            }
        }
        let is = |given: &Option<String>, value: &str| given.as_ref().is_none_or(|g| g == value);
        let fits = |entry: &&Entry| {
            (self.ids.is_empty() || self.ids.iter().any(|begin| entry.id.starts_with(begin)))
                && is(&self.view, &entry.view)
                && is(&self.category, &entry.category)
                && is(&self.sink_id, &entry.sink_id)
        };
        Ok(entries.iter().filter(fits).collect())
    }
}

//! `dlq list` and `dlq show`.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use mz_sink_core::dead_letter::{Entry, Selection};
use mz_sink_driver::LetterFile;
use serde_json::json;

use super::{Filters, Place, counted, entries, file_failure, warn_of_cut};
use crate::exit::Failure;
use crate::output::{self, one_line};

/// As much of an id as is shown.
const SHORT: usize = 12;

/// Arguments of `dlq list`.
#[derive(Args)]
pub struct ListArguments {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    filters: Filters,
    /// Print one JSON object a line, without values.
    #[arg(long)]
    json: bool,
}

/// Arguments of `dlq show`.
#[derive(Args)]
pub struct ShowArguments {
    /// The id, or enough of its beginning.
    id: String,
    #[command(flatten)]
    place: Place,
}

/// Shows which there are.
///
/// # Errors
/// When the file cannot be read.
pub fn list(arguments: &ListArguments) -> Result<(), Failure> {
    let file = LetterFile::read(&arguments.place.path()?).map_err(file_failure)?;
    warn_of_cut(&file);
    let chosen = entries(&file, &arguments.filters.selection(&[]))?;
    let mut text = String::new();
    if arguments.json {
        for entry in &chosen {
            text += &format!("{}\n", without_values(entry));
        }
        return output::print(&output::json(&text));
    }
    if chosen.is_empty() {
        return output::print("no dead letters\n");
    }
    let view = width(&chosen, |entry| &entry.view, "view");
    let category = width(&chosen, |entry| &entry.category, "category");
    text += &format!(
        "{:SHORT$}  {:24}  {:view$}  {:6}  {:category$}  why\n",
        "id", "time", "view", "change", "category"
    );
    for entry in &chosen {
        text += &format!(
            "{:SHORT$}  {:24}  {:view$}  {:6}  {:category$}  {}\n",
            entry.id.get(..SHORT).unwrap_or(&entry.id),
            time(entry.change.time),
            one_line(&entry.view),
            entry.change.op,
            one_line(&entry.category),
            one_line(&entry.message),
        );
    }
    let mut categories = BTreeMap::new();
    for entry in &chosen {
        *categories.entry(one_line(&entry.category)).or_insert(0) += 1;
    }
    let categories: Vec<_> = categories
        .iter()
        .map(|(category, count)| format!("{count} {category}"))
        .collect();
    text += &format!("\n{}: {}\n", counted(chosen.len()), categories.join(", "));
    output::print(&text)
}

/// Shows one with its values.
///
/// # Errors
/// When the file cannot be read, or has no such entry.
pub fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let file = LetterFile::read(&arguments.place.path()?).map_err(file_failure)?;
    let selection = Selection {
        ids: vec![arguments.id.clone()],
        ..Selection::default()
    };
    for entry in entries(&file, &selection)? {
        let value: serde_json::Value = serde_json::from_str(&entry.line).unwrap_or_default();
        output::print(&output::json(&format!("{value:#}\n")))?;
    }
    Ok(())
}

fn width(entries: &[Entry], of: impl Fn(&Entry) -> &String, heading: &str) -> usize {
    let lengths = entries
        .iter()
        .map(|entry| one_line(of(entry)).chars().count());
    lengths.max().unwrap_or(0).max(heading.len())
}

/// A time of Materialize, in UTC.
fn time(millis: u64) -> String {
    match UNIX_EPOCH.checked_add(Duration::from_millis(millis)) {
        // The years that have four digits.
        Some(time) if millis < 253_402_300_800_000 => {
            humantime::format_rfc3339_millis(time).to_string()
        }
        _ => millis.to_string(),
    }
}

fn without_values(entry: &Entry) -> serde_json::Value {
    json!({
        "id": entry.id,
        "sink_id": entry.sink_id,
        "view": entry.view,
        "mz_timestamp": entry.change.time.to_string(),
        "op": entry.change.op,
        "snapshot": entry.snapshot,
        "key": entry.key,
        "category": entry.category,
        "message": entry.message,
    })
}

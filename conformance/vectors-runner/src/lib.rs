//! Runs the cases of `conformance/vectors` on the protocol core; the README there describes the
//! files.
//!
//! ```text
//!  file name, text ──> run ──> the cases (decision, protocol, stream, keys) ──> Report
//!                       ^
//!       tests/native.rs ┴ tests/wasm.rs: the same, built for wasm32 and called through `guest`
//! ```

mod decision;
pub mod guest;
mod keys;
mod protocol;
mod recorded;
mod stream;

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The files, by their names without `.json`.
pub const FILES: [&str; 13] = [
    "checkpoint",
    "column_types",
    "cut",
    "decode",
    "error_classes",
    "identity",
    "keys",
    "netting",
    "recorded_streams",
    "release",
    "retry",
    "statements",
    "values",
];

/// One case of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    why: String,
    input: Value,
    expected: Value,
    /// Made by a program, not written by hand.
    #[serde(default)]
    generated: bool,
    /// The recording of a real server that it comes from.
    #[serde(default)]
    recording: Option<String>,
}

/// What came of a file.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Cases that were run.
    pub cases: usize,
    /// How many of them were made by a program.
    pub generated: usize,
    /// The recordings that they come from.
    pub recordings: BTreeSet<String>,
    /// A text for each case that failed.
    pub failed: Vec<String>,
}

/// Runs every case of a file.
///
/// # Errors
/// When there is no such file, or it cannot be read as one: no case, a case twice, or an input
/// of another shape. A case that fails is no error.
pub fn run(file: &str, text: &str) -> Result<Report, String> {
    match file {
        "checkpoint" => cases(text, protocol::checkpoint),
        "column_types" => cases(text, |input| Ok(protocol::column_types(input))),
        "cut" => cases(text, stream::cut),
        "decode" => cases(text, stream::decode),
        "error_classes" => cases(text, |input| Ok(decision::error_classes(input))),
        "identity" => cases(text, |input| Ok(decision::identity(input))),
        "keys" => cases(text, keys::keys),
        "netting" => cases(text, stream::netting),
        "recorded_streams" => cases(text, recorded::stream),
        "release" => cases(text, stream::release),
        "retry" => cases(text, decision::retry),
        "statements" => cases(text, |input| Ok(protocol::statements(input))),
        "values" => cases(text, stream::value),
        other => Err(format!("there is no code for a file {other}.json")),
    }
}

/// `case` gives what the core does with an input, or why it broke a rule that holds for every
/// input of the file.
fn cases<I: DeserializeOwned>(
    text: &str,
    case: impl Fn(I) -> Result<Value, String>,
) -> Result<Report, String> {
    let all: Vec<Case> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let mut report = Report::default();
    let mut names = BTreeSet::new();
    for Case {
        name,
        why,
        input,
        expected,
        generated,
        recording,
    } in all
    {
        if !names.insert(name.clone()) {
            return Err(format!("two cases are named {name}"));
        }
        if why.is_empty() {
            return Err(format!("{name} gives no reason"));
        }
        let input = serde_json::from_value(input)
            .map_err(|e| format!("the input of {name} cannot be read: {e}"))?;
        let found = match case(input) {
            Ok(found) if found == expected => None,
            Ok(found) => Some(found.to_string()),
            Err(broken) => Some(broken),
        };
        if let Some(found) = found {
            let told = format!("{name} ({why})\n  expected {expected}\n  found    {found}");
            report.failed.push(told);
        }
        report.cases += 1;
        report.generated += usize::from(generated);
        report.recordings.extend(recording);
    }
    match report.cases {
        0 => Err("there are no cases".into()),
        _ => Ok(report),
    }
}

/// A rule that holds for every case of a file.
fn hold(rule: bool, broken: impl FnOnce() -> String) -> Result<(), String> {
    if rule { Ok(()) } else { Err(broken()) }
}

/// A name of an enum's variant, as the vectors write it.
fn variant(debug: &impl std::fmt::Debug) -> String {
    let shown = format!("{debug:?}");
    let name = shown
        .split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or_default();
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.extend(c.to_lowercase());
    }
    out
}

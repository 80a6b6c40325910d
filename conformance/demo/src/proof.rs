//! The proof: what the target holds equals the view at the committed frontier.

use std::collections::BTreeMap;

use materialize_sim::Control;

use crate::recording::Recording;

/// Rows by key, values as text.
pub type Rows = BTreeMap<String, Vec<Option<String>>>;

/// The view's rows AS OF `frontier - 1`, folded from the stream itself.
pub fn expected(
    control: &Control,
    object: &str,
    frontier: u64,
    recording: &Recording,
) -> anyhow::Result<Rows> {
    let key = recording.key_column()?;
    let mut rows = Rows::new();
    control.for_each_row(object, frontier - 1, |row, count| {
        if count > 0 {
            rows.insert(row[key].clone().unwrap_or_default(), row.clone());
        }
    })?;
    Ok(rows)
}

/// What differs, one line each.
pub fn compare(expected: &Rows, found: &Rows) -> Vec<String> {
    let mut differences = Vec::new();
    for (key, row) in expected {
        match found.get(key) {
            None => differences.push(format!("{key}: missing in the target")),
            Some(other) if other != row => {
                differences.push(format!(
                    "{key}: {row:?} in the view, {other:?} in the target"
                ));
            }
            Some(_) => {}
        }
    }
    for key in found.keys().filter(|key| !expected.contains_key(*key)) {
        differences.push(format!("{key}: in the target only"));
    }
    differences
}

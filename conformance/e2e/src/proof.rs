//! The proof: what readers find equals the table at the committed frontier.

use std::collections::BTreeMap;

use serde_json::Value;

type Rows = BTreeMap<Vec<Option<String>>, u64>;

/// What differs between rows and live documents, one line each. Values are compared in
/// Materialize's text form.
#[must_use]
pub fn differences(
    columns: &[String],
    rows: &[Vec<Option<String>>],
    documents: &[Value],
) -> Vec<String> {
    let mut expected = Rows::new();
    for row in rows {
        *expected.entry(row.clone()).or_default() += 1;
    }
    let mut found = Rows::new();
    for document in documents {
        let row = columns.iter().map(|column| text(&document[column]));
        *found.entry(row.collect()).or_default() += 1;
    }
    let missing = expected
        .iter()
        .filter(|(row, n)| found.get(*row) != Some(n));
    let extra = found
        .iter()
        .filter(|(row, n)| expected.get(*row) != Some(n));
    let missing = missing.map(|(row, n)| format!("{n} times in the table: {row:?}"));
    let extra = extra.map(|(row, n)| format!("{n} times in the target: {row:?}"));
    missing.chain(extra).collect()
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bool(value) => Some(if *value { "t" } else { "f" }.into()),
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, name: Option<&str>) -> Vec<Option<String>> {
        vec![Some(id.into()), name.map(Into::into)]
    }

    #[test]
    fn the_proof_sees_what_is_missing_wrong_or_too_much() {
        let columns = ["id".to_owned(), "name".to_owned()];
        let document = |id: u64, name: Option<&str>| serde_json::json!({"id": id, "name": name});
        let rows = [row("1", Some("a")), row("2", None)];
        let right = [document(2, None), document(1, Some("a"))];
        assert!(differences(&columns, &rows, &right).is_empty());
        assert_eq!(differences(&columns, &rows, &right[..1]).len(), 1);
        assert_eq!(differences(&columns, &rows[..1], &right).len(), 1);
        let wrong = [document(1, Some("b")), document(2, None)];
        assert_eq!(differences(&columns, &rows, &wrong).len(), 2);
    }
}

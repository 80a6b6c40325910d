//! Rows of the simulated objects, their layouts, and what the upsert envelope makes of changes.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A value as text.
pub(crate) type Text = Arc<str>;

/// A row as it is sent.
pub(crate) type TextRow = Vec<Option<Text>>;

/// Values that begin with this are refused by every sink.
pub(crate) const REFUSED: &str = "refused";

/// What identifies a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) id: i64,
    /// Only in layouts with a composite key.
    pub(crate) tag: Option<Text>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) value: Option<Text>,
}

impl Row {
    pub(crate) fn is_refused(&self) -> bool {
        is_refused(self.value.as_ref())
    }
}

pub(crate) fn is_refused(value: Option<&Text>) -> bool {
    value.is_some_and(|value| value.starts_with(REFUSED))
}

/// Rows with their multiplicities.
pub(crate) type Bag = BTreeMap<Row, i64>;

/// The columns of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout(pub(crate) usize);

impl Layout {
    /// Name, SQL type, whether it is nullable; in the order of the object.
    pub(crate) fn columns(self) -> &'static [(&'static str, &'static str, bool)] {
        match self.0 {
            0 => &[("id", "bigint", false), ("value", "text", true)],
            1 => &[
                ("value", "text", true),
                ("id", "bigint", false),
                ("tag", "text", false),
            ],
            _ => &[
                ("id", "bigint", false),
                ("tag", "text", false),
                ("value", "text", true),
            ],
        }
    }

    /// Key columns, in an order of their own.
    pub(crate) fn key(self) -> &'static [&'static str] {
        match self.0 {
            0 => &["id"],
            1 => &["tag", "id"],
            _ => &["id", "tag"],
        }
    }

    pub(crate) fn has_tag(self) -> bool {
        self.0 != 0
    }
}

/// The value of the column `name`; key columns only when `key_only`.
pub(crate) fn value_of(name: &str, row: &Row, key_only: bool) -> Option<Text> {
    match name {
        "id" => Some(row.key.id.to_string().into()),
        "tag" => row.key.tag.clone(),
        _ if key_only => None,
        _ => row.value.clone(),
    }
}

/// What the envelope says of one key at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Upsert {
    Put(Option<Text>),
    Delete,
    Violation,
}

/// The envelope, as the server computes it: from the changes of one time alone.
pub(crate) fn upserts<'a>(
    changes: impl IntoIterator<Item = (&'a Row, i64)>,
) -> BTreeMap<Key, Upsert> {
    let mut by_key: BTreeMap<Key, Vec<(&Row, i64)>> = BTreeMap::new();
    for (row, diff) in changes {
        by_key.entry(row.key.clone()).or_default().push((row, diff));
    }
    let judged = by_key.into_iter().map(|(key, changes)| {
        let put = changes.iter().find(|(_, diff)| *diff == 1);
        let mut diffs: Vec<_> = changes.iter().map(|(_, diff)| *diff).collect();
        diffs.sort_unstable();
        let upsert = match (diffs.as_slice(), put) {
            ([1] | [-1, 1], Some((row, _))) => Upsert::Put(row.value.clone()),
            ([-1], _) => Upsert::Delete,
            _ => Upsert::Violation,
        };
        (key, upsert)
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i64, value: &str) -> Row {
        Row {
            key: Key { id, tag: None },
            value: Some(value.into()),
        }
    }

    #[test]
    fn the_envelope_sees_one_row_come_go_or_be_replaced_and_else_a_violation() {
        let put = |value: &str| Upsert::Put(Some(value.into()));
        let (a, b) = (row(1, "a"), row(1, "b"));
        for (changes, must) in [
            (vec![(&a, 1)], put("a")),
            (vec![(&a, -1)], Upsert::Delete),
            (vec![(&a, -1), (&b, 1)], put("b")),
            (vec![(&a, 2)], Upsert::Violation),
            (vec![(&a, 1), (&b, 1)], Upsert::Violation),
            (vec![(&a, -1), (&b, -1)], Upsert::Violation),
        ] {
            let found = upserts(changes.iter().copied());
            assert_eq!(
                found.into_values().collect::<Vec<_>>(),
                [must],
                "{changes:?}"
            );
        }
    }

    #[test]
    fn keys_are_judged_one_by_one() {
        let (a, b) = (row(1, "a"), row(2, "b"));
        assert_eq!(upserts([(&a, 1), (&b, -1)]).len(), 2);
    }
}

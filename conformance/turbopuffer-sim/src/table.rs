//! Rows of a request, read straight from JSON into columns.
//!
//! Both forms of the API (`*_rows`, `*_columns`) end in the same [`Table`].

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};

use crate::value::Value;

/// One attribute of all rows of a request.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) values: Vec<Value>,
}

/// Unchecked rows. Every column is as long as `ids` when it came from rows; columns sent as
/// columns are checked later.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) ids: Vec<Value>,
    pub(crate) columns: Vec<Column>,
}

/// The columnar form: `{"id":[..],"a":[..]}`.
pub(crate) struct Columns(pub(crate) Table);

/// The row form: `[{"id":1,"a":2},..]`.
pub(crate) struct Rows(pub(crate) Table);

impl<'de> Deserialize<'de> for Columns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ColumnsVisitor).map(Columns)
    }
}

struct ColumnsVisitor;

impl<'de> Visitor<'de> for ColumnsVisitor {
    type Value = Table;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table, A::Error> {
        let mut table = Table::default();
        let mut has_ids = false;
        let mut expected = 0;
        while let Some(name) = map.next_key::<String>()? {
            if (name == "id" && has_ids) || table.columns.iter().any(|c| c.name == name) {
                return Err(A::Error::custom(format_args!("duplicate column `{name}`")));
            }
            let values = map.next_value_seed(ColumnSeed { expected })?;
            expected = values.len();
            if name == "id" {
                has_ids = true;
                table.ids = values;
            } else {
                table.columns.push(Column { name, values });
            }
        }
        if !has_ids {
            return Err(A::Error::missing_field("id"));
        }
        Ok(table)
    }
}

struct ColumnSeed {
    /// Length of the column before this one.
    expected: usize,
}

impl<'de> DeserializeSeed<'de> for ColumnSeed {
    type Value = Vec<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Value>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ColumnSeed {
    type Value = Vec<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Value>, A::Error> {
        let mut values = Vec::with_capacity(self.expected);
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(values)
    }
}

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(RowsVisitor).map(Rows)
    }
}

struct RowsVisitor;

impl<'de> Visitor<'de> for RowsVisitor {
    type Value = Table;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Table, A::Error> {
        let mut table = Table::default();
        while seq.next_element_seed(RowSeed(&mut table))?.is_some() {}
        let rows = table.ids.len();
        for column in &mut table.columns {
            column.values.resize(rows, Value::Absent);
        }
        Ok(table)
    }
}

struct RowSeed<'a>(&'a mut Table);

impl<'de> DeserializeSeed<'de> for RowSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let table = self.0;
        let row = table.ids.len();
        // Rows tend to name their attributes in the same order, so the column after the
        // last one is tried first.
        let mut hint = 0;
        while let Some(key) = map.next_key_seed(KeySeed {
            columns: &mut table.columns,
            hint,
        })? {
            let value: Value = map.next_value()?;
            let values = match key {
                Key::Id => &mut table.ids,
                Key::Column(index) => {
                    hint = index + 1;
                    &mut table.columns[index].values
                }
            };
            values.truncate(row);
            values.resize(row, Value::Absent);
            values.push(value);
        }
        if table.ids.len() != row + 1 {
            return Err(A::Error::missing_field("id"));
        }
        Ok(())
    }
}

enum Key {
    Id,
    Column(usize),
}

struct KeySeed<'a> {
    columns: &'a mut Vec<Column>,
    hint: usize,
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an attribute name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Key, E> {
        if name == "id" {
            return Ok(Key::Id);
        }
        let (before, after) = self.columns.split_at(self.hint.min(self.columns.len()));
        let found = after
            .iter()
            .position(|column| column.name == name)
            .map(|at| at + before.len())
            .or_else(|| before.iter().position(|column| column.name == name));
        Ok(Key::Column(found.unwrap_or_else(|| {
            self.columns.push(Column {
                name: name.to_owned(),
                values: Vec::new(),
            });
            self.columns.len() - 1
        })))
    }
}

/// A field whose content does not matter, only that it was sent.
#[derive(Clone, Copy)]
pub(crate) struct Sent;

impl<'de> Deserialize<'de> for Sent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Sent)
    }
}

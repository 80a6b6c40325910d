//! SQL types: names, OIDs, sizes, type modifiers, and the text Materialize
//! prints for a literal stored in a column.

use crate::error::{SimError, SqlError};

/// OID of `mz_timestamp`.
pub(crate) const MZ_TIMESTAMP: u32 = 16552;
/// OID of `text`.
pub(crate) const TEXT: u32 = 25;
/// OID of `bool`.
pub(crate) const BOOL: u32 = 16;
/// OID of `numeric`.
pub(crate) const NUMERIC: u32 = 1700;
/// OID of `int8`.
pub(crate) const INT8: u32 = 20;
/// OID of `int4`.
pub(crate) const INT4: u32 = 23;

/// A column of an object, as `mz_columns` and RowDescription describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type as `mz_columns.type` prints it (`integer`, `text`, `list`).
    pub sql_type: String,
    /// `mz_columns.type_oid`.
    pub oid: u32,
    /// `mz_columns.type_mod`, -1 for none.
    pub typmod: i32,
    /// Whether NULL is allowed.
    pub nullable: bool,
}

impl Column {
    /// A nullable column of a type written as in CREATE TABLE: `int`, `numeric(12,2)`, `text list`.
    ///
    /// # Errors
    /// [`SimError::UnknownType`] for a type that is not in the simulator's list.
    pub fn new(name: impl Into<String>, sql_type: &str) -> Result<Self, SimError> {
        let (sql_type, oid, typmod) =
            resolve(sql_type).ok_or_else(|| SimError::UnknownType(sql_type.to_owned()))?;
        Ok(Self {
            name: name.into(),
            sql_type,
            oid,
            typmod,
            nullable: true,
        })
    }

    /// A nullable column whose type is given in full, for types without a name here.
    pub fn exact(name: impl Into<String>, sql_type: &str, oid: u32, typmod: i32) -> Self {
        Self {
            name: name.into(),
            sql_type: sql_type.to_owned(),
            oid,
            typmod,
            nullable: true,
        }
    }

    /// The same column, NOT NULL.
    #[must_use]
    pub fn not_null(mut self) -> Self {
        self.nullable = false;
        self
    }
}

/// `(aliases, printed name, OID)`.
const TYPES: &[(&[&str], &str, u32)] = &[
    (&["bool"], "boolean", BOOL),
    (&["bytea"], "bytea", 17),
    (&["int8"], "bigint", INT8),
    (&["int2"], "smallint", 21),
    (&["int", "int4"], "integer", INT4),
    (&["string"], "text", TEXT),
    (&[], "oid", 26),
    (&["float4"], "real", 700),
    (&["float8", "float", "double"], "double precision", 701),
    (&["char", "bpchar"], "character", 1042),
    (&["varchar"], "character varying", 1043),
    (&[], "date", 1082),
    (&[], "time", 1083),
    (&["timestamp"], "timestamp without time zone", 1114),
    (&["timestamptz"], "timestamp with time zone", 1184),
    (&[], "interval", 1186),
    (&["decimal", "dec"], "numeric", NUMERIC),
    (&[], "uuid", 2950),
    (&["json"], "jsonb", 3802),
    (&[], "uint2", 16460),
    (&[], "uint4", 16462),
    (&[], "uint8", 16464),
    (&[], "mz_timestamp", MZ_TIMESTAMP),
    (&[], "int4range", 3904),
    (&[], "numrange", 3906),
    (&[], "tsrange", 3908),
    (&[], "tstzrange", 3910),
    (&[], "daterange", 3912),
    (&[], "int8range", 3926),
];

/// `(OID of the element, OID of its array)`.
const ARRAYS: &[(u32, u32)] = &[
    (BOOL, 1000),
    (17, 1001),
    (21, 1005),
    (INT4, 1007),
    (TEXT, 1009),
    (INT8, 1016),
    (700, 1021),
    (701, 1022),
    (1082, 1182),
    (1114, 1115),
    (1184, 1185),
    (NUMERIC, 1231),
    (2950, 2951),
    (3802, 3807),
];

/// Printed name, OID and type modifier of a type as written in CREATE TABLE.
pub(crate) fn resolve(written: &str) -> Option<(String, u32, i32)> {
    let lower = written.trim().to_ascii_lowercase();
    if lower.starts_with("map[") {
        return Some(("map".to_owned(), 16385, -1));
    }
    if lower.ends_with(" list") {
        return Some(("list".to_owned(), 16384, -1));
    }
    if let Some(element) = lower.strip_suffix("[]") {
        let (name, oid, _) = resolve(element)?;
        let (_, array) = ARRAYS.iter().find(|(e, _)| *e == oid)?;
        return Some((format!("{name}[]"), *array, -1));
    }
    let (base, modifiers) = match lower.split_once('(') {
        Some((base, rest)) => (base.trim(), Some(rest.trim_end_matches(')'))),
        None => (lower.as_str(), None),
    };
    let (_, name, oid) = TYPES
        .iter()
        .find(|(aliases, name, _)| *name == base || aliases.contains(&base))?;
    let numbers: Vec<i32> = match modifiers {
        Some(text) => text
            .split(',')
            .map(|n| n.trim().parse().ok())
            .collect::<Option<_>>()?,
        None => Vec::new(),
    };
    Some(((*name).to_owned(), *oid, type_modifier(*oid, &numbers)))
}

fn type_modifier(oid: u32, numbers: &[i32]) -> i32 {
    // Every numeric has 39 digits; without a scale the column keeps up to 39 behind the point.
    const DIGITS: i32 = 39;
    match (oid, numbers) {
        (NUMERIC, []) => (DIGITS << 16) + DIGITS + 4,
        (NUMERIC, [_]) => (DIGITS << 16) + 4,
        (NUMERIC, [_, scale, ..]) => (DIGITS << 16) + scale + 4,
        (1042, []) => 5,
        (1042 | 1043, [n, ..]) => n + 4,
        (1114 | 1184, [n, ..]) => *n,
        _ => -1,
    }
}

/// `typlen` of a type, -1 for a variable one.
pub(crate) fn type_size(oid: u32) -> i16 {
    match oid {
        BOOL => 1,
        21 | 16460 => 2,
        INT4 | 26 | 700 | 1082 | 16462 => 4,
        INT8 | 701 | 1083 | 1114 | 1184 | 16464 | MZ_TIMESTAMP => 8,
        1186 | 2950 => 16,
        _ => -1,
    }
}

/// Whether values of this type are integers that fit an `i64`.
pub(crate) fn is_small_integer(oid: u32) -> bool {
    matches!(oid, 20 | 21 | 23 | 26 | 16460 | 16462)
}

/// The text a server prints for `literal` once stored in `column`.
///
/// Only what the simulator's own INSERT needs; everything else is stored as written.
///
/// # Errors
/// 22P02 for a literal that is no value of the type.
pub(crate) fn stored_text(column: &Column, literal: &str) -> Result<String, SqlError> {
    let invalid = || {
        SqlError::new(
            "22P02",
            format!("invalid input syntax for type {}", column.sql_type),
        )
    };
    match column.oid {
        BOOL => match literal.to_ascii_lowercase().as_str() {
            "t" | "true" | "yes" | "on" | "1" => Ok("t".to_owned()),
            "f" | "false" | "no" | "off" | "0" => Ok("f".to_owned()),
            _ => Err(invalid()),
        },
        oid if is_small_integer(oid) || oid == 16464 => {
            let value: i128 = literal.trim().parse().map_err(|_| invalid())?;
            Ok(value.to_string())
        }
        NUMERIC => Ok(trim_numeric(literal.trim())),
        1042 => {
            let width = usize::try_from(column.typmod - 4).unwrap_or(1);
            Ok(format!("{literal:width$}"))
        }
        _ => Ok(literal.to_owned()),
    }
}

/// Materialize prints numerics without trailing zeros behind the point.
fn trim_numeric(text: &str) -> String {
    if !text.contains('.') || text.contains(['e', 'E']) {
        return text.to_owned();
    }
    let trimmed = text.trim_end_matches('0').trim_end_matches('.');
    match trimmed {
        "" | "-" | "-0" => "0".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_oids_and_modifiers_a_real_server_reported() {
        let cases = [
            ("int", "integer", 23, -1),
            ("varchar(10)", "character varying", 1043, 14),
            ("numeric(12,2)", "numeric", 1700, 2_555_910),
            ("numeric", "numeric", 1700, 2_555_947),
            ("char(5)", "character", 1042, 9),
            ("timestamp(3)", "timestamp without time zone", 1114, 3),
            ("text list list", "list", 16384, -1),
            ("map[text=>int]", "map", 16385, -1),
            ("int[]", "integer[]", 1007, -1),
        ];
        for (written, name, oid, typmod) in cases {
            assert_eq!(
                resolve(written),
                Some((name.to_owned(), oid, typmod)),
                "{written}"
            );
        }
        assert_eq!(resolve("point"), None);
    }

    #[test]
    fn a_numeric_is_printed_without_trailing_zeros() {
        for (written, printed) in [("1.50", "1.5"), ("3", "3"), ("100", "100"), ("-0.00", "0")] {
            assert_eq!(trim_numeric(written), printed);
        }
    }
}

//! A SELECT, run by an in-memory SQLite over catalog relations and contents of objects. Everything is loaded anew for every query: the
//! state of the server stays in one place, and a few objects load in a millisecond.

use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;

use crate::catalog::catalog;
use crate::error::SqlError;
use crate::lexer::{Kind, Token};
use crate::object::Object;
use crate::row::Row;
use crate::types::{BOOL, Column, INT4, INT8, MZ_TIMESTAMP, TEXT, is_small_integer};
use crate::world::World;

/// The answer to a SELECT.
pub(crate) struct Answer {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
}

/// What a SELECT can see of its session.
pub(crate) struct View<'a> {
    pub(crate) world: &'a Arc<World>,
    pub(crate) version: &'a str,
    pub(crate) user: &'a str,
    pub(crate) database: &'a str,
    /// What `mz_now()` is.
    pub(crate) now: u64,
}

/// A user object that a SELECT names, and when it is read.
pub(crate) struct Input {
    pub(crate) object: Arc<Object>,
    pub(crate) as_of: u64,
}

/// Runs a SELECT whose references to user objects were replaced by [`input_table`].
pub(crate) fn select(view: &View<'_>, sql: &str, inputs: &[Input]) -> Result<Answer, SqlError> {
    let connection = Connection::open_in_memory().map_err(translate)?;
    functions(&connection, view).map_err(translate)?;
    catalog(&connection, view.world).map_err(translate)?;
    for input in inputs {
        load(&connection, input).map_err(translate)?;
    }
    run(&connection, sql).map_err(translate)
}

/// The table that holds the contents of an object.
pub(crate) fn input_table(object: &Object) -> String {
    format!("\"contents of u{}\"", object.id())
}

/// `generate_series(1, 9) g` at a place where a table may stand, as SQL; where it ends.
pub(crate) fn series(tokens: &[Token]) -> Option<(String, usize)> {
    let [call, open, from, comma, to, close, alias, ..] = tokens else {
        return None;
    };
    let numbers = from.kind == Kind::Number && to.kind == Kind::Number;
    let call = call.is_word("generate_series") && open.is_symbol("(") && comma.is_symbol(",");
    if !(call && numbers && close.is_symbol(")") && alias.is_name()) {
        return None;
    }
    let (from, to, name) = (&from.text, &to.text, &alias.text);
    let sql = format!(
        " (WITH RECURSIVE series({name}) AS (SELECT {from} UNION ALL SELECT {name} + 1 FROM series \
         WHERE {name} < {to}) SELECT {name} FROM series) AS {name}"
    );
    Some((sql, 7))
}

/// SQL text again, without casts (everything is text here) and with functions called as such.
pub(crate) fn render(tokens: &[Token]) -> String {
    let mut sql = String::new();
    let mut tokens = tokens.iter().peekable();
    while let Some(token) = tokens.next() {
        if token.is_symbol("::") {
            tokens.next();
            continue;
        }
        let text = match token.kind {
            Kind::Text => format!("'{}'", token.text.replace('\'', "''")),
            Kind::Quoted => format!("\"{}\"", token.text.replace('"', "\"\"")),
            Kind::Word if token.is_word("current_user") => "current_user()".to_owned(),
            _ => token.text.clone(),
        };
        let tight = token.is_symbol(".") || token.is_symbol("(") || sql.ends_with('.');
        if !tight {
            sql.push(' ');
        }
        sql.push_str(&text);
    }
    sql
}

/// SQLite's complaint in the server's words.
fn translate(error: rusqlite::Error) -> SqlError {
    let text = error.to_string();
    if let Some((_, name)) = text.split_once("no such table: ") {
        let name = name.split(" in ").next().unwrap_or(name);
        return SqlError::unknown_item(name);
    }
    if let Some((_, name)) = text.split_once("no such column: ") {
        let name = name.split(" in ").next().unwrap_or(name);
        return SqlError::new("42703", format!("column \"{name}\" does not exist"));
    }
    if let Some((_, name)) = text.split_once("no such function: ") {
        let name = name.split(" in ").next().unwrap_or(name);
        return SqlError::new("42883", format!("function \"{name}\" does not exist"));
    }
    SqlError::syntax(text)
}

fn functions(connection: &Connection, view: &View<'_>) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8;
    let now = view.now as i64;
    connection.create_scalar_function("mz_now", 0, flags, move |_| Ok(now))?;
    for (name, value) in [
        ("mz_version", view.version),
        ("current_user", view.user),
        ("current_database", view.database),
        ("version", "PostgreSQL 9.5.0 on a simulator"),
    ] {
        let value = value.to_owned();
        connection.create_scalar_function(name, 0, flags, move |_| Ok(value.clone()))?;
    }
    connection.create_scalar_function("repeat", 2, flags, |context| {
        let (text, count): (String, i64) = (context.get(0)?, context.get(1)?);
        Ok(text.repeat(usize::try_from(count).unwrap_or(0)))
    })?;
    let world = view.world.clone();
    connection.create_scalar_function("pg_cancel_backend", 1, flags, move |context| {
        let pid: i32 = context.get(0)?;
        let cancel = world
            .inner()
            .backends
            .get(&pid)
            .map(|(_, cancel)| cancel.clone());
        if let Some(cancel) = &cancel {
            cancel.notify_one();
        }
        Ok(cancel.is_some())
    })
}

/// Columns as SQLite keeps them: an affinity that leaves the text alone, and our type.
fn declare(columns: &[Column]) -> String {
    let declared: Vec<String> = columns
        .iter()
        .map(|c| {
            let affinity = if is_small_integer(c.oid) || c.oid == BOOL {
                "INT"
            } else {
                "TEXT"
            };
            format!(
                "\"{}\" {affinity}({}, {})",
                c.name.replace('"', "\"\""),
                c.oid,
                c.typmod
            )
        })
        .collect();
    declared.join(", ")
}

fn load(connection: &Connection, input: &Input) -> rusqlite::Result<()> {
    let table = input_table(&input.object);
    let columns = &input.object.columns;
    connection.execute(&format!("CREATE TABLE {table} ({})", declare(columns)), [])?;
    let marks = vec!["?"; columns.len()].join(", ");
    let mut insert = connection.prepare(&format!("INSERT INTO {table} VALUES ({marks})"))?;
    let mut failed = None;
    input.object.for_each_row(input.as_of, |row, count| {
        let values = row
            .iter()
            .zip(columns)
            .map(|(value, column)| match value.as_deref() {
                Some("t") if column.oid == BOOL => Some("1"),
                Some("f") if column.oid == BOOL => Some("0"),
                other => other,
            });
        let values: Vec<_> = values.collect();
        for _ in 0..count {
            if let Err(error) = insert.execute(rusqlite::params_from_iter(&values)) {
                failed.get_or_insert(error);
            }
        }
    });
    failed.map_or(Ok(()), Err)
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<Answer> {
    let mut statement = connection.prepare(sql)?;
    let mut columns: Vec<Column> = statement
        .columns()
        .map(|column| result_column(&column))
        .collect();
    let mut rows = Vec::new();
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let mut values = Row::with_capacity(columns.len());
        for (at, column) in columns.iter_mut().enumerate() {
            let value = row.get_ref(at)?;
            if column.oid == 0 {
                column.oid = match value {
                    ValueRef::Integer(_) if column.name == "count" => INT8,
                    ValueRef::Integer(_) => INT4,
                    _ => TEXT,
                };
            }
            values.push(match value {
                ValueRef::Null => None,
                ValueRef::Integer(number) if column.oid == BOOL => {
                    Some(if number == 0 { "f" } else { "t" }.to_owned())
                }
                ValueRef::Integer(number) => Some(number.to_string()),
                ValueRef::Real(number) => Some(number.to_string()),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                    Some(String::from_utf8_lossy(bytes).into_owned())
                }
            });
        }
        rows.push(values);
    }
    for column in columns.iter_mut().filter(|column| column.oid == 0) {
        column.oid = TEXT;
    }
    Ok(Answer { columns, rows })
}

/// Name and type of a result column; OID 0 if it is to be seen from the values.
fn result_column(column: &rusqlite::Column<'_>) -> Column {
    let written = column.name();
    let plain = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == '_');
    let named = plain(written) && !written.starts_with(|c: char| c.is_ascii_digit());
    let compares = !named
        && [" > ", " >= ", " < ", " <= ", " = "]
            .iter()
            .any(|s| written.contains(s));
    let name = match written.split_once('(') {
        _ if named => written,
        _ if compares => "?column?",
        Some((function, _)) if plain(function) && !function.is_empty() => function,
        _ if column.decl_type().is_some() => written,
        _ => "?column?",
    };
    let (oid, typmod) = match column.decl_type().and_then(declared) {
        Some(declared) => declared,
        None if name == "mz_now" => (MZ_TIMESTAMP, -1),
        None if name == "pg_cancel_backend" || compares => (BOOL, -1),
        None => (0, -1),
    };
    Column::exact(name, "", oid, typmod)
}

/// `(oid, typmod)` out of `TEXT(25, -1)`.
fn declared(text: &str) -> Option<(u32, i32)> {
    let (oid, typmod) = text.split_once('(')?.1.strip_suffix(')')?.split_once(',')?;
    Some((oid.trim().parse().ok()?, typmod.trim().parse().ok()?))
}

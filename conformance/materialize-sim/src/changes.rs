//! Statements that change something; those that change rows are carried out here.

use std::sync::Arc;

use crate::error::{SimError, SqlError};
use crate::lexer::Token;
use crate::object::{Kind, Object};
use crate::privileges::Target;
use crate::row::{Change, Row};
use crate::session::Session;
use crate::statement::{Grant, GrantOn, Literal, Statement};
use crate::types::{Column, stored_text};

impl Session {
    /// Runs a statement that changes something; its command tag.
    pub(crate) fn change(&mut self, statement: Statement) -> Result<String, SqlError> {
        match statement {
            Statement::CreateTable {
                name,
                columns,
                retention_ms,
            } => self.create_table(&name, columns, retention_ms),
            Statement::CreateView {
                kind,
                name,
                query,
                retention_ms,
                replaces,
            } => self.create_view(kind, &name, query, retention_ms, replaces),
            Statement::ApplyReplacement { view, replacement } => {
                self.apply_replacement(&view, &replacement)
            }
            Statement::CreateIndex { name, on, cluster } => self.create_index(name, &on, cluster),
            Statement::CreateSchema { name } => self.create_schema(&name),
            Statement::SwapSchemas { schema, with } => self.swap_schemas(&schema, &with),
            Statement::CreateCluster { name } => {
                self.world.inner().clusters.push(name);
                Ok("CREATE CLUSTER".to_owned())
            }
            // A role is who logs in; it needs nothing made for it.
            Statement::CreateRole => Ok("CREATE ROLE".to_owned()),
            Statement::Grant(grant) => self.grant(grant),
            Statement::AlterSystem { name, value } => self.alter_system(&name, value.as_deref()),
            Statement::AlterRetention {
                name,
                kind,
                retention_ms,
            } => {
                let object = self.resolve(&name)?;
                object.set_retention_ms(retention_ms.unwrap_or(crate::DEFAULT_RETENTION_MS));
                Ok(format!("ALTER {}", kind.keyword()))
            }
            Statement::Drop {
                kind,
                name,
                if_exists,
                cascade,
            } => self.drop_named(kind, &name, if_exists, cascade),
            Statement::Insert {
                table,
                columns,
                rows,
            } => {
                let object = self.resolve(&table)?;
                let order = positions(&object, columns.as_deref())?;
                let rows = rows
                    .iter()
                    .map(|row| Ok((inserted(&object, &order, row)?, 1)))
                    .collect::<Result<Vec<Change>, SqlError>>()?;
                let count = rows.len();
                self.write(&object, rows)?;
                Ok(format!("INSERT 0 {count}"))
            }
            Statement::InsertSelect { table, query } => self.insert_select(&table, &query),
            Statement::Delete { table, filter } => {
                let object = self.resolve(&table)?;
                let found = matching(&object, filter.as_ref())?;
                let count: i64 = found.iter().map(|(_, count)| count).sum();
                self.write(
                    &object,
                    found.into_iter().map(|(row, n)| (row, -n)).collect(),
                )?;
                Ok(format!("DELETE {count}"))
            }
            Statement::Update { table, set, filter } => self.update(&table, &set, filter.as_ref()),
            _ => Err(SqlError::unsupported("this statement")),
        }
    }

    fn update(
        &self,
        table: &[String],
        set: &[(String, Literal)],
        filter: Option<&(String, Literal)>,
    ) -> Result<String, SqlError> {
        let object = self.resolve(table)?;
        let found = matching(&object, filter)?;
        let count: i64 = found.iter().map(|(_, count)| count).sum();
        let mut changes = Vec::with_capacity(found.len() * 2);
        for (row, count) in found {
            let mut updated = row.clone();
            for (column, literal) in set {
                let at = position(&object, column)?;
                updated[at] = value(&object.columns[at], literal)?;
            }
            changes.push((row, -count));
            changes.push((updated, count));
        }
        self.write(&object, changes)?;
        Ok(format!("UPDATE {count}"))
    }

    /// `INSERT INTO table SELECT ...`: the values as the query prints them.
    fn insert_select(&self, table: &[String], query: &[Token]) -> Result<String, SqlError> {
        let object = self.resolve(table)?;
        let rows = self.rows_of(query)?;
        let stored = |row: &Row| -> Result<Change, SqlError> {
            if row.len() != object.columns.len() {
                let text = "INSERT has a different number of expressions than target columns";
                return Err(SqlError::syntax(text));
            }
            let values = row.iter().zip(&object.columns);
            let values = values.map(|(text, column)| {
                let text = text.as_deref();
                text.map(|text| stored_text(column, text)).transpose()
            });
            Ok((values.collect::<Result<Row, SqlError>>()?, 1))
        };
        let rows = rows.iter().map(stored).collect::<Result<Vec<_>, _>>()?;
        let count = rows.len();
        self.write(&object, rows)?;
        Ok(format!("INSERT 0 {count}"))
    }

    fn grant(&self, grant: Grant) -> Result<String, SqlError> {
        let target = match grant.on {
            GrantOn::Relation(name) => Target::Relation(self.resolve(&name)?.name().to_string()),
            GrantOn::Cluster(name) => Target::Cluster(name),
            GrantOn::Schema(name) => Target::Schema(name.join(".")),
        };
        let privileges = &mut self.world.inner().privileges;
        if grant.granted {
            privileges.grant(target, &grant.role);
            Ok("GRANT".to_owned())
        } else {
            privileges.revoke(target, &grant.role);
            Ok("REVOKE".to_owned())
        }
    }

    fn write(&self, object: &Arc<Object>, changes: Vec<Change>) -> Result<(), SqlError> {
        if object.kind != Kind::Table {
            let kind = object.kind.keyword().to_lowercase();
            let text = format!("cannot mutate {kind} '{}'", object.name());
            return Err(SqlError::new("42809", text));
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.world
            .write(object, changes)
            .map(|_| ())
            .map_err(|error| match error {
                SimError::NotWritable(name) => {
                    SqlError::new("42809", format!("cannot mutate '{name}'"))
                }
                other => SqlError::new("XX000", other.to_string()),
            })
    }
}

pub(crate) fn position(object: &Object, column: &str) -> Result<usize, SqlError> {
    object
        .columns
        .iter()
        .position(|c| c.name == column)
        .ok_or_else(|| SqlError::new("42703", format!("column \"{column}\" does not exist")))
}

/// Positions of these columns, all of them if none are named.
pub(crate) fn positions(
    object: &Object,
    columns: Option<&[String]>,
) -> Result<Vec<usize>, SqlError> {
    match columns {
        None => Ok((0..object.columns.len()).collect()),
        Some(names) => names.iter().map(|name| position(object, name)).collect(),
    }
}

pub(crate) fn value(column: &Column, literal: &Literal) -> Result<Option<String>, SqlError> {
    match literal.text() {
        Some(text) => stored_text(column, text).map(Some),
        None if column.nullable => Ok(None),
        None => {
            let text = format!(
                "null value in column \"{}\" violates not-null constraint",
                column.name
            );
            Err(SqlError::new("23502", text))
        }
    }
}

/// A whole row of an INSERT; columns that it does not name are NULL.
fn inserted(object: &Object, order: &[usize], literals: &[Literal]) -> Result<Row, SqlError> {
    if literals.len() > order.len() {
        return Err(SqlError::syntax(
            "INSERT has more expressions than target columns",
        ));
    }
    object
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let given = order
                .iter()
                .position(|o| *o == at)
                .and_then(|at| literals.get(at));
            value(column, given.unwrap_or(&Literal::Null))
        })
        .collect()
}

/// The current rows with a value in a column, all without a filter.
fn matching(object: &Object, filter: Option<&(String, Literal)>) -> Result<Vec<Change>, SqlError> {
    let wanted = match filter {
        None => None,
        Some((column, literal)) => {
            let at = position(object, column)?;
            let text = literal
                .text()
                .map(|text| stored_text(&object.columns[at], text));
            Some((at, text.transpose()?))
        }
    };
    let mut found = Vec::new();
    object.for_each_row(u64::MAX, |row, count| {
        let matches = match &wanted {
            None => true,
            // As in SQL, nothing equals NULL.
            Some((at, text)) => text.is_some() && row[*at] == *text,
        };
        if matches {
            found.push((row.clone(), count));
        }
    });
    Ok(found)
}

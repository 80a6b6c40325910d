//! Statements that change objects and rows.

use std::sync::Arc;

use crate::error::{SimError, SqlError};
use crate::ledger::Ledger;
use crate::row::{Change, Row};
use crate::session::Session;
use crate::statement::{DropKind, Literal, Statement, ViewQuery};
use crate::types::{Column, stored_text};
use crate::world::{Content, Index, Kind, Object, oid_of};

impl Session {
    /// Runs a statement that changes something; its command tag.
    pub(crate) fn change(&mut self, statement: Statement) -> Result<String, SqlError> {
        match statement {
            Statement::CreateTable {
                name,
                columns,
                retention_ms,
            } => {
                self.create(&name, Kind::Table, columns, retention_ms, None)?;
                Ok("CREATE TABLE".to_owned())
            }
            Statement::CreateView {
                kind,
                name,
                query,
                retention_ms,
            } => {
                let (columns, content) = self.view(query)?;
                self.create(&name, kind, columns, retention_ms, Some(content))?;
                Ok(format!("CREATE {}", kind.keyword()))
            }
            Statement::CreateIndex { name, on, cluster } => self.create_index(name, &on, cluster),
            Statement::CreateSchema { name } => self.create_schema(&name),
            Statement::CreateCluster { name } => {
                self.world.inner().clusters.push(name);
                Ok("CREATE CLUSTER".to_owned())
            }
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

    fn create(
        &self,
        name: &[String],
        kind: Kind,
        columns: Vec<Column>,
        retention_ms: Option<u64>,
        content: Option<Content>,
    ) -> Result<(), SqlError> {
        let name = self.full_name(name);
        let known = (name.database.clone(), name.schema.clone());
        if !self.world.inner().schemas.contains(&known) {
            return Err(SqlError::new(
                "3F000",
                format!("unknown schema '{}'", name.schema),
            ));
        }
        let item = name.item.clone();
        self.world
            .create(name, kind, columns, retention_ms, content)
            .map(|_| ())
            .map_err(|_| {
                SqlError::new(
                    "42710",
                    format!("{} \"{item}\" already exists", kind.as_str()),
                )
            })
    }

    /// Columns and content of a view.
    fn view(&self, query: ViewQuery) -> Result<(Vec<Column>, Content), SqlError> {
        let (columns, name) = match query {
            ViewQuery::Values(rows) => return constant(&rows),
            ViewQuery::Object { columns, name } => (columns, name),
        };
        let input = self.resolve(&name)?;
        let Content::Ledger {
            ledger,
            columns: inner,
        } = &input.content
        else {
            return Err(SqlError::unsupported(
                "a view of a recorded or generated object",
            ));
        };
        let Some(names) = columns else {
            return Ok((input.columns.clone(), input.content.clone()));
        };
        let chosen = positions(&input, Some(&names))?;
        let columns = chosen.iter().map(|at| input.columns[*at].clone()).collect();
        let chosen = match inner {
            None => chosen,
            Some(inner) => chosen.iter().map(|at| inner[*at]).collect(),
        };
        Ok((
            columns,
            Content::Ledger {
                ledger: ledger.clone(),
                columns: Some(chosen),
            },
        ))
    }

    fn create_index(
        &self,
        name: Option<String>,
        on: &[String],
        cluster: Option<String>,
    ) -> Result<String, SqlError> {
        let object = self.resolve(on)?;
        let cluster = cluster.unwrap_or_else(|| self.variables.get("cluster").to_owned());
        let mut inner = self.world.inner();
        let id = inner.take_id();
        let name = name.unwrap_or_else(|| format!("{}_primary_idx", object.name.item));
        inner.indexes.push(Index {
            id,
            oid: oid_of(id),
            name,
            on: object.id,
            cluster,
        });
        Ok("CREATE INDEX".to_owned())
    }

    fn create_schema(&self, name: &[String]) -> Result<String, SqlError> {
        let mut parts = name.to_vec();
        // One part more, so that the last given part is read as a schema.
        parts.push(String::new());
        let name = self.full_name(&parts);
        let pair = (name.database, name.schema);
        let schemas = &mut self.world.inner().schemas;
        if schemas.contains(&pair) {
            return Err(SqlError::new(
                "42P06",
                format!("schema '{}' already exists", pair.1),
            ));
        }
        schemas.push(pair);
        Ok("CREATE SCHEMA".to_owned())
    }

    fn drop_named(
        &mut self,
        kind: DropKind,
        parts: &[String],
        if_exists: bool,
        cascade: bool,
    ) -> Result<String, SqlError> {
        let item = parts.last().cloned().unwrap_or_default();
        let (keyword, found) = match kind {
            DropKind::Object(kind) => (kind.keyword(), self.drop_object(kind, parts, cascade)?),
            DropKind::Schema => ("SCHEMA", self.drop_schema(&item, cascade)?),
            DropKind::Cluster => ("CLUSTER", {
                let mut inner = self.world.inner();
                let before = inner.clusters.len();
                inner.clusters.retain(|name| *name != item);
                inner.clusters.len() < before
            }),
            DropKind::Index => ("INDEX", {
                let mut inner = self.world.inner();
                let before = inner.indexes.len();
                inner.indexes.retain(|index| index.name != item);
                inner.indexes.len() < before
            }),
        };
        self.world.notify();
        if !found && !if_exists {
            return Err(SqlError::unknown_item(&item));
        }
        if !found {
            let text = format!("{keyword} \"{item}\" does not exist, skipping");
            self.wire.notice("42704", text);
        }
        Ok(format!("DROP {keyword}"))
    }

    fn drop_object(&self, kind: Kind, parts: &[String], cascade: bool) -> Result<bool, SqlError> {
        let name = self.full_name(parts);
        let Some(object) = self.world.inner().find(&name).cloned() else {
            return Ok(false);
        };
        if object.kind != kind {
            let (item, is) = (&name.item, object.kind.keyword());
            return Err(SqlError::new("42809", format!("\"{item}\" is a {is}")));
        }
        let dependents: Vec<Arc<Object>> = self
            .world
            .inner()
            .objects
            .iter()
            .filter(|o| depends(o, &object))
            .cloned()
            .collect();
        if let Some(first) = dependents.first().filter(|_| !cascade) {
            let (what, item) = (kind.keyword().to_lowercase(), &name.item);
            let view = first.kind.keyword().to_lowercase();
            let text = format!(
                "cannot drop {what} \"{item}\": still depended upon by {view} \"{}\"",
                first.name.item
            );
            return Err(SqlError::new("2BP01", text));
        }
        for dependent in dependents {
            self.world.drop_object(&dependent.name);
        }
        Ok(self.world.drop_object(&name).is_some())
    }

    fn drop_schema(&self, schema: &str, cascade: bool) -> Result<bool, SqlError> {
        let pair = (self.variables.get("database").to_owned(), schema.to_owned());
        if !self.world.inner().schemas.contains(&pair) {
            return Ok(false);
        }
        let inside = |o: &&Arc<Object>| o.name.database == pair.0 && o.name.schema == pair.1;
        let objects: Vec<_> = self
            .world
            .inner()
            .objects
            .iter()
            .filter(inside)
            .cloned()
            .collect();
        if !objects.is_empty() && !cascade {
            let text = format!(
                "schema \"{schema}\" cannot be dropped without CASCADE while it contains objects"
            );
            return Err(SqlError::new("2BP01", text));
        }
        for object in objects {
            self.world.drop_object(&object.name);
        }
        self.world.inner().schemas.retain(|known| *known != pair);
        Ok(true)
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

    fn write(&self, object: &Object, changes: Vec<Change>) -> Result<(), SqlError> {
        if object.kind != Kind::Table {
            let kind = object.kind.keyword().to_lowercase();
            let text = format!("cannot mutate {kind} '{}'", object.name);
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

/// Whether `object` is a view of `of`, made after it.
fn depends(object: &Object, of: &Object) -> bool {
    match (&object.content, &of.content) {
        (Content::Ledger { ledger: a, .. }, Content::Ledger { ledger: b, .. }) => {
            of.kind == Kind::Table && object.id > of.id && Arc::ptr_eq(a, b)
        }
        _ => false,
    }
}

fn position(object: &Object, column: &str) -> Result<usize, SqlError> {
    object
        .columns
        .iter()
        .position(|c| c.name == column)
        .ok_or_else(|| SqlError::new("42703", format!("column \"{column}\" does not exist")))
}

/// Positions of these columns, all of them if none are named.
fn positions(object: &Object, columns: Option<&[String]>) -> Result<Vec<usize>, SqlError> {
    match columns {
        None => Ok((0..object.columns.len()).collect()),
        Some(names) => names.iter().map(|name| position(object, name)).collect(),
    }
}

fn value(column: &Column, literal: &Literal) -> Result<Option<String>, SqlError> {
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

/// Columns and content of VALUES.
fn constant(rows: &[Vec<Literal>]) -> Result<(Vec<Column>, Content), SqlError> {
    let width = rows.first().map_or(0, Vec::len);
    if rows.iter().any(|row| row.len() != width) {
        return Err(SqlError::syntax("VALUES lists must all be the same length"));
    }
    let columns: Vec<Column> = (0..width)
        .map(|at| {
            let literal = rows
                .iter()
                .map(|row| &row[at])
                .find(|l| **l != Literal::Null);
            let sql_type = match literal {
                Some(Literal::Number(text)) if text.parse::<i32>().is_ok() => "int",
                Some(Literal::Number(_)) => "numeric",
                Some(Literal::Bool(_)) => "bool",
                _ => "text",
            };
            Column::new(format!("column{}", at + 1), sql_type)
                .map_err(|error| SqlError::new("XX000", error.to_string()))
        })
        .collect::<Result<_, _>>()?;
    let rows = rows
        .iter()
        .map(|row| row.iter().zip(&columns).map(|(l, c)| value(c, l)).collect())
        .collect::<Result<Vec<Row>, SqlError>>()?;
    let ledger = Arc::new(std::sync::Mutex::new(Ledger::constant(rows)));
    Ok((
        columns,
        Content::Ledger {
            ledger,
            columns: None,
        },
    ))
}

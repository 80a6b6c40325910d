//! CREATE, ALTER and DROP of objects, indexes, schemas and clusters, and ALTER SYSTEM.

use std::sync::{Arc, Mutex};

use crate::changes::{position, value};
use crate::derived::{Derivation, Derived, Scalar};
use crate::error::SqlError;
use crate::ledger::Ledger;
use crate::object::{Content, Kind, Object, Parts};
use crate::parser::bytes;
use crate::row::Row;
use crate::session::Session;
use crate::statement::{DropKind, Expression, Literal, Output, ViewQuery};
use crate::types::Column;
use crate::variables::is_known_to_the_system;
use crate::world::DEFAULT_MAX_RESULT_SIZE;

impl Session {
    pub(crate) fn create_table(
        &self,
        name: &[String],
        columns: Vec<Column>,
        retention_ms: Option<u64>,
    ) -> Result<String, SqlError> {
        self.create(name, Parts::writable(Kind::Table, columns, retention_ms))?;
        Ok("CREATE TABLE".to_owned())
    }

    fn create(&self, name: &[String], parts: Parts) -> Result<(), SqlError> {
        let name = self.full_name(name);
        let known = (name.database.clone(), name.schema.clone());
        if !self.world.inner().schemas.contains(&known) {
            let text = format!("unknown schema '{}'", name.schema);
            return Err(SqlError::new("3F000", text));
        }
        let (kind, item) = (parts.kind.as_str(), name.item.clone());
        self.world
            .create(name, parts)
            .map(|_| ())
            .map_err(|_| SqlError::new("42710", format!("{kind} \"{item}\" already exists")))
    }

    pub(crate) fn create_view(
        &self,
        kind: Kind,
        name: &[String],
        query: ViewQuery,
        retention_ms: Option<u64>,
        replaces: Option<Vec<String>>,
    ) -> Result<String, SqlError> {
        let replaced = replaces.map(|name| self.resolve(&name)).transpose()?;
        let view = self.view(query)?;
        let unlike = |replaced: &Arc<Object>| {
            replaced.kind != Kind::MaterializedView || replaced.columns != view.columns
        };
        if replaced.as_ref().is_some_and(unlike) {
            let text = "replacement schema differs from that of the replaced view";
            return Err(SqlError::new("XX000", text));
        }
        let parts = Parts {
            kind,
            replaces: replaced,
            retention_ms,
            ..view
        };
        self.create(name, parts)?;
        Ok(format!("CREATE {}", kind.keyword()))
    }

    /// A view of what a query gives.
    fn view(&self, query: ViewQuery) -> Result<Parts, SqlError> {
        let (columns, content, derivation) = match query {
            ViewQuery::Values(rows) => {
                let (columns, content) = constant(&rows)?;
                (columns, Some(content), None)
            }
            ViewQuery::Object { columns, name } => {
                let (columns, derivation) = self.derivation(columns, &name)?;
                (columns, None, Some(derivation))
            }
        };
        Ok(Parts {
            kind: Kind::View,
            columns,
            content,
            derivation,
            replaces: None,
            retention_ms: None,
        })
    }

    /// What a SUBSCRIBE to a query reads: like a view, but not in the catalog, and gone with the
    /// subscription.
    pub(crate) fn object_of(&self, query: ViewQuery) -> Result<Arc<Object>, SqlError> {
        Ok(self.world.list_query(self.view(query)?))
    }

    fn derivation(
        &self,
        outputs: Option<Vec<Output>>,
        input: &[String],
    ) -> Result<(Vec<Column>, Derivation), SqlError> {
        let input = self.resolve(input)?;
        if !matches!(input.content, Content::Ledger(_)) {
            let what = "a view of a recorded or generated object";
            return Err(SqlError::unsupported(what));
        }
        let outputs: Vec<(Scalar, Option<String>)> = match outputs {
            None => (0..input.columns.len())
                .map(|at| (Scalar::Column(at), None))
                .collect(),
            Some(outputs) => outputs
                .into_iter()
                .map(|output| Ok((scalar(&input, output.expression)?, output.name)))
                .collect::<Result<_, SqlError>>()?,
        };
        let mut columns = Vec::new();
        let mut computed = Vec::new();
        for (scalar, name) in outputs {
            let column = scalar.column(name, &input.columns)?;
            computed.push((scalar, column.oid));
            columns.push(column);
        }
        let outputs = computed;
        Ok((columns, Derivation { input, outputs }))
    }

    pub(crate) fn apply_replacement(
        &self,
        view: &[String],
        replacement: &[String],
    ) -> Result<String, SqlError> {
        let (view, replacement) = (self.resolve(view)?, self.resolve(replacement)?);
        if !replacement.is_replacement_for(&view) {
            let (name, of) = (replacement.name().item, view.name().item);
            let text = format!("\"{name}\" is not a replacement for \"{of}\"");
            return Err(SqlError::new("XX000", text));
        }
        self.world.apply_replacement(&view, &replacement);
        Ok("ALTER MATERIALIZED VIEW".to_owned())
    }

    pub(crate) fn swap_schemas(&self, schema: &[String], with: &str) -> Result<String, SqlError> {
        let mut parts = schema.to_vec();
        // One part more, so that the last given part is read as a schema.
        parts.push(String::new());
        let name = self.full_name(&parts);
        self.world
            .swap_schemas(&name.database, &name.schema, with)
            .map_err(|schema| SqlError::new("3F000", format!("unknown schema '{schema}'")))?;
        Ok("ALTER SCHEMA".to_owned())
    }

    pub(crate) fn alter_system(
        &mut self,
        name: &str,
        value: Option<&str>,
    ) -> Result<String, SqlError> {
        if !is_known_to_the_system(name) {
            let text = format!("unrecognized configuration parameter \"{name}\"");
            return Err(SqlError::new("42704", text));
        }
        let mut inner = self.world.inner();
        match (name, value) {
            ("max_result_size", None) => inner.max_result_size = DEFAULT_MAX_RESULT_SIZE,
            ("max_result_size", Some(text)) => {
                let size = bytes(text).ok_or_else(|| {
                    let text = "parameter \"max_result_size\" requires a \"byte size\" value";
                    SqlError::new("22023", text)
                })?;
                inner.max_result_size = size;
            }
            ("enable_rbac_checks", value) => {
                let on = value.is_some_and(|value| matches!(value, "true" | "on"));
                inner.privileges.checked = on;
            }
            // The rest switches on what the simulator always has.
            _ => {}
        }
        drop(inner);
        let text = format!(
            "variable \"{name}\" was updated for the system, this will have no effect on the current session"
        );
        self.wire.notice("00000", text);
        Ok("ALTER SYSTEM".to_owned())
    }

    pub(crate) fn create_index(
        &self,
        name: Option<String>,
        on: &[String],
        cluster: Option<String>,
    ) -> Result<String, SqlError> {
        let object = self.resolve(on)?;
        let cluster = cluster.unwrap_or_else(|| self.variables.get("cluster").to_owned());
        self.world.create_index(&object, name, cluster);
        Ok("CREATE INDEX".to_owned())
    }

    pub(crate) fn create_schema(&self, name: &[String]) -> Result<String, SqlError> {
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

    pub(crate) fn drop_named(
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
                let found = inner.clusters.len() < before;
                drop(inner);
                if found && cascade {
                    self.wire.notice_with_detail(
                        "drop cascades to 1 other objects",
                        "drop cascades to CLUSTER REPLICA \"r1\"",
                    );
                }
                found
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
            .filter(|o| o.reads(&object) || o.is_replacement_for(&object))
            .cloned()
            .collect();
        if let Some(first) = dependents.first().filter(|_| !cascade) {
            let (what, item) = (kind.keyword().to_lowercase(), &name.item);
            let view = first.kind.keyword().to_lowercase();
            let text = format!(
                "cannot drop {what} \"{item}\": still depended upon by {view} \"{}\"",
                first.name().item
            );
            return Err(SqlError::new("2BP01", text));
        }
        for dependent in dependents {
            self.world.drop_object(&dependent.name());
        }
        Ok(self.world.drop_object(&name).is_some())
    }

    fn drop_schema(&self, schema: &str, cascade: bool) -> Result<bool, SqlError> {
        let pair = (self.variables.get("database").to_owned(), schema.to_owned());
        if !self.world.inner().schemas.contains(&pair) {
            return Ok(false);
        }
        let inside = |o: &&Arc<Object>| {
            let name = o.name();
            name.database == pair.0 && name.schema == pair.1
        };
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
            self.world.drop_object(&object.name());
        }
        self.world.inner().schemas.retain(|known| *known != pair);
        Ok(true)
    }
}

/// The expression with its columns looked up.
fn scalar(input: &Object, expression: Expression) -> Result<Scalar, SqlError> {
    Ok(match expression {
        Expression::Column(name) => Scalar::Column(position(input, &name)?),
        Expression::Number(number) => Scalar::Number(number),
        Expression::Binary(operator, left, right) => Scalar::Binary(
            operator,
            Box::new(scalar(input, *left)?),
            Box::new(scalar(input, *right)?),
        ),
    })
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
    let changes = rows.into_iter().map(|row| (Arc::new(row), 1)).collect();
    let errors = Vec::new();
    let ledger = Ledger::constant(Derived { changes, errors });
    Ok((columns, Content::Ledger(Arc::new(Mutex::new(ledger)))))
}

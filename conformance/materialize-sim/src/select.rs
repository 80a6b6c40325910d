//! SELECT: which objects it reads and when, then SQLite does the rest.

use std::sync::Arc;

use pgwire::messages::response::TransactionStatus;

use crate::error::SqlError;
use crate::faults::Failure;
use crate::hold::Hold;
use crate::lexer::{Kind, Token};
use crate::lock;
use crate::object::{Name, Object};
use crate::relations::{Answer, Input, View, input_table, render, select, series};
use crate::row::Row;
use crate::session::Session;
use crate::timestamp::no_valid_timestamp;
use crate::wire::Stop;

/// Words after a table that are no alias.
const NO_ALIAS: &[&str] = &[
    "where",
    "join",
    "left",
    "right",
    "inner",
    "outer",
    "cross",
    "full",
    "on",
    "using",
    "order",
    "group",
    "limit",
    "offset",
    "having",
    "union",
    "except",
    "intersect",
];

impl Session {
    pub(crate) async fn select(
        &mut self,
        tokens: Vec<Token>,
        as_of: Option<u64>,
    ) -> Result<(), Stop> {
        let (sql, objects) = self.replace_objects(&tokens);
        let failure = self.world.inner().catalog_failure.clone();
        if let Some(failure) = failure.filter(|_| reads_catalog(&tokens)) {
            return Err(failure.error().into());
        }
        let as_of = as_of.or_else(|| self.transaction_timestamp(&objects));
        for object in &objects {
            self.readable(object, as_of, &sql).await?;
        }
        let read_at = |object: &Object| {
            as_of.unwrap_or_else(|| object.frontiers().upper.map_or(u64::MAX, |upper| upper - 1))
        };
        let error = |object: &Arc<Object>| {
            let poison = lock(&object.faults).poison.as_ref().map(Failure::error);
            poison.or_else(|| object.evaluation_error(read_at(object)))
        };
        if let Some(error) = objects.iter().find_map(error) {
            return Err(error.into());
        }
        let now = objects.iter().map(|o| read_at(o)).min().or(as_of);
        let now = now.unwrap_or_else(|| self.world.inner().now());
        let inputs: Vec<Input> = objects
            .into_iter()
            .map(|object| Input {
                as_of: read_at(&object),
                object,
            })
            .collect();
        let answer = self.answer_to(&sql, &inputs, now)?;
        self.wire.describe(&answer.columns);
        self.answer(&answer.rows).await?;
        self.wire.complete(format!("SELECT {}", answer.rows.len()));
        Ok(())
    }

    /// In a transaction everything is read at one timestamp, and stays readable at it.
    fn transaction_timestamp(&mut self, objects: &[Arc<Object>]) -> Option<u64> {
        if self.transaction == TransactionStatus::Idle {
            return None;
        }
        let uppers = objects.iter().filter_map(|object| object.frontiers().upper);
        if let (None, Some(upper)) = (self.read_at, uppers.min()) {
            self.read_at = Some(self.in_the_past(objects, upper - 1));
        }
        if let Some(time) = self.read_at {
            self.holds
                .extend(objects.iter().map(|object| Hold::new(object.clone(), time)));
        }
        self.read_at
    }

    /// A SERIALIZABLE transaction may read a little in the past, if that is still readable.
    fn in_the_past(&self, objects: &[Arc<Object>], latest: u64) -> u64 {
        if !self.serializable {
            return latest;
        }
        // What may be read later in the transaction must be readable as well.
        let schema = |object: &Arc<Object>| {
            let name = object.name();
            (name.database, name.schema)
        };
        let schemas: Vec<_> = objects.iter().map(schema).collect();
        let inner = self.world.inner();
        let readable = inner.objects.iter();
        let readable = readable.filter(|object| schemas.contains(&schema(object)));
        let since = readable.map(|object| object.frontiers().since).max();
        latest
            .saturating_sub(inner.serializable_lag)
            .max(since.unwrap_or(0))
            .min(latest)
    }

    /// The rows of a query that reads no objects.
    pub(crate) fn rows_of(&self, query: &[Token]) -> Result<Vec<Row>, SqlError> {
        let (sql, objects) = self.replace_objects(query);
        if !objects.is_empty() {
            return Err(SqlError::unsupported("INSERT of what objects contain"));
        }
        let now = self.world.inner().now();
        Ok(self.answer_to(&sql, &[], now)?.rows)
    }

    fn answer_to(&self, sql: &str, inputs: &[Input], now: u64) -> Result<Answer, SqlError> {
        let view = View {
            world: &self.world,
            version: self.variables.get("mz_version"),
            user: &self.user,
            database: self.variables.get("database"),
            now,
        };
        select(&view, sql, inputs)
    }

    /// Waits until `as_of` is closed. What is too old fails after the columns were sent.
    async fn readable(
        &mut self,
        object: &Arc<Object>,
        as_of: Option<u64>,
        sql: &str,
    ) -> Result<(), Stop> {
        let Some(as_of) = as_of else { return Ok(()) };
        let cluster = self.variables.get("cluster").to_owned();
        if let Err(error) = no_valid_timestamp(&self.world, object, &cluster, as_of) {
            let empty = Input {
                object: object.clone(),
                as_of: 0,
            };
            if let Ok(answer) = self.answer_to(sql, &[empty], as_of) {
                self.wire.describe(&answer.columns);
            }
            return Err(error.into());
        }
        let mut changed = self.world.changed.subscribe();
        while object.frontiers().upper.is_some_and(|upper| upper <= as_of) {
            tokio::select! {
                () = self.cancel.notified() => {
                    let text = "canceling statement due to user request";
                    return Err(SqlError::new("57014", text).into());
                }
                _ = changed.changed() => {}
                more = self.wire.read_more() => more?,
            }
        }
        Ok(())
    }

    /// The SQL with every user object replaced by its table of contents, and those objects.
    fn replace_objects(&self, tokens: &[Token]) -> (String, Vec<Arc<Object>>) {
        let mut sql = String::new();
        let mut objects: Vec<Arc<Object>> = Vec::new();
        let mut done = 0;
        let mut at = 0;
        while at < tokens.len() {
            let starts = tokens[at].is_word("from") || tokens[at].is_word("join");
            at += 1;
            if !starts {
                continue;
            }
            if let Some((series, length)) = series(&tokens[at..]) {
                sql.push_str(&render(&tokens[done..at]));
                sql.push_str(&series);
                at += length;
                done = at;
                continue;
            }
            let (parts, end) = name_at(tokens, at);
            let Some(object) = self.user_object(&parts) else {
                continue;
            };
            sql.push_str(&render(&tokens[done..at]));
            sql.push_str(&format!(" {}", input_table(&object)));
            let aliased = tokens.get(end).is_some_and(|next| {
                next.is_name()
                    && !(next.kind == Kind::Word && NO_ALIAS.contains(&next.text.as_str()))
            });
            if !aliased {
                sql.push_str(&format!(
                    " AS \"{}\"",
                    object.name().item.replace('"', "\"\"")
                ));
            }
            if !objects.iter().any(|known| known.id() == object.id()) {
                objects.push(object);
            }
            (done, at) = (end, end);
        }
        sql.push_str(&render(&tokens[done..]));
        (sql, objects)
    }

    fn user_object(&self, parts: &[String]) -> Option<Arc<Object>> {
        if parts.is_empty() {
            return None;
        }
        let name: Name = self.full_name(parts);
        self.world.inner().find(&name).cloned()
    }
}

/// Whether a relation of the server's own is read.
fn reads_catalog(tokens: &[Token]) -> bool {
    tokens.windows(2).any(|pair| {
        let reads = pair[0].is_word("from") || pair[0].is_word("join");
        reads && pair[1].text.starts_with("mz_")
    })
}

/// The parts of the dotted name at `at`, and where it ends.
fn name_at(tokens: &[Token], mut at: usize) -> (Vec<String>, usize) {
    let mut parts = Vec::new();
    while let Some(token) = tokens.get(at).filter(|token| token.is_name()) {
        parts.push(token.text.clone());
        at += 1;
        if !tokens.get(at).is_some_and(|token| token.is_symbol(".")) {
            break;
        }
        at += 1;
    }
    (parts, at)
}

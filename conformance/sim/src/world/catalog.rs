//! Answers the statements of a session: settings, look-ups, transactions, cursors.

use mz_sink_core::catalog::Table;
use mz_sink_core::server_error::ServerError;

use super::statement::{Subscribe, literal_after, literal_ids, read_object};
use super::{CLUSTER, ConnectionId, Cursor, DEFAULT_HISTORY, Object, World, server_error};

/// What the server keeps for a connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: ConnectionId,
    pub(crate) cursor: Option<Cursor>,
    /// Whether a transaction is open, and its time once it has one.
    in_transaction: bool,
    time: Option<u64>,
}

impl Session {
    pub(crate) fn new(id: ConnectionId) -> Self {
        Self {
            id,
            cursor: None,
            in_transaction: false,
            time: None,
        }
    }
}

fn row<const N: usize>(values: [String; N]) -> Vec<Option<String>> {
    values.into_iter().map(Some).collect()
}

impl World {
    /// Runs one statement other than a FETCH.
    pub(crate) fn answer(
        &mut self,
        session: &mut Session,
        sql: &str,
    ) -> Result<Table, ServerError> {
        let rows = if sql.starts_with("DECLARE") {
            session.cursor = Some(self.declare(sql)?);
            Vec::new()
        } else if sql.starts_with("BEGIN") {
            session.in_transaction = true;
            Vec::new()
        } else if sql.starts_with("COMMIT") || sql.starts_with("ROLLBACK") {
            session.in_transaction = false;
            session.time = None;
            session.cursor = None;
            self.holds.remove(&session.id);
            Vec::new()
        } else if sql == "SHOW cluster" {
            vec![row([CLUSTER.into()])]
        } else if sql.contains("mz_catalog.") || sql.contains("mz_internal.") {
            self.look_up(sql)?
        } else if sql.starts_with("SELECT") && session.in_transaction {
            self.read_in_transaction(session, sql)?
        } else if sql.starts_with("SET ") || sql.starts_with("CLOSE") {
            Vec::new()
        } else {
            return Err(server_error(
                "0A000",
                &format!("the model does not know: {sql}"),
            ));
        };
        Ok(Table { rows })
    }

    fn by_id(&self, id: u64) -> Option<&Object> {
        self.objects.iter().find(|object| object.id == id)
    }

    fn look_up(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, ServerError> {
        let objects: Vec<_> = literal_ids(sql)
            .into_iter()
            .filter_map(|id| self.by_id(id))
            .collect();
        let mut rows = Vec::new();
        if sql.contains("mz_object_fully_qualified_names WHERE id IN") {
            for object in objects {
                let name = object.name.clone();
                rows.push(row([
                    format!("u{}", object.id),
                    "db".into(),
                    "s".into(),
                    name,
                ]));
            }
        } else if sql.contains("mz_object_fully_qualified_names") {
            let name = literal_after(sql, "WHERE name = ").unwrap_or_default();
            for object in self.objects.iter().filter(|object| object.name == name) {
                rows.push(row([
                    format!("u{}", object.id),
                    "materialized-view".into(),
                    "db".into(),
                    "s".into(),
                    object.name.clone(),
                ]));
            }
        } else if sql.contains("mz_columns") {
            for object in objects {
                for (name, ty, nullable) in object.layout.columns() {
                    let nullable = if *nullable { "t" } else { "f" };
                    rows.push(row([
                        (*name).into(),
                        nullable.into(),
                        (*ty).into(),
                        "-1".into(),
                    ]));
                }
            }
        } else if sql.contains("mz_frontiers") {
            for object in objects {
                let id = format!("u{}", object.id);
                let mut values = row([id.clone(), id, self.since_of(object).to_string()]);
                let ends = self.shards[object.shard].constant;
                values.push((!ends).then(|| (self.clock + 1).to_string()));
                rows.push(values);
            }
        } else if sql.contains("mz_storage_shards") {
            let shard = |object: &Object| row([self.shards[object.shard].name.clone()]);
            rows.extend(objects.into_iter().map(shard));
        } else if sql.contains("mz_history_retention_strategies") {
            for object in objects {
                if let Some(millis) = object.history {
                    rows.push(row(["FOR".into(), millis.to_string()]));
                }
            }
        } else if sql.contains("mz_indexes") {
            // The cluster is there, whatever is on it.
            let indexed = objects.first().filter(|object| object.indexed);
            let index = indexed.map(|object| format!("{}_idx", object.name));
            rows.push(vec![index, Some(CLUSTER.into())]);
        } else if !sql.contains("mz_sources") && !sql.contains("mz_kafka_source_tables") {
            return Err(server_error(
                "0A000",
                &format!("the model does not know: {sql}"),
            ));
        }
        Ok(rows)
    }

    /// The time from which a SUBSCRIBE to `object` can read: an index serves it, if there is one.
    pub(crate) fn since_of(&self, object: &Object) -> u64 {
        let since = self.shards[object.shard].since;
        if object.indexed {
            since.max((self.clock + 1).saturating_sub(DEFAULT_HISTORY))
        } else {
            since
        }
    }

    fn declare(&self, sql: &str) -> Result<Cursor, ServerError> {
        let subscribe = Subscribe::parse(sql)
            .ok_or_else(|| server_error("42601", &format!("the model cannot read: {sql}")))?;
        match self.by_id(subscribe.id) {
            Some(object) => Ok(Cursor::new(subscribe, object.clone())),
            None => Err(server_error(
                "XX000",
                &format!("invalid id u{}", subscribe.id),
            )),
        }
    }

    /// A read keeps its objects readable at the transaction's time until the end of it.
    fn read_in_transaction(
        &mut self,
        session: &mut Session,
        sql: &str,
    ) -> Result<Vec<Vec<Option<String>>>, ServerError> {
        let time = *session.time.get_or_insert(self.clock);
        if let Some(name) = read_object(sql) {
            let shard = self.object(name).map(|object| object.shard);
            let Some(shard) = shard else {
                let message = format!("unknown catalog item '{name}'");
                return Err(server_error("XX000", &message));
            };
            if self.shards[shard].since > time {
                let message = "could not find a valid timestamp for the query";
                return Err(server_error("22000", message));
            }
            let holds = self.holds.entry(session.id).or_default();
            holds.push((shard, time));
        }
        Ok(vec![row([time.to_string()])])
    }
}

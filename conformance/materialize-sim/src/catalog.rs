//! The catalog as tables of SQLite, filled in anew for every query.

use rusqlite::{Connection, ToSql, params};

use crate::object::{DEFAULT_RETENTION_MS, Kind};
use crate::timestamp::date;
use crate::world::{World, oid_of};

const SCHEMA: &str = "
ATTACH ':memory:' AS mz_catalog; ATTACH ':memory:' AS mz_internal;
CREATE TABLE mz_catalog.mz_databases (id TEXT(25,-1), oid INT(26,-1), name TEXT(25,-1), owner_id TEXT(25,-1));
CREATE TABLE mz_catalog.mz_schemas (id TEXT(25,-1), oid INT(26,-1), database_id TEXT(25,-1), name TEXT(25,-1), owner_id TEXT(25,-1));
CREATE TABLE mz_catalog.mz_clusters (id TEXT(25,-1), name TEXT(25,-1), owner_id TEXT(25,-1), managed INT(16,-1), size TEXT(25,-1));
CREATE TABLE mz_catalog.mz_objects (id TEXT(25,-1), oid INT(26,-1), schema_id TEXT(25,-1), name TEXT(25,-1), type TEXT(25,-1), owner_id TEXT(25,-1), cluster_id TEXT(25,-1), privileges TEXT(16384,-1));
CREATE TABLE mz_catalog.mz_columns (id TEXT(25,-1), name TEXT(25,-1), position INT(16464,-1), nullable INT(16,-1), type TEXT(25,-1), \"default\" TEXT(25,-1), type_oid INT(26,-1), type_mod INT(23,-1));
CREATE TABLE mz_catalog.mz_indexes (id TEXT(25,-1), oid INT(26,-1), name TEXT(25,-1), on_id TEXT(25,-1), cluster_id TEXT(25,-1), owner_id TEXT(25,-1));
CREATE TABLE mz_internal.mz_object_fully_qualified_names (id TEXT(25,-1), name TEXT(25,-1), object_type TEXT(25,-1), schema_id TEXT(25,-1), schema_name TEXT(25,-1), database_id TEXT(25,-1), database_name TEXT(25,-1), cluster_id TEXT(25,-1));
CREATE TABLE mz_internal.mz_object_global_ids (id TEXT(25,-1), global_id TEXT(25,-1));
CREATE TABLE mz_internal.mz_storage_shards (object_id TEXT(25,-1), shard_id TEXT(25,-1));
CREATE TABLE mz_internal.mz_frontiers (object_id TEXT(25,-1), read_frontier INT(16552,-1), write_frontier INT(16552,-1));
CREATE TABLE mz_internal.mz_subscriptions (id TEXT(25,-1), session_id TEXT(2950,-1), cluster_id TEXT(25,-1), created_at TEXT(1184,-1), referenced_object_ids TEXT(16384,-1));
CREATE TABLE mz_internal.mz_history_retention_strategies (id TEXT(25,-1), strategy TEXT(25,-1), value TEXT(3802,-1));
CREATE TABLE mz_catalog.mz_sources (id TEXT(25,-1), name TEXT(25,-1), envelope_type TEXT(25,-1));
CREATE TABLE mz_internal.mz_object_transitive_dependencies (object_id TEXT(25,-1), referenced_object_id TEXT(25,-1));
CREATE VIEW mz_catalog.mz_relations AS SELECT * FROM mz_objects WHERE type <> 'index';
CREATE VIEW mz_catalog.mz_tables AS SELECT * FROM mz_objects WHERE type = 'table';
CREATE VIEW mz_catalog.mz_materialized_views AS SELECT * FROM mz_objects WHERE type = 'materialized-view';
CREATE VIEW mz_catalog.mz_views AS SELECT * FROM mz_objects WHERE type = 'view';
";

/// Id, in the catalog, of the database or schema at this position.
fn position_id(position: usize) -> String {
    format!("u{}", position + 1)
}

/// Fills in every relation.
pub(crate) fn catalog(connection: &Connection, world: &World) -> rusqlite::Result<()> {
    connection.execute_batch(SCHEMA)?;
    let insert = |table: &str, values: &[&dyn ToSql]| {
        let marks = vec!["?"; values.len()].join(", ");
        connection.execute(&format!("INSERT INTO {table} VALUES ({marks})"), values)
    };
    let inner = world.inner();
    let mut databases: Vec<&String> = inner.schemas.iter().map(|(database, _)| database).collect();
    databases.dedup();
    for (at, name) in databases.iter().enumerate() {
        insert(
            "mz_catalog.mz_databases",
            params![position_id(at), oid_of(at as u64), name, "s1"],
        )?;
    }
    let database_id = |name: &String| databases.iter().position(|d| *d == name).map(position_id);
    for (at, (database, name)) in inner.schemas.iter().enumerate() {
        let id = schema_id(at);
        insert(
            "mz_catalog.mz_schemas",
            params![id, oid_of(at as u64), database_id(database), name, "s1"],
        )?;
    }
    for (at, name) in inner.clusters.iter().enumerate() {
        insert(
            "mz_catalog.mz_clusters",
            params![position_id(at), name, "s1", true, "bootstrap"],
        )?;
    }
    for object in &inner.objects {
        let identity = object.identity();
        let (id, name, kind) = (object.catalog_id(), &identity.name, object.kind.as_str());
        let oid = oid_of(identity.id);
        let stored = object.kind != Kind::View;
        let cluster = (object.kind == Kind::MaterializedView).then_some("u1");
        let pair = (name.database.clone(), name.schema.clone());
        let schema = inner.schemas.iter().position(|s| *s == pair).map(schema_id);
        let privileges = "{u1=arwd/u1}";
        insert(
            "mz_catalog.mz_objects",
            params![id, oid, schema, name.item, kind, "u1", cluster, privileges],
        )?;
        insert(
            "mz_internal.mz_object_fully_qualified_names",
            params![
                id,
                name.item,
                kind,
                schema,
                name.schema,
                database_id(&name.database),
                name.database,
                cluster,
            ],
        )?;
        let global_ids: Vec<String> = identity
            .global_ids
            .iter()
            .map(|id| format!("u{id}"))
            .collect();
        for global_id in &global_ids {
            insert("mz_internal.mz_object_global_ids", params![id, global_id])?;
        }
        let is_source = inner.own_timelines.contains(&object.id());
        if is_source {
            insert(
                "mz_catalog.mz_sources",
                params![id, name.item, "materialize"],
            )?;
        }
        for input in inner.objects.iter().filter(|input| object.reads(input)) {
            let input = format!("u{}", input.id());
            insert(
                "mz_internal.mz_object_transitive_dependencies",
                params![id, input],
            )?;
        }
        for (at, c) in object.columns.iter().enumerate() {
            let none = None::<String>;
            insert(
                "mz_catalog.mz_columns",
                params![
                    id,
                    c.name,
                    at as i64 + 1,
                    c.nullable,
                    c.sql_type,
                    none,
                    c.oid,
                    c.typmod
                ],
            )?;
        }
        if stored {
            let shard = shard_of(object.shard());
            let frontiers = object.frontiers();
            for global_id in &global_ids {
                insert("mz_internal.mz_storage_shards", params![global_id, shard])?;
                insert(
                    "mz_internal.mz_frontiers",
                    params![
                        global_id,
                        frontiers.since as i64,
                        frontiers.upper.map(|upper| upper as i64)
                    ],
                )?;
            }
            let retention = object.retention_ms();
            // A real server lists the default for materialized views too.
            if retention != DEFAULT_RETENTION_MS || cluster.is_some() {
                insert(
                    "mz_internal.mz_history_retention_strategies",
                    params![id, "FOR", retention.to_string()],
                )?;
            }
        }
    }
    let cluster_id = |name: &str| {
        let found = inner.clusters.iter().position(|cluster| cluster == name);
        found.map(position_id)
    };
    for index in &inner.indexes {
        let cluster = cluster_id(&index.cluster);
        let (id, on) = (format!("u{}", index.id), format!("u{}", index.on));
        insert(
            "mz_catalog.mz_indexes",
            params![id, oid_of(index.id), index.name, on, cluster, "u1"],
        )?;
    }
    for (number, subscription) in &inner.subscriptions {
        let (id, object) = (format!("t{number}"), format!("{{{}}}", subscription.object));
        let cluster = cluster_id(&subscription.cluster);
        let created_at = format!("{}+00", date(subscription.created_at));
        insert(
            "mz_internal.mz_subscriptions",
            params![id, subscription.session, cluster, created_at, object],
        )?;
    }
    Ok(())
}

/// The shard of an object, by its first global id.
fn shard_of(id: u64) -> String {
    format!("s{:08x}-0000-4000-8000-{id:012x}", oid_of(id))
}

/// `materialize.public` has id u3 on a fresh server.
fn schema_id(position: usize) -> String {
    format!("u{}", position + 3)
}

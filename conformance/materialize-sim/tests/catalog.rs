//! What the catalog says, as far as a consumer looks.

mod support;

use std::time::{SystemTime, UNIX_EPOCH};

use support::{code, prepared, rows, server};

const OBJECTS: &[&str] = &[
    "CREATE TABLE ct (id int NOT NULL, name varchar(10), amount numeric(12,2), at timestamptz, tags text list, m map[text=>int], a int[], r int4range, j jsonb, u uint8, b bytea) WITH (RETAIN HISTORY FOR '1h')",
    "CREATE VIEW cv AS SELECT id FROM ct",
    "CREATE MATERIALIZED VIEW cmv AS SELECT id FROM ct",
    "CREATE DEFAULT INDEX ON cv",
];

#[tokio::test]
async fn a_consumer_finds_everything_about_an_object_in_one_join() {
    let server = server().await;
    let client = prepared(&server, OBJECTS).await;
    let sql = "SELECT o.id, n.object_type, n.database_name, n.schema_name, h.value::text,
                      f.read_frontier <= f.write_frontier AS readable, s.shard_id IS NOT NULL AS stored
               FROM mz_catalog.mz_objects o
               JOIN mz_internal.mz_object_fully_qualified_names n ON n.id = o.id
               JOIN mz_internal.mz_object_global_ids g ON g.id = o.id
               LEFT JOIN mz_internal.mz_frontiers f ON f.object_id = g.global_id
               LEFT JOIN mz_internal.mz_storage_shards s ON s.object_id = g.global_id
               LEFT JOIN mz_internal.mz_history_retention_strategies h ON h.id = o.id
               WHERE o.name = 'ct' AND n.schema_name = 'public'";
    let found = rows(&client, sql).await.unwrap();
    let found: Vec<_> = found[0]
        .iter()
        .map(|v| v.as_deref().unwrap_or("NULL"))
        .collect();
    assert_eq!(
        found,
        ["u1", "table", "materialize", "public", "3600000", "1", "1"]
    );
    let count = rows(
        &client,
        "SELECT count(*) FROM mz_indexes WHERE on_id = 'u2'",
    )
    .await
    .unwrap();
    assert_eq!(count, [[Some("1".to_owned())]]);
}

#[tokio::test]
async fn what_the_catalog_does_not_have_is_an_unknown_item() {
    let server = server().await;
    let client = prepared(&server, &[]).await;
    for (sql, expected) in [
        (
            "SELECT * FROM mz_timeline_since LIMIT 1",
            "XX000 unknown catalog item 'mz_timeline_since'",
        ),
        (
            "SELECT nope FROM mz_objects",
            "42703 column \"nope\" does not exist",
        ),
        ("SELECT nope()", "42883 function \"nope\" does not exist"),
    ] {
        assert_eq!(code(&rows(&client, sql).await.unwrap_err()), expected);
    }
}

#[tokio::test]
async fn what_a_transaction_has_read_stays_readable_at_its_timestamp_until_it_ends() {
    let server = server().await;
    let tables = ["CREATE TABLE a1 (id int)", "CREATE TABLE a2 (id int)"];
    let holder = prepared(&server, &tables).await;
    // The second of history that tables have does not pass, however busy the machine is.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = u64::try_from(now.as_millis()).unwrap();
    server.control().set_clock(Some(now + 10));
    holder
        .batch_execute("BEGIN READ ONLY ISOLATION LEVEL SERIALIZABLE")
        .await
        .unwrap();
    for table in ["a1", "a2"] {
        rows(&holder, &format!("SELECT mz_now() FROM {table} LIMIT 1"))
            .await
            .unwrap();
    }
    let at = rows(&holder, "SELECT mz_now()").await.unwrap()[0][0]
        .clone()
        .unwrap();
    let much_later = at.parse::<u64>().unwrap() + 60_000;
    server.control().set_clock(Some(much_later));
    let declare =
        |table| format!("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE {table} WITH (PROGRESS) AS OF {at}");
    for table in ["a1", "a2"] {
        let client = prepared(&server, &[&declare(table)]).await;
        let seen = rows(&client, "FETCH ALL c").await.unwrap();
        assert_eq!(seen[0][0].as_ref(), Some(&at), "{table}");
    }
    holder.batch_execute("COMMIT").await.unwrap();
    let client = prepared(&server, &[&declare("a1")]).await;
    let error = rows(&client, "FETCH ALL c").await.unwrap_err();
    assert_eq!(
        code(&error),
        "22000 could not find a valid timestamp for the query"
    );
}

#[tokio::test]
async fn contents_of_objects_can_be_selected_as_they_are_sent() {
    let server = server().await;
    let client = prepared(
        &server,
        &[
            "CREATE TABLE s (id int, amount numeric, ok bool) WITH (RETAIN HISTORY FOR '1h')",
            "INSERT INTO s VALUES (2, 12345678901234567890.5, false), (1, 1.50, true)",
        ],
    )
    .await;
    let now = rows(&client, "SELECT mz_now() FROM s LIMIT 1")
        .await
        .unwrap();
    let now = now[0][0].clone().unwrap();
    client.batch_execute("DELETE FROM s").await.unwrap();
    let sql = format!("SELECT * FROM public.s AS OF {now}");
    let mut found = rows(&client, &sql).await.unwrap();
    found.sort();
    let text = |values: [&str; 3]| values.map(|v| Some(v.to_owned())).to_vec();
    assert_eq!(
        found,
        [
            text(["1", "1.5", "t"]),
            text(["2", "12345678901234567890.5", "f"])
        ]
    );
    let error = rows(&client, "SELECT * FROM s AS OF 5").await.unwrap_err();
    assert_eq!(
        code(&error),
        "22000 could not find a valid timestamp for the query"
    );
}

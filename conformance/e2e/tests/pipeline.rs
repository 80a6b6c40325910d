//! What is in Materialize arrives in turbopuffer.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use e2e::{World, edited};
use serde_json::Value;

const COLUMNS: [(&str, &str); 2] = [("k", "int"), ("v", "text")];

fn keys(documents: &[Value]) -> Vec<&str> {
    documents
        .iter()
        .map(|d| d["id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_snapshot_arrives_and_then_every_change() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let insert = format!("INSERT INTO {t} VALUES (1, 'one'), (2, 'two'), (3, NULL)");
    world.sql(&[&insert]).await.unwrap();
    let mut host = world.host(&table).unwrap();
    let first = world.caught_up(&table, &mut host).await.unwrap();
    for statement in [
        format!("INSERT INTO {t} VALUES (4, 'four')"),
        format!("UPDATE {t} SET v = 'zwei' WHERE k = 2"),
        format!("DELETE FROM {t} WHERE k = 1"),
    ] {
        world.sql(&[&statement]).await.unwrap();
        let next = world.caught_up(&table, &mut host).await.unwrap();
        assert_eq!(next.namespace, first.namespace);
    }
}

#[tokio::test]
async fn an_empty_snapshot_is_committed_and_readers_find_its_namespace() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let mut host = world.host(&table).unwrap();
    let empty = world.caught_up(&table, &mut host).await.unwrap();
    let documents = world
        .target
        .documents(&empty.namespace, false)
        .await
        .unwrap();
    assert!(documents.is_empty());
    let insert = format!("INSERT INTO {} VALUES (1, 'first')", table.name);
    world.sql(&[&insert]).await.unwrap();
    let first = world.caught_up(&table, &mut host).await.unwrap();
    assert_eq!(first.namespace, empty.namespace);
    let documents = world
        .target
        .documents(&empty.namespace, false)
        .await
        .unwrap();
    assert_eq!(keys(&documents), ["1"]);
}

#[tokio::test]
async fn a_changed_key_moves_the_row_and_leaves_a_tombstone() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let insert = format!("INSERT INTO {t} VALUES (1, 'a'), (2, 'b')");
    world.sql(&[&insert]).await.unwrap();
    let mut host = world.host(&table).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
    let update = format!("UPDATE {t} SET k = 11 WHERE k = 1");
    world.sql(&[&update]).await.unwrap();
    let after = world.caught_up(&table, &mut host).await.unwrap();
    let live = world
        .target
        .documents(&after.namespace, false)
        .await
        .unwrap();
    assert_eq!(keys(&live), ["11", "2"]);
    let deleted = world
        .target
        .documents(&after.namespace, true)
        .await
        .unwrap();
    assert_eq!(keys(&deleted), ["1"]);
}

#[tokio::test]
async fn a_deleted_row_is_a_tombstone_without_values_and_may_come_back() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let insert = format!("INSERT INTO {t} VALUES (1, 'secret'), (2, 'b')");
    world.sql(&[&insert]).await.unwrap();
    let mut host = world.host(&table).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
    world
        .sql(&[&format!("DELETE FROM {t} WHERE k = 1")])
        .await
        .unwrap();
    let after = world.caught_up(&table, &mut host).await.unwrap();
    let live = world
        .target
        .documents(&after.namespace, false)
        .await
        .unwrap();
    assert_eq!(keys(&live), ["2"]);
    let deleted = world
        .target
        .documents(&after.namespace, true)
        .await
        .unwrap();
    assert_eq!(keys(&deleted), ["1"]);
    assert_eq!(deleted[0]["v"], Value::Null);
    world
        .sql(&[&format!("INSERT INTO {t} VALUES (1, 'back')")])
        .await
        .unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
    let deleted = world
        .target
        .documents(&after.namespace, true)
        .await
        .unwrap();
    assert!(deleted.is_empty(), "{deleted:?}");
}

#[tokio::test]
async fn rows_that_the_sink_refuses_go_to_the_dead_letters_and_the_rest_is_committed() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let long = "x".repeat(5000);
    let insert = format!("INSERT INTO {t} VALUES (1, 'good'), (NULL, 'no key'), (2, '{long}')");
    world.sql(&[&insert]).await.unwrap();
    let namespace = "namespace = \"e2e\"\n";
    let filterable = format!("{namespace}filterable = [\"v\"]\n");
    let config = edited(&world.config(&table).unwrap(), namespace, &filterable);
    let mut host = world.host_with(&config).unwrap();
    let now = world.now(&table).await.unwrap();
    let committed = world.committed(now, &mut host).await.unwrap();
    let live = world
        .target
        .documents(&committed.namespace, false)
        .await
        .unwrap();
    assert_eq!(keys(&live), ["1"]);

    let text = std::fs::read_to_string(world.file("dead-letters.jsonl")).unwrap();
    let letters: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let mut categories: Vec<_> = letters
        .iter()
        .map(|l| l["category"].as_str().unwrap())
        .collect();
    categories.sort_unstable();
    categories.dedup();
    assert_eq!(categories, ["null-key", "value-too-long"]);
    assert!(text.contains(&long) && text.contains("no key"));
    // Values are for the file only.
    let output = host.output();
    assert!(
        !output.contains("xxx") && !output.contains("no key"),
        "{output}"
    );

    // A better row for the same key goes through.
    let update = format!("UPDATE {t} SET v = 'short' WHERE k = 2");
    world.sql(&[&update]).await.unwrap();
    let now = world.now(&table).await.unwrap();
    world.committed(now, &mut host).await.unwrap();
    let live = world
        .target
        .documents(&committed.namespace, false)
        .await
        .unwrap();
    assert_eq!(keys(&live), ["1", "2"]);
}

#[tokio::test]
async fn a_snapshot_larger_than_the_memory_goes_through_the_disk() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let filler = "f".repeat(200);
    // Materialize takes no statement of more than a megabyte.
    for first in (0..10_000).step_by(2_500) {
        let row = |k| format!("({k}, '{k}{filler}')");
        let rows: Vec<_> = (first..first + 2_500).map(row).collect();
        let insert = format!("INSERT INTO {} VALUES {}", table.name, rows.join(", "));
        world.sql(&[&insert]).await.unwrap();
    }
    let buffer = "[buffer]\nmemory = \"256KiB\"\ndir = \"spill\"\n\n[commit]";
    let config = edited(&world.config(&table).unwrap(), "[commit]", buffer);
    std::fs::create_dir(world.file("spill")).unwrap();
    let mut host = world.host_with(&config).unwrap();
    let committed = world.caught_up(&table, &mut host).await.unwrap();
    let documents = world
        .target
        .documents(&committed.namespace, false)
        .await
        .unwrap();
    assert_eq!(documents.len(), 10_000);
}

#[tokio::test]
async fn a_key_that_several_rows_have_is_left_out_and_told() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let insert = format!("INSERT INTO {t} VALUES (1, 'a'), (1, 'b'), (2, 'c')");
    world.sql(&[&insert]).await.unwrap();
    let mut host = world.host(&table).unwrap();
    let now = world.now(&table).await.unwrap();
    let committed = world.committed(now, &mut host).await.unwrap();
    let live = world
        .target
        .documents(&committed.namespace, false)
        .await
        .unwrap();
    assert_eq!(keys(&live), ["2"]);
    let output = host.output();
    assert!(output.contains("source.key must be unique"), "{output}");
    let delete = format!("DELETE FROM {t} WHERE k = 1");
    let insert = format!("INSERT INTO {t} VALUES (1, 'd')");
    world.sql(&[&delete, &insert]).await.unwrap();
    world.caught_up(&table, &mut host).await.unwrap();

    // The same to a key that is in the target already: nothing old stays there.
    let twice = format!("INSERT INTO {t} VALUES (1, 'e'), (1, 'f')");
    world.sql(&[&twice]).await.unwrap();
    let now = world.now(&table).await.unwrap();
    let committed = world.committed(now, &mut host).await.unwrap();
    let live = world
        .target
        .documents(&committed.namespace, false)
        .await
        .unwrap();
    assert_eq!(keys(&live), ["2"]);
    world.sql(&[&delete]).await.unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
}

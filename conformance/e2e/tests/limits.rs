//! Values and names at turbopuffer's limits are written; one byte more is told, and costs only
//! its own row.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::collections::BTreeMap;

use e2e::{Table, World, edited, refused};
use serde_json::Value;

/// Bytes of an id.
const ID: usize = 64;

/// Bytes of a value that can be filtered on.
const FILTERABLE: usize = 4 << 10;

/// Bytes of any value.
const VALUE: usize = 8 << 20;

/// Attributes of a namespace, and those of them that are the sink's own, with the id.
const ATTRIBUTES: usize = 1024;
const OWN_ATTRIBUTES: usize = 5;

/// Bytes of the name of an attribute.
const NAME: usize = 128;

/// Categories in the dead-letter file, by key.
fn dead_letters(world: &World) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(world.file("dead-letters.jsonl")).unwrap_or_default();
    let letters = text.lines().map(|line| {
        let letter: Value = serde_json::from_str(line).unwrap();
        let key = letter["change"]["row"]["k"].as_str().unwrap().to_owned();
        (key, letter["category"].as_str().unwrap().to_owned())
    });
    letters.collect()
}

#[tokio::test]
async fn values_at_the_limit_are_written_and_longer_ones_refused_alone() {
    let world = World::start().await.unwrap();
    let columns = [("k", "text"), ("short", "text"), ("long", "text")];
    let table = world.table(&columns).await.unwrap();
    let (at, over) = ("i".repeat(ID), "j".repeat(ID + 1));
    let rows = [
        ("plain".to_owned(), 1, 1),
        (at.clone(), FILTERABLE, VALUE),
        (over.clone(), 1, 1),
        ("filterable".to_owned(), FILTERABLE + 1, 1),
        ("value".to_owned(), 1, VALUE + 1),
    ];
    for (key, short, long) in rows {
        let insert = format!(
            "INSERT INTO {} VALUES ('{key}', '{}', '{}')",
            table.name,
            "s".repeat(short),
            "l".repeat(long)
        );
        world.sql(&[&insert]).await.unwrap();
    }
    let config = world.config(&table).unwrap();
    let config = edited(&config, "[sink]", "[sink]\nfilterable = [\"short\"]");
    let mut host = world.host_with(&config).unwrap();
    let now = world.now(&table).await.unwrap();
    let committed = world.committed(now, &mut host).await.unwrap();
    let documents = world.target.documents(&committed.namespace, false).await;
    let found: BTreeMap<_, _> = documents
        .unwrap()
        .into_iter()
        .map(|document| {
            let text = |name: &str| document[name].as_str().unwrap().to_owned();
            let lengths = (text("short").len(), text("long").len());
            (text("k"), (text("id"), lengths))
        })
        .collect();
    assert_eq!(found.len(), 3, "{:?}", found.keys());
    assert_eq!(found["plain"], ("plain".to_owned(), (1, 1)));
    assert_eq!(found[&at], (at.clone(), (FILTERABLE, VALUE)));
    assert!(found[&over].0.starts_with("sha256:"), "{}", found[&over].0);
    let refused = ["filterable", "value"].map(|key| (key.into(), "value-too-long".into()));
    assert_eq!(dead_letters(&world), refused.into());
}

/// A table with a key and this many other columns.
async fn wide(world: &World, others: usize) -> Table {
    let names: Vec<_> = (0..others).map(|n| format!("c{n}")).collect();
    let mut columns = vec![("k", "text")];
    columns.extend(names.iter().map(|name| (name.as_str(), "int")));
    let table = world.table(&columns).await.unwrap();
    let insert = format!(
        "INSERT INTO {} VALUES ('a'{})",
        table.name,
        ", 1".repeat(others)
    );
    world.sql(&[&insert]).await.unwrap();
    table
}

#[tokio::test]
async fn as_many_columns_as_there_may_be_attributes_are_written_and_more_are_told() {
    let world = World::start().await.unwrap();
    // The key is a column, too.
    let most = ATTRIBUTES - OWN_ATTRIBUTES - 1;
    let table = wide(&world, most + 1).await;
    let config = world.config(&table).unwrap();
    let says = ["error[sink-permanent]", "1024", "attributes"];
    refused(&world, &config, 1, &says).await;
    let table = wide(&world, most).await;
    let mut host = world.host(&table).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
}

#[tokio::test]
async fn names_that_no_attribute_may_have_are_told_with_the_rename() {
    let world = World::start().await.unwrap();
    let at = "n".repeat(NAME);
    let over = "n".repeat(NAME + 1);
    for (name, says) in [("$score", "$score"), (over.as_str(), "128")] {
        let quoted = format!("\"{name}\"");
        let table = world
            .table(&[("k", "text"), (&quoted, "int")])
            .await
            .unwrap();
        let config = world.config(&table).unwrap();
        let says = ["error[sink-permanent]", "rename", says];
        refused(&world, &config, 1, &says).await;
        let renamed = format!("{config}[sink.rename]\n\"{name}\" = \"{at}\"\n");
        let mut host = world.host_with(&renamed).unwrap();
        let insert = format!("INSERT INTO {} VALUES ('a', 1)", table.name);
        world.sql(&[&insert]).await.unwrap();
        let now = world.now(&table).await.unwrap();
        let committed = world.committed(now, &mut host).await.unwrap();
        let documents = world.target.documents(&committed.namespace, false).await;
        assert_eq!(documents.unwrap()[0][&at], 1);
        host.kill_9().unwrap();
        let control = format!("{}/v2/namespaces/checkpoints", world.turbopuffer.url());
        let request = reqwest::Client::new().delete(control);
        let request = request.bearer_auth(e2e::API_KEY);
        request.send().await.unwrap().error_for_status().unwrap();
    }
}

#[tokio::test]
async fn names_that_no_namespace_may_have_are_refused_before_anything_is_written() {
    let world = World::start().await.unwrap();
    let table = world.table(&[("k", "text")]).await.unwrap();
    let config = world.config(&table).unwrap();
    for name in ["", "a/b", "a b", "ä", &"n".repeat(60)] {
        for setting in ["namespace", "control_namespace"] {
            let from = match setting {
                "namespace" => "\nnamespace = \"e2e\"",
                _ => "\ncontrol_namespace = \"checkpoints\"",
            };
            if setting == "control_namespace" && name.len() == 60 {
                continue;
            }
            let config = edited(&config, from, &format!("\n{setting} = \"{name}\""));
            refused(&world, &config, 1, &["error[sink-permanent]", setting]).await;
        }
    }
    assert!(world.target.committed().await.unwrap().is_none());
}

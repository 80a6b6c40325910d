//! What the turbopuffer sink finds in its target: names that are taken, and namespaces that
//! somebody deleted or made. Each refusal says what to do next, and that works.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use e2e::{World, edited, refused};
use serde_json::json;

#[tokio::test]
async fn a_composite_key_and_a_column_called_id_go_together() {
    let world = World::start().await.unwrap();
    let columns = [("id", "int"), ("part", "text"), ("v", "text")];
    let table = world.table(&columns).await.unwrap();
    let t = &table.name;
    let rows = format!("INSERT INTO {t} VALUES (-1, 'a', 'x'), (-1, 'b', 'y'), (2, 'a', 'z')");
    world.sql(&[&rows]).await.unwrap();
    let config = world.config(&table).unwrap();
    let config = edited(&config, "key = [\"id\"]", "key = [\"id\", \"part\"]");
    let mut host = world.host_with(&config).unwrap();
    world
        .committed(world.now(&table).await.unwrap(), &mut host)
        .await
        .unwrap();
    let changes = [
        format!("UPDATE {t} SET v = 'new' WHERE v = 'y'"),
        format!("DELETE FROM {t} WHERE id = 2"),
    ];
    world
        .sql(&changes.each_ref().map(String::as_str))
        .await
        .unwrap();
    let now = world.now(&table).await.unwrap();
    let committed = world.committed(now, &mut host).await.unwrap();
    let documents = world.target.documents(&committed.namespace, false).await;
    let read = ["id", "source_id", "part", "v"];
    let found: Vec<_> = documents
        .unwrap()
        .iter()
        .map(|document| read.map(|name| document[name].clone()))
        .collect();
    assert_eq!(
        json!(found),
        json!([["2:-11:a", -1, "a", "x"], ["2:-11:b", -1, "b", "new"]])
    );
}

#[tokio::test]
async fn a_key_beside_a_column_called_id_is_the_document_id() {
    let world = World::start().await.unwrap();
    let columns = [("v", "text"), ("id", "int")];
    let table = world.table(&columns).await.unwrap();
    let insert = format!("INSERT INTO {} VALUES ('a', 7)", table.name);
    world.sql(&[&insert]).await.unwrap();
    let mut host = world.host(&table).unwrap();
    let now = world.now(&table).await.unwrap();
    let committed = world.committed(now, &mut host).await.unwrap();
    let documents = world.target.documents(&committed.namespace, false).await;
    let document = &documents.unwrap()[0];
    assert_eq!(document["id"], "a");
    assert_eq!(document["v"], "a");
    assert_eq!(document["source_id"], 7);
}

#[tokio::test]
async fn taken_names_are_refused_until_they_are_renamed() {
    let world = World::start().await.unwrap();
    let columns = [
        ("k", "int"),
        ("id", "int"),
        ("source_id", "int"),
        ("generation", "int"),
        ("vector", "text"),
    ];
    let table = world.table(&columns).await.unwrap();
    let insert = format!("INSERT INTO {} VALUES (1, 2, 3, 4, 'v')", table.name);
    world.sql(&[&insert]).await.unwrap();
    let plain = world.config(&table).unwrap();
    let mut renames = String::new();
    for column in ["id", "generation", "vector"] {
        let config = format!("{plain}[sink.rename]\n{renames}");
        let fix = format!("add `rename = {{ \"{column}\" = \"another_name\" }}`");
        let says = ["error[sink-permanent]", "invalid-config", &fix];
        refused(&world, &config, 1, &says).await;
        renames += &format!("{column} = \"my_{column}\"\n");
    }
    let config = format!("{plain}[sink.rename]\n{renames}");
    let mut host = world.host_with(&config).unwrap();
    let now = world.now(&table).await.unwrap();
    let committed = world.committed(now, &mut host).await.unwrap();
    let documents = world.target.documents(&committed.namespace, false).await;
    let document = &documents.unwrap()[0];
    let read = [
        "id",
        "my_id",
        "source_id",
        "generation",
        "my_generation",
        "my_vector",
    ];
    let found = json!(read.map(|name| document[name].clone()));
    assert_eq!(found, json!(["1", 2, 3, 1, 4, "v"]));
}

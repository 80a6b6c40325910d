//! What the turbopuffer sink finds in its target: names that are taken, and namespaces that
//! somebody deleted or made. Each refusal says what to do next, and that works.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use e2e::{API_KEY, Ended, Host, SOON, Table, World, edited, refused, small_world};
use serde_json::{Value, json};

/// A request by somebody who is not the sink.
async fn asked(world: &World, method: &str, path: &str, body: &Value) -> Value {
    let url = format!("{}/v2/namespaces/{path}", world.turbopuffer.url());
    let client = reqwest::Client::new();
    let request = client.request(method.parse().unwrap(), url);
    let request = request.bearer_auth(API_KEY).json(body);
    let response = request.send().await.unwrap().error_for_status().unwrap();
    response.json().await.unwrap()
}

/// Everything in a namespace.
async fn documents(world: &World, namespace: &str) -> Value {
    let query = json!({"rank_by": ["id", "asc"], "limit": 100, "include_attributes": true});
    let mut answer = asked(world, "POST", &format!("{namespace}/query"), &query).await;
    answer["rows"].take()
}

/// The other way to a new snapshot than a new sink id.
async fn delete_document(world: &World) {
    let deletes = json!({"deletes": ["e2e"]});
    let answer = asked(world, "POST", "checkpoints", &deletes).await;
    assert_eq!(answer["rows_deleted"], 1);
}

/// Changes one row, so that the sink has something to write.
async fn change(world: &World, table: &Table) {
    let update = format!("UPDATE {} SET v = 'changed'", table.name);
    world.sql(&[&update]).await.unwrap();
}

async fn ended(host: Host) -> Ended {
    host.end(SOON).await.unwrap()
}

const START_AGAIN: &str = "use a new `sink_id`, or delete document `e2e` of namespace \
                           `checkpoints`: both start again with a snapshot";

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

#[tokio::test]
async fn a_deleted_namespace_ends_every_run_until_it_is_started_again() {
    // With the document deleted, and with a new sink id.
    for document in [true, false] {
        let (world, table, config) = small_world().await.unwrap();
        let mut host = world.host_with(&config).unwrap();
        let before = world.caught_up(&table, &mut host).await.unwrap();
        asked(&world, "DELETE", &before.namespace, &json!({})).await;
        change(&world, &table).await;
        let says = [
            "error[sink-permanent]",
            "(no-namespace)",
            "somebody deleted it",
            START_AGAIN,
        ];
        ended(host).await.assert(1, &says);
        // Starting again is not enough.
        ended(world.host_with(&config).unwrap())
            .await
            .assert(1, &says);

        if document {
            delete_document(&world).await;
            let mut host = world.host_with(&config).unwrap();
            let after = world.caught_up(&table, &mut host).await.unwrap();
            assert_ne!(after.namespace, before.namespace);
            continue;
        }
        let config = edited(&config, "sink_id = \"e2e\"", "sink_id = \"e2e-2\"");
        let _host = world.host_with(&config).unwrap();
        let active = async || {
            let control = documents(&world, "checkpoints").await;
            let new = control.as_array().unwrap().iter();
            let new = new.filter(|document| document["id"] == "e2e-2");
            new.filter_map(|document| Some(document["active"].as_str()?.to_owned()))
                .next()
        };
        let started = std::time::Instant::now();
        let namespace = loop {
            if let Some(namespace) = active().await {
                break namespace;
            }
            assert!(started.elapsed() < SOON);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        assert_eq!(documents(&world, &namespace).await[0]["v"], "changed");
    }
}

#[tokio::test]
async fn a_control_namespace_deleted_under_a_running_worker_needs_only_a_start() {
    for whole in [true, false] {
        let (world, table, config) = small_world().await.unwrap();
        let mut host = world.host_with(&config).unwrap();
        let before = world.caught_up(&table, &mut host).await.unwrap();
        if whole {
            asked(&world, "DELETE", "checkpoints", &json!({})).await;
        } else {
            delete_document(&world).await;
        }
        let says = [
            "error[checkpoint-lost]",
            "somebody deleted it",
            "Start again for a new snapshot",
        ];
        ended(host).await.assert(1, &says);
        change(&world, &table).await;
        let mut host = world.host_with(&config).unwrap();
        let after = world.caught_up(&table, &mut host).await.unwrap();
        assert_ne!(after.namespace, before.namespace);
    }
}

#[tokio::test]
async fn with_every_namespace_deleted_a_start_is_enough_as_well() {
    let (world, table, config) = small_world().await.unwrap();
    let mut host = world.host_with(&config).unwrap();
    let before = world.caught_up(&table, &mut host).await.unwrap();
    asked(&world, "DELETE", "checkpoints", &json!({})).await;
    asked(&world, "DELETE", &before.namespace, &json!({})).await;
    change(&world, &table).await;
    ended(host).await.assert(1, &["error[checkpoint-lost]"]);
    let mut host = world.host_with(&config).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
}

#[tokio::test]
async fn a_control_namespace_of_something_else_is_refused_and_left_alone() {
    let foreign = [
        json!({"upsert_rows": [{"id": 7}]}),
        json!({"upsert_rows": [{"id": "a", "digest": 1}]}),
        json!({"upsert_rows": [{"id": "a", "active": ["x"]}]}),
        json!({
            "upsert_rows": [{"id": "a", "vector": [0.1, 0.2]}],
            "distance_metric": "cosine_distance",
        }),
    ];
    for namespace in foreign {
        let (world, table, config) = small_world().await.unwrap();
        asked(&world, "POST", "taken", &namespace).await;
        let before = documents(&world, "taken").await;
        let taken = edited(&config, "\"checkpoints\"", "\"taken\"");
        let says = [
            "error[sink-permanent]",
            "(schema-conflict)",
            "namespace `taken`",
            "set `control_namespace` to another name",
        ];
        refused(&world, &taken, 1, &says).await;
        assert_eq!(documents(&world, "taken").await, before);
        let mut host = world.host_with(&config).unwrap();
        world.caught_up(&table, &mut host).await.unwrap();
    }
}

#[tokio::test]
async fn a_document_of_something_else_with_the_sink_id_is_refused_and_left_alone() {
    let (world, table, config) = small_world().await.unwrap();
    let foreign = json!({"upsert_rows": [{"id": "e2e", "checkpoint": "mine"}]});
    asked(&world, "POST", "taken", &foreign).await;
    let before = documents(&world, "taken").await;
    let taken = edited(&config, "\"checkpoints\"", "\"taken\"");
    let says = [
        "(damaged-checkpoint)",
        "set `control_namespace` to another name",
    ];
    refused(&world, &taken, 1, &says).await;
    assert_eq!(documents(&world, "taken").await, before);
    let mut host = world.host_with(&config).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
}

#[tokio::test]
async fn a_namespace_called_like_the_base_name_is_nobodys_business() {
    let (world, table, config) = small_world().await.unwrap();
    let foreign = json!({"upsert_rows": [{"id": 7, "v": 1, "deleted": "no"}]});
    asked(&world, "POST", "e2e", &foreign).await;
    let before = documents(&world, "e2e").await;
    let mut host = world.host_with(&config).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
    assert_eq!(documents(&world, "e2e").await, before);
}

#[tokio::test]
async fn a_namespace_deleted_and_made_again_with_other_types_is_told_and_started_again() {
    let (world, table, config) = small_world().await.unwrap();
    let mut host = world.host_with(&config).unwrap();
    let before = world.caught_up(&table, &mut host).await.unwrap();
    host.terminate().unwrap();
    ended(host).await;
    asked(&world, "DELETE", &before.namespace, &json!({})).await;
    let foreign = json!({"upsert_rows": [{"id": "a", "v": 1}]});
    asked(&world, "POST", &before.namespace, &foreign).await;
    change(&world, &table).await;
    let says = ["(schema-conflict)", "attribute `v`", START_AGAIN];
    ended(world.host_with(&config).unwrap())
        .await
        .assert(1, &says);
    delete_document(&world).await;
    let mut host = world.host_with(&config).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
}

#[tokio::test]
async fn a_changed_type_is_told_and_works_again_when_it_is_put_back() {
    let (world, table, config) = small_world().await.unwrap();
    let mut host = world.host_with(&config).unwrap();
    let before = world.caught_up(&table, &mut host).await.unwrap();
    host.terminate().unwrap();
    ended(host).await;
    change(&world, &table).await;
    for setting in ["types = { k = \"string\" }", "id_type = \"uint\""] {
        let host = world.host_with(&format!("{config}{setting}\n")).unwrap();
        let says = ["(schema-conflict)", "put it back", START_AGAIN];
        ended(host).await.assert(1, &says);
    }
    let mut host = world.host_with(&config).unwrap();
    let after = world.caught_up(&table, &mut host).await.unwrap();
    assert_eq!(after.namespace, before.namespace);
}

//! What an operator wants to happen when something is lost, changed or refused.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use e2e::{PATIENCE, Table, World, edited};
use materialize_sim::Control;
use serde_json::Value;
use turbopuffer_sim::{Fault, FaultRule, Match};

const COLUMNS: [(&str, &str); 2] = [("k", "int"), ("v", "text")];

const WHY: &str = "a real one is not broken on purpose";

/// The configuration with these settings of `[source]`.
fn source(config: &str, settings: &str) -> String {
    edited(config, "[source]\n", &format!("[source]\n{settings}\n"))
}

/// The table `t` in a schema of its own, as another schema has it too.
async fn swappable(world: &World, other_columns: &str) -> (Table, String) {
    let table = world.table(&COLUMNS).await.unwrap();
    let schema = format!("s_{}", table.name);
    world
        .sql(&[
            &format!("CREATE SCHEMA {schema}_a"),
            &format!("CREATE SCHEMA {schema}_b"),
            &format!("CREATE TABLE {schema}_a.t (k int, v text) WITH (RETAIN HISTORY FOR '1h')"),
            &format!("CREATE TABLE {schema}_b.t ({other_columns}) WITH (RETAIN HISTORY FOR '1h')"),
            &format!("INSERT INTO {schema}_a.t VALUES (1, 'a'), (2, 'b')"),
        ])
        .await
        .unwrap();
    let table = Table {
        name: format!("{schema}_a.t"),
        columns: COLUMNS.map(|(name, _)| name.into()).to_vec(),
    };
    (table, schema)
}

fn swap(control: &Control, schema: &str) {
    control
        .swap_schemas(&format!("{schema}_a"), &format!("{schema}_b"))
        .unwrap();
}

/// Loses the history that a host which is not running would need.
async fn lose_history(world: &World, control: &Control, table: &Table) {
    let now = world.now(table).await.unwrap();
    control.compact(&table.name, now).unwrap();
}

/// The lines of the dead-letter file.
fn dead_letters(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(world.file("dead-letters.jsonl")).unwrap_or_default();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn another_object_under_the_name_is_followed_only_on_demand() {
    let Some((world, control)) = World::controlled(WHY).await.unwrap() else {
        return;
    };
    let (table, schema) = swappable(&world, "k int, v text").await;
    let config = world.config(&table).unwrap();
    let mut host = world.host_with(&config).unwrap();
    let before = world.caught_up(&table, &mut host).await.unwrap();
    host.kill_9().unwrap();
    let insert = format!("INSERT INTO {schema}_b.t VALUES (2, 'other'), (3, 'c')");
    world.sql(&[&insert]).await.unwrap();
    swap(&control, &schema);

    let ended = world
        .host_with(&config)
        .unwrap()
        .end(PATIENCE)
        .await
        .unwrap();
    assert_eq!(ended.code, Some(1), "{}", ended.output);
    assert!(
        ended.output.contains("error[object-replaced]"),
        "{}",
        ended.output
    );

    let mut host = world
        .host_with(&source(&config, "refollow = true"))
        .unwrap();
    let after = world.caught_up(&table, &mut host).await.unwrap();
    assert_ne!(before.namespace, after.namespace);
    assert!(after.frontier > before.frontier);
}

#[tokio::test]
async fn a_worker_goes_over_to_what_was_swapped_in_when_the_old_object_is_dropped() {
    let Some((world, control)) = World::controlled(WHY).await.unwrap() else {
        return;
    };
    let (table, schema) = swappable(&world, "k int, v text").await;
    let config = source(&world.config(&table).unwrap(), "refollow = true");
    let mut host = world.host_with(&config).unwrap();
    let before = world.caught_up(&table, &mut host).await.unwrap();
    let insert = format!("INSERT INTO {schema}_b.t VALUES (2, 'other'), (3, 'c')");
    world.sql(&[&insert]).await.unwrap();
    swap(&control, &schema);
    control.drop_object(&format!("{schema}_b.t")).unwrap();
    let after = world.caught_up(&table, &mut host).await.unwrap();
    assert_ne!(before.namespace, after.namespace);
    assert_eq!(before.epoch, after.epoch, "{}", host.output());
}

#[tokio::test]
async fn columns_that_were_added_are_left_out_on_demand() {
    let Some((world, control)) = World::controlled(WHY).await.unwrap() else {
        return;
    };
    let (table, schema) = swappable(&world, "extra int, k int, v text").await;
    let config = source(&world.config(&table).unwrap(), "refollow = true");
    let mut host = world.host_with(&config).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
    host.kill_9().unwrap();
    let insert = format!("INSERT INTO {schema}_b.t VALUES (7, 2, 'other'), (8, 3, 'c')");
    world.sql(&[&insert]).await.unwrap();
    swap(&control, &schema);

    let ended = world
        .host_with(&config)
        .unwrap()
        .end(PATIENCE)
        .await
        .unwrap();
    assert!(
        ended.output.contains("error[schema-mismatch]"),
        "{}",
        ended.output
    );
    assert!(ended.output.contains("extra"), "{}", ended.output);

    let ignoring = source(&config, "on_new_columns = \"ignore\"");
    let mut host = world.host_with(&ignoring).unwrap();
    let now = world.now(&table).await.unwrap();
    let committed = world.committed(now, &mut host).await.unwrap();
    let documents = world.target.documents(&committed.namespace, false);
    let documents = documents.await.unwrap();
    assert_eq!(documents.len(), 2);
    assert!(documents.iter().all(|d| d.get("extra").is_none()));
    let output = host.output();
    assert_eq!(output.matches("columns were added").count(), 1, "{output}");
}

#[tokio::test]
async fn what_changed_while_the_history_was_lost_is_skipped_on_demand() {
    let Some((world, control)) = World::controlled(WHY).await.unwrap() else {
        return;
    };
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let config = world.config(&table).unwrap();
    let insert = |k: u32| format!("INSERT INTO {t} VALUES ({k}, 'v')");
    world.sql(&[&insert(1)]).await.unwrap();
    let mut host = world.host_with(&config).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
    host.kill_9().unwrap();
    world.sql(&[&insert(2)]).await.unwrap();
    lose_history(&world, &control, &table).await;

    let ended = world
        .host_with(&config)
        .unwrap()
        .end(PATIENCE)
        .await
        .unwrap();
    assert_eq!(ended.code, Some(3), "{}", ended.output);
    assert!(
        ended.output.contains("error[history-lost]"),
        "{}",
        ended.output
    );

    let skipping = source(&config, "on_history_loss = \"skip-to-now\"");
    let mut host = world.host_with(&skipping).unwrap();
    let now = world.now(&table).await.unwrap();
    world.committed(now, &mut host).await.unwrap();
    world.sql(&[&insert(3)]).await.unwrap();
    let now = world.now(&table).await.unwrap();
    let committed = world.committed(now, &mut host).await.unwrap();
    let documents = world.target.documents(&committed.namespace, false);
    let mut keys: Vec<_> = documents
        .await
        .unwrap()
        .iter()
        .map(|d| d["k"].clone())
        .collect();
    keys.sort_by_key(|key| key.as_i64());
    assert_eq!(keys, [1, 3]);
    let output = host.output();
    assert!(output.contains("never reaches the target"), "{output}");
}

#[tokio::test]
async fn a_batch_that_keeps_failing_becomes_dead_letters_on_demand() {
    let Some((world, _)) = World::controlled(WHY).await.unwrap() else {
        return;
    };
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let config = world.config(&table).unwrap();
    let config = edited(
        &config,
        "attempts = 10\n",
        "attempts = 3\non_failure = \"skip\"\n",
    );
    let mut host = world.host_with(&config).unwrap();
    let committed = world.caught_up(&table, &mut host).await.unwrap();
    world.turbopuffer.add_faults([FaultRule {
        matches: Match {
            method: Some("POST".into()),
            path: Some(format!("/v2/namespaces/{}", committed.namespace)),
            ..Match::default()
        },
        skip: 0,
        times: 4,
        fault: Fault {
            status: Some(503),
            ..Fault::default()
        },
    }]);
    let insert = format!("INSERT INTO {t} VALUES (1, 'given-up'), (2, 'too')");
    world.sql(&[&insert]).await.unwrap();
    let now = world.now(&table).await.unwrap();
    world.committed(now, &mut host).await.unwrap();
    let letters = dead_letters(&world);
    assert_eq!(letters.len(), 2, "{letters:?}\n{}", host.output());
    assert!(letters.iter().all(|l| l["category"] == "sink-retryable"));
    assert_eq!(letters[0]["change"]["row"]["v"], "given-up");
    assert_ne!(letters[0]["id"], letters[1]["id"]);
    let insert = format!("INSERT INTO {t} VALUES (3, 'after')");
    world.sql(&[&insert]).await.unwrap();
    let now = world.now(&table).await.unwrap();
    let committed = world.committed(now, &mut host).await.unwrap();
    let documents = world.target.documents(&committed.namespace, false);
    let documents = documents.await.unwrap();
    assert_eq!(documents.len(), 1);
    assert_eq!(documents[0]["v"], "after");
    let output = host.output();
    assert!(output.contains("a batch was given up"), "{output}");
    assert!(!output.contains("given-up"), "{output}");
}

#[tokio::test]
async fn a_bounded_run_ends_at_its_bound_and_a_later_one_goes_on_from_there() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let config = world.config(&table).unwrap();
    let insert = |k: u32| format!("INSERT INTO {t} VALUES ({k}, 'v')");
    world.sql(&[&insert(1)]).await.unwrap();
    let bound = world.now(&table).await.unwrap() + 2_000 * world.pace();
    let bounded = source(&config, &format!("up_to = {bound}"));
    let host = world.host_with(&bounded).unwrap();
    world.sql(&[&insert(2)]).await.unwrap();
    let ended = host.end(2 * PATIENCE).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    let committed = world.proof(&table, None).await.unwrap();
    assert_eq!(committed.frontier, bound);

    world.sql(&[&insert(3)]).await.unwrap();
    let ended = world
        .host_with(&bounded)
        .unwrap()
        .end(PATIENCE)
        .await
        .unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    let again = world.target.committed().await.unwrap().unwrap();
    assert_eq!((again.frontier, again.epoch), (bound, committed.epoch));

    let mut host = world.host_with(&config).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
    // One that has nothing to do does not stop one that has.
    let before = world.host_with(&bounded).unwrap();
    let ended = before.end(PATIENCE).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    world.sql(&[&insert(4)]).await.unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
}

#[tokio::test]
async fn a_first_run_that_is_to_end_before_now_is_refused_and_takes_nothing() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let long_ago = world.now(&table).await.unwrap() - 60_000;
    let config = world.config(&table).unwrap();
    let config = source(&config, &format!("up_to = {long_ago}"));
    let host = world.host_with(&config).unwrap();
    let ended = host.end(PATIENCE).await.unwrap();
    ended.assert(1, &["error[up-to-passed]", "choose a later time"]);
    assert!(world.target.committed().await.unwrap().is_none());
}

#[tokio::test]
async fn a_key_of_several_rows_is_a_dead_letter_or_the_end() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let config = world.config(&table).unwrap();
    let mut host = world.host_with(&config).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
    let twice = format!("INSERT INTO {t} VALUES (1, 'one'), (1, 'other'), (2, 'b')");
    world.sql(&[&twice]).await.unwrap();
    let now = world.now(&table).await.unwrap();
    world.committed(now, &mut host).await.unwrap();
    let letters = dead_letters(&world);
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0]["category"], "key-violation");
    assert_eq!(letters[0]["change"]["row"]["k"], 1);
    host.kill_9().unwrap();

    let stalling = source(&config, "on_key_violation = \"stall\"");
    let mut host = world.host_with(&stalling).unwrap();
    let now = world.now(&table).await.unwrap();
    world.committed(now, &mut host).await.unwrap();
    let twice = format!("INSERT INTO {t} VALUES (5, 'one'), (5, 'other')");
    world.sql(&[&twice]).await.unwrap();
    let ended = host.end(PATIENCE).await.unwrap();
    assert_eq!(ended.code, Some(3), "{}", ended.output);
    assert!(
        ended.output.contains("error[key-violation]"),
        "{}",
        ended.output
    );
}

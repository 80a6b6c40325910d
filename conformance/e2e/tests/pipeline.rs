//! What is in Materialize arrives in turbopuffer, whatever happens on the way.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::{PATIENCE, Random, World, edited};
use materialize_sim::Control;
use serde_json::Value;
use turbopuffer_sim::{Fault, FaultRule, Match};

const COLUMNS: [(&str, &str); 2] = [("k", "int"), ("v", "text")];

/// Every SUBSCRIBE that the simulator got so far.
fn subscriptions(control: &Control) -> Vec<String> {
    let mut statements = control.statements();
    statements.retain(|sql| sql.contains("SUBSCRIBE"));
    statements
}

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

/// Changes a table until told to stop.
async fn write(world: Arc<World>, table: String, mut random: Random, stop: Arc<AtomicBool>) -> u64 {
    let session = world.session().await.unwrap();
    let mut statements = 0;
    while !stop.load(Ordering::Relaxed) {
        let (k, v) = (random.below(40), random.below(1_000_000));
        let sql = match random.below(4) {
            0 => format!("DELETE FROM {table} WHERE k = {k}"),
            1 => format!("UPDATE {table} SET v = 'u{v}' WHERE k = {k}"),
            // The key stays unique: the old row goes first.
            _ => {
                let delete = format!("DELETE FROM {table} WHERE k = {k}");
                session.query(&delete).await.unwrap();
                format!("INSERT INTO {table} VALUES ({k}, 'i{v}')")
            }
        };
        session.query(&sql).await.unwrap();
        statements += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    statements
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_crashes_at_random_points_lose_and_invent_nothing() {
    let world = Arc::new(World::start().await.unwrap());
    let table = world.table(&COLUMNS).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut random = Random::new();
    let writer = tokio::spawn(write(
        world.clone(),
        table.name.clone(),
        random.fork(),
        stop.clone(),
    ));
    let mut last = None;
    for _ in 0..20 {
        let host = world.host(&table).unwrap();
        // Some are killed while they start, most in the middle of writes.
        let life = Duration::from_millis(50 + random.below(700));
        tokio::time::sleep(life).await;
        let ended = host.kill_9().unwrap();
        assert_eq!(ended.code, None, "it ended by itself: {}", ended.output);
        let committed = world.target.committed().await.unwrap();
        let frontiers = [&last, &committed].map(|c| c.as_ref().map_or(0, |c| c.frontier));
        assert!(frontiers[0] <= frontiers[1], "{frontiers:?}");
        last = committed;
    }
    assert!(last.is_some(), "nothing was committed in twenty lives");
    stop.store(true, Ordering::Relaxed);
    assert!(writer.await.unwrap() > 50, "the writer hardly wrote");
    let mut host = world.host(&table).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
    if let Some(control) = world.control() {
        let resumed = |sql: &String| sql.contains("SNAPSHOT = false");
        let subscriptions = subscriptions(&control);
        let mut after = subscriptions.iter().skip_while(|sql| !resumed(sql));
        assert!(after.all(resumed), "{subscriptions:#?}");
    }
}

#[tokio::test]
async fn a_restart_resumes_at_the_frontier_without_the_snapshot() {
    let why = "the statements of a real one are not seen";
    let Some((world, control)) = World::controlled(why).await.unwrap() else {
        return;
    };
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let insert = |k: u32| format!("INSERT INTO {t} VALUES ({k}, 'v')");
    world.sql(&[&insert(1)]).await.unwrap();
    let mut host = world.host(&table).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
    assert_eq!(subscriptions(&control).len(), 1);
    for restart in 1..4 {
        host.kill_9().unwrap();
        let committed = world.target.committed().await.unwrap().unwrap();
        world.sql(&[&insert(1 + restart)]).await.unwrap();
        host = world.host(&table).unwrap();
        let after = world.caught_up(&table, &mut host).await.unwrap();
        assert_eq!(after.namespace, committed.namespace);
        assert!(after.epoch > committed.epoch);
        let subscriptions = subscriptions(&control);
        assert_eq!(subscriptions.len(), 1 + restart as usize);
        let as_of = committed.frontier - 1;
        let end = format!("SNAPSHOT = false) AS OF {as_of}");
        let last = subscriptions.last().unwrap();
        assert!(last.ends_with(&end), "{last} does not end with {end}");
    }
}

#[tokio::test]
async fn of_two_workers_the_older_is_fenced_and_the_target_stays_right() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    world
        .sql(&[&format!("INSERT INTO {t} VALUES (1, 'a')")])
        .await
        .unwrap();
    let mut older = world.host(&table).unwrap();
    let before = world.caught_up(&table, &mut older).await.unwrap();
    let mut newer = world.host(&table).unwrap();
    let insert = format!("INSERT INTO {t} VALUES (2, 'b')");
    world.sql(&[&insert]).await.unwrap();
    let ended = older.end(PATIENCE).await.unwrap();
    assert_eq!(ended.code, Some(3), "{}", ended.output);
    assert!(ended.output.contains("fenced"), "{}", ended.output);
    assert!(ended.output.contains("Run one worker"), "{}", ended.output);
    world
        .sql(&[&format!("DELETE FROM {t} WHERE k = 1")])
        .await
        .unwrap();
    let after = world.caught_up(&table, &mut newer).await.unwrap();
    assert!(after.epoch > before.epoch);
    assert_eq!(after.namespace, before.namespace);
}

#[tokio::test]
async fn sigterm_commits_what_is_in_flight_and_ends_with_0() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let mut host = world.host(&table).unwrap();
    let before = world.caught_up(&table, &mut host).await.unwrap();
    world.turbopuffer.add_faults([FaultRule {
        matches: Match {
            method: None,
            path_prefix: Some(format!("/v2/namespaces/{}", before.namespace)),
        },
        skip: 0,
        times: 1,
        fault: Fault {
            delay_ms: 2000,
            ..Fault::default()
        },
    }]);
    world
        .sql(&[&format!("INSERT INTO {t} VALUES (7, 'late')")])
        .await
        .unwrap();
    let written = world.now().await.unwrap();
    // The write is on its way by then, and its answer is not.
    tokio::time::sleep(Duration::from_millis(700)).await;
    let during = world.target.committed().await.unwrap().unwrap();
    assert!(during.frontier <= written, "the write was not held up");
    host.terminate().unwrap();
    let ended = host.end(PATIENCE).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    let after = world.proof(&table, None).await.unwrap();
    let documents = world
        .target
        .documents(&after.namespace, false)
        .await
        .unwrap();
    assert_eq!(keys(&documents), ["7"]);
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
async fn a_lost_connection_is_made_again_without_the_snapshot() {
    let why = "the connections of a real one cannot be cut from here";
    let Some((world, control)) = World::controlled(why).await.unwrap() else {
        return;
    };
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let mut host = world.host(&table).unwrap();
    let before = world.caught_up(&table, &mut host).await.unwrap();
    for k in 0..3 {
        control.kill_connections();
        let insert = format!("INSERT INTO {t} VALUES ({k}, 'v')");
        world.sql(&[&insert]).await.unwrap();
        let after = world.caught_up(&table, &mut host).await.unwrap();
        assert_eq!(after.namespace, before.namespace);
    }
    let subscriptions = subscriptions(&control);
    assert_eq!(subscriptions.len(), 4, "{subscriptions:#?}");
    let again = &subscriptions[1..];
    assert!(
        again.iter().all(|sql| sql.contains("SNAPSHOT = false")),
        "{again:#?}"
    );
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
    let now = world.now().await.unwrap();
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
    let now = world.now().await.unwrap();
    world.committed(now, &mut host).await.unwrap();
    let live = world
        .target
        .documents(&committed.namespace, false)
        .await
        .unwrap();
    assert_eq!(keys(&live), ["1", "2"]);
}

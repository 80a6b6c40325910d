//! However a run ends, the next one goes on where the last commit was.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::sync::Arc;
use std::time::Duration;

use e2e::{PATIENCE, Random, Traffic, World, change, edited};
use materialize_sim::Control;
use turbopuffer_sim::{Fault, FaultRule, Match};

const COLUMNS: [(&str, &str); 2] = [("k", "int"), ("v", "text")];

/// Every SUBSCRIBE that the simulator got so far.
fn subscriptions(control: &Control) -> Vec<String> {
    let mut statements = control.statements();
    statements.retain(|sql| sql.contains("SUBSCRIBE"));
    statements
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_crashes_at_random_points_lose_and_invent_nothing() {
    let world = Arc::new(World::start().await.unwrap());
    let table = world.table(&COLUMNS).await.unwrap();
    // Many small and slow requests, so that most crashes fall between two of one batch.
    let sink = "namespace = \"e2e\"\n";
    let small = format!("{sink}max_request_rows = 10\n");
    let config = edited(&world.config(&table).unwrap(), sink, &small);
    world.turbopuffer.add_faults([FaultRule {
        matches: Match {
            method: None,
            path_prefix: Some("/v2/namespaces/e2e-".into()),
            ..Match::default()
        },
        skip: 0,
        times: u64::MAX,
        fault: Fault {
            delay_ms: 3,
            ..Fault::default()
        },
    }]);
    let traffic = Arc::new(Traffic::default());
    let mut random = Random::new();
    let writer = tokio::spawn(change(
        world.clone(),
        table.name.clone(),
        random.fork(),
        traffic.clone(),
    ));
    let mut last = None;
    for _ in 0..20 {
        let host = world.host_with(&config).unwrap();
        // Some are killed while they start, most in the middle of writes.
        let life = Duration::from_millis(50 + random.below(700 * world.pace()));
        tokio::time::sleep(life).await;
        let ended = host.kill_9().unwrap();
        assert_eq!(ended.code, None, "it ended by itself: {}", ended.output);
        let committed = world.target.committed().await.unwrap();
        let frontiers = [&last, &committed].map(|c| c.as_ref().map_or(0, |c| c.frontier));
        assert!(frontiers[0] <= frontiers[1], "{frontiers:?}");
        last = committed;
    }
    assert!(last.is_some(), "nothing was committed in twenty lives");
    traffic.stop();
    assert!(
        writer.await.unwrap().unwrap() > 20,
        "the writer hardly wrote"
    );
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
            ..Match::default()
        },
        skip: 0,
        times: 1,
        fault: Fault {
            delay_ms: 2000 * world.pace(),
            ..Fault::default()
        },
    }]);
    world
        .sql(&[&format!("INSERT INTO {t} VALUES (7, 'late')")])
        .await
        .unwrap();
    let written = world.now(&table).await.unwrap();
    // The write is on its way by then, and its answer is not.
    tokio::time::sleep(Duration::from_millis(700 * world.pace())).await;
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
    assert_eq!(documents.len(), 1);
    assert_eq!(documents[0]["v"], "late");
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
async fn a_second_signal_ends_the_run_at_once() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let mut host = world.host(&table).unwrap();
    let before = world.caught_up(&table, &mut host).await.unwrap();
    let hang = Fault {
        hang: true,
        ..Fault::default()
    };
    world.turbopuffer.add_faults([FaultRule::next(hang)]);
    world.faulted(1, &mut host).await.unwrap();
    host.terminate().unwrap();
    while !host.output().contains("again to stop at once") {
        assert!(host.runs().unwrap(), "{}", host.output());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    host.terminate().unwrap();
    let ended = host.end(Duration::from_secs(5)).await.unwrap();
    assert_eq!(ended.code, Some(128 + 15), "{}", ended.output);
    let mut host = world.host(&table).unwrap();
    let after = world.caught_up(&table, &mut host).await.unwrap();
    assert_eq!(after.namespace, before.namespace);
}

#[tokio::test]
async fn an_object_that_is_dropped_ends_the_run_and_the_next_one_too() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let mut host = world.host(&table).unwrap();
    let before = world.caught_up(&table, &mut host).await.unwrap();
    world
        .sql(&[&format!("DROP TABLE {}", table.name)])
        .await
        .unwrap();
    let ended = host.end(PATIENCE).await.unwrap();
    ended.assert(
        1,
        &[
            "error[object-dropped]",
            "source.refollow",
            "use a new sink_id",
        ],
    );
    // The same name is not the same object.
    let create = format!(
        "CREATE TABLE {} (k int, v text) WITH (RETAIN HISTORY FOR '1h')",
        table.name
    );
    let insert = format!("INSERT INTO {} VALUES (1, 'other')", table.name);
    world.sql(&[&create, &insert]).await.unwrap();
    let ended = world.host(&table).unwrap().end(PATIENCE).await.unwrap();
    ended.assert(
        1,
        &[
            "error[object-replaced]",
            "source.refollow",
            "use a new sink_id",
        ],
    );
    let after = world.target.committed().await.unwrap().unwrap();
    assert_eq!(after.namespace, before.namespace);
    assert!(
        world
            .target
            .documents(&after.namespace, false)
            .await
            .unwrap()
            .is_empty()
    );
}

//! An answer that is lost after the request was applied costs nothing and commits nothing twice.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::time::Duration;

use e2e::{Table, World};
use turbopuffer_sim::{Fault, FaultRule, Match};

const COLUMNS: [(&str, &str); 2] = [("k", "int"), ("v", "text")];

/// Applied, and the answer lost or replaced.
fn faults() -> [Fault; 2] {
    [
        Fault {
            drop_after_apply: true,
            ..Fault::default()
        },
        Fault {
            status: Some(500),
            after_apply: true,
            ..Fault::default()
        },
    ]
}

/// A name that ends with `-` stands for all that begin so. The control namespace is named in
/// full: a read-back that is still on its way must not take the fault meant for the next write.
fn rule(namespace: &str, skip: u64, fault: Fault) -> FaultRule {
    let path = Some(format!("/v2/namespaces/{namespace}"));
    let (path_prefix, path) = match namespace.ends_with('-') {
        true => (path, None),
        false => (None, path),
    };
    FaultRule {
        matches: Match {
            method: Some("POST".into()),
            path_prefix,
            path,
        },
        skip,
        times: 1,
        fault,
    }
}

async fn world() -> (World, Table) {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let insert = format!("INSERT INTO {} VALUES (1, 'a'), (2, 'b')", table.name);
    world.sql(&[&insert]).await.unwrap();
    (world, table)
}

/// The fault happens to the first run's request with this number to namespaces called like this.
async fn while_loading(namespace: &str, skip: u64) {
    for fault in faults() {
        let (world, table) = world().await;
        let told = format!("{fault:?}");
        world.turbopuffer.add_faults([rule(namespace, skip, fault)]);
        let mut host = world.host(&table).unwrap();
        let faulted = world.faulted(1, &mut host).await.unwrap();
        assert!(
            !faulted[0].ends_with("/query"),
            "no write met it: {faulted:?}"
        );
        let first = world.caught_up(&table, &mut host).await.expect(&told);
        goes_on(&world, &table, &mut host, first.frontier).await;
        if let Some(control) = world.control() {
            let statements = control.statements();
            let snapshots = statements
                .iter()
                .filter(|sql| sql.contains("WITH (PROGRESS)"));
            assert_eq!(snapshots.count(), 1, "{told}");
        }
    }
}

async fn goes_on(world: &World, table: &Table, host: &mut e2e::Host, frontier: u64) {
    let t = &table.name;
    let insert = format!("INSERT INTO {t} VALUES (3, 'c')");
    let delete = format!("DELETE FROM {t} WHERE k = 1");
    world.sql(&[&insert, &delete]).await.unwrap();
    let next = world.caught_up(table, host).await.unwrap();
    assert!(next.frontier > frontier);
}

#[tokio::test]
async fn the_answer_to_the_creation_of_the_control_document_may_be_lost() {
    // The first request reads it.
    while_loading("checkpoints", 0).await;
}

#[tokio::test]
async fn the_answer_to_the_creation_of_a_namespace_may_be_lost() {
    while_loading("e2e-", 0).await;
}

#[tokio::test]
async fn the_answer_to_the_load_of_a_snapshot_may_be_lost() {
    while_loading("e2e-", 1).await;
}

#[tokio::test]
async fn the_answer_to_the_switch_to_a_snapshot_may_be_lost() {
    while_loading("checkpoints", 1).await;
}

/// The fault happens to the next requests to namespaces called like this, one by one.
async fn while_streaming(namespace: &str) {
    let (world, table) = world().await;
    let mut host = world.host(&table).unwrap();
    let mut last = world.caught_up(&table, &mut host).await.unwrap();
    for (round, fault) in faults().into_iter().cycle().take(6).enumerate() {
        world.turbopuffer.add_faults([rule(namespace, 0, fault)]);
        let insert = format!("INSERT INTO {} VALUES (1{round}, 'v')", table.name);
        world.sql(&[&insert]).await.unwrap();
        let faulted = world.faulted(round + 1, &mut host).await.unwrap();
        assert!(
            !faulted[round].ends_with("/query"),
            "no write met it: {faulted:?}"
        );
        let next = world.caught_up(&table, &mut host).await.unwrap();
        assert!(next.frontier > last.frontier);
        // It neither fenced itself nor began again.
        assert_eq!((next.epoch, &next.namespace), (last.epoch, &last.namespace));
        last = next;
    }
    host.terminate().unwrap();
    let ended = host.end(Duration::from_secs(10)).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.output);
}

#[tokio::test]
async fn the_answer_to_a_write_of_rows_may_be_lost() {
    while_streaming("e2e-").await;
}

#[tokio::test]
async fn the_answer_to_a_commit_may_be_lost() {
    while_streaming("checkpoints").await;
}

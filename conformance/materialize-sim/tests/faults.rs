//! What goes wrong on order, how a client is told, and that nothing is lost or made up by it.

mod support;

use std::time::Duration;

use materialize_sim::{Column, Control, Failure, Kind, Logins, Options, Server, TimeLimits};
use support::{
    Raw, code, connect, data, fetch_past, is_progress, prepared, rows, rows_then_error, server,
    server_with, subscribed, time,
};
use tokio_postgres::{Client, NoTls};

const T: &str = "CREATE TABLE t (id int, name text) WITH (RETAIN HISTORY FOR '1h')";
const INSERT: &str = "INSERT INTO t VALUES (1, 'a'), (2, 'b')";
const SUBSCRIBE: &str = "SUBSCRIBE t WITH (PROGRESS)";
const CONTENTS: [[&str; 3]; 2] = [["1", "1", "a"], ["1", "2", "b"]];
const HOUR_MS: u64 = 3_600_000;

/// A server with two rows in a table.
async fn with_table() -> (Server, Control, Client) {
    let server = server().await;
    let writer = prepared(&server, &[T, INSERT]).await;
    let control = server.control();
    (server, control, writer)
}

/// A FETCH that waits, on a subscription that has had its snapshot.
async fn waiting(server: &Server, control: &Control) -> tokio::task::JoinHandle<String> {
    let (client, _) = subscribed(server, SUBSCRIBE).await;
    let sql = "FETCH 1000000 c WITH (timeout = '60s')";
    let fetch = tokio::spawn(async move { rows_then_error(&client, sql).await.1 });
    while !control.statements().iter().any(|seen| seen == sql) {
        tokio::task::yield_now().await;
    }
    fetch
}

async fn login_error(server: &Server) -> String {
    let Err(error) = tokio_postgres::connect(&server.url(), NoTls).await else {
        panic!("the login was accepted");
    };
    code(&error)
}

/// The error of the first FETCH of a subscription.
async fn fetch_error(server: &Server, subscribe: &str) -> String {
    let declare = format!("DECLARE c CURSOR FOR {subscribe}");
    let client = prepared(server, &["BEGIN", &declare]).await;
    rows_then_error(&client, "FETCH ALL c").await.1
}

const NO_HISTORY: &str = "22000 could not find a valid timestamp for the query";

#[tokio::test]
async fn a_stream_can_be_cut_after_any_number_of_bytes() {
    let (server, control, _writer) = with_table().await;
    for bytes in [0, 1, 100, 333] {
        control.cut_next_subscription("t", bytes).unwrap();
        let mut raw = Raw::connect(&server).await;
        raw.query("BEGIN").await;
        raw.query(&format!("DECLARE c CURSOR FOR {SUBSCRIBE}"))
            .await;
        raw.send_query("FETCH 1000000 c WITH (timeout = '60s')")
            .await;
        assert_eq!(raw.bytes_to_the_end().await, bytes as usize);
    }
    let (_client, seen) = subscribed(&server, SUBSCRIBE).await;
    assert_eq!(data(&seen), CONTENTS, "only the next subscription is cut");
}

#[tokio::test]
async fn a_connection_can_be_cut_in_its_login() {
    let (server, control, _writer) = with_table().await;
    control.cut_next_connection(20);
    let raw = Raw::open(&server, &[("user", "materialize")]).await;
    assert_eq!(raw.bytes_to_the_end().await, 20);
    assert!(rows(&connect(&server).await, "SELECT 1").await.is_ok());
}

#[tokio::test]
async fn a_stopped_server_closes_everything_and_comes_back_with_its_history() {
    let (server, control, _writer) = with_table().await;
    let (client, seen) = subscribed(&server, SUBSCRIBE).await;
    let frontier = seen.iter().filter(|row| is_progress(row)).map(time).max();
    control.stop();
    let error = rows(&client, "FETCH ALL c").await.unwrap_err();
    assert!(error.as_db_error().is_none(), "it says nothing");
    assert!(tokio_postgres::connect(&server.url(), NoTls).await.is_err());
    let row = vec![Some("3".to_owned()), None];
    control.apply("t", vec![(row, 1)]).unwrap();
    control.start();
    let resume = format!(
        "SUBSCRIBE t WITH (PROGRESS, SNAPSHOT = false) AS OF {}",
        frontier.unwrap() - 1
    );
    let (_client, rest) = subscribed(&server, &resume).await;
    assert_eq!(data(&rest), [["1", "3", "NULL"]]);
}

#[tokio::test]
async fn credentials_expire_in_a_running_fetch_and_at_the_next_login() {
    let (server, control, _writer) = with_table().await;
    let fetch = waiting(&server, &control).await;
    control.end_sessions(Failure::authentication_expired());
    assert_eq!(fetch.await.unwrap(), "28000 authentication expired");
    assert!(rows(&connect(&server).await, "SELECT 1").await.is_ok());
    for (failure, told) in [
        (
            Failure::authentication_expired(),
            "28000 authentication expired",
        ),
        (
            Failure::no_upstream(),
            "08004 upstream server not available",
        ),
    ] {
        control.set_logins(Logins::Refused(failure));
        assert_eq!(login_error(&server).await, told);
    }
    control.set_logins(Logins::Accepted);
    assert!(rows(&connect(&server).await, "SELECT 1").await.is_ok());
}

#[tokio::test]
async fn every_running_statement_can_be_cancelled() {
    let (server, control, _writer) = with_table().await;
    let fetch = waiting(&server, &control).await;
    control.cancel_statements();
    let told = "57014 canceling statement due to user request";
    assert_eq!(fetch.await.unwrap(), told);
}

#[tokio::test]
async fn a_failure_of_running_subscriptions_does_not_touch_new_ones() {
    let (server, control, _writer) = with_table().await;
    for (failure, told) in [
        (Failure::fell_behind(), "53200 SUBSCRIBE fell behind"),
        (
            Failure::fell_behind_as_internal_error(),
            "XX000 SUBSCRIBE fell behind",
        ),
        (
            Failure::relation_dropped_on_later_versions("materialize.public.t"),
            "42704 relation 'materialize.public.t' was dropped",
        ),
    ] {
        let fetch = waiting(&server, &control).await;
        control.fail_subscriptions("t", failure).unwrap();
        let error = fetch.await.unwrap();
        assert!(error.starts_with(told), "{error}");
        let (_client, seen) = subscribed(&server, SUBSCRIBE).await;
        assert_eq!(data(&seen), CONTENTS);
    }
}

#[tokio::test]
async fn a_client_that_leaves_too_much_unread_has_fallen_behind() {
    let (server, control, writer) = with_table().await;
    let (slow, _) = subscribed(&server, SUBSCRIBE).await;
    control.set_max_buffered_bytes(Some(100_000));
    let insert = "INSERT INTO t SELECT g, repeat('y', 2000) FROM generate_series(1, 100) g";
    writer.batch_execute(insert).await.unwrap();
    let (seen, error) = rows_then_error(&slow, "FETCH ALL c").await;
    assert!(error.starts_with("53200 SUBSCRIBE fell behind"), "{error}");
    assert!(seen.is_empty());
    let (_client, seen) = subscribed(&server, SUBSCRIBE).await;
    assert_eq!(data(&seen).len(), 102);
}

#[tokio::test]
async fn a_poisoned_dataflow_tells_as_of_and_fails_until_it_is_cured() {
    let (server, control, _writer) = with_table().await;
    let fetch = waiting(&server, &control).await;
    let poison = Failure::new("XX000", "Evaluation error: division by zero");
    control.poison("t", poison).unwrap();
    let told = "XX000 Evaluation error: division by zero";
    assert_eq!(fetch.await.unwrap(), told);
    for _ in 0..2 {
        let declare = format!("DECLARE c CURSOR FOR {SUBSCRIBE}");
        let client = prepared(&server, &["BEGIN", &declare]).await;
        let (seen, error) = rows_then_error(&client, "FETCH ALL c").await;
        assert_eq!((seen.len(), &*error), (1, told));
        assert!(is_progress(&seen[0]));
    }
    let error = rows(&connect(&server).await, "SELECT * FROM t").await;
    assert_eq!(
        code(&error.unwrap_err()),
        told,
        "a SELECT fails like a SUBSCRIBE"
    );
    control.cure("t").unwrap();
    let (_client, seen) = subscribed(&server, SUBSCRIBE).await;
    assert_eq!(data(&seen), CONTENTS);
}

#[tokio::test]
async fn a_snapshot_over_the_limit_fails_every_time() {
    let (server, control, writer) = with_table().await;
    control.set_max_result_size(Some(1 << 20));
    let insert = "INSERT INTO t SELECT g, repeat('y', 20000) FROM generate_series(1, 100) g";
    writer.batch_execute(insert).await.unwrap();
    for _ in 0..2 {
        let told = "XX000 result exceeds max size of 1.0 MiB";
        assert_eq!(fetch_error(&server, SUBSCRIBE).await, told);
    }
    control.set_max_result_size(None);
    let (_client, seen) = subscribed(&server, SUBSCRIBE).await;
    assert_eq!(data(&seen).len(), 102);
}

#[tokio::test]
async fn compacted_history_is_gone_whatever_the_retention_becomes() {
    let (server, control, _writer) = with_table().await;
    let created = control.read_frontier("t").unwrap();
    let resume = format!("SUBSCRIBE t WITH (PROGRESS, SNAPSHOT = false) AS OF {created}");
    subscribed(&server, &resume).await;
    let frontier = control.frontier("t").unwrap().unwrap();
    control.set_clock(Some(frontier + 10_000));
    control.set_retention("t", 1000).unwrap();
    assert_eq!(fetch_error(&server, &resume).await, NO_HISTORY);
    control.set_retention("t", HOUR_MS).unwrap();
    assert_eq!(fetch_error(&server, &resume).await, NO_HISTORY);
    let since = control.read_frontier("t").unwrap();
    control.compact("t", since + 500).unwrap();
    assert_eq!(control.read_frontier("t").unwrap(), since + 500);
    control.compact("t", u64::MAX).unwrap();
    let latest = control.frontier("t").unwrap().unwrap() - 1;
    assert_eq!(control.read_frontier("t").unwrap(), latest);
}

#[tokio::test]
async fn an_index_made_later_breaks_the_resume_and_not_the_running_stream() {
    let (server, control, writer) = with_table().await;
    let created = control.read_frontier("t").unwrap();
    let (client, seen) = subscribed(&server, SUBSCRIBE).await;
    let frontier = seen.iter().map(time).max().unwrap();
    control.set_clock(Some(frontier + 10_000));
    control.create_index("t", "quickstart").unwrap();
    writer
        .batch_execute("DELETE FROM t WHERE id = 1")
        .await
        .unwrap();
    let rest = fetch_past(&client, frontier + 10_000).await;
    assert_eq!(data(&rest), [["-1", "1", "a"]]);
    let resume = format!("SUBSCRIBE t WITH (PROGRESS, SNAPSHOT = false) AS OF {created}");
    assert_eq!(fetch_error(&server, &resume).await, NO_HISTORY);
}

#[tokio::test]
async fn a_replacement_goes_on_as_changes_at_one_time_under_a_new_id() {
    let server = server().await;
    let control = server.control();
    let columns = vec![Column::new("k", "int").unwrap()];
    let value = |k: &str| vec![Some(k.to_owned())];
    let kind = Kind::MaterializedView;
    control.create("v", kind, columns, Some(HOUR_MS)).unwrap();
    control
        .apply("v", vec![(value("1"), 1), (value("2"), 1)])
        .unwrap();
    let (client, seen) = subscribed(&server, "SUBSCRIBE v WITH (PROGRESS)").await;
    let frontier = seen.iter().map(time).max().unwrap();
    control
        .replace("v", vec![(value("2"), 1), (value("3"), 1)], None)
        .unwrap();
    let rest = fetch_past(&client, frontier).await;
    assert_eq!(data(&rest), [["-1", "1"], ["1", "3"]]);
    let times: Vec<u64> = rest
        .iter()
        .filter(|row| !is_progress(row))
        .map(time)
        .collect();
    assert_eq!(times[0], times[1]);
    let catalog = "SELECT o.id, g.global_id, count(DISTINCT s.shard_id) FROM mz_objects o \
                   JOIN mz_internal.mz_object_global_ids g ON g.id = o.id \
                   JOIN mz_internal.mz_storage_shards s ON s.object_id = g.global_id \
                   WHERE o.name = 'v'";
    let found = rows(&connect(&server).await, catalog).await.unwrap();
    assert_eq!(found[0][0].as_deref(), Some("u2"));
    assert_eq!(
        found[0][2].as_deref(),
        Some("1"),
        "one shard for both global ids"
    );
    let client = prepared(&server, &["BEGIN"]).await;
    let old = "DECLARE c CURSOR FOR SUBSCRIBE [u1 AS \"d\".\"s\".\"v\"]";
    let error = client.batch_execute(old).await.unwrap_err();
    assert_eq!(code(&error), "XX000 invalid id u1");
}

#[tokio::test]
async fn swapped_schemas_exchange_names_and_keep_streams() {
    let server = server().await;
    let control = server.control();
    let value = |k: &str| vec![Some(k.to_owned())];
    for (schema, k) in [("blue", "1"), ("green", "2")] {
        let columns = vec![Column::new("k", "int").unwrap()];
        let name = format!("{schema}.o");
        control.create_table(&name, columns, None).unwrap();
        control.apply(&name, vec![(value(k), 1)]).unwrap();
    }
    let (client, seen) = subscribed(&server, "SUBSCRIBE blue.o WITH (PROGRESS)").await;
    control.swap_schemas("blue", "green").unwrap();
    control.apply("green.o", vec![(value("3"), 1)]).unwrap();
    let frontier = seen.iter().map(time).max().unwrap();
    assert_eq!(data(&fetch_past(&client, frontier).await), [["1", "3"]]);
    let (_client, seen) = subscribed(&server, "SUBSCRIBE blue.o WITH (PROGRESS)").await;
    assert_eq!(data(&seen), [["1", "2"]]);
    assert!(control.swap_schemas("blue", "nowhere").is_err());
}

#[tokio::test]
async fn a_silent_stream_and_a_lagging_object_lose_nothing_and_leave_others_alone() {
    let (server, control, writer) = with_table().await;
    let view = "CREATE MATERIALIZED VIEW v AS SELECT name, id + 10 AS more FROM t";
    writer.batch_execute(view).await.unwrap();
    let value = |id: &str| vec![Some(id.to_owned()), None];
    for (id, view_row) in [("3", "13"), ("4", "14")] {
        let (of_t, _) = subscribed(&server, SUBSCRIBE).await;
        let (of_v, seen) = subscribed(&server, "SUBSCRIBE v WITH (PROGRESS)").await;
        let before = seen.iter().map(time).max().unwrap();
        if id == "3" {
            control.stall_stream("v", true).unwrap();
        } else {
            control.hold_frontier("v", true).unwrap();
        }
        let held = control.frontier("v").unwrap().unwrap();
        let at = control.apply("t", vec![(value(id), 1)]).unwrap();
        let seen = fetch_past(&of_t, at).await;
        assert_eq!(data(&seen), [["1", id, "NULL"]]);
        let nothing = rows(&of_v, "FETCH ALL c WITH (timeout = '50ms')")
            .await
            .unwrap();
        assert!(data(&nothing).is_empty());
        assert!(
            nothing.iter().all(|row| time(row) <= held),
            "{held}: {nothing:?}"
        );
        control.stall_stream("v", false).unwrap();
        control.hold_frontier("v", false).unwrap();
        let seen = fetch_past(&of_v, before.max(at)).await;
        assert_eq!(data(&seen), [["1", "NULL", view_row]]);
        let changed = seen.iter().find(|row| !is_progress(row)).unwrap();
        assert_eq!(time(changed), at, "at its own time");
    }
}

#[tokio::test]
async fn a_catalog_without_a_replica_does_not_concern_subscriptions() {
    let (server, control, writer) = with_table().await;
    control.fail_catalog(Some(Failure::no_catalog_replica()));
    let error = rows(&writer, "SELECT id FROM mz_catalog.mz_objects").await;
    assert_eq!(
        code(&error.unwrap_err()),
        "0A000 CLUSTER \"mz_catalog_server\" has no replicas available to service request"
    );
    let (_client, seen) = subscribed(&server, SUBSCRIBE).await;
    assert_eq!(data(&seen), CONTENTS);
    control.fail_catalog(None);
    assert!(
        rows(&writer, "SELECT id FROM mz_catalog.mz_objects")
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_dropped_cluster_ends_what_runs_in_it() {
    let (server, control, _writer) = with_table().await;
    let fetch = waiting(&server, &control).await;
    control.drop_cluster("quickstart");
    assert_eq!(
        fetch.await.unwrap(),
        "XX000 subscribe has been terminated because underlying cluster \"quickstart\" was dropped"
    );
}

#[tokio::test]
async fn several_objects_are_read_at_one_time_that_a_transaction_holds_a_little_in_the_past() {
    let (server, control, writer) = with_table().await;
    writer
        .batch_execute("CREATE TABLE u (id int)")
        .await
        .unwrap();
    let now = control.frontier("u").unwrap().unwrap() + 5000;
    control.set_clock(Some(now));
    control
        .apply("u", vec![(vec![Some("7".to_owned())], 1)])
        .unwrap();
    control.set_serializable_lag(100);
    let begin = "BEGIN READ ONLY ISOLATION LEVEL SERIALIZABLE";
    let holder = prepared(&server, &[begin]).await;
    for table in ["t", "u"] {
        let sql = format!("SELECT mz_now() FROM {table} LIMIT 1");
        rows(&holder, &sql).await.unwrap();
    }
    let held = rows(&holder, "SELECT mz_now()").await.unwrap()[0][0].clone();
    let held: u64 = held.unwrap().parse().unwrap();
    assert!(held < now, "in the past");
    control.set_clock(Some(now + 60_000));
    let frontiers = "SELECT o.name FROM mz_internal.mz_frontiers f JOIN mz_objects o \
                     ON o.id = f.object_id WHERE f.read_frontier <= ";
    let frontiers = format!("{frontiers}{held} AND f.write_frontier > {held} ORDER BY 1");
    let readable = rows(&holder, &frontiers).await.unwrap();
    assert_eq!(readable, [[Some("t".to_owned())], [Some("u".to_owned())]]);
    for (table, snapshot) in [("t", 2), ("u", 0)] {
        let subscribe = format!("SUBSCRIBE {table} WITH (PROGRESS) AS OF {held}");
        let (_client, seen) = subscribed(&server, &subscribe).await;
        let at_once = seen
            .iter()
            .filter(|row| !is_progress(row) && time(row) == held);
        assert_eq!(at_once.count(), snapshot, "{table}");
    }
}

#[tokio::test]
async fn time_limits_can_follow_the_simulated_clock() {
    let server = server_with(Options {
        time_limits: TimeLimits::SimulatedClock,
        ..Options::default()
    })
    .await;
    let control = server.control();
    control.set_clock(Some(1_000_000));
    prepared(&server, &[T]).await;
    let (client, _) = subscribed(&server, SUBSCRIBE).await;
    let fetch = rows(&client, "FETCH 1000 c WITH (timeout = '1h')");
    let mut fetch = std::pin::pin!(fetch);
    let early = tokio::time::timeout(Duration::from_millis(50), &mut fetch).await;
    assert!(early.is_err(), "an hour has not passed");
    control.set_clock(Some(1_000_000 + HOUR_MS));
    assert_eq!(fetch.await.unwrap().len(), 1, "progress to the new time");
}

//! What a SUBSCRIBE promises.

mod support;

use std::time::{Duration, Instant};

use futures::StreamExt;
use materialize_sim::{BenchOptions, Column};
use support::{
    code, connect, data, fetch_past, is_progress, prepared, row, rows, rows_then_error, server,
    subscribed, time,
};

const T: &str = "CREATE TABLE t (id int NOT NULL, name text) WITH (RETAIN HISTORY FOR '1h')";

#[tokio::test]
async fn the_first_row_is_progress_at_as_of_and_the_snapshot_follows_at_that_time() {
    let server = server().await;
    prepared(&server, &[T, "INSERT INTO t VALUES (1, 'a'), (2, NULL)"]).await;
    let (_client, rows) = subscribed(&server, "SUBSCRIBE t WITH (PROGRESS)").await;
    assert!(is_progress(&rows[0]));
    assert_eq!(data(&rows), [["1", "2", "NULL"], ["1", "1", "a"]]);
    assert!(rows[1..3].iter().all(|row| time(row) == time(&rows[0])));
    assert!(is_progress(&rows[3]) && time(&rows[3]) > time(&rows[0]));
}

#[tokio::test]
async fn a_resume_without_the_snapshot_sends_only_what_came_after() {
    let server = server().await;
    let writer = prepared(&server, &[T, "INSERT INTO t VALUES (1, 'one'), (2, 'two')"]).await;
    let (_first, seen) = subscribed(&server, "SUBSCRIBE t WITH (PROGRESS)").await;
    let frontier = seen
        .iter()
        .filter(|r| is_progress(r))
        .map(time)
        .max()
        .unwrap();
    writer
        .batch_execute("INSERT INTO t VALUES (3, 'three')")
        .await
        .unwrap();
    writer
        .batch_execute("DELETE FROM t WHERE id = 1")
        .await
        .unwrap();
    let resume = format!(
        "SUBSCRIBE t WITH (PROGRESS, SNAPSHOT = false) AS OF {}",
        frontier - 1
    );
    let (_second, rows) = subscribed(&server, &resume).await;
    assert_eq!(time(&rows[0]), frontier - 1);
    assert_eq!(data(&rows), [["1", "3", "three"], ["-1", "1", "one"]]);
    assert!(
        server
            .control()
            .statements()
            .iter()
            .any(|sql| sql.contains("SNAPSHOT = false"))
    );
}

#[tokio::test]
async fn rows_are_seen_while_the_fetch_is_still_waiting() {
    let server = server().await;
    let writer = prepared(&server, &[T]).await;
    let (client, _) = subscribed(&server, "SUBSCRIBE t WITH (PROGRESS)").await;
    let stream = client
        .simple_query_raw("FETCH ALL c WITH (timeout = '60s')")
        .await
        .unwrap();
    let mut stream = std::pin::pin!(stream);
    writer
        .batch_execute("INSERT INTO t VALUES (7, 'now')")
        .await
        .unwrap();
    let started = Instant::now();
    loop {
        let message = stream.next().await.unwrap().unwrap();
        if row(&message).is_some_and(|row| row[2].as_deref() == Some("1")) {
            break;
        }
    }
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "the row waited for the timeout"
    );
}

#[tokio::test]
async fn rows_beyond_the_count_are_kept_for_the_next_fetch() {
    let server = server().await;
    prepared(
        &server,
        &[T, "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')"],
    )
    .await;
    let client = prepared(&server, &["BEGIN", "DECLARE c CURSOR FOR SUBSCRIBE t"]).await;
    assert_eq!(rows(&client, "FETCH 0 c").await.unwrap().len(), 0);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let one = rows(&client, "FETCH c").await.unwrap();
        assert_eq!(one.len(), 1);
        ids.push(one[0][2].clone().unwrap());
    }
    assert_eq!(ids, ["1", "2", "3"]);
}

#[tokio::test]
async fn lost_history_fails_the_first_fetch_and_not_the_declare() {
    let server = server().await;
    prepared(
        &server,
        &["CREATE TABLE s (id int)", "INSERT INTO s VALUES (1)"],
    )
    .await;
    let client = prepared(
        &server,
        &[
            "BEGIN",
            "DECLARE c CURSOR FOR SUBSCRIBE s WITH (PROGRESS, SNAPSHOT = false) AS OF 1000",
        ],
    )
    .await;
    let error = rows(&client, "FETCH ALL c").await.unwrap_err();
    assert_eq!(
        code(&error),
        "22000 could not find a valid timestamp for the query"
    );
    let detail = error.as_db_error().unwrap().detail().unwrap();
    assert!(
        detail.starts_with("Constraints:\nlower:\n  (Storage inputs: [u1]): ["),
        "{detail}"
    );
    let error = rows(&client, "FETCH ALL c").await.unwrap_err();
    assert!(code(&error).starts_with("25P02"), "{}", code(&error));
    client.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn an_index_in_the_cluster_shortens_the_history_to_a_second() {
    let server = server().await;
    let writer = prepared(&server, &[T]).await;
    let created = server.control().frontier("t").unwrap().unwrap();
    server.control().set_clock(Some(created + 60_000));
    let resume = format!("SUBSCRIBE t WITH (PROGRESS, SNAPSHOT = false) AS OF {created}");
    subscribed(&server, &resume).await;
    writer
        .batch_execute("CREATE DEFAULT INDEX ON t")
        .await
        .unwrap();
    let client = prepared(
        &server,
        &["BEGIN", &format!("DECLARE c CURSOR FOR {resume}")],
    )
    .await;
    let error = rows(&client, "FETCH ALL c").await.unwrap_err();
    assert!(
        error
            .as_db_error()
            .unwrap()
            .detail()
            .unwrap()
            .contains("Indexed inputs: [(u1, u2)]")
    );
}

#[tokio::test]
async fn an_unknown_name_or_id_fails_the_declare() {
    let server = server().await;
    for (target, expected) in [
        ("nope", "XX000 unknown catalog item 'nope'"),
        (
            "[u99999 AS \"materialize\".\"public\".\"i\"]",
            "XX000 invalid id u99999",
        ),
        (
            "[u1 AS i]",
            "42601 table name in square brackets must be fully qualified",
        ),
    ] {
        let client = prepared(&server, &["BEGIN"]).await;
        let declare = format!("DECLARE c CURSOR FOR SUBSCRIBE {target} WITH (PROGRESS)");
        let error = client.batch_execute(&declare).await.unwrap_err();
        assert_eq!(code(&error), expected);
    }
}

#[tokio::test]
async fn by_id_the_name_does_not_matter() {
    let server = server().await;
    let writer = prepared(&server, &[T, "INSERT INTO t VALUES (1, 'a')"]).await;
    let id = rows(&writer, "SELECT id FROM mz_objects WHERE name = 't'")
        .await
        .unwrap();
    let id = id[0][0].as_deref().unwrap();
    let subscribe = format!("SUBSCRIBE [{id} AS \"wrong\".\"names\".\"here\"] WITH (PROGRESS)");
    let (_client, rows) = subscribed(&server, &subscribe).await;
    assert_eq!(data(&rows), [["1", "1", "a"]]);
}

#[tokio::test]
async fn dropping_the_object_fails_a_running_fetch() {
    let server = server().await;
    prepared(&server, &[T]).await;
    let (client, _) = subscribed(&server, "SUBSCRIBE t WITH (PROGRESS)").await;
    let fetch = tokio::spawn(async move {
        rows_then_error(&client, "FETCH ALL c WITH (timeout = '60s')").await
    });
    server.control().drop_object("t").unwrap();
    let (_, error) = fetch.await.unwrap();
    assert_eq!(
        error,
        "XX000 subscribe has been terminated because underlying relation \"materialize.public.t\" was dropped"
    );
}

#[tokio::test]
async fn a_constant_collection_ends_without_another_progress_row() {
    let server = server().await;
    let values = "CREATE MATERIALIZED VIEW k AS VALUES (1, 'a'), (2, 'b')";
    prepared(&server, &[values]).await;
    let client = prepared(
        &server,
        &["BEGIN", "DECLARE c CURSOR FOR SUBSCRIBE k WITH (PROGRESS)"],
    )
    .await;
    let first = rows(&client, "FETCH ALL c WITH (timeout = '60s')")
        .await
        .unwrap();
    assert_eq!(data(&first), [["1", "1", "a"], ["1", "2", "b"]]);
    assert_eq!(first.iter().filter(|row| is_progress(row)).count(), 1);
    assert!(rows(&client, "FETCH ALL c").await.unwrap().is_empty());
}

#[tokio::test]
async fn up_to_ends_the_stream_below_its_time() {
    let server = server().await;
    let control = server.control();
    prepared(&server, &[T]).await;
    let now = control.frontier("t").unwrap().unwrap();
    control.set_clock(Some(now));
    let subscribe = format!("SUBSCRIBE t WITH (PROGRESS) UP TO {}", now + 100);
    let (client, _) = subscribed(&server, &subscribe).await;
    control
        .apply("t", vec![(vec![Some("1".into()), None], 1)])
        .unwrap();
    control.set_clock(Some(now + 100));
    control
        .apply("t", vec![(vec![Some("2".into()), None], 1)])
        .unwrap();
    let rest = rows(&client, "FETCH ALL c WITH (timeout = '60s')")
        .await
        .unwrap();
    assert_eq!(data(&rest), [["1", "1", "NULL"]]);
    assert!(rows(&client, "FETCH ALL c").await.unwrap().is_empty());
}

#[tokio::test]
async fn as_of_in_the_future_is_told_at_once_and_its_snapshot_comes_in_its_time() {
    let server = server().await;
    let control = server.control();
    prepared(&server, &[T, "INSERT INTO t VALUES (1, 'a')"]).await;
    let now = control.frontier("t").unwrap().unwrap() + 5000;
    control.set_clock(Some(now));
    let declare = format!(
        "DECLARE c CURSOR FOR SUBSCRIBE t WITH (PROGRESS) AS OF {}",
        now + 1000
    );
    let client = prepared(&server, &["BEGIN", &declare]).await;
    let first = rows(&client, "FETCH ALL c").await.unwrap();
    assert_eq!((first.len(), time(&first[0])), (1, now + 1000));
    control.set_clock(Some(now + 1001));
    let rest = rows(&client, "FETCH ALL c").await.unwrap();
    assert_eq!(data(&rest), [["1", "1", "a"]]);
    assert_eq!(time(&rest[0]), now + 1000);
}

#[tokio::test]
async fn the_last_timestamp_there_is_harms_nothing() {
    let server = server().await;
    let control = server.control();
    prepared(&server, &[T]).await;
    control
        .create_bench(
            "bench",
            BenchOptions {
                rows: 3,
                changes_per_second: 1,
            },
        )
        .unwrap();
    for object in ["t", "bench"] {
        let declare = format!(
            "DECLARE c CURSOR FOR SUBSCRIBE {object} WITH (PROGRESS) AS OF {}",
            u64::MAX
        );
        let client = prepared(&server, &["BEGIN", &declare]).await;
        let first = rows(&client, "FETCH ALL c WITH (timeout = '50ms')")
            .await
            .unwrap();
        assert_eq!((first.len(), time(&first[0])), (1, u64::MAX));
    }
}

#[tokio::test]
async fn equal_rows_are_one_row_with_their_net_multiplicity() {
    let server = server().await;
    prepared(
        &server,
        &[
            "CREATE TABLE m (v int)",
            "INSERT INTO m VALUES (1),(1),(1),(NULL)",
        ],
    )
    .await;
    let (client, first) = subscribed(&server, "SUBSCRIBE m WITH (PROGRESS)").await;
    assert_eq!(data(&first), [["1", "NULL"], ["3", "1"]]);
    let one = vec![Some("1".to_owned())];
    let changes = vec![
        (one.clone(), -3),
        (one.clone(), 1),
        (vec![None], 5),
        (vec![None], -5),
    ];
    let at = server.control().apply("m", changes).unwrap();
    assert_eq!(data(&fetch_past(&client, at).await), [["-2", "1"]]);
}

#[tokio::test]
async fn a_view_of_a_table_follows_it_and_can_choose_columns() {
    let server = server().await;
    let writer = prepared(
        &server,
        &[
            T,
            "CREATE MATERIALIZED VIEW v AS SELECT name FROM t",
            "INSERT INTO t VALUES (1, 'a'), (2, 'a')",
        ],
    )
    .await;
    let (_client, seen) = subscribed(&server, "SUBSCRIBE v WITH (PROGRESS)").await;
    assert_eq!(data(&seen), [["2", "a"]]);
    let error = writer.batch_execute("DROP TABLE t").await.unwrap_err();
    assert!(code(&error).starts_with("2BP01"));
    writer.batch_execute("DROP TABLE t CASCADE").await.unwrap();
    assert!(rows(&writer, "SELECT * FROM v").await.is_err());
}

#[tokio::test]
async fn the_contents_at_a_time_are_those_a_subscriber_has_added_up() {
    let server = server().await;
    let control = server.control();
    let columns = vec![Column::new("v", "int").unwrap()];
    control.create_table("f", columns, Some(3_600_000)).unwrap();
    let value = |v: &str| vec![Some(v.to_owned())];
    let first = control
        .apply("f", vec![(value("1"), 1), (value("2"), 1)])
        .unwrap();
    let second = control
        .apply("f", vec![(value("1"), -1), (value("2"), 2)])
        .unwrap();
    assert_eq!(
        control.fold("f", first).unwrap(),
        [(value("1"), 1), (value("2"), 1)].into()
    );
    assert_eq!(control.fold("f", second).unwrap(), [(value("2"), 3)].into());
    let client = connect(&server).await;
    let selected = rows(&client, &format!("SELECT * FROM f AS OF {first}"))
        .await
        .unwrap();
    assert_eq!(selected, [value("1"), value("2")]);
}

//! Recorded, grown and generated streams.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use std::collections::BTreeMap;

use materialize_sim::{BenchOptions, Control, ReplayOptions, Row, Server, Speed};
use support::{connect, fetch_past, is_progress, recordings, rows, server, subscribed, time};

const BOARD: &str = "market.auction_board";

async fn replaying(file: &str, rows: Option<u64>) -> (Server, Control) {
    let server = server().await;
    let control = server.control();
    let path = recordings().join("streams").join(file);
    control
        .replay(
            &path,
            ReplayOptions {
                speed: Speed::Max,
                rows,
            },
        )
        .unwrap();
    (server, control)
}

/// A keyed table kept up to date from upsert rows; the first `key` columns are the key.
fn apply(table: &mut BTreeMap<Row, Row>, rows: &[Row], key: usize) {
    for row in rows.iter().filter(|row| !is_progress(row)) {
        let values = row[3..].to_vec();
        match row[2].as_deref() {
            Some("upsert") => table.insert(values[..key].to_vec(), values),
            Some("delete") => table.remove(&values[..key]),
            other => panic!("unexpected state {other:?}"),
        };
    }
}

fn frontier(rows: &[Row]) -> u64 {
    rows.iter()
        .filter(|row| is_progress(row))
        .map(time)
        .max()
        .unwrap()
}

fn contents(table: &BTreeMap<Row, Row>) -> BTreeMap<Row, i64> {
    table.values().map(|row| (row.clone(), 1)).collect()
}

#[tokio::test]
async fn a_replay_sends_the_rows_of_the_recording_and_then_closes_them() {
    let (server, control) = replaying("auction_board.jsonl.gz", None).await;
    let end = control.recording_end(BOARD).unwrap().unwrap();
    let subscribe = format!("SUBSCRIBE {BOARD} ENVELOPE UPSERT (KEY (auction_id)) WITH (PROGRESS)");
    let (client, mut seen) = subscribed(&server, &subscribe).await;
    while frontier(&seen) < end {
        seen.extend(fetch_past(&client, 1).await);
    }
    let mut decoder = flate2::read::GzDecoder::new(
        std::fs::File::open(recordings().join("streams/auction_board.jsonl.gz")).unwrap(),
    );
    let mut text = String::new();
    std::io::Read::read_to_string(&mut decoder, &mut text).unwrap();
    let recorded: Vec<Row> = text
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        seen[..recorded.len()],
        recorded[..],
        "every row in its recorded order"
    );
    assert!(
        seen[recorded.len()..].iter().all(is_progress),
        "nothing but progress after the end"
    );
}

#[tokio::test]
async fn a_grown_stream_has_the_rows_asked_for_and_unique_keys() {
    let (server, control) = replaying("auction_board.jsonl.gz", Some(5000)).await;
    let end = control.recording_end(BOARD).unwrap().unwrap();
    let subscribe = format!("SUBSCRIBE {BOARD} ENVELOPE UPSERT (KEY (auction_id)) WITH (PROGRESS)");
    let (client, mut seen) = subscribed(&server, &subscribe).await;
    while frontier(&seen) < end {
        seen.extend(fetch_past(&client, 1).await);
    }
    assert!(seen.iter().filter(|row| !is_progress(row)).count() >= 5000);
    let times: Vec<u64> = seen.iter().map(time).collect();
    assert!(times.is_sorted(), "times never go back");
    let mut table = BTreeMap::new();
    apply(&mut table, &seen, 1);
    assert_eq!(contents(&table), control.fold(BOARD, end - 1).unwrap());
}

#[tokio::test]
async fn a_grown_stream_can_be_resumed_anywhere() {
    let (server, control) = replaying("auction_board.jsonl.gz", Some(3000)).await;
    let end = control.recording_end(BOARD).unwrap().unwrap();
    let keyed = "ENVELOPE UPSERT (KEY (auction_id)) WITH (PROGRESS";
    let mut table = BTreeMap::new();
    let mut resume = String::new();
    let mut at = 0;
    while at < end {
        let snapshot = if at == 0 { "" } else { ", SNAPSHOT = false" };
        let client = connect(&server).await;
        let declare =
            format!("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE {BOARD} {keyed}{snapshot}) {resume}");
        client.batch_execute(&declare).await.unwrap();
        let seen = rows(&client, "FETCH 701 c").await.unwrap();
        // Only what is below the last progress row counts as seen.
        at = frontier(&seen);
        let closed: Vec<Row> = seen.into_iter().filter(|row| time(row) < at).collect();
        apply(&mut table, &closed, 1);
        assert_eq!(
            contents(&table),
            control.fold(BOARD, at - 1).unwrap(),
            "at {at}"
        );
        resume = format!("AS OF {}", at - 1);
    }
    let (_client, again) = subscribed(
        &server,
        &format!("SUBSCRIBE {BOARD} {keyed}) AS OF {}", end - 1),
    )
    .await;
    let mut snapshot = BTreeMap::new();
    apply(&mut snapshot, &again, 1);
    assert_eq!(snapshot, table, "a snapshot at the end has all of it");
}

#[tokio::test]
async fn a_large_recorded_snapshot_with_a_composite_key_is_whole() {
    let (server, control) = replaying("order_lines.jsonl.gz", None).await;
    let name = "tpch.order_lines";
    let subscribe = format!(
        "SUBSCRIBE {name} ENVELOPE UPSERT (KEY (l_orderkey, l_linenumber)) WITH (PROGRESS)"
    );
    let (_client, seen) = subscribed(&server, &subscribe).await;
    let mut table = BTreeMap::new();
    apply(&mut table, &seen, 2);
    assert!(table.len() > 60_000);
    let end = control.recording_end(name).unwrap().unwrap();
    assert_eq!(contents(&table), control.fold(name, end - 1).unwrap());
}

#[tokio::test]
async fn a_recording_at_its_own_pace_does_not_run_ahead() {
    let server = server().await;
    let path = recordings().join("streams/auction_board.jsonl.gz");
    let options = ReplayOptions {
        speed: Speed::Times(20.0),
        rows: None,
    };
    server.control().replay(&path, options).unwrap();
    let (_client, seen) = subscribed(&server, &format!("SUBSCRIBE {BOARD} WITH (PROGRESS)")).await;
    let start = time(&seen[0]);
    assert!(
        frontier(&seen) < start + 60_000,
        "a minute cannot have passed"
    );
}

#[tokio::test]
async fn a_generated_table_equals_its_stream_with_and_without_an_envelope() {
    for (envelope, key) in [("", 0), ("ENVELOPE UPSERT (KEY (id))", 1)] {
        let server = server().await;
        let control = server.control();
        let options = BenchOptions {
            rows: 500,
            changes_per_second: 200,
        };
        control.create_bench("bench", options).unwrap();
        let subscribe = format!("SUBSCRIBE bench {envelope} WITH (PROGRESS)");
        let (client, mut seen) = subscribed(&server, &subscribe).await;
        let start = time(&seen[0]);
        while frontier(&seen) <= start + 1000 {
            seen.extend(fetch_past(&client, 1).await);
        }
        let at = frontier(&seen);
        let folded = if key == 1 {
            let mut table = BTreeMap::new();
            apply(&mut table, &seen, 1);
            contents(&table)
        } else {
            let mut counts: BTreeMap<Row, i64> = BTreeMap::new();
            for row in seen.iter().filter(|row| !is_progress(row)) {
                let diff: i64 = row[2].as_deref().unwrap().parse().unwrap();
                *counts.entry(row[3..].to_vec()).or_default() += diff;
            }
            counts.retain(|_, count| *count != 0);
            counts
        };
        assert_eq!(folded.len(), 500);
        assert_eq!(folded, control.fold("bench", at - 1).unwrap());
    }
}

#[tokio::test]
async fn what_is_no_recording_is_refused_with_the_line() {
    let server = server().await;
    let path = recordings().join("wire/by_id.jsonl");
    let error = server
        .control()
        .replay(&path, ReplayOptions::default())
        .unwrap_err();
    assert!(error.to_string().contains("line 1 is no header"), "{error}");
}

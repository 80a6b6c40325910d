//! The simulator beside a real server: the same statements, the same messages.
//!
//! Timestamps are left out of the comparison, and so is how often the clock ticked: progress
//! rows and the counts of a FETCH are not compared. `subscribe.rs` is about where those come.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use std::collections::HashMap;

use materialize_sim::{Column, Server};
use serde_json::{Value, json};
use support::{Raw, recorded, server};

/// What is compared of a list of messages.
fn normal(messages: &[Value]) -> Vec<Value> {
    let mut normal: Vec<Value> = Vec::new();
    for message in messages {
        let mut message = message.clone();
        let fields = message.as_object_mut().unwrap();
        for ignored in ["t", "conn", "dir"] {
            fields.remove(ignored);
        }
        if fields.contains_key("ParameterStatus") {
            continue;
        }
        if let Some(tag) = fields.get("CommandComplete").and_then(Value::as_str)
            && tag.starts_with("FETCH")
        {
            message = json!({"CommandComplete": "FETCH n"});
        } else if let Some(row) = fields.get_mut("DataRow").and_then(Value::as_array_mut)
            && row[0].as_str().is_some_and(|text| text.len() == 13)
        {
            row[0] = json!("time");
        }
        if let Some(detail) = message["ErrorResponse"]["D"].as_str() {
            // It holds timestamps, ids and dates, padded to one width.
            let words: String = detail
                .chars()
                .filter(|c| !c.is_ascii_digit() && *c != ' ')
                .collect();
            message["ErrorResponse"]["D"] = json!(words);
        }
        normal.push(message);
    }
    normal
}

/// Without the progress rows that a tick may or may not have put there.
fn without_progress(messages: &[Value]) -> Vec<Value> {
    let messages = normal(messages);
    messages
        .into_iter()
        .filter(|m| m["DataRow"][1] != "t")
        .collect()
}

/// The recorded timestamps are in no relation to this clock; AS OF one is meant to be too old.
fn long_ago(sql: &str) -> String {
    match sql.split_once("AS OF 17") {
        Some((before, _)) => format!("{before}AS OF 1000000000000"),
        None => sql.to_owned(),
    }
}

/// Sends what was sent in a scenario up to the query that starts with `until`.
async fn replay(scenario: &str, until: &str) {
    let server: Server = server().await;
    let lines = recorded(scenario);
    let mut connections: HashMap<String, Raw> = HashMap::new();
    let mut compared = 0;
    for (at, line) in lines.iter().enumerate() {
        let Some(sql) = line["query"].as_str() else {
            continue;
        };
        if sql.starts_with(until) {
            break;
        }
        let name = line["conn"].as_str().unwrap().to_owned();
        if !connections.contains_key(&name) {
            connections.insert(name.clone(), Raw::connect(&server).await);
        }
        let raw = connections.get_mut(&name).unwrap();
        let sql = &long_ago(sql);
        // A tenth of the time is enough for a clock that ticks a hundred times faster.
        let quicker = sql.replace("'1s'", "'100ms'").replace("'2s'", "'200ms'");
        let answer = raw
            .query(
                &quicker
                    .replace("'3s'", "'300ms'")
                    .replace("'5s'", "'500ms'"),
            )
            .await;
        let expected: Vec<Value> = lines[at + 1..]
            .iter()
            .take_while(|m| m["dir"] == "<")
            .cloned()
            .collect();
        assert_eq!(
            without_progress(&answer),
            without_progress(&expected),
            "{scenario}: {sql}"
        );
        compared += 1;
    }
    assert!(
        compared > 5,
        "{scenario}: only {compared} statements were compared"
    );
}

#[tokio::test]
async fn snapshot_then_stream() {
    replay("snapshot_then_stream", "-").await;
}

#[tokio::test]
async fn diff_multiplicity() {
    replay("diff_multiplicity", "-").await;
}

#[tokio::test]
async fn upsert_envelope_with_a_changed_key_and_key_violations() {
    replay(
        "upsert_envelope",
        "DECLARE c CURSOR FOR SUBSCRIBE u ENVELOPE DEBEZIUM",
    )
    .await;
}

#[tokio::test]
async fn constant_collection() {
    replay("constant_collection", "SELECT").await;
}

#[tokio::test]
async fn empty_table() {
    replay("empty_table", "-").await;
}

#[tokio::test]
async fn object_dropped() {
    replay("object_dropped", "SET cluster").await;
}

#[tokio::test]
async fn history_lost() {
    replay("history_lost", "-").await;
}

/// Every type: the columns as described, and every value as sent.
#[tokio::test]
async fn type_formats() {
    let lines = recorded("type_formats");
    let fetch = lines
        .iter()
        .position(|m| {
            m["query"]
                .as_str()
                .is_some_and(|sql| sql.starts_with("FETCH"))
        })
        .unwrap();
    let sent: Vec<Value> = lines[fetch + 1..]
        .iter()
        .take_while(|m| m["dir"] == "<")
        .cloned()
        .collect();
    let described = sent
        .iter()
        .find_map(|m| m["RowDescription"].as_array())
        .unwrap();
    let columns = described[3..]
        .iter()
        .map(|c| {
            let number = |key: &str| c[key].as_i64().unwrap();
            let (oid, typmod) = (number("oid") as u32, number("typmod") as i32);
            Column::exact(c["name"].as_str().unwrap(), "", oid, typmod)
        })
        .collect();
    let server = server().await;
    server.control().create_table("ty", columns, None).unwrap();
    let data = sent.iter().filter(|m| m["DataRow"][1] == "f");
    let changes: Vec<_> = data
        .map(|m| {
            (
                serde_json::from_value::<Vec<Option<String>>>(m["DataRow"].clone()).unwrap()[3..]
                    .to_vec(),
                1,
            )
        })
        .collect();
    assert!(changes.len() > 30);
    server.control().apply("ty", changes).unwrap();
    let mut raw = Raw::connect(&server).await;
    raw.query("BEGIN").await;
    raw.query("DECLARE c CURSOR FOR SUBSCRIBE ty WITH (PROGRESS)")
        .await;
    let got = raw.query("FETCH ALL c WITH (timeout = '200ms')").await;
    assert_eq!(normal(&got)[0], normal(&sent)[0], "the columns");
    let sorted = |messages: &[Value]| {
        let mut rows: Vec<String> = without_progress(messages)
            .iter()
            .map(Value::to_string)
            .collect();
        rows.sort();
        rows
    };
    assert_eq!(sorted(&got), sorted(&sent));
}

//! Clients for the tests: tokio-postgres, and a raw one that sees every message.
#![allow(dead_code, unused_imports, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "only tests use it")]

mod raw;

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt;
use materialize_sim::{Options, Server};
use serde_json::Value;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

pub use raw::{Raw, ends_answer};

/// One row: the text of each value.
pub type Row = Vec<Option<String>>;

/// A server whose clock ticks quickly.
pub async fn server() -> Server {
    server_with(Options::default()).await
}

pub async fn server_with(options: Options) -> Server {
    let options = Options {
        tick: Duration::from_millis(10),
        ..options
    };
    Server::start(options).await.unwrap()
}

pub async fn connect(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A client that has run these statements.
pub async fn prepared(server: &Server, statements: &[&str]) -> Client {
    let client = connect(server).await;
    for sql in statements {
        client.batch_execute(sql).await.unwrap();
    }
    client
}

/// The rows of a simple query.
pub async fn rows(client: &Client, sql: &str) -> Result<Vec<Row>, tokio_postgres::Error> {
    let messages = client.simple_query(sql).await?;
    Ok(messages.iter().filter_map(row).collect())
}

/// The rows a simple query sent before it failed, and its error.
pub async fn rows_then_error(client: &Client, sql: &str) -> (Vec<Row>, String) {
    let stream = client.simple_query_raw(sql).await.unwrap();
    let mut stream = std::pin::pin!(stream);
    let mut rows = Vec::new();
    loop {
        match stream.next().await {
            Some(Ok(message)) => rows.extend(row(&message)),
            Some(Err(error)) => return (rows, code(&error)),
            None => panic!("{sql} did not fail, it sent {} rows", rows.len()),
        }
    }
}

pub fn row(message: &SimpleQueryMessage) -> Option<Row> {
    let SimpleQueryMessage::Row(row) = message else {
        return None;
    };
    Some(
        (0..row.len())
            .map(|at| row.get(at).map(str::to_owned))
            .collect(),
    )
}

/// SQLSTATE and text of a server's error.
pub fn code(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} {}", error.code().code(), error.message()),
        None => error.to_string(),
    }
}

pub fn is_progress(row: &Row) -> bool {
    row[1].as_deref() == Some("t")
}

pub fn time(row: &Row) -> u64 {
    row[0].as_deref().unwrap().parse().unwrap()
}

/// Starts a subscription on a new connection and fetches until a progress row above AS OF.
pub async fn subscribed(server: &Server, subscribe: &str) -> (Client, Vec<Row>) {
    let client = connect(server).await;
    client.batch_execute("BEGIN").await.unwrap();
    client
        .batch_execute(&format!("DECLARE c CURSOR FOR {subscribe}"))
        .await
        .unwrap();
    let fetched = fetch_past(&client, 0).await;
    (client, fetched)
}

/// Fetches until a second progress row, one above `frontier`.
pub async fn fetch_past(client: &Client, frontier: u64) -> Vec<Row> {
    let mut all: Vec<Row> = Vec::new();
    loop {
        all.extend(rows(client, "FETCH ALL c").await.unwrap());
        let mut progress = all.iter().filter(|row| is_progress(row));
        let first = progress.next().map(time);
        let last = progress
            .next_back()
            .map(time)
            .or(first.filter(|_| frontier > 0));
        if last.is_some_and(|last| last > frontier) {
            return all;
        }
    }
}

/// The data rows without their times.
pub fn data(rows: &[Row]) -> Vec<Vec<&str>> {
    let data = rows.iter().filter(|row| !is_progress(row));
    data.map(|row| {
        row[2..]
            .iter()
            .map(|v| v.as_deref().unwrap_or("NULL"))
            .collect()
    })
    .collect()
}

pub fn recordings() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../recordings")
}

/// The lines of a recorded scenario.
pub fn recorded(scenario: &str) -> Vec<Value> {
    let path = recordings().join(format!("wire/{scenario}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|_| {
        // A large one is kept compressed.
        let file = std::fs::File::open(path.with_extension("jsonl.gz")).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(file)
            .read_to_string(&mut text)
            .unwrap();
        text
    });
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

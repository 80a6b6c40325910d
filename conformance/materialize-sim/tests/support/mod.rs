//! Clients for the tests: tokio-postgres, and a raw one that sees every message.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::path::PathBuf;
use std::time::Duration;

use bytes::BytesMut;
use futures::StreamExt;
use materialize_sim::{Options, Server};
use pgwire::messages::simplequery::Query;
use pgwire::messages::startup::Startup;
use pgwire::messages::{
    DecodeContext, Message as _, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

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
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A connection that shows every message in the form of the recordings.
pub struct Raw {
    socket: TcpStream,
    inbox: BytesMut,
    context: DecodeContext,
}

impl Raw {
    pub async fn connect(server: &Server) -> Self {
        let socket = TcpStream::connect(server.address()).await.unwrap();
        let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        context.awaiting_frontend_ssl = false;
        context.awaiting_frontend_startup = false;
        let mut raw = Self {
            socket,
            inbox: BytesMut::new(),
            context,
        };
        let mut startup = Startup::default();
        startup.protocol_number_minor = 0;
        startup
            .parameters
            .insert("user".to_owned(), "materialize".to_owned());
        let mut bytes = BytesMut::new();
        startup.encode(&mut bytes).unwrap();
        raw.socket.write_all(&bytes).await.unwrap();
        raw.until_ready().await;
        raw
    }

    pub async fn query(&mut self, sql: &str) -> Vec<Value> {
        self.send(PgWireFrontendMessage::Query(Query::new(sql.to_owned())))
            .await;
        self.until_ready().await
    }

    pub async fn send(&mut self, message: PgWireFrontendMessage) {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes).unwrap();
        self.socket.write_all(&bytes).await.unwrap();
    }

    /// Everything up to ReadyForQuery, or up to the end of the connection.
    pub async fn until_ready(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            while let Some(message) =
                PgWireBackendMessage::decode(&mut self.inbox, &self.context).unwrap()
            {
                let shown = show(message);
                let ready = shown.get("ReadyForQuery").is_some();
                all.push(shown);
                if ready {
                    return all;
                }
            }
            if self.socket.read_buf(&mut self.inbox).await.unwrap_or(0) == 0 {
                all.push(json!({"closed": true}));
                return all;
            }
        }
    }
}

fn show(message: PgWireBackendMessage) -> Value {
    let fields = |fields: &[(u8, String)]| -> Value {
        fields
            .iter()
            .map(|(k, v)| ((*k as char).to_string(), json!(v)))
            .collect()
    };
    match message {
        PgWireBackendMessage::RowDescription(m) => {
            json!({"RowDescription": m.fields.iter().map(|f| json!({
            "name": f.name, "table": f.table_id, "att": f.column_id, "oid": f.type_id,
            "typlen": f.type_size, "typmod": f.type_modifier, "fmt": f.format_code,
        })).collect::<Vec<_>>()})
        }
        PgWireBackendMessage::DataRow(m) => json!({"DataRow": values(&m.data, m.field_count)}),
        PgWireBackendMessage::CommandComplete(m) => json!({"CommandComplete": m.tag}),
        PgWireBackendMessage::ReadyForQuery(m) => {
            json!({"ReadyForQuery": (m.status as u8 as char).to_string()})
        }
        PgWireBackendMessage::ErrorResponse(m) => json!({"ErrorResponse": fields(&m.fields)}),
        PgWireBackendMessage::NoticeResponse(m) => json!({"NoticeResponse": fields(&m.fields)}),
        PgWireBackendMessage::ParameterStatus(m) => json!({"ParameterStatus": [m.name, m.value]}),
        other => json!({"other": format!("{other:?}")}),
    }
}

fn values(mut bytes: &[u8], count: i16) -> Vec<Option<String>> {
    let mut values = Vec::new();
    for _ in 0..count {
        let (length, rest) = bytes.split_first_chunk::<4>().unwrap();
        let length = i32::from_be_bytes(*length);
        let (text, rest) = rest.split_at(length.max(0) as usize);
        values.push((length >= 0).then(|| String::from_utf8(text.to_vec()).unwrap()));
        bytes = rest;
    }
    values
}

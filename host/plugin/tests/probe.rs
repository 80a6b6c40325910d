//! A real guest, built from Rust, that misbehaves on request.

mod support;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mz_sink_core::batch::{BatchInfo, BatchRows, PullError, SinkError};
use mz_sink_core::catalog::column_type;
use mz_sink_core::chunk::{Chunk, Value as CoreValue};
use mz_sink_core::decode::{Decoded, Decoder};
use mz_sink_core::json;
use mz_sink_core::types::{Column, Envelope, View};
use mz_sink_plugin::http::{HttpClient, HttpOptions, HttpPolicy, Secret};
use mz_sink_plugin::{Engine, EngineOptions, Limits, PluginOptions, PluginSink, SinkComponent};
use serde_json::Value;
use support::{Rows, view};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn probe(config: Value, limits: Limits, http: HttpClient) -> PluginSink {
    let guests = std::env::var_os("MZ_SINK_GUESTS")
        .map_or_else(|| workspace().join("target/guests"), PathBuf::from);
    let file = guests.join("probe.wasm");
    assert!(file.exists(), "run `cargo xtask guests` first");
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let component = SinkComponent::load(&engine, &file).expect("a sink");
    PluginSink::new(
        component,
        PluginOptions {
            limits,
            http,
            sink_id: "test".to_owned(),
            config_json: config.to_string(),
        },
    )
}

async fn write(config: Value, limits: Limits, http: HttpClient) -> Result<(), SinkError> {
    let mut sink = probe(config, limits, http);
    sink.open(&[view()]).await.expect("open");
    sink.write(Rows::of(&[1]), None, "next".to_owned()).await
}

async fn behave(behaviour: &str) -> Result<(), SinkError> {
    let limits = Limits {
        idle_timeout: Duration::from_millis(200),
        memory: 64 << 20,
        ..Limits::default()
    };
    let config = serde_json::json!({ "behaviour": behaviour });
    write(config, limits, HttpClient::deny_all()).await
}

fn code(result: Result<(), SinkError>) -> String {
    match result.expect_err("a failure") {
        SinkError::Trapped(f) => format!("trapped {}", f.code),
        SinkError::Limit(f) => format!("limit {} {}", f.code, f.message.contains("limits.memory")),
        SinkError::Permanent(f) => format!("permanent {}", f.code),
        SinkError::Retryable(f) => format!("retryable {:?}", f.retry_after_ms),
        SinkError::Unknown(f) => format!("unknown {}", f.code),
        SinkError::Conflict(found) => format!("conflict {found:?}"),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn every_way_to_fail_is_told_apart() {
    for (behaviour, expected) in [
        ("spin", "trapped no-progress"),
        ("allocate", "limit memory true"),
        ("trap", "trapped trap"),
        ("panic", "trapped trap"),
        ("permanent", "permanent probe"),
        ("retryable", "retryable Some(1234)"),
        ("unknown", "unknown probe"),
        ("conflict", "conflict Some(\"other\")"),
    ] {
        assert_eq!(code(behave(behaviour).await), expected, "{behaviour}");
    }
    assert_eq!(behave("ok").await, Ok(()));
    assert_eq!(behave("log-flood").await, Ok(()));
}

#[tokio::test]
async fn a_hostile_message_is_cut_and_cleaned() {
    match behave("hostile-message").await {
        Err(SinkError::Permanent(failure)) => {
            assert!(failure.message.len() <= 2048 && failure.code.len() <= 64);
            assert!(!failure.message.contains(char::is_control));
            assert!(!failure.code.contains(char::is_control));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn after_a_panic_or_a_limit_the_next_open_works_on_a_new_instance() {
    for behaviour in ["panic", "allocate"] {
        let limits = Limits {
            memory: 64 << 20,
            ..Limits::default()
        };
        let config = serde_json::json!({ "behaviour": behaviour });
        let mut sink = probe(config, limits, HttpClient::deny_all());
        for _ in 0..2 {
            assert_eq!(sink.open(&[view()]).await, Ok(None), "{behaviour}");
            let failed = sink.write(Rows::of(&[1]), None, "next".to_owned()).await;
            failed.expect_err(behaviour);
        }
    }
}

#[tokio::test]
async fn a_panic_in_open_is_told_at_each_open() {
    let config = serde_json::json!({ "behaviour": "panic", "at": "open" });
    let mut sink = probe(config, Limits::default(), HttpClient::deny_all());
    for _ in 0..2 {
        match sink.open(&[view()]).await {
            Err(SinkError::Trapped(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn housekeeping_and_reading_back_are_called_where_the_component_has_them() {
    let config = serde_json::json!({ "behaviour": "ok" });
    let mut sink = probe(config, Limits::default(), HttpClient::deny_all());
    assert_eq!(code(sink.maintain(7).await), "trapped not-open");
    sink.open(&[view()]).await.expect("open");
    assert_eq!(sink.maintain(7).await, Ok(()));
    let page = sink.read_back(0, None, 10).await.expect("a page");
    let page = page.expect("the probe reads back");
    assert_eq!(page.rows, r#"[{"after":null,"max":10,"view":0}]"#);
    let last = sink.read_back(0, page.next, 10).await.expect("a page");
    let last = last.expect("the probe reads back");
    assert_eq!(last.rows, r#"[{"after":[0,255],"max":10,"view":0}]"#);
    assert_eq!(last.next, None);
}

#[tokio::test]
async fn after_a_failure_in_housekeeping_the_sink_can_be_opened_again() {
    for (behaviour, expected) in [
        ("panic", "trapped trap"),
        ("permanent", "permanent probe"),
        ("retryable", "retryable Some(1234)"),
    ] {
        let config = serde_json::json!({ "behaviour": behaviour, "at": "maintain" });
        let mut sink = probe(config, Limits::default(), HttpClient::deny_all());
        sink.open(&[view()]).await.expect("open");
        assert_eq!(code(sink.maintain(7).await), expected);
        sink.open(&[view()]).await.expect("open");
        let written = sink.write(Rows::of(&[1]), None, "next".to_owned()).await;
        assert_eq!(written, Ok(()), "{behaviour}");
    }
}

#[tokio::test]
async fn http_that_is_not_granted_tells_the_guest_which_line_to_add() {
    let config = serde_json::json!({ "behaviour": "http", "url": "https://x.example/y" });
    match write(config, Limits::default(), HttpClient::deny_all()).await {
        Err(SinkError::Permanent(failure)) => {
            let line = "[grants] http = [\\\"https://x.example\\\"]";
            assert!(failure.message.contains(line), "{}", failure.message);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_flood_of_log_lines_is_cut_and_every_line_is_accounted_for_when_the_call_ends() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let limits = Limits {
        log_lines_per_second: 10,
        ..Limits::default()
    };
    let config = serde_json::json!({ "behaviour": "log-flood" });
    let mut sink = probe(config, limits, HttpClient::deny_all());
    sink.open(&[view()]).await.expect("open");
    let start = std::time::Instant::now();
    let written = sink.write(Rows::of(&[1]), None, "next".to_owned()).await;
    assert_eq!(written, Ok(()));
    let seconds = start.elapsed().as_secs() + 1;

    let (mut shown, mut dropped) = (0, 0);
    for line in lines.take() {
        if line["target"] == "sink" && line["level"] == "INFO" {
            shown += 1;
        }
        dropped += line["fields"]["dropped"].as_u64().unwrap_or(0);
    }
    assert!(shown >= 1 && shown <= 10 * seconds, "{shown} lines");
    assert_eq!(shown + dropped, 100_000);
}

/// What is logged, as JSON.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn take(&self) -> Vec<Value> {
        let bytes = std::mem::take(&mut *self.0.lock().expect("the lines"));
        let lines = serde_json::Deserializer::from_slice(&bytes).into_iter();
        lines.map(|line| line.expect("JSON")).collect()
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("the lines").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_sink_refuses_every_row_or_none_and_the_rest_is_committed() {
    let chunk = Arc::new(recorded().1);
    for (behaviour, expected) in [("reject", chunk.rows() as u64), ("ok", 0)] {
        let refused = Arc::new(Mutex::new(Vec::new()));
        let config = serde_json::json!({ "behaviour": behaviour });
        let mut sink = probe(config, Limits::default(), HttpClient::deny_all());
        sink.open(&[view()]).await.expect("open");
        let rows = Box::new(OneChunk {
            refused: refused.clone(),
            ..OneChunk::of(chunk.clone())
        });
        let written = sink.write(rows, None, "next".to_owned()).await;
        assert_eq!(written, Ok(()), "{behaviour}");
        assert_eq!(sink.checkpoint().await, Ok(Some("next".to_owned())));
        let refused = refused.lock().expect("the rows").clone();
        assert_eq!(refused, (0..expected).collect::<Vec<_>>(), "{behaviour}");
    }
}

#[tokio::test]
async fn a_secret_reaches_the_server_and_a_guest_only_sees_its_name_when_it_comes_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let received = tokio::spawn(receive(listener, true));
    let config = serde_json::json!({ "behaviour": "http", "url": url });
    match write(config, Limits::default(), granted(&url)).await {
        Err(SinkError::Permanent(failure)) => {
            let echo = failure.message;
            assert!(echo.contains("{{secret:probe}}"), "{echo}");
            assert!(!echo.contains("canary"), "{echo}");
        }
        other => panic!("{other:?}"),
    }
    let (head, _) = received.await.expect("a request");
    assert!(
        head.contains("authorization: Bearer canary-value"),
        "{head}"
    );
}

/// A client that may reach `url`, with the secret that the probe asks for.
fn granted(url: &str) -> HttpClient {
    HttpClient::new(HttpOptions {
        policy: HttpPolicy::parse(&[url.to_owned()], &[]).expect("a policy"),
        secrets: vec![Secret::new("probe".into(), "canary-value".into(), None).expect("a secret")],
        ..HttpOptions::default()
    })
    .expect("a client")
}

/// Takes one request, answers with its head or nothing, and gives its head and body back.
async fn receive(listener: TcpListener, echo: bool) -> (String, Vec<u8>) {
    let (mut socket, _) = listener.accept().await.expect("a connection");
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 65536];
    loop {
        let n = socket.read(&mut buffer).await.expect("a request");
        bytes.extend_from_slice(&buffer[..n]);
        let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8(bytes[..end].to_vec()).expect("a head");
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |n| n.parse().expect("a length"));
        if bytes.len() >= end + 4 + length {
            let text = if echo { &*head } else { "" };
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            );
            socket
                .write_all(answer.as_bytes())
                .await
                .expect("an answer");
            return (head, bytes[end + 4..].to_vec());
        }
    }
}

/// All rows of one chunk.
struct OneChunk {
    info: BatchInfo,
    chunk: Arc<Chunk>,
    taken: bool,
    refused: Arc<Mutex<Vec<u64>>>,
}

impl OneChunk {
    fn of(chunk: Arc<Chunk>) -> Self {
        Self {
            info: BatchInfo {
                lower: 1,
                upper: 2,
                committed: None,
                generation: 1,
                epoch: 1,
                rows: chunk.rows() as u64,
                bytes: 0,
                snapshot_of: Vec::new(),
            },
            chunk,
            taken: false,
            refused: Arc::default(),
        }
    }
}

impl BatchRows for OneChunk {
    fn info(&self) -> &BatchInfo {
        &self.info
    }
    fn next(&mut self, _: usize) -> Result<Option<(u64, Arc<Chunk>)>, PullError> {
        Ok((!std::mem::replace(&mut self.taken, true)).then(|| (0, self.chunk.clone())))
    }
    fn rewind(&mut self) {
        self.taken = false;
    }
    fn reject(&mut self, row: u64, _: &str, _: &str) -> Result<(), PullError> {
        self.refused.lock().expect("the rows").push(row);
        Ok(())
    }
}

/// Every row that a real server sent for a table with a column of each type.
fn recorded() -> (View, Chunk) {
    let path = workspace().join("conformance/recordings/wire/type_formats.jsonl");
    let text = std::fs::read_to_string(path).expect("the recording");
    let (mut names, mut rows, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for line in text.lines() {
        let message: Value = serde_json::from_str(line).expect("a message");
        if let (Some(described), true) = (message["RowDescription"].as_array(), names.is_empty()) {
            let name = |c: &Value| c["name"].as_str().unwrap_or_default().to_owned();
            names = described.iter().map(name).collect();
        }
        let Some(values) = message["DataRow"].as_array() else {
            continue;
        };
        let values: Vec<Option<String>> = values
            .iter()
            .map(|v| v.as_str().map(str::to_owned))
            .collect();
        if values.len() == names.len() {
            rows.push(values);
        } else if let [Some(name), Some(ty), _, Some(type_mod)] = values.as_slice() {
            columns.push(Column {
                name: name.clone(),
                ty: column_type(ty, type_mod.parse().expect("a type modifier")),
                nullable: true,
            });
        }
    }
    let view = View {
        name: "ty".to_owned(),
        columns,
        key: Vec::new(),
    };
    let decoder = Decoder::new(&view, Envelope::Diff, &names).expect("a decoder");
    let mut chunk = Chunk::new(0, view.columns.iter().map(|c| &c.ty));
    for row in &rows {
        let fields: Vec<_> = row
            .iter()
            .map(|v| v.as_deref().map(str::as_bytes))
            .collect();
        let decoded = decoder
            .decode(fields.as_slice(), &mut chunk)
            .expect("a row");
        assert!(matches!(decoded, Decoded::Change(_) | Decoded::Progress(_)));
    }
    assert!(chunk.rows() > 50 && view.columns.len() == 33);
    (view, chunk)
}

#[tokio::test]
async fn every_recorded_value_reaches_a_guest_exactly_in_both_forms_and_a_secret_goes_along() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let received = tokio::spawn(receive(listener, false));
    let (view, chunk) = recorded();
    let mut sink = probe(
        serde_json::json!({ "behaviour": "dump", "url": url }),
        Limits::default(),
        granted(&url),
    );
    sink.open(std::slice::from_ref(&view)).await.expect("open");
    let rows = Box::new(OneChunk::of(Arc::new(chunk.clone())));
    sink.write(rows, None, "next".to_owned())
        .await
        .expect("write");

    let (head, body) = received.await.expect("a request");
    assert!(
        head.contains("authorization: Bearer canary-value"),
        "{head}"
    );
    let dump: Value = serde_json::from_slice(&body).expect("a dump");
    let mut expected = Vec::new();
    json::write_rows(&chunk, &view, 0, 0..chunk.rows(), &mut expected);
    let expected: Value = serde_json::from_slice(&expected).expect("JSON");
    assert_eq!(dump["json"], expected);
    for row in 0..chunk.rows() {
        for (i, column) in chunk.columns.iter().enumerate() {
            let seen = &dump["columns"][row]["row"][i];
            let text = |text: String| serde_json::json!(text);
            let (kind, value) = match column.get(row) {
                CoreValue::Null => {
                    assert!(seen.is_null());
                    continue;
                }
                CoreValue::Boolean(b) => ("bool", text(b.to_string())),
                CoreValue::Int(n) => ("int", text(n.to_string())),
                CoreValue::Uint(n) => ("uint", text(n.to_string())),
                CoreValue::Float(x) => ("float", text(x.to_string())),
                CoreValue::Text(t) => ("text", text(String::from_utf8_lossy(t).into_owned())),
                CoreValue::Bytes(b) => ("bytes", serde_json::json!(b)),
                _ => panic!("a new kind of value"),
            };
            assert_eq!(
                *seen,
                serde_json::json!([kind, value]),
                "row {row}, column {i}"
            );
        }
    }
}

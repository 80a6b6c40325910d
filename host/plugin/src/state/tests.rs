//! What counts as progress, and the size of what is handed out.

use std::sync::Mutex;

use mz_sink_core::batch::BatchInfo;
use mz_sink_core::chunk::Values;
use mz_sink_core::types::{Column, ColumnType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::http::{HttpOptions, HttpPolicy};

/// One chunk, handed out in parts of at most `max_bytes`.
struct Parts {
    info: BatchInfo,
    chunk: Chunk,
    next: usize,
    refused: Refusals,
}

/// Rows that were refused, with the message.
type Refusals = Arc<Mutex<Vec<(u64, String)>>>;

impl BatchRows for Parts {
    fn info(&self) -> &BatchInfo {
        &self.info
    }

    fn next(&mut self, max_bytes: usize) -> Result<Option<(u64, Arc<Chunk>)>, PullError> {
        let first = self.next;
        let row = self.chunk.byte_len().div_ceil(self.chunk.rows());
        let end = (first + (max_bytes / row).max(1)).min(self.chunk.rows());
        self.next = end;
        Ok((first < end).then(|| (first as u64, Arc::new(self.chunk.slice(first..end)))))
    }

    fn rewind(&mut self) {
        self.next = 0;
    }

    fn reject(&mut self, row: u64, _: &str, message: &str) -> Result<(), PullError> {
        if message == "fail" {
            return Err(PullError::Limit("the log is full".to_owned()));
        }
        let mut refused = self.refused.lock().expect("the rows");
        refused.push((row, message.to_owned()));
        Ok(())
    }
}

/// A write of `rows` rows whose columns have these names and all this type and these values.
fn lent(names: &[String], ty: ColumnType, values: Values, rows: usize) -> (State, u32) {
    let columns: Vec<Column> = names
        .iter()
        .map(|name| Column {
            name: name.clone(),
            ty: ty.clone(),
            nullable: false,
        })
        .collect();
    let mut chunk = Chunk::new(0, columns.iter().map(|c| &c.ty));
    chunk.timestamps = vec![1_700_000_000_000; rows];
    chunk.ops = vec![0; rows];
    chunk.ordinals = (0..rows as u32).collect();
    for column in &mut chunk.columns {
        column.values = values.clone();
    }
    let mut state = State::new(Limits::default(), HttpClient::deny_all(), "test");
    state.set_views(vec![View {
        name: "orders".to_owned(),
        columns,
        key: vec![0],
    }]);
    let handle = lend(&mut state, chunk, Refusals::default());
    (state, handle)
}

/// Starts a write of these rows.
fn lend(state: &mut State, chunk: Chunk, refused: Refusals) -> u32 {
    let info = BatchInfo {
        lower: 1,
        upper: 2,
        committed: None,
        generation: 1,
        epoch: 1,
        rows: chunk.rows() as u64,
        bytes: 0,
        snapshot_of: Vec::new(),
    };
    let handle = state.lend(Box::new(Parts {
        info,
        chunk,
        next: 0,
        refused,
    }));
    handle.rep()
}

fn batch(handle: u32) -> Resource<BatchHandle> {
    Resource::new_own(handle)
}

#[test]
fn the_first_json_pull_keeps_to_what_was_asked_for_although_names_outweigh_values() {
    let names: Vec<String> = (0..20)
        .map(|i| format!("a_rather_long_column_name_{i:03}"))
        .collect();
    let rows = 10_000;
    let (mut state, handle) = lent(
        &names,
        ColumnType::Boolean,
        Values::Booleans(vec![1; rows]),
        rows,
    );
    let asked = 256 << 10;
    let text = state
        .pull_json(&batch(handle), asked)
        .expect("rows")
        .expect("not the end");
    assert!(text.len() <= asked, "{} bytes of {asked}", text.len());
    assert!(text.len() > asked / 4, "{} bytes of {asked}", text.len());
}

#[test]
fn text_that_is_not_utf_8_is_a_limit_since_trying_again_cannot_help() {
    let mut texts = mz_sink_core::chunk::Packed::default();
    texts.push(b"\xff");
    let names = ["name".to_owned()];
    let (mut state, handle) = lent(&names, ColumnType::Text, Values::Texts(texts), 1);
    match state.pull_json(&batch(handle), 1000) {
        Err(PullError::Limit(text)) => assert!(text.contains("`orders`"), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn sixteen_more_passes_over_the_rows_are_progress_and_the_next_is_not() {
    let names = ["id".to_owned()];
    let (mut state, handle) = lent(&names, ColumnType::Int64, Values::Ints(vec![7]), 1);
    for pass in 0..=17 {
        state.idle_ticks = 5;
        let pulled = state.pull(&batch(handle), 1000).expect("rows");
        assert!(pulled.is_some());
        assert_eq!(
            state.idle_ticks,
            if pass <= 16 { 0 } else { 5 },
            "pass {pass}"
        );
        changes::HostBatch::rewind(&mut state, batch(handle)).expect("rewound");
    }
}

#[test]
fn rows_not_seen_before_are_progress_however_often_the_guest_went_back() {
    let names = ["id".to_owned()];
    let (mut state, handle) = lent(&names, ColumnType::Int64, Values::Ints(vec![7, 8]), 2);
    for _ in 0..100 {
        state.pull(&batch(handle), 1).expect("rows");
        changes::HostBatch::rewind(&mut state, batch(handle)).expect("rewound");
    }
    state.pull(&batch(handle), 1).expect("rows");
    state.idle_ticks = 5;
    state.pull(&batch(handle), 1).expect("rows");
    assert_eq!(state.idle_ticks, 0);
}

/// Two rows.
fn two_rows() -> Chunk {
    let mut chunk = Chunk::new(0, [&ColumnType::Int64]);
    chunk.timestamps = vec![1, 1];
    chunk.ops = vec![0, 0];
    chunk.ordinals = vec![0, 1];
    chunk.columns[0].values = Values::Ints(vec![7, 8]);
    chunk
}

/// Whether `refuse` succeeded, and whether it was progress.
fn refuse(state: &mut State, handle: u32, row: u64, message: &str) -> (bool, bool) {
    state.idle_ticks = 5;
    let done = changes::HostBatch::reject(
        state,
        batch(handle),
        row,
        "category".to_owned(),
        message.to_owned(),
    );
    (done.expect("no trap").is_ok(), state.idle_ticks == 0)
}

#[test]
fn a_row_is_refused_once_per_write_and_the_first_refusal_stands() {
    let mut state = State::new(Limits::default(), HttpClient::deny_all(), "test");
    let refused = Refusals::default();
    for _write in 0..2 {
        let handle = lend(&mut state, two_rows(), refused.clone());
        assert_eq!(refuse(&mut state, handle, 1, "first"), (true, true));
        assert_eq!(refuse(&mut state, handle, 1, "again"), (true, false));
        assert_eq!(refuse(&mut state, handle, 0, "other"), (true, true));
        changes::HostBatch::rewind(&mut state, batch(handle)).expect("rewound");
        assert_eq!(refuse(&mut state, handle, 1, "rewound"), (true, false));
        let refused = std::mem::take(&mut *refused.lock().expect("the rows"));
        assert_eq!(refused, [(1, "first".to_owned()), (0, "other".to_owned())]);
    }
}

#[test]
fn a_refusal_that_could_not_be_kept_is_no_progress_and_can_be_made_again() {
    let mut state = State::new(Limits::default(), HttpClient::deny_all(), "test");
    let handle = lend(&mut state, two_rows(), Refusals::default());
    assert_eq!(refuse(&mut state, handle, 0, "fail"), (false, false));
    assert_eq!(refuse(&mut state, handle, 0, "fail"), (false, false));
    assert_eq!(refuse(&mut state, handle, 0, "kept"), (true, true));
}

/// What a request comes to, and whether it was progress, when the server says `answer` and
/// closes the connection.
async fn exchange(answer: &'static str) -> (Result<u16, http::HttpError>, bool) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let _ = socket.read(&mut [0; 4096]).await.expect("a request");
        socket
            .write_all(answer.as_bytes())
            .await
            .expect("an answer");
    });
    let client = HttpClient::new(HttpOptions {
        policy: HttpPolicy::parse(std::slice::from_ref(&url), &[]).expect("a policy"),
        ..HttpOptions::default()
    })
    .expect("a client");
    let mut state = State::new(Limits::default(), client, "test");
    state.idle_ticks = 5;
    let request = http::Request {
        method: "GET".to_owned(),
        url,
        headers: Vec::new(),
        body: Vec::new(),
        timeout_ms: None,
    };
    let result = http::Host::send(&mut state, request).await;
    server.await.expect("the server");
    let status = result.expect("no trap").map(|response| response.status);
    (status, state.idle_ticks == 0)
}

#[tokio::test]
async fn an_answer_is_progress_whatever_its_status_and_a_request_without_one_is_not() {
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200),
        ("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", 503),
    ] {
        match exchange(answer).await {
            (Ok(status), true) => assert_eq!(status, expected),
            other => panic!("{other:?}"),
        }
    }
    match exchange("").await {
        (Err(http::HttpError::MaybeSent(_)), false) => {}
        other => panic!("{other:?}"),
    }
}

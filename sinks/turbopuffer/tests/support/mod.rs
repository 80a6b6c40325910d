//! A host without a network: answers come from a script, requests are kept to be looked at. And
//! batches made of a few rows.

#![allow(dead_code, reason = "each test file uses its part")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use mz_sink_guest::{
    Batch, Chunk, ChunkParts, Clock, Column, ColumnData, ColumnType, Context, Error, Exchange,
    Http, HttpError, Info, Level, Log, PullError, Request, Response, Sink, Values, View,
};
use serde_json::{Value, json};
use turbopuffer_sink::{Config, Turbopuffer};

/// What the clock says.
pub const NOW: u64 = 1_700_000_000_000;

pub type Answer = Result<Response, HttpError>;

/// Shared by the sink and the test.
#[derive(Clone, Default)]
pub struct FakeHost(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    script: VecDeque<Answer>,
    requests: Vec<(String, Value)>,
    in_flight: usize,
    most_in_flight: usize,
    passed_ms: u64,
}

pub struct Pending(FakeHost, Answer);

impl FakeHost {
    /// Adds an answer to the script.
    pub fn answers(&self, answer: Answer) -> &Self {
        self.0.borrow_mut().script.push_back(answer);
        self
    }

    /// Takes the requests so far: namespace and what follows it, and body.
    pub fn requests(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.0.borrow_mut().requests)
    }

    /// Lets time pass.
    pub fn pass(&self, ms: u64) {
        self.0.borrow_mut().passed_ms += ms;
    }

    pub fn most_in_flight(&self) -> usize {
        self.0.borrow().most_in_flight
    }

    /// Fails when the script has answers that nobody asked for.
    pub fn finished(&self) {
        assert_eq!(
            self.0.borrow().script.len(),
            0,
            "answers left in the script"
        );
    }
}

impl Http for FakeHost {
    type Exchange = Pending;

    fn start(&self, request: Request) -> Result<Pending, HttpError> {
        let base = "https://aws-us-east-1.turbopuffer.com";
        let (place, key) = match request.url.strip_prefix(base) {
            Some(path) => (path, "turbopuffer_api_key"),
            None => (request.url.as_str(), "embeddings_key"),
        };
        let mut headers = request.headers.clone();
        headers.sort();
        let authorization = format!("Bearer {{{{secret:{key}}}}}");
        let expected = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
        ];
        assert_eq!(headers, expected.map(|(k, v)| (k.into(), v.into())));
        let place = match (
            request.method.as_str(),
            place.strip_prefix("/v2/namespaces/"),
        ) {
            ("POST", Some(namespace)) => namespace.to_owned(),
            (method, _) => format!("{method} {place}"),
        };
        let body = match request.body.as_slice() {
            b"" => Value::Null,
            body => serde_json::from_slice(body).expect("a JSON body"),
        };
        let mut state = self.0.borrow_mut();
        state.requests.push((place, body));
        let answer = state.script.pop_front().expect("an answer in the script");
        state.in_flight += 1;
        state.most_in_flight = state.most_in_flight.max(state.in_flight);
        Ok(Pending(self.clone(), answer))
    }
}

impl Exchange for Pending {
    fn wait(self) -> Answer {
        self.1.clone()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.0.borrow_mut().in_flight -= 1;
    }
}

impl Log for FakeHost {
    fn log(&self, _: Level, _: &str, _: &[(&str, &str)]) {}
}

impl Clock for FakeHost {
    fn now_ms(&self) -> u64 {
        NOW + self.0.borrow().passed_ms
    }

    fn monotonic_ns(&self) -> u64 {
        0
    }
}

/// An answer with a JSON body.
pub fn answer(status: u16, body: Value) -> Answer {
    raw(status, &body.to_string(), &[])
}

/// An answer as it is.
pub fn raw(status: u16, body: &str, headers: &[(&str, &str)]) -> Answer {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Ok(Response {
        status,
        headers: headers.iter().map(owned).collect(),
        body: body.as_bytes().to_vec(),
    })
}

pub fn upserted(rows: u64) -> Answer {
    answer(
        200,
        json!({"status": "OK", "message": "", "rows_affected": rows, "rows_upserted": rows}),
    )
}

pub fn patched(rows: u64) -> Answer {
    answer(
        200,
        json!({"status": "OK", "message": "", "rows_affected": rows, "rows_patched": rows}),
    )
}

pub fn created() -> Answer {
    answer(
        200,
        json!({"status": "OK", "message": "", "rows_affected": 0}),
    )
}

pub fn no_namespace() -> Answer {
    answer(
        404,
        json!({"status": "error", "error": "namespace was not found"}),
    )
}

/// The control document, or none, as a query gives it.
pub fn document(document: Option<Value>) -> Answer {
    answer(
        200,
        json!({"rows": document.into_iter().collect::<Vec<_>>(), "billing": {}}),
    )
}

/// A namespace that is looked for is there.
pub fn found() -> Answer {
    document(None)
}

/// A control document for this checkpoint, with one active namespace for view `v`.
pub fn stored(checkpoint: &str, active: &str) -> Answer {
    document(Some(json!({
        "id": "sink-1", "checkpoint": checkpoint, "digest": digest(checkpoint),
        "active": active,
    })))
}

pub fn digest(text: &str) -> String {
    use sha2::{Digest, Sha256};
    hex::encode(Sha256::digest(text))
}

/// What the names of incarnations of sink `sink-1` begin with.
pub fn prefix(base: &str) -> String {
    format!("{base}-{}-g", &digest("docs-control\0sink-1")[..10])
}

/// Columns: name, type, nullable. The first `key` columns are the key.
pub fn view(name: &str, key: usize, columns: &[(&str, ColumnType)]) -> View {
    let column = |(name, ty): &(&str, ColumnType)| Column {
        name: (*name).to_owned(),
        ty: ty.clone(),
        nullable: true,
    };
    View {
        name: name.to_owned(),
        columns: columns.iter().map(column).collect(),
        key: (0..key).collect(),
    }
}

/// The configuration with these fields added.
pub fn config(extra: Value) -> Config {
    let mut config = json!({"region": "aws-us-east-1", "namespace": "docs"});
    for (name, value) in extra.as_object().expect("an object") {
        config[name] = value.clone();
    }
    serde_json::from_value(config).expect("a configuration")
}

pub fn open(
    host: &FakeHost,
    extra: Value,
    views: Vec<View>,
) -> Result<(Turbopuffer<FakeHost>, Option<String>), Error> {
    Turbopuffer::open(
        host.clone(),
        Context {
            sink_id: "sink-1".into(),
            config: config(extra),
            views,
        },
    )
}

/// A sink that found `checkpoint` with `docs-g0` active for view `v`; its requests are taken.
pub fn opened(
    host: &FakeHost,
    extra: Value,
    view: View,
    checkpoint: &str,
) -> Turbopuffer<FakeHost> {
    host.answers(stored(checkpoint, "docs-g0")).answers(found());
    let (sink, found) = open(host, extra, vec![view]).expect("open");
    assert_eq!(found.as_deref(), Some(checkpoint));
    host.requests();
    sink
}

/// Chunks, what is said of them, and what was refused.
#[derive(Default)]
pub struct FakeBatch {
    pub info: Info,
    pub chunks: VecDeque<Chunk>,
    pub rejected: Vec<(u64, String, String)>,
}

impl Batch for FakeBatch {
    fn info(&self) -> Info {
        self.info.clone()
    }

    fn next(&mut self, _: u32) -> Result<Option<Chunk>, PullError> {
        Ok(self.chunks.pop_front())
    }

    fn next_json(&mut self, _: u32) -> Result<Option<String>, PullError> {
        Ok(None)
    }

    fn rewind(&mut self) {}

    fn reject(&mut self, row: u64, category: &str, message: &str) -> Result<(), PullError> {
        self.rejected.push((row, category.into(), message.into()));
        Ok(())
    }
}

/// A batch of ordinary changes of one view: the columns of one chunk, with all rows at 90.
pub fn changes(columns: Vec<ColumnData>, rows: u32) -> FakeBatch {
    FakeBatch {
        info: Info {
            lower: 50,
            upper: 100,
            committed: Some(50),
            generation: 3,
            epoch: 7,
            rows: rows.into(),
            bytes: 0,
            snapshot_of: Vec::new(),
        },
        chunks: [chunk(0, columns, rows, &[])].into(),
        rejected: Vec::new(),
    }
}

/// A chunk with all rows at 90; `deleted` are the rows that are deletes.
pub fn chunk(view: u32, columns: Vec<ColumnData>, rows: u32, deleted: &[u32]) -> Chunk {
    Chunk::new(ChunkParts {
        view,
        rows,
        first_row: 0,
        timestamps: vec![90; rows as usize],
        ops: (0..rows).map(|row| deleted.contains(&row).into()).collect(),
        counts: Vec::new(),
        ordinals: (0..rows).collect(),
        columns,
    })
    .expect("a chunk")
}

/// A column without nulls.
pub fn full(values: Values) -> ColumnData {
    ColumnData::new(None, values)
}

/// A column of one byte's validity.
pub fn with_nulls(bits: u8, values: Values) -> ColumnData {
    ColumnData::new(Some(vec![bits]), values)
}

/// Writes one chunk and returns the body, if any, and what was refused.
pub fn written(
    extra: Value,
    view: View,
    columns: Vec<ColumnData>,
    rows: u32,
) -> (Value, Vec<(u64, String)>) {
    let host = FakeHost::default();
    let mut sink = opened(&host, extra, view, "A");
    let mut batch = changes(columns, rows);
    // One more than rows and checkpoint need: refused rows hide their older documents.
    host.answers(upserted(1))
        .answers(patched(1))
        .answers(patched(1));
    sink.write(&mut batch, Some("A"), "B").expect("a write");
    let body = host.requests().remove(0).1;
    let rejected = batch.rejected.into_iter();
    (
        body,
        rejected.map(|(row, category, _)| (row, category)).collect(),
    )
}

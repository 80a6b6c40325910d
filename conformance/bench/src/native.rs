//! The native contender: the same host and the same sink code, without the sandbox.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use mz_sink_core::batch::{BatchRows, Failure, SinkError};
use mz_sink_core::catalog::Table;
use mz_sink_core::chunk as core_chunk;
use mz_sink_core::server_error::{ErrorKind, ServerError};
use mz_sink_core::session::{SessionConfig, ViewConfig};
use mz_sink_core::types::{self as core_types, Envelope};
use mz_sink_driver::{BlockEnd, LogDeadLetters, Options, Progress};
use mz_sink_guest::{
    Batch, Chunk, ChunkParts, Clock, Column, ColumnData, ColumnType, Context, Error, Exchange,
    Http, HttpError, Info, Level, Log, PackedBytes, PackedTexts, PullError, Request, Response,
    Sink, Values, View,
};
use mz_sink_source::{ConnectOptions, Row, RowBlock, Session};
use tokio::sync::{oneshot, watch};
use turbopuffer_sink::Turbopuffer;

use crate::contender::OBJECT;

/// Arguments of the native contender.
#[derive(clap::Args)]
pub struct Arguments {
    /// The same file that `mz-wasm-sink run` gets.
    #[arg(long)]
    config: PathBuf,
}

/// Runs until it is ended.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&arguments.config)?;
    let setting = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))
            .and_then(|value| serde_json::from_str::<String>(value).ok())
            .with_context(|| format!("{name} is missing"))
    };
    let connect = ConnectOptions::parse(&setting("url")?, None)?;
    let sink = Native {
        base_url: setting("base_url")?,
        open: None,
    };
    let (_ask, shutdown) = watch::channel(false);
    let options = Options {
        session: SessionConfig {
            netted: true,
            ..SessionConfig::new(
                "bench".into(),
                "native".into(),
                vec![ViewConfig {
                    object: OBJECT.into(),
                    name: None,
                    key: vec!["id".into()],
                }],
                Envelope::Upsert,
            )
        },
        seed: 1,
        spill_folder: std::env::temp_dir(),
        dead_letters: Arc::new(LogDeadLetters {
            sink_id: "bench".into(),
            log_key: false,
        }),
        progress: Arc::new(Progress::default()),
        tell: Box::new(|_| {}),
        shutdown,
    };
    let connections = options.session.connections();
    let sources = (0..connections).map(|_| Source {
        connect: connect.clone(),
        session: None,
    });
    let outcome = mz_sink_driver::run(sources, sink, options).await;
    anyhow::bail!("ended: {outcome:?}")
}

struct Source {
    connect: ConnectOptions,
    session: Option<Session>,
}

#[derive(Default)]
struct Block(RowBlock);

impl mz_sink_driver::RowBlock for Block {
    type Row<'a> = Row<'a>;

    fn names(&self) -> &[String] {
        self.0.names()
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.0.rows()
    }
}

impl Source {
    fn session(&mut self) -> Result<&mut Session, ServerError> {
        self.session.as_mut().ok_or_else(|| ServerError {
            kind: ErrorKind::Connection,
            code: None,
            message: "not connected".into(),
            detail: None,
            hint: None,
        })
    }
}

impl mz_sink_driver::Source for Source {
    type Block = Block;

    async fn connect(&mut self) -> Result<(), ServerError> {
        self.session = Some(Session::connect(&self.connect).await?);
        Ok(())
    }

    async fn run(&mut self, sql: &str) -> Result<Table, ServerError> {
        self.session()?.query(sql).await
    }

    async fn fetch(&mut self, sql: &str) -> Result<(), ServerError> {
        self.session()?.fetch(sql).await
    }

    async fn next_block(
        &mut self,
        block: &mut Block,
        silence: Duration,
    ) -> Result<BlockEnd, ServerError> {
        let complete = self.session()?.next_block(&mut block.0, silence).await?;
        Ok(if complete {
            BlockEnd::Complete
        } else {
            BlockEnd::More
        })
    }

    async fn disconnect(&mut self) {
        self.session = None;
    }
}

/// Sends requests with the same client as the host's capability.
#[derive(Clone)]
struct NativeHost {
    runtime: tokio::runtime::Handle,
    client: reqwest::Client,
}

struct NativeExchange(oneshot::Receiver<Result<Response, HttpError>>);

impl Exchange for NativeExchange {
    fn wait(self) -> Result<Response, HttpError> {
        let lost = |_| HttpError::MaybeSent("the request was dropped".into());
        self.0.blocking_recv().map_err(lost)?
    }
}

impl Http for NativeHost {
    type Exchange = NativeExchange;

    fn start(&self, request: Request) -> Result<NativeExchange, HttpError> {
        let (done, result) = oneshot::channel();
        let client = self.client.clone();
        self.runtime.spawn(async move {
            // Nobody waits any more when the sink has given up.
            let _ = done.send(send(client, request).await);
        });
        Ok(NativeExchange(result))
    }
}

async fn send(client: reqwest::Client, request: Request) -> Result<Response, HttpError> {
    let maybe = |e: reqwest::Error| HttpError::MaybeSent(e.without_url().to_string());
    let mut builder = client.post(request.url).body(request.body);
    for (name, value) in request.headers {
        builder = builder.header(name, value);
    }
    let response = builder.send().await.map_err(maybe)?;
    let status = response.status().as_u16();
    let body = response.bytes().await.map_err(maybe)?;
    Ok(Response {
        status,
        headers: Vec::new(),
        body: body.to_vec(),
    })
}

impl Clock for NativeHost {
    fn now_ms(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_millis() as u64)
    }

    fn monotonic_ns(&self) -> u64 {
        self.now_ms() * 1_000_000
    }
}

impl Log for NativeHost {
    fn log(&self, level: Level, message: &str, _: &[(&str, &str)]) {
        if level >= Level::Warn {
            eprintln!("{message}");
        }
    }
}

struct Rows<'a>(&'a mut dyn BatchRows);

impl Batch for Rows<'_> {
    fn info(&self) -> Info {
        let info = self.0.info();
        Info {
            lower: info.lower,
            upper: info.upper,
            committed: info.committed,
            generation: info.generation,
            epoch: info.epoch,
            rows: info.rows,
            bytes: info.bytes,
            snapshot_of: info.snapshot_of.clone(),
        }
    }

    fn next(&mut self, max_bytes: u32) -> Result<Option<Chunk>, PullError> {
        let next = self
            .0
            .next(max_bytes as usize)
            .map_err(|e| PullError::Limit(e.to_string()))?;
        next.map(|(first_row, chunk)| convert(first_row, &chunk))
            .transpose()
    }

    fn next_json(&mut self, _: u32) -> Result<Option<String>, PullError> {
        Err(PullError::Limit("not measured".into()))
    }

    fn rewind(&mut self) {
        self.0.rewind();
    }

    fn reject(&mut self, row: u64, category: &str, message: &str) -> Result<(), PullError> {
        self.0
            .reject(row, category, message)
            .map_err(|e| PullError::Limit(e.to_string()))
    }
}

fn convert(first_row: u64, chunk: &core_chunk::Chunk) -> Result<Chunk, PullError> {
    use core_chunk::Values as V;
    let columns = chunk
        .columns
        .iter()
        .map(|column| {
            let values = match &column.values {
                V::Booleans(v) => Values::Booleans(v.clone()),
                V::Ints(v) => Values::Ints(v.clone()),
                V::Uints(v) => Values::Uints(v.clone()),
                V::Floats(v) => Values::Floats(v.clone()),
                V::Texts(p) => Values::Texts(PackedTexts::new(p.offsets.clone(), p.data.clone())?),
                V::Bytes(p) => Values::Bytes(PackedBytes::new(p.offsets.clone(), p.data.clone())?),
                _ => return Err(PullError::Malformed("a new kind of column".into())),
            };
            Ok(ColumnData::new(column.validity.clone(), values))
        })
        .collect::<Result<_, PullError>>()?;
    Chunk::new(ChunkParts {
        view: chunk.view,
        rows: chunk.rows() as u32,
        first_row,
        timestamps: chunk.timestamps.clone(),
        ops: chunk.ops.clone(),
        counts: chunk.counts.clone(),
        ordinals: chunk.ordinals.clone(),
        columns,
    })
}

struct Native {
    base_url: String,
    open: Option<Turbopuffer<NativeHost>>,
}

impl mz_sink_driver::Sink for Native {
    async fn open(&mut self, views: &[core_types::View]) -> Result<Option<String>, SinkError> {
        let host = NativeHost {
            runtime: tokio::runtime::Handle::current(),
            client: reqwest::Client::new(),
        };
        let config = serde_json::json!({ "base_url": self.base_url, "namespace": "bench" });
        let context = Context {
            sink_id: "bench".into(),
            config: serde_json::from_value(config).map_err(|e| failed(&e))?,
            views: views.iter().map(bench_view).collect(),
        };
        let (sink, stored) =
            tokio::task::block_in_place(|| Turbopuffer::open(host, context)).map_err(error)?;
        self.open = Some(sink);
        Ok(stored)
    }

    async fn checkpoint(&mut self) -> Result<Option<String>, SinkError> {
        Err(failed(&"not measured"))
    }

    async fn write(
        &mut self,
        mut rows: Box<dyn BatchRows>,
        expected: Option<String>,
        next: String,
    ) -> Result<(), SinkError> {
        let sink = self.open.as_mut().ok_or_else(|| failed(&"not open"))?;
        tokio::task::block_in_place(|| {
            sink.write(&mut Rows(&mut *rows), expected.as_deref(), &next)
        })
        .map_err(error)
    }

    async fn close(&mut self) {}
}

/// The view of the generated table.
fn bench_view(view: &core_types::View) -> View {
    use core_types::ColumnType as T;
    let column = |column: &core_types::Column| Column {
        name: column.name.clone(),
        ty: match &column.ty {
            T::Int32 => ColumnType::Int32,
            T::Int64 => ColumnType::Int64,
            T::Boolean => ColumnType::Boolean,
            T::Numeric(scale) => ColumnType::Numeric(*scale),
            T::TimestampTz => ColumnType::TimestampTz,
            _ => ColumnType::Text,
        },
        nullable: column.nullable,
    };
    View {
        name: view.name.clone(),
        columns: view.columns.iter().map(column).collect(),
        key: view.key.clone(),
    }
}

fn failed(message: &dyn std::fmt::Display) -> SinkError {
    SinkError::Permanent(Failure {
        code: "native".into(),
        message: message.to_string(),
        retry_after_ms: None,
    })
}

fn error(error: Error) -> SinkError {
    failed(&format!("{error:?}"))
}

//! The wasm side: bindings from the WIT contract, and the way between them and this crate's
//! types. Vectors move; nothing is copied.

/// Made by wit-bindgen from `wit/v0.1`.
#[allow(missing_docs, unsafe_code, clippy::all, reason = "generated")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/v0.1",
        world: "plugin",
        pub_export_macro: true,
        default_bindings_module: "mz_sink_guest::component::bindings",
    });
}

use bindings::exports::materialize::sink::sink as exported;
use bindings::materialize::sink::{changes, clock, http, log, random, types};

use crate::{
    Batch, BatchInfo, Chunk, Clock, Column, ColumnData, ColumnType, Context, Envelope, Error,
    Failure, Guarantee, Http, HttpError, Level, Log, Packed, PullError, Random, Request, Response,
    Sink, Values, View,
};

/// The host's capabilities.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

impl Http for Host {
    type Exchange = http::Exchange;

    fn start(&self, request: Request) -> Result<http::Exchange, HttpError> {
        http::start(&http::Request {
            method: request.method,
            url: request.url,
            headers: request.headers,
            body: request.body,
            timeout_ms: request.timeout_ms,
        })
        .map_err(http_error)
    }

    fn wait(&self, exchange: http::Exchange) -> Result<Response, HttpError> {
        let response = exchange.wait().map_err(http_error)?;
        Ok(Response {
            status: response.status,
            headers: response.headers,
            body: response.body,
        })
    }
}

fn http_error(error: http::HttpError) -> HttpError {
    match error {
        http::HttpError::Denied(m) => HttpError::Denied(m),
        http::HttpError::NotSent(m) => HttpError::NotSent(m),
        http::HttpError::MaybeSent(m) => HttpError::MaybeSent(m),
        http::HttpError::Limit(m) => HttpError::Limit(m),
        http::HttpError::Invalid(m) => HttpError::Invalid(m),
    }
}

impl Clock for Host {
    fn now_ms(&self) -> u64 {
        clock::now()
    }
}

impl Log for Host {
    fn log(&self, level: Level, message: &str) {
        let level = match level {
            Level::Debug => log::Level::Debug,
            Level::Info => log::Level::Info,
            Level::Warn => log::Level::Warn,
            Level::Error => log::Level::Error,
        };
        log::emit(level, message, &[]);
    }
}

impl Random for Host {
    fn bytes(&self, len: u32) -> Vec<u8> {
        random::bytes(len)
    }
}

struct HostBatch(changes::Batch);

impl Batch for HostBatch {
    fn info(&self) -> BatchInfo {
        let info = self.0.info();
        BatchInfo {
            lower: info.lower,
            upper: info.upper,
            committed: info.committed,
            generation: info.generation,
            epoch: info.epoch,
            rows: info.rows,
            bytes: info.bytes,
            snapshot_of: info.snapshot_of,
        }
    }

    fn next(&mut self, max_bytes: u32) -> Result<Option<Chunk>, PullError> {
        self.0
            .next(max_bytes)
            .map(|chunk| chunk.map(self::chunk))
            .map_err(pull_error)
    }

    fn rewind(&mut self) {
        self.0.rewind();
    }

    fn reject(&mut self, row: u64, category: &str, message: &str) -> Result<(), PullError> {
        self.0.reject(row, category, message).map_err(pull_error)
    }
}

fn pull_error(error: changes::PullError) -> PullError {
    match error {
        changes::PullError::SourceLost(m) => PullError::SourceLost(m),
        changes::PullError::Limit(m) => PullError::Limit(m),
    }
}

fn chunk(chunk: types::Chunk) -> Chunk {
    let packed = |p: types::Packed| Packed {
        offsets: p.offsets,
        data: p.data,
    };
    Chunk {
        view: chunk.view,
        rows: chunk.rows,
        first_row: chunk.first_row,
        timestamps: chunk.timestamps,
        ops: chunk.ops,
        counts: chunk.counts,
        ordinals: chunk.ordinals,
        columns: chunk
            .columns
            .into_iter()
            .map(|column| ColumnData {
                validity: column.validity,
                values: match column.values {
                    types::Values::Booleans(v) => Values::Booleans(v),
                    types::Values::Ints(v) => Values::Ints(v),
                    types::Values::Uints(v) => Values::Uints(v),
                    types::Values::Floats(v) => Values::Floats(v),
                    types::Values::Texts(p) => Values::Texts(packed(p)),
                    types::Values::Bytes(p) => Values::Bytes(packed(p)),
                },
            })
            .collect(),
    }
}

fn column_type(ty: types::ColumnType) -> ColumnType {
    use types::ColumnType as T;
    match ty {
        T::Boolean => ColumnType::Boolean,
        T::Int16 => ColumnType::Int16,
        T::Int32 => ColumnType::Int32,
        T::Int64 => ColumnType::Int64,
        T::Uint16 => ColumnType::Uint16,
        T::Uint32 => ColumnType::Uint32,
        T::Uint64 => ColumnType::Uint64,
        T::Float32 => ColumnType::Float32,
        T::Float64 => ColumnType::Float64,
        T::Numeric(scale) => ColumnType::Numeric(scale),
        T::Text => ColumnType::Text,
        T::Bytes => ColumnType::Bytes,
        T::Uuid => ColumnType::Uuid,
        T::Json => ColumnType::Json,
        T::Date => ColumnType::Date,
        T::Time => ColumnType::Time,
        T::Timestamp => ColumnType::Timestamp,
        T::TimestampTz => ColumnType::TimestampTz,
        T::Interval => ColumnType::Interval,
        T::MzTimestamp => ColumnType::MzTimestamp,
        T::Other(name) => ColumnType::Other(name),
    }
}

fn failure(failure: Failure) -> types::Failure {
    types::Failure {
        code: failure.code,
        message: failure.message,
        retry_after_ms: failure.retry_after_ms,
    }
}

fn error(error: Error) -> types::Error {
    match error {
        Error::Retryable(f) => types::Error::Retryable(failure(f)),
        Error::Permanent(f) => types::Error::Permanent(failure(f)),
        Error::Unknown(f) => types::Error::Unknown(failure(f)),
        Error::Conflict(found) => types::Error::Conflict(found),
    }
}

/// Where [`crate::export!`] keeps the open sink of a component.
pub trait Hold {
    /// The sink.
    type Sink: Sink<Host = Host>;
    /// Gives access to it.
    fn with<R>(f: impl FnOnce(&mut Option<Self::Sink>) -> R) -> R;
}

fn not_open() -> types::Error {
    error(Error::permanent(
        "not-open",
        "the sink was used before it was opened",
    ))
}

impl<T: Hold> exported::Guest for T {
    fn describe() -> exported::Description {
        let d = T::Sink::describe();
        exported::Description {
            name: d.name,
            version: d.version,
            guarantee: match d.guarantee {
                Guarantee::Transactional => exported::Guarantee::Transactional,
                Guarantee::Convergent => exported::Guarantee::Convergent,
                Guarantee::AtLeastOnce => exported::Guarantee::AtLeastOnce,
            },
            envelope: match d.envelope {
                Envelope::Upsert => types::Envelope::Upsert,
                Envelope::Diff => types::Envelope::Diff,
            },
            netted: d.netted,
            config_schema: d.config_schema,
        }
    }

    fn open(context: exported::Context) -> Result<Option<String>, types::Error> {
        let context = Context {
            sink_id: context.sink_id,
            config: context.config,
            views: context
                .views
                .into_iter()
                .map(|view| View {
                    name: view.name,
                    columns: view
                        .columns
                        .into_iter()
                        .map(|c| Column {
                            name: c.name,
                            ty: column_type(c.ty),
                            nullable: c.nullable,
                        })
                        .collect(),
                    key: view.key,
                })
                .collect(),
        };
        let (sink, stored) = T::Sink::open(Host, &context).map_err(error)?;
        T::with(|slot| *slot = Some(sink));
        Ok(stored)
    }

    fn checkpoint() -> Result<Option<String>, types::Error> {
        T::with(|slot| match slot {
            Some(sink) => sink.checkpoint().map_err(error),
            None => Err(not_open()),
        })
    }

    fn write(
        batch: changes::Batch,
        expected: Option<String>,
        next: String,
    ) -> Result<(), types::Error> {
        T::with(|slot| match slot {
            Some(sink) => sink
                .write(&mut HostBatch(batch), expected.as_deref(), &next)
                .map_err(error),
            None => Err(not_open()),
        })
    }

    fn close() {
        if let Some(sink) = T::with(Option::take) {
            sink.close();
        }
    }
}

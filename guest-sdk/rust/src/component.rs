//! The sink as a component: the generated bindings, and everything that converts between them
//! and this crate's types. Lists move across without a copy of their own.

use crate::batch::{Batch, Info, PullError};
use crate::capability::{Clock, Level, Log, Random};
use crate::chunk::{Chunk, ChunkParts, ColumnData, PackedBytes, PackedTexts, Values};
use crate::error::{Error, Failure};
use crate::http::{Exchange, Http, HttpError, Request, Response};
use crate::sink::{Context, Envelope, Guarantee, Maintain, ReadBack, Sink};
use crate::view::{Column, ColumnType, View};

#[allow(missing_docs, unsafe_code, clippy::all)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/v0.1",
        world: "http-plugin",
        pub_export_macro: true,
        export_macro_name: "export_component",
        default_bindings_module: "mz_sink_guest::component::bindings",
    });
}

/// What a sink that also implements `Maintain` exports besides.
#[allow(missing_docs, unsafe_code, clippy::all)]
pub mod maintained {
    wit_bindgen::generate!({
        path: "../../wit/v0.1",
        world: "maintained",
        pub_export_macro: true,
        export_macro_name: "export_maintenance",
        default_bindings_module: "mz_sink_guest::component::maintained",
        with: {
            "materialize:sink/types@0.1.0": crate::component::bindings::materialize::sink::types,
        },
    });
}

/// What a sink that also implements `ReadBack` exports besides.
#[allow(missing_docs, unsafe_code, clippy::all)]
pub mod readable {
    wit_bindgen::generate!({
        path: "../../wit/v0.1",
        world: "readable",
        pub_export_macro: true,
        export_macro_name: "export_read_back",
        default_bindings_module: "mz_sink_guest::component::readable",
        with: {
            "materialize:sink/types@0.1.0": crate::component::bindings::materialize::sink::types,
        },
    });
}

pub use bindings::exports::materialize::sink::sink::Guest;
pub use maintained::exports::materialize::sink::maintenance::Guest as Maintenance;
pub use readable::exports::materialize::sink::read_back::Guest as Readable;

use bindings::materialize::sink::{changes, clock, http, log, random, types};

/// The types of the exported functions.
pub mod wire {
    pub use super::bindings::exports::materialize::sink::sink::{
        Batch, Context, Description, Guarantee,
    };
    pub use super::bindings::materialize::sink::types::{Envelope, Error};
    pub use super::readable::exports::materialize::sink::read_back::Page;
}

/// The capabilities a component imports. Only those that a sink calls stay in the component.
#[derive(Debug, Clone, Copy, Default)]
pub struct Imports;

pub fn describe<S: Sink>() -> wire::Description {
    let description = S::describe();
    let schema = schemars::schema_for!(S::Config);
    wire::Description {
        name: description.name,
        version: description.version,
        guarantee: match description.guarantee {
            Guarantee::Transactional => wire::Guarantee::Transactional,
            Guarantee::Convergent => wire::Guarantee::Convergent,
            Guarantee::AtLeastOnce => wire::Guarantee::AtLeastOnce,
        },
        envelope: match description.envelope {
            Envelope::Upsert => wire::Envelope::Upsert,
            Envelope::Diff => wire::Envelope::Diff,
        },
        netted: description.netted,
        config_schema: schema.as_value().to_string(),
    }
}

pub fn open<S: Sink<Host = Imports>>(
    opened: &mut Option<S>,
    context: wire::Context,
) -> Result<Option<String>, wire::Error> {
    let config = serde_json::from_str(&context.config)
        .map_err(|error| Error::permanent("invalid-config", error.to_string()))?;
    let context = Context {
        sink_id: context.sink_id,
        config,
        views: context.views.into_iter().map(View::from).collect(),
    };
    let (sink, checkpoint) = S::open(Imports, context)?;
    *opened = Some(sink);
    Ok(checkpoint)
}

pub fn checkpoint<S: Sink>(opened: &mut Option<S>) -> Result<Option<String>, wire::Error> {
    Ok(ready(opened)?.checkpoint()?)
}

pub fn write<S: Sink>(
    opened: &mut Option<S>,
    mut batch: wire::Batch,
    expected: Option<String>,
    next: String,
) -> Result<(), wire::Error> {
    Ok(ready(opened)?.write(&mut batch, expected.as_deref(), &next)?)
}

pub fn maintain<S: Maintain>(opened: &mut Option<S>, committed: u64) -> Result<(), wire::Error> {
    Ok(ready(opened)?.maintain(committed)?)
}

pub fn rows<S: ReadBack>(
    opened: &mut Option<S>,
    view: u32,
    after: Option<Vec<u8>>,
    max: u32,
) -> Result<wire::Page, wire::Error> {
    let page = ready(opened)?.rows(view as usize, after.as_deref(), max)?;
    Ok(wire::Page {
        rows: page.rows,
        next: page.next,
    })
}

pub fn close<S: Sink>(opened: &mut Option<S>) {
    if let Some(mut sink) = opened.take() {
        sink.close();
    }
}

fn ready<S>(opened: &mut Option<S>) -> Result<&mut S, Error> {
    opened
        .as_mut()
        .ok_or_else(|| Error::permanent("not-open", "the sink was called before it was opened"))
}

impl Batch for wire::Batch {
    fn info(&self) -> Info {
        let info = changes::Batch::info(self);
        Info {
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
        changes::Batch::next(self, max_bytes)?
            .map(chunk)
            .transpose()
    }

    fn next_json(&mut self, max_bytes: u32) -> Result<Option<String>, PullError> {
        Ok(changes::Batch::next_json(self, max_bytes)?)
    }

    fn rewind(&mut self) {
        changes::Batch::rewind(self);
    }

    fn reject(&mut self, row: u64, category: &str, message: &str) -> Result<(), PullError> {
        Ok(changes::Batch::reject(self, row, category, message)?)
    }
}

impl Http for Imports {
    type Exchange = http::Exchange;

    fn start(&self, request: Request) -> Result<http::Exchange, HttpError> {
        Ok(http::start(&request.into())?)
    }

    fn send(&self, request: Request) -> Result<Response, HttpError> {
        Ok(http::send(&request.into())?.into())
    }
}

impl Exchange for http::Exchange {
    fn wait(self) -> Result<Response, HttpError> {
        Ok(http::Exchange::wait(&self)?.into())
    }
}

impl Log for Imports {
    fn log(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        let level = match level {
            Level::Trace => log::Level::Trace,
            Level::Debug => log::Level::Debug,
            Level::Info => log::Level::Info,
            Level::Warn => log::Level::Warn,
            Level::Error => log::Level::Error,
        };
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        log::emit(
            level,
            message,
            &fields.iter().map(owned).collect::<Vec<_>>(),
        );
    }
}

impl Clock for Imports {
    fn now_ms(&self) -> u64 {
        clock::now()
    }

    fn monotonic_ns(&self) -> u64 {
        clock::monotonic()
    }
}

impl Random for Imports {
    fn random_bytes(&self, len: u32) -> Vec<u8> {
        random::bytes(len)
    }
}

impl From<Request> for http::Request {
    fn from(request: Request) -> Self {
        http::Request {
            method: request.method,
            url: request.url,
            headers: request.headers,
            body: request.body,
            timeout_ms: request.timeout_ms,
        }
    }
}

impl From<http::Response> for Response {
    fn from(response: http::Response) -> Self {
        Response {
            status: response.status,
            headers: response.headers,
            body: response.body,
        }
    }
}

impl From<http::HttpError> for HttpError {
    fn from(error: http::HttpError) -> Self {
        match error {
            http::HttpError::Denied(text) => HttpError::Denied(text),
            http::HttpError::NotSent(text) => HttpError::NotSent(text),
            http::HttpError::MaybeSent(text) => HttpError::MaybeSent(text),
            http::HttpError::Limit(text) => HttpError::Limit(text),
            http::HttpError::Invalid(text) => HttpError::Invalid(text),
        }
    }
}

impl From<changes::PullError> for PullError {
    fn from(error: changes::PullError) -> Self {
        match error {
            changes::PullError::SourceLost(text) => PullError::SourceLost(text),
            changes::PullError::Limit(text) => PullError::Limit(text),
        }
    }
}

impl From<Error> for wire::Error {
    fn from(error: Error) -> Self {
        let failure = |failure: Failure| types::Failure {
            code: failure.code,
            message: failure.message,
            retry_after_ms: failure.retry_after_ms,
        };
        match error {
            Error::Retryable(inner) => wire::Error::Retryable(failure(inner)),
            Error::Permanent(inner) => wire::Error::Permanent(failure(inner)),
            Error::Unknown(inner) => wire::Error::Unknown(failure(inner)),
            Error::Conflict(found) => wire::Error::Conflict(found),
        }
    }
}

impl From<types::View> for View {
    fn from(view: types::View) -> Self {
        View {
            name: view.name,
            columns: view.columns.into_iter().map(Column::from).collect(),
            key: view.key.into_iter().map(|index| index as usize).collect(),
        }
    }
}

impl From<types::Column> for Column {
    fn from(column: types::Column) -> Self {
        use types::ColumnType as Wire;
        Column {
            name: column.name,
            nullable: column.nullable,
            ty: match column.ty {
                Wire::Boolean => ColumnType::Boolean,
                Wire::Int16 => ColumnType::Int16,
                Wire::Int32 => ColumnType::Int32,
                Wire::Int64 => ColumnType::Int64,
                Wire::Uint16 => ColumnType::Uint16,
                Wire::Uint32 => ColumnType::Uint32,
                Wire::Uint64 => ColumnType::Uint64,
                Wire::Float32 => ColumnType::Float32,
                Wire::Float64 => ColumnType::Float64,
                Wire::Numeric(scale) => ColumnType::Numeric(scale),
                Wire::Text => ColumnType::Text,
                Wire::Bytes => ColumnType::Bytes,
                Wire::Uuid => ColumnType::Uuid,
                Wire::Json => ColumnType::Json,
                Wire::Date => ColumnType::Date,
                Wire::Time => ColumnType::Time,
                Wire::Timestamp => ColumnType::Timestamp,
                Wire::TimestampTz => ColumnType::TimestampTz,
                Wire::Interval => ColumnType::Interval,
                Wire::MzTimestamp => ColumnType::MzTimestamp,
                Wire::Other(name) => ColumnType::Other(name),
            },
        }
    }
}

fn chunk(chunk: types::Chunk) -> Result<Chunk, PullError> {
    let columns = chunk.columns.into_iter().map(column);
    Chunk::new(ChunkParts {
        view: chunk.view,
        rows: chunk.rows,
        first_row: chunk.first_row,
        timestamps: chunk.timestamps,
        ops: chunk.ops,
        counts: chunk.counts,
        ordinals: chunk.ordinals,
        columns: columns.collect::<Result<_, _>>()?,
    })
}

fn column(column: types::ColumnData) -> Result<ColumnData, PullError> {
    let values = match column.values {
        types::Values::Booleans(values) => Values::Booleans(values),
        types::Values::Ints(values) => Values::Ints(values),
        types::Values::Uints(values) => Values::Uints(values),
        types::Values::Floats(values) => Values::Floats(values),
        types::Values::Texts(packed) => {
            Values::Texts(PackedTexts::new(packed.offsets, packed.data)?)
        }
        types::Values::Bytes(packed) => {
            Values::Bytes(PackedBytes::new(packed.offsets, packed.data)?)
        }
    };
    Ok(ColumnData::new(column.validity, values))
}

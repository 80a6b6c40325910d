//! What an instance holds in the host, and what the host does for it.
//!
//! Handles are plain numbers looked up here, so a handle that outlives its call finds nothing
//! instead of somebody else's rows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use mz_sink_core::batch::{BatchRows, PullError};
use mz_sink_core::chunk::Chunk;
use mz_sink_core::json;
use mz_sink_core::types::View;
use wasmtime::component::Resource;

use crate::bindings::materialize::sink::{changes, clock, http, log, random, types};
use crate::convert;
use crate::http::{Exchange, HttpClient, HttpError, Request, Response};
use crate::json_size;
use crate::limits::{Limits, REWINDS};
use crate::log::GuestLog;
use crate::text::clean;
use refused::Refused;

mod refused;
#[cfg(test)]
mod tests;

/// The most random bytes given at once.
const RANDOM: u32 = 64 << 10;
/// The longest category and message of a rejected row, in bytes.
const CATEGORY: usize = 64;
const MESSAGE: usize = 2 << 10;

/// Stands for the guest's handle of a batch.
pub enum BatchHandle {}
/// Stands for the guest's handle of an HTTP exchange.
pub enum ExchangeHandle {}

/// Why the host stopped a guest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    #[error(
        "the sink needs {wanted} bytes of memory, and `limits.memory` allows {limit}: raise it, \
         or pull smaller chunks"
    )]
    Memory { wanted: usize, limit: usize },
    #[error(
        "the sink ran for {seconds} s without new rows taken or refused, or an answer from the \
         network: `limits.idle_timeout` ends that"
    )]
    NoProgress { seconds: u64 },
    #[error("the sink broke the contract: {0}")]
    Contract(String),
}

/// The rows of the `write` that is running.
struct Open {
    rows: Box<dyn BatchRows>,
    handle: u32,
    refused: Refused,
}

/// The host's side of one instance.
pub(crate) struct State {
    limits: Limits,
    http: HttpClient,
    log: GuestLog,
    started: Instant,
    views: Vec<View>,
    batch: Option<Open>,
    exchanges: HashMap<u32, Exchange>,
    last_handle: u32,
    /// JSON is this many times as long as the columns: an estimate from the views, then measured.
    json_factor: usize,
    memory: usize,
    /// Ticks that the guest has run since it last got on.
    idle_ticks: u64,
    /// How far into the batch the guest has pulled, in rows.
    furthest: u64,
    rewinds: u32,
}

impl State {
    pub(crate) fn new(limits: Limits, http: HttpClient, sink_id: &str) -> Self {
        Self {
            limits,
            http,
            log: GuestLog::new(sink_id, limits.log_lines_per_second),
            started: Instant::now(),
            views: Vec::new(),
            batch: None,
            exchanges: HashMap::new(),
            last_handle: 0,
            json_factor: 1,
            memory: 0,
            idle_ticks: 0,
            furthest: 0,
            rewinds: 0,
        }
    }

    pub(crate) fn set_views(&mut self, views: Vec<View>) {
        self.json_factor = views.iter().map(json_size::factor).max().unwrap_or(1);
        self.views = views;
    }

    /// Starts a `write`: the handle goes to the guest.
    pub(crate) fn lend(&mut self, rows: Box<dyn BatchRows>) -> Resource<BatchHandle> {
        let handle = self.next_handle();
        self.batch = Some(Open {
            rows,
            handle,
            refused: Refused::default(),
        });
        self.furthest = 0;
        self.rewinds = 0;
        Resource::new_own(handle)
    }

    /// Starts a call with the whole of its idle time.
    pub(crate) fn begin_call(&mut self) {
        self.idle_ticks = 0;
    }

    /// Ends a call: whatever the guest left open is closed.
    pub(crate) fn end_call(&mut self) {
        self.batch = None;
        self.exchanges.clear();
        self.log.tell_dropped();
    }

    /// Counts a tick of running time.
    pub(crate) fn tick(&mut self) -> Result<(), Stop> {
        self.idle_ticks += 1;
        let allowed = self.limits.idle_timeout.as_millis() / crate::engine::TICK.as_millis();
        if u128::from(self.idle_ticks) > allowed.max(1) {
            return Err(Stop::NoProgress {
                seconds: self.limits.idle_timeout.as_secs(),
            });
        }
        Ok(())
    }

    fn next_handle(&mut self) -> u32 {
        self.last_handle = self.last_handle.wrapping_add(1);
        self.last_handle
    }

    fn open(&mut self, handle: &Resource<BatchHandle>) -> Result<&mut Open, PullError> {
        match &mut self.batch {
            Some(open) if open.handle == handle.rep() => Ok(open),
            _ => Err(PullError::SourceLost(
                "the batch is over: `write` returned".to_owned(),
            )),
        }
    }

    fn pull(
        &mut self,
        handle: &Resource<BatchHandle>,
        max_bytes: usize,
    ) -> Result<Option<(u64, Arc<Chunk>)>, PullError> {
        let max = max_bytes.clamp(1, self.limits.pull_bytes.max(1));
        let pulled = self.open(handle)?.rows.next(max)?;
        // Asking again at the end gets the guest nowhere, nor does reading for ever again.
        if let Some((first_row, chunk)) = &pulled {
            let end = first_row + chunk.rows() as u64;
            if end > self.furthest || self.rewinds <= REWINDS {
                self.idle_ticks = 0;
            }
            self.furthest = self.furthest.max(end);
        }
        Ok(pulled)
    }

    fn pull_json(
        &mut self,
        handle: &Resource<BatchHandle>,
        max_bytes: usize,
    ) -> Result<Option<String>, PullError> {
        let max_bytes = max_bytes.min(self.limits.pull_bytes);
        let Some((first_row, chunk)) = self.pull(handle, max_bytes / self.json_factor)? else {
            return Ok(None);
        };
        let view = self
            .views
            .get(chunk.view as usize)
            .filter(|view| view.columns.len() == chunk.columns.len())
            .ok_or_else(|| {
                PullError::SourceLost("the rows do not fit the view that was opened".to_owned())
            })?;
        let mut out = Vec::new();
        json::write_rows(&chunk, view, first_row, 0..chunk.rows(), &mut out);
        self.json_factor = out.len().div_ceil(chunk.byte_len().max(1)).max(1);
        // The rows stay as they are, so pulling them again cannot help.
        let text = String::from_utf8(out).map_err(|_| {
            PullError::Limit(format!(
                "a text value of `{}` is not UTF-8, which JSON cannot carry: pull columns instead",
                view.name
            ))
        })?;
        Ok(Some(text))
    }

    fn refuse(
        &mut self,
        handle: &Resource<BatchHandle>,
        row: u64,
        category: &str,
        message: &str,
    ) -> Result<(), PullError> {
        let open = self.open(handle)?;
        // A guest may well meet a row again after a rewind. It is durable already.
        if open.refused.contains(row) {
            return Ok(());
        }
        let (category, message) = (clean(category, CATEGORY), clean(message, MESSAGE));
        open.rows.reject(row, &category, &message)?;
        open.refused.insert(row);
        self.idle_ticks = 0;
        Ok(())
    }

    fn start_exchange(&mut self, request: http::Request) -> Result<u32, HttpError> {
        if self.exchanges.len() >= self.limits.resources {
            return Err(HttpError::Limit(format!(
                "{} exchanges are open: wait for some first",
                self.exchanges.len()
            )));
        }
        let exchange = self.http.start(Request {
            method: request.method,
            url: request.url,
            headers: request.headers,
            body: request.body,
            timeout_ms: request.timeout_ms,
        })?;
        let handle = self.next_handle();
        self.exchanges.insert(handle, exchange);
        Ok(handle)
    }

    async fn wait_exchange(&mut self, handle: u32) -> Result<http::Response, http::HttpError> {
        let Some(exchange) = self.exchanges.remove(&handle) else {
            return Err(http::HttpError::Invalid(
                "this exchange is over: wait for each once, in the call that started it".to_owned(),
            ));
        };
        let result = exchange.wait().await;
        // A request without an answer could be made again for ever.
        if result.is_ok() {
            self.idle_ticks = 0;
        }
        result.map(response).map_err(http_error)
    }
}

impl changes::Host for State {}

impl changes::HostBatch for State {
    fn info(&mut self, batch: Resource<BatchHandle>) -> wasmtime::Result<changes::Info> {
        match self.open(&batch) {
            Ok(open) => Ok(convert::info(open.rows.info())),
            Err(error) => Err(Stop::Contract(error.to_string()).into()),
        }
    }

    fn next(
        &mut self,
        batch: Resource<BatchHandle>,
        max_bytes: u32,
    ) -> wasmtime::Result<Result<Option<types::Chunk>, changes::PullError>> {
        let pulled = self.pull(&batch, max_bytes as usize);
        Ok(pulled
            .and_then(|next| {
                next.map(|(first_row, chunk)| convert::chunk(first_row, chunk))
                    .transpose()
            })
            .map_err(convert::pull_error))
    }

    fn next_json(
        &mut self,
        batch: Resource<BatchHandle>,
        max_bytes: u32,
    ) -> wasmtime::Result<Result<Option<String>, changes::PullError>> {
        Ok(self
            .pull_json(&batch, max_bytes as usize)
            .map_err(convert::pull_error))
    }

    fn rewind(&mut self, batch: Resource<BatchHandle>) -> wasmtime::Result<()> {
        // After `write` there is nothing to go back to; the next pull says so.
        if let Ok(open) = self.open(&batch) {
            open.rows.rewind();
            self.rewinds = self.rewinds.saturating_add(1);
        }
        Ok(())
    }

    fn reject(
        &mut self,
        batch: Resource<BatchHandle>,
        row: u64,
        category: String,
        message: String,
    ) -> wasmtime::Result<Result<(), changes::PullError>> {
        Ok(self
            .refuse(&batch, row, &category, &message)
            .map_err(convert::pull_error))
    }

    fn drop(&mut self, batch: Resource<BatchHandle>) -> wasmtime::Result<()> {
        if self.open(&batch).is_ok() {
            self.batch = None;
        }
        Ok(())
    }
}

impl http::Host for State {
    async fn send(
        &mut self,
        request: http::Request,
    ) -> wasmtime::Result<Result<http::Response, http::HttpError>> {
        match self.start_exchange(request) {
            Ok(handle) => Ok(self.wait_exchange(handle).await),
            Err(error) => Ok(Err(http_error(error))),
        }
    }

    fn start(
        &mut self,
        request: http::Request,
    ) -> wasmtime::Result<Result<Resource<ExchangeHandle>, http::HttpError>> {
        Ok(self
            .start_exchange(request)
            .map(Resource::new_own)
            .map_err(http_error))
    }
}

impl http::HostExchange for State {
    async fn wait(
        &mut self,
        exchange: Resource<ExchangeHandle>,
    ) -> wasmtime::Result<Result<http::Response, http::HttpError>> {
        Ok(self.wait_exchange(exchange.rep()).await)
    }

    fn drop(&mut self, exchange: Resource<ExchangeHandle>) -> wasmtime::Result<()> {
        self.exchanges.remove(&exchange.rep());
        Ok(())
    }
}

impl types::Host for State {}

impl log::Host for State {
    fn emit(
        &mut self,
        level: log::Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        self.log.emit(Instant::now(), level, &message, &fields);
        Ok(())
    }
}

impl clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<u64> {
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Ok(since.as_millis() as u64)
    }

    fn monotonic(&mut self) -> wasmtime::Result<u64> {
        Ok(self.started.elapsed().as_nanos() as u64)
    }
}

impl random::Host for State {
    fn bytes(&mut self, len: u32) -> wasmtime::Result<Vec<u8>> {
        if len > RANDOM {
            let text = format!("{len} random bytes at once; at most {RANDOM} are given");
            return Err(Stop::Contract(text).into());
        }
        let mut bytes = vec![0; len as usize];
        getrandom::fill(&mut bytes)
            .map_err(|e| wasmtime::Error::msg(format!("no random bytes from the system: {e}")))?;
        Ok(bytes)
    }
}

impl wasmtime::ResourceLimiter for State {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.grow(desired.saturating_sub(current))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // A table entry is a pointer in the host.
        self.grow(
            desired
                .saturating_sub(current)
                .saturating_mul(size_of::<usize>()),
        )
    }
}

impl State {
    fn grow(&mut self, more: usize) -> wasmtime::Result<bool> {
        let wanted = self.memory.saturating_add(more);
        if wanted > self.limits.memory {
            // A trap rather than -1: most languages abort on -1, without a word.
            return Err(Stop::Memory {
                wanted,
                limit: self.limits.memory,
            }
            .into());
        }
        self.memory = wanted;
        Ok(true)
    }
}

fn response(response: Response) -> http::Response {
    http::Response {
        status: response.status,
        headers: response.headers,
        body: response.body,
    }
}

fn http_error(error: HttpError) -> http::HttpError {
    match error {
        HttpError::Denied(text) => http::HttpError::Denied(text),
        HttpError::NotSent(text) => http::HttpError::NotSent(text),
        HttpError::MaybeSent(text) => http::HttpError::MaybeSent(text),
        HttpError::Limit(text) => http::HttpError::Limit(text),
        HttpError::Invalid(text) => http::HttpError::Invalid(text),
    }
}

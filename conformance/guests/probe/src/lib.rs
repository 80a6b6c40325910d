//! A sink that misbehaves on request, for tests of the host.
//!
//! Its configuration names a [`Behaviour`] and the call in which it happens; every other call is
//! well-behaved. The checkpoint is in the component's memory, or behind `store`: `GET` gives it
//! (404: none) and `PUT` replaces it without a comparison of its own. Nothing here is a model for
//! a real sink.

use std::sync::{Mutex, PoisonError};

use mz_sink_guest::{
    Batch, Clock, Context, Description, Envelope, Error, Failure, Guarantee, Http, Level, Log,
    Maintain, Op, Page, Random, ReadBack, Request, Response, Sink, ValueRef,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// What the probe does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// Pulls every row and commits.
    Ok,
    /// Never returns.
    Spin,
    /// Takes memory until there is none.
    Allocate,
    /// Executes an unreachable instruction.
    Trap,
    /// Panics.
    Panic,
    /// Fails as permanent.
    Permanent,
    /// Fails as retryable, asking for a pause of 1,234 ms.
    Retryable,
    /// Fails as unknown, without committing.
    Unknown,
    /// Commits, then fails as unknown.
    UnknownCommitted,
    /// Fails as a conflict with the text `other`.
    Conflict,
    /// Gets `url` and fails as permanent with the answer or the error as its message.
    Http,
    /// Writes 100,000 log lines of 1 KiB, then commits.
    LogFlood,
    /// Gives a checkpoint that no host wrote.
    BadCheckpoint,
    /// Refuses every row, then commits.
    Reject,
    /// Fails as permanent with control characters and a very long message.
    HostileMessage,
    /// Fails as permanent with the clocks' times and 8 random bytes as JSON.
    Capabilities,
    /// Posts `{"info", "json", "columns"}` to `url`, then commits; without one it fails as
    /// permanent with the same text.
    Dump,
}

/// The call in which the behaviour shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// In `open`.
    Open,
    /// In `checkpoint`.
    Checkpoint,
    /// In `write`.
    #[default]
    Write,
    /// In housekeeping.
    Maintain,
}

/// The probe's configuration.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What it does.
    pub behaviour: Behaviour,
    /// In which call.
    #[serde(default)]
    pub at: Call,
    /// For `http` and `dump`.
    #[serde(default)]
    pub url: String,
    /// Where the checkpoint is kept; in memory when absent.
    pub store: Option<String>,
    /// How many bytes to pull at once.
    #[serde(default = "default_pull_bytes")]
    pub pull_bytes: u32,
}

fn default_pull_bytes() -> u32 {
    1 << 20
}

static STORED: Mutex<Option<String>> = Mutex::new(None);

/// The probe.
pub struct Probe<H> {
    host: H,
    config: Config,
}

mz_sink_guest::export!(Probe<mz_sink_guest::Imports>, Maintain, ReadBack);

impl<H: Http + Log + Clock + Random> Sink for Probe<H> {
    type Host = H;
    type Config = Config;

    fn describe() -> Description {
        Description {
            name: "probe".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            guarantee: Guarantee::Convergent,
            envelope: Envelope::Upsert,
            netted: true,
        }
    }

    fn open(host: H, context: Context<Config>) -> Result<(Self, Option<String>), Error> {
        let config = context.config;
        let probe = Probe { host, config };
        if let Some(text) = probe.misbehave(Call::Open)? {
            return Ok((probe, Some(text)));
        }
        let stored = probe.load()?;
        Ok((probe, stored))
    }

    fn checkpoint(&mut self) -> Result<Option<String>, Error> {
        match self.misbehave(Call::Checkpoint)? {
            Some(text) => Ok(Some(text)),
            None => self.load(),
        }
    }

    fn write<B: Batch>(
        &mut self,
        batch: &mut B,
        expected: Option<&str>,
        next: &str,
    ) -> Result<(), Error> {
        self.misbehave(Call::Write)?;
        let here = |behaviour| self.config.at == Call::Write && self.config.behaviour == behaviour;
        if here(Behaviour::Dump) {
            let text = dump(batch, self.config.pull_bytes)?.to_string();
            if self.config.url.is_empty() {
                return Err(Error::permanent("dump", text));
            }
            self.request("POST", &self.config.url, text)?;
        } else {
            while let Some(chunk) = batch.next(self.config.pull_bytes)? {
                for row in chunk.rows().filter(|_| here(Behaviour::Reject)) {
                    batch.reject(row.position(), "refused", "the probe refuses every row")?;
                }
            }
        }
        let found = self.load()?;
        if found.as_deref() != expected {
            return Err(Error::Conflict(found));
        }
        self.store(next)?;
        if here(Behaviour::UnknownCommitted) {
            return Err(Error::unknown("probe", "committed, and the answer lost"));
        }
        Ok(())
    }
}

impl<H: Http + Log + Clock + Random> Maintain for Probe<H> {
    fn maintain(&mut self, committed: u64) -> Result<(), Error> {
        self.misbehave(Call::Maintain)?;
        self.host.log(
            Level::Info,
            "housekeeping",
            &[("committed", &committed.to_string())],
        );
        Ok(())
    }
}

/// Tells what it was asked.
impl<H: Http + Log + Clock + Random> ReadBack for Probe<H> {
    fn rows(&mut self, view: usize, after: Option<&[u8]>, max: u32) -> Result<Page, Error> {
        Ok(Page {
            rows: serde_json::json!([{ "view": view, "after": after, "max": max }]).to_string(),
            next: after.is_none().then(|| vec![0, 255]),
        })
    }
}

impl<H: Http + Log + Clock + Random> Probe<H> {
    /// Gives a checkpoint text when the behaviour is to lie about it.
    fn misbehave(&self, call: Call) -> Result<Option<String>, Error> {
        if self.config.at != call {
            return Ok(None);
        }
        match self.config.behaviour {
            Behaviour::Ok | Behaviour::Reject | Behaviour::Dump | Behaviour::UnknownCommitted => {}
            Behaviour::BadCheckpoint => return Ok(Some("{\"not\": \"a checkpoint\"".into())),
            Behaviour::Spin => loop {
                std::hint::black_box(self);
            },
            Behaviour::Allocate => {
                let mut taken = Vec::new();
                loop {
                    taken.push(vec![1_u8; 1 << 20]);
                    std::hint::black_box(&taken);
                }
            }
            Behaviour::Trap => std::process::abort(),
            Behaviour::Panic => panic!("the probe panics as it was told to"),
            Behaviour::Permanent => return Err(Error::permanent("probe", "permanent")),
            Behaviour::Retryable => {
                let failure = Failure::new("probe", "retryable").retry_after_ms(Some(1234));
                return Err(Error::Retryable(failure));
            }
            Behaviour::Unknown => return Err(Error::unknown("probe", "unknown")),
            Behaviour::Conflict => return Err(Error::Conflict(Some("other".into()))),
            Behaviour::LogFlood => {
                let line = "x".repeat(1024);
                (0..100_000).for_each(|_| self.host.log(Level::Info, &line, &[]));
            }
            Behaviour::HostileMessage => {
                let message = "\u{1b}[31mred\r\n\0".repeat(100_000);
                return Err(Error::permanent("Hostile Code\n", message));
            }
            Behaviour::Capabilities => {
                let text = json!({
                    "now_ms": self.host.now_ms(),
                    "monotonic_ns": self.host.monotonic_ns(),
                    "random": self.host.random_bytes(8),
                });
                return Err(Error::permanent("capabilities", text.to_string()));
            }
            Behaviour::Http => {
                let response = self.request("GET", &self.config.url, String::new())?;
                let body = String::from_utf8_lossy(&response.body);
                let text = format!("{} {body}", response.status);
                return Err(Error::permanent("http-answer", text));
            }
        }
        Ok(None)
    }

    fn load(&self) -> Result<Option<String>, Error> {
        let Some(url) = &self.config.store else {
            return Ok(STORED
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone());
        };
        let response = self.request("GET", url, String::new())?;
        let body = String::from_utf8_lossy(&response.body);
        Ok((response.status != 404).then(|| body.into_owned()))
    }

    fn store(&self, text: &str) -> Result<(), Error> {
        match &self.config.store {
            None => {
                let text = Some(text.to_owned());
                *STORED.lock().unwrap_or_else(PoisonError::into_inner) = text;
            }
            Some(url) => drop(self.request("PUT", url, text.to_owned())?),
        }
        Ok(())
    }

    fn request(&self, method: &str, url: &str, body: String) -> Result<Response, Error> {
        let request = Request {
            method: method.into(),
            url: url.into(),
            headers: vec![("authorization".into(), "Bearer {{secret:probe}}".into())],
            body: body.into_bytes(),
            timeout_ms: None,
        };
        let failed = |error| Error::permanent("http-error", format!("{error:?}"));
        self.host.send(request).map_err(failed)
    }
}

/// Everything in the batch, in both forms; a column's value is `[kind, text]`, or null.
fn dump<B: Batch>(batch: &mut B, pull_bytes: u32) -> Result<Value, Error> {
    let mut columns = Vec::new();
    while let Some(chunk) = batch.next(pull_bytes)? {
        for row in chunk.rows() {
            let values = (0..chunk.columns().len()).map(|column| match row.value(column)? {
                ValueRef::Bool(value) => Some(json!(["bool", value.to_string()])),
                ValueRef::Int(value) => Some(json!(["int", value.to_string()])),
                ValueRef::Uint(value) => Some(json!(["uint", value.to_string()])),
                ValueRef::Float(value) => Some(json!(["float", value.to_string()])),
                ValueRef::Text(value) => Some(json!(["text", value])),
                ValueRef::Bytes(value) => Some(json!(["bytes", value])),
            });
            columns.push(json!({
                "i": row.position(), "view": chunk.view(), "ts": row.timestamp(),
                "ord": row.ordinal(), "op": if row.op() == Op::Put { "put" } else { "delete" },
                "n": row.count(), "row": values.collect::<Vec<_>>(),
            }));
        }
    }
    batch.rewind();
    let mut rows = Vec::new();
    while let Some(text) = batch.next_json(pull_bytes)? {
        let page: Vec<Value> = serde_json::from_str(&text)
            .map_err(|error| Error::permanent("bad-json", error.to_string()))?;
        rows.extend(page);
    }
    let info = format!("{:?}", batch.info());
    Ok(json!({ "info": info, "json": rows, "columns": columns }))
}

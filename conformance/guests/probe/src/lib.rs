//! A sink that misbehaves on request, for tests of the host.
//!
//! Its checkpoint lives in the instance, so it is gone after a trap.

#![cfg(target_arch = "wasm32")]

use mz_sink_guest::{
    Batch, Chunk, Context, Description, Envelope, Error, Guarantee, Http, Level, Log, Request,
    Sink, Value,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// What to do in `write`, or in `open` where it says so.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// Take everything and commit.
    #[default]
    Ok,
    /// Never return.
    Spin,
    /// Allocate without end.
    Allocate,
    /// Panic.
    Panic,
    /// Panic in `open`.
    PanicInOpen,
    /// Answer `permanent`, with control characters and more text than is allowed.
    Permanent,
    /// Answer `retryable` with a wait of 1.5 seconds.
    Retryable,
    /// Answer `unknown`.
    Unknown,
    /// Answer `conflict` with another text.
    Conflict,
    /// Emit ten thousand log lines, then commit.
    LogFlood,
    /// Send a GET request to `url`; a status becomes a `permanent` failure with its body.
    Http,
    /// Refuse the first row, then commit.
    RejectFirst,
    /// Refuse a row that is not there.
    RejectNothing,
    /// Give every value back as text, in a `permanent` failure: `|` between values, `;` between
    /// rows, `NULL` for NULL.
    Echo,
}

/// Settings of the probe.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What to do.
    #[serde(default)]
    behaviour: Behaviour,
    /// For [`Behaviour::Http`].
    #[serde(default)]
    url: String,
    /// An `authorization` header for [`Behaviour::Http`].
    authorization: Option<String>,
}

struct Probe {
    host: mz_sink_guest::Host,
    config: Config,
    types: Vec<mz_sink_guest::ColumnType>,
    stored: Option<String>,
}

impl Sink for Probe {
    type Host = mz_sink_guest::Host;

    fn describe() -> Description {
        Description::new::<Config>("probe", Guarantee::Convergent, Envelope::Upsert)
    }

    fn open(host: mz_sink_guest::Host, context: &Context) -> Result<(Self, Option<String>), Error> {
        let config: Config = context.parse_config()?;
        if matches!(config.behaviour, Behaviour::PanicInOpen) {
            panic!("as asked");
        }
        let types = context
            .views
            .iter()
            .flat_map(|v| v.columns.iter().map(|c| c.ty.clone()));
        let probe = Self {
            host,
            types: types.collect(),
            config,
            stored: None,
        };
        Ok((probe, None))
    }

    fn checkpoint(&mut self) -> Result<Option<String>, Error> {
        Ok(self.stored.clone())
    }

    fn write(
        &mut self,
        batch: &mut dyn Batch,
        expected: Option<&str>,
        next: &str,
    ) -> Result<(), Error> {
        if self.stored.as_deref() != expected {
            return Err(Error::Conflict(self.stored.clone()));
        }
        self.misbehave(batch)?;
        while batch.next(1 << 20)?.is_some() {}
        self.stored = Some(next.into());
        Ok(())
    }
}

impl Probe {
    fn misbehave(&self, batch: &mut dyn Batch) -> Result<(), Error> {
        // The claim of the epoch goes through, so that there is a batch to misbehave on.
        if batch.info().rows == 0 {
            return Ok(());
        }
        match self.config.behaviour {
            Behaviour::Ok | Behaviour::PanicInOpen => Ok(()),
            Behaviour::Spin => {
                let mut n = 0u64;
                loop {
                    n = std::hint::black_box(n.wrapping_add(1));
                }
            }
            Behaviour::Allocate => {
                let mut all = Vec::new();
                loop {
                    all.push(std::hint::black_box(vec![1u8; 1 << 20]));
                }
            }
            Behaviour::Panic => panic!("as asked"),
            Behaviour::Permanent => Err(Error::permanent(
                "as-asked",
                format!("\u{1b}[31mred\n{}", "x".repeat(10_000)),
            )),
            Behaviour::Retryable => Err(Error::retryable("as-asked", "later").after(Some(1500))),
            Behaviour::Unknown => Err(Error::unknown("as-asked", "who knows")),
            Behaviour::Conflict => Err(Error::Conflict(Some("something else".into()))),
            Behaviour::LogFlood => {
                for n in 0..10_000 {
                    self.host
                        .log(Level::Info, &format!("line {n}\r\n\u{1b}[2J"));
                }
                Ok(())
            }
            Behaviour::Http => {
                let authorization = self.config.authorization.clone();
                let response = self.host.send(Request {
                    method: "GET".into(),
                    url: self.config.url.clone(),
                    headers: authorization
                        .map(|value| ("authorization".to_string(), value))
                        .into_iter()
                        .collect(),
                    body: Vec::new(),
                    timeout_ms: None,
                })?;
                let body = String::from_utf8_lossy(&response.body).into_owned();
                Err(Error::permanent(
                    "status",
                    format!("{} {body}", response.status),
                ))
            }
            Behaviour::RejectFirst => Ok(batch.reject(0, "as-asked", "the first row")?),
            Behaviour::RejectNothing => Ok(batch.reject(1 << 40, "as-asked", "no row")?),
            Behaviour::Echo => {
                let mut text = Vec::new();
                while let Some(chunk) = batch.next(1 << 20)? {
                    self.echo(&chunk, &mut text);
                }
                let text = String::from_utf8_lossy(&text).into_owned();
                Err(Error::permanent("echo", text))
            }
        }
    }

    fn echo(&self, chunk: &Chunk, out: &mut Vec<u8>) {
        for row in 0..chunk.rows as usize {
            for (column, ty) in chunk.columns.iter().zip(&self.types) {
                match column.get(row) {
                    Value::Null => out.extend_from_slice(b"NULL"),
                    value => value.write_text(ty, out),
                }
                out.push(b'|');
            }
            out.push(b';');
        }
    }
}

mz_sink_guest::export!(Probe);

//! The sections of the file and their defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use mz_sink_core::types::Envelope;
use serde::Deserialize;

use super::secrets::SecretSource;
use super::values::{bytes, duration};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The whole file, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct File {
    #[serde(rename = "version")]
    pub(super) _version: Option<i64>,
    pub(super) sink_id: String,
    #[serde(default)]
    pub(super) materialize: Materialize,
    pub(super) source: Source,
    #[serde(default)]
    pub(super) commit: Commit,
    #[serde(default)]
    pub(super) buffer: Buffer,
    #[serde(default)]
    pub(super) retry: Retry,
    #[serde(default)]
    pub(super) dead_letter: DeadLetter,
    #[serde(default)]
    pub(super) grants: Grants,
    #[serde(default)]
    pub(super) secrets: BTreeMap<String, SecretSource>,
    #[serde(default)]
    pub(super) limits: Limits,
    #[serde(default)]
    pub(super) component: Component,
    #[serde(default)]
    pub(super) sink: toml::Table,
}

/// How Materialize is reached.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Materialize {
    /// A PostgreSQL URL; `MATERIALIZE_URL` if it is not in the file.
    pub url: String,
    /// The environment variable that holds the password.
    pub password_env: Option<String>,
    /// The file that holds the password; read anew for every connection.
    pub password_file: Option<PathBuf>,
    /// The cluster that runs the subscription; the user's default otherwise.
    pub cluster: Option<String>,
}

/// Without the URL, which may hold a password.
impl std::fmt::Debug for Materialize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Materialize")
            .field("password_env", &self.password_env)
            .field("password_file", &self.password_file)
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Source {
    /// A table, source or materialized view: `database.schema.object`, or less of it.
    #[serde(default)]
    pub object: Option<String>,
    /// What the sink calls it; the object's own name unless given.
    #[serde(default)]
    pub name: Option<String>,
    /// The columns that identify a row.
    #[serde(default)]
    pub key: Vec<String>,
    /// Several objects that are read at one time, instead of `object`.
    #[serde(default)]
    pub views: Vec<SourceView>,
    /// How changes are expressed; as the sink wants them unless given.
    #[serde(default)]
    pub envelope: Option<Envelope>,
    /// Where the reading ends, in milliseconds since the epoch; exclusive.
    #[serde(default)]
    pub up_to: Option<u64>,
    /// Whether an object may be read whose history is too short to resume from.
    #[serde(default)]
    pub allow_short_retention: bool,
    /// When the history since the last commit is gone.
    #[serde(default)]
    pub on_history_loss: HistoryLoss,
    /// When several rows have one key.
    #[serde(default)]
    pub on_key_violation: KeyViolation,
    /// When columns were added.
    #[serde(default)]
    pub on_new_columns: NewColumns,
    /// Whether another object that got the name is read instead, with a new snapshot.
    #[serde(default)]
    pub refollow: bool,
}

impl Source {
    /// The objects, however they are written.
    pub fn views(&self) -> Vec<SourceView> {
        match &self.object {
            Some(object) => vec![SourceView {
                object: object.clone(),
                name: self.name.clone(),
                key: self.key.clone(),
            }],
            None => self.views.clone(),
        }
    }
}

/// One of several objects.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct SourceView {
    /// As [`Source::object`].
    pub object: String,
    /// As [`Source::name`].
    #[serde(default)]
    pub name: Option<String>,
    /// As [`Source::key`].
    #[serde(default)]
    pub key: Vec<String>,
}

/// When the history since the last commit is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryLoss {
    /// Stop.
    #[default]
    Stall,
    /// Read the object anew.
    Resnapshot,
    /// Leave out what is gone.
    SkipToNow,
}

/// When several rows have one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyViolation {
    /// Leave the key out, and put it into the dead-letter log.
    #[default]
    Reject,
    /// Stop.
    Stall,
}

/// When columns were added to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NewColumns {
    /// Stop.
    #[default]
    Stop,
    /// Leave them out.
    Ignore,
}

/// When a write has failed until the retries were spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteFailure {
    /// Stop.
    #[default]
    Stall,
    /// Put the batch into the dead-letter log, and go on after it.
    Skip,
}

/// When the sink commits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Commit {
    /// Shortest time between two commits; zero commits whenever a timestamp is complete.
    #[serde(deserialize_with = "duration")]
    pub interval: Duration,
    /// Longest time that progress without changes stays uncommitted.
    #[serde(deserialize_with = "duration")]
    pub idle_interval: Duration,
    /// Bytes of changes that are committed at once at most, if they are of several timestamps.
    #[serde(deserialize_with = "bytes")]
    pub max_bytes: u64,
    /// Shortest time between two calls of the sink's housekeeping, if it has any.
    #[serde(deserialize_with = "duration")]
    pub maintenance_interval: Duration,
}

impl Default for Commit {
    fn default() -> Self {
        Self {
            interval: Duration::ZERO,
            idle_interval: Duration::from_secs(10),
            max_bytes: 64 * MIB,
            maintenance_interval: Duration::from_secs(600),
        }
    }
}

/// Where changes wait for their timestamp to be complete.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Buffer {
    /// Bytes in memory; the rest goes to disk.
    #[serde(deserialize_with = "bytes")]
    pub memory: u64,
    /// Bytes on disk at most.
    #[serde(deserialize_with = "bytes")]
    pub spill: u64,
    /// The directory for that; the system's temporary one unless given.
    pub dir: Option<PathBuf>,
}

impl Default for Buffer {
    fn default() -> Self {
        Self {
            memory: 64 * MIB,
            spill: 4 * GIB,
            dir: None,
        }
    }
}

/// What happens after an error that may go away.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Retry {
    /// Retries in a row.
    pub attempts: u32,
    /// The first wait at most.
    #[serde(deserialize_with = "duration")]
    pub min_backoff: Duration,
    /// Every wait at most.
    #[serde(deserialize_with = "duration")]
    pub max_backoff: Duration,
    /// When a write has failed that often.
    pub on_failure: WriteFailure,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 10,
            min_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(60),
            on_failure: WriteFailure::Stall,
        }
    }
}

/// Where rows go that the sink rejects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct DeadLetter {
    /// A JSON-lines file; only a log line without values unless given.
    pub path: Option<PathBuf>,
    /// Whether the log line names the key.
    pub log_key: bool,
}

/// What the sink may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Grants {
    /// Origins, with a path where needed.
    pub http: Vec<String>,
    /// Address ranges that granted names may stand for although they are not public.
    pub http_private: Vec<String>,
}

/// The limits of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Limits {
    /// Bytes of memory of the sink.
    #[serde(deserialize_with = "bytes")]
    pub memory: u64,
    /// How long the sink may compute without asking for anything.
    #[serde(deserialize_with = "duration")]
    pub idle_timeout: Duration,
    /// How long an HTTP exchange may take.
    #[serde(deserialize_with = "duration")]
    pub http_timeout: Duration,
    /// HTTP exchanges at one time.
    pub http_in_flight: usize,
    /// Bytes of one request body.
    #[serde(deserialize_with = "bytes")]
    pub http_request: u64,
    /// Bytes of one response body.
    #[serde(deserialize_with = "bytes")]
    pub http_response: u64,
    /// Lines of the sink that reach the log.
    pub log_lines_per_second: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 512 * MIB,
            idle_timeout: Duration::from_secs(60),
            http_timeout: Duration::from_secs(60),
            http_in_flight: 16,
            http_request: 64 * MIB,
            http_response: 64 * MIB,
            log_lines_per_second: 100,
        }
    }
}

/// The component itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Component {
    /// `sha256:` and 64 hex digits; any component runs unless given.
    pub digest: Option<String>,
    /// Where compiled components are kept; the user's cache directory unless given.
    pub cache_dir: Option<PathBuf>,
}

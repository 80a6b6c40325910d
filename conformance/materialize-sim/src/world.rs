//! The server's state: objects, their clocks, and what tests look at.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::{Notify, watch};

use crate::bench::{Bench, BenchFeed};
use crate::error::{SimError, SqlError};
use crate::feed::{Feed, LedgerFeed, Request, project};
use crate::hold::Holds;
use crate::ledger::Ledger;
use crate::recording::Recording;
use crate::recording_feed::RecordingFeed;
use crate::row::{Change, Row};
use crate::types::Column;
use crate::{lock, wall_clock};

/// Retention of an object that asks for none, in milliseconds.
pub const DEFAULT_RETENTION_MS: u64 = 1000;

/// `database.schema.name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) database: String,
    pub(crate) schema: String,
    pub(crate) item: String,
}

impl Name {
    /// A name of one to three parts, the missing ones being `materialize` and `public`.
    pub(crate) fn from_parts(parts: &[String], database: &str, schema: &str) -> Self {
        let mut from_the_end = parts.iter().rev().cloned();
        let item = from_the_end.next().unwrap_or_default();
        let schema = from_the_end.next().unwrap_or_else(|| schema.to_owned());
        let database = from_the_end.next().unwrap_or_else(|| database.to_owned());
        Self {
            database,
            schema,
            item,
        }
    }

    /// As the library takes it: parts separated by dots, nothing quoted.
    pub(crate) fn parse(text: &str) -> Self {
        let parts: Vec<String> = text.split('.').map(str::to_owned).collect();
        Self::from_parts(&parts, "materialize", "public")
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.database, self.schema, self.item)
    }
}

/// What kind of object it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A table.
    Table,
    /// A materialized view.
    MaterializedView,
    /// A view without storage: it reads its inputs again for every subscription.
    View,
}

impl Kind {
    /// As in `mz_objects.type`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::MaterializedView => "materialized-view",
            Self::View => "view",
        }
    }

    /// As in SQL.
    pub(crate) fn keyword(self) -> &'static str {
        match self {
            Self::Table => "TABLE",
            Self::MaterializedView => "MATERIALIZED VIEW",
            Self::View => "VIEW",
        }
    }
}

/// Where the rows of an object come from.
#[derive(Clone)]
pub(crate) enum Content {
    /// A history of its own, or columns of another object's.
    Ledger {
        ledger: Arc<Mutex<Ledger>>,
        columns: Option<Vec<usize>>,
    },
    Recording(Arc<Recording>),
    Bench(Arc<Bench>),
}

/// A table or view.
pub(crate) struct Object {
    pub(crate) id: u64,
    pub(crate) oid: u32,
    pub(crate) name: Name,
    pub(crate) kind: Kind,
    pub(crate) columns: Vec<Column>,
    pub(crate) content: Content,
    pub(crate) holds: Holds,
    retention_ms: AtomicU64,
    created_at: u64,
    dropped: OnceLock<()>,
}

/// Where an object can be read.
pub(crate) struct Frontiers {
    pub(crate) since: u64,
    /// `None` if it is complete.
    pub(crate) upper: Option<u64>,
}

impl Object {
    /// The catalog id, `u<number>`.
    pub(crate) fn catalog_id(&self) -> String {
        format!("u{}", self.id)
    }

    pub(crate) fn retention_ms(&self) -> u64 {
        self.retention_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn set_retention_ms(&self, retention_ms: u64) {
        self.retention_ms.store(retention_ms, Ordering::Relaxed);
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.get().is_some()
    }

    pub(crate) fn frontiers(&self) -> Frontiers {
        match &self.content {
            Content::Ledger { ledger, .. } => {
                let ledger = lock(ledger);
                if ledger.finished() {
                    return Frontiers {
                        since: 0,
                        upper: None,
                    };
                }
                let upper = ledger.upper();
                let since = upper
                    .saturating_sub(self.retention_ms())
                    .max(self.created_at);
                let since = since.min(self.holds.earliest().unwrap_or(u64::MAX));
                Frontiers {
                    since: since.min(upper - 1),
                    upper: Some(upper),
                }
            }
            // Their whole history is kept.
            Content::Recording(recording) => Frontiers {
                since: recording.start,
                upper: Some(recording.revealed()),
            },
            Content::Bench(bench) => Frontiers {
                since: bench.start,
                upper: Some(bench.upper()),
            },
        }
    }

    /// AS OF of a subscription that names none.
    pub(crate) fn default_as_of(&self) -> u64 {
        match (&self.content, self.frontiers().upper) {
            (Content::Recording(recording), _) => recording.start,
            (Content::Bench(bench), _) => bench.start,
            (_, Some(upper)) => upper - 1,
            (_, None) => wall_clock(),
        }
    }

    pub(crate) fn subscribe(&self, request: Request) -> Result<Box<dyn Feed>, SqlError> {
        Ok(match &self.content {
            Content::Ledger { ledger, columns } => {
                Box::new(LedgerFeed::new(ledger.clone(), columns.clone(), request))
            }
            Content::Recording(recording) => {
                Box::new(RecordingFeed::new(recording.clone(), request))
            }
            Content::Bench(bench) => Box::new(BenchFeed::new(bench.clone(), request)?),
        })
    }

    /// Every distinct row of the contents at `as_of` with its multiplicity.
    pub(crate) fn for_each_row(&self, as_of: u64, mut each: impl FnMut(&Row, i64)) {
        match &self.content {
            Content::Ledger { ledger, columns } => {
                let contents = lock(ledger).contents(as_of);
                for (row, count) in project(contents, columns.as_deref()) {
                    each(&row, count);
                }
            }
            Content::Recording(recording) => recording.for_each_row(as_of, each),
            Content::Bench(bench) => bench.for_each_row(as_of, each),
        }
    }
}

/// An index, which decides what a subscription in its cluster can still read.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) id: u64,
    pub(crate) oid: u32,
    pub(crate) name: String,
    pub(crate) on: u64,
    pub(crate) cluster: String,
}

/// What makes timestamps.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock {
    Wall,
    /// It stands still until it is set again.
    Held(u64),
}

pub(crate) struct Inner {
    pub(crate) clock: Clock,
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) clusters: Vec<String>,
    /// Everything besides `materialize.public`, as `(database, schema)`.
    pub(crate) schemas: Vec<(String, String)>,
    pub(crate) statements: Vec<String>,
    pub(crate) backends: HashMap<i32, (i32, Arc<Notify>)>,
    next_id: u64,
}

/// Everything the sessions share.
pub(crate) struct World {
    inner: Mutex<Inner>,
    /// Counts up whenever a frontier moved or an object went away.
    pub(crate) changed: watch::Sender<u64>,
    /// Counts up when every connection must close.
    pub(crate) killed: watch::Sender<u64>,
    /// While true no session sends anything.
    pub(crate) stalled: watch::Sender<bool>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            inner: Mutex::new(Inner {
                clock: Clock::Wall,
                objects: Vec::new(),
                indexes: Vec::new(),
                clusters: vec!["quickstart".to_owned()],
                schemas: vec![("materialize".to_owned(), "public".to_owned())],
                statements: Vec::new(),
                backends: HashMap::new(),
                next_id: 1,
            }),
            changed: watch::Sender::new(0),
            killed: watch::Sender::new(0),
            stalled: watch::Sender::new(false),
        }
    }

    pub(crate) fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    pub(crate) fn notify(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Lets every table's frontier follow the clock.
    pub(crate) fn tick(&self) {
        let inner = self.inner();
        let now = inner.now();
        for object in &inner.objects {
            if let Content::Ledger { ledger, .. } = &object.content {
                lock(ledger).advance(now);
            }
        }
        drop(inner);
        self.notify();
    }

    /// Writes to a table at the next timestamp, which is returned.
    pub(crate) fn write(&self, object: &Object, changes: Vec<Change>) -> Result<u64, SimError> {
        let not_writable = || SimError::NotWritable(object.name.to_string());
        let Content::Ledger {
            ledger,
            columns: None,
        } = &object.content
        else {
            return Err(not_writable());
        };
        for (row, _) in &changes {
            if row.len() != object.columns.len() {
                return Err(SimError::Width {
                    object: object.name.to_string(),
                    expected: object.columns.len(),
                    got: row.len(),
                });
            }
        }
        let inner = self.inner();
        let mut ledger = lock(ledger);
        if ledger.finished() {
            return Err(not_writable());
        }
        let time = inner.now().max(ledger.upper());
        ledger.append(
            time,
            changes
                .into_iter()
                .map(|(row, diff)| (Arc::new(row), diff))
                .collect(),
        );
        drop(ledger);
        drop(inner);
        self.notify();
        Ok(time)
    }

    /// Adds an object; its frontier starts at the clock.
    pub(crate) fn create(
        &self,
        name: Name,
        kind: Kind,
        columns: Vec<Column>,
        retention_ms: Option<u64>,
        content: Option<Content>,
    ) -> Result<Arc<Object>, SimError> {
        let mut inner = self.inner();
        if inner.find(&name).is_some() {
            return Err(SimError::Exists(name.to_string()));
        }
        let now = inner.now();
        let content = content.unwrap_or_else(|| Content::Ledger {
            ledger: Arc::new(Mutex::new(Ledger::new(now + 1))),
            columns: None,
        });
        let id = inner.take_id();
        let object = Arc::new(Object {
            id,
            oid: oid_of(id),
            name,
            kind,
            columns,
            content,
            holds: Holds::default(),
            retention_ms: AtomicU64::new(retention_ms.unwrap_or(DEFAULT_RETENTION_MS)),
            created_at: now,
            dropped: OnceLock::new(),
        });
        inner.objects.push(object.clone());
        Ok(object)
    }

    /// Removes an object; running subscriptions to it fail.
    pub(crate) fn drop_object(&self, name: &Name) -> Option<Arc<Object>> {
        let mut inner = self.inner();
        let at = inner.objects.iter().position(|o| o.name == *name)?;
        let object = inner.objects.remove(at);
        inner.indexes.retain(|index| index.on != object.id);
        // Only this place sets it, once per object.
        let _ = object.dropped.set(());
        drop(inner);
        self.notify();
        Some(object)
    }
}

/// Object ids and OIDs of a real server run in parallel.
pub(crate) fn oid_of(id: u64) -> u32 {
    20_228 + id as u32
}

impl Inner {
    pub(crate) fn now(&self) -> u64 {
        match self.clock {
            Clock::Wall => wall_clock(),
            Clock::Held(time) => time,
        }
    }

    pub(crate) fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    pub(crate) fn find(&self, name: &Name) -> Option<&Arc<Object>> {
        self.objects.iter().find(|o| o.name == *name)
    }

    pub(crate) fn find_id(&self, id: &str) -> Option<&Arc<Object>> {
        let id = id.strip_prefix('u')?.parse::<u64>().ok()?;
        self.objects.iter().find(|o| o.id == id)
    }
}

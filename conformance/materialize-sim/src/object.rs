//! One table or view: who it is, where its rows come from, and when it can be read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::bench::{Bench, BenchFeed};
use crate::derived::Derivation;
use crate::error::SqlError;
use crate::faults::Faults;
use crate::feed::{Feed, LedgerFeed, Request};
use crate::hold::Holds;
use crate::ledger::Ledger;
use crate::lock;
use crate::recording::Recording;
use crate::recording_feed::RecordingFeed;
use crate::row::Row;
use crate::types::Column;

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
    Ledger(Arc<Mutex<Ledger>>),
    Recording(Arc<Recording>),
    Bench(Arc<Bench>),
}

/// What a swap or a replacement changes about an object that stays the same.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) id: u64,
    pub(crate) name: Name,
    /// The oldest first; each replacement adds one, all on the same shard.
    pub(crate) global_ids: Vec<u64>,
}

/// A table or view.
pub(crate) struct Object {
    identity: Mutex<Identity>,
    pub(crate) kind: Kind,
    pub(crate) columns: Vec<Column>,
    pub(crate) content: Content,
    /// What a view computes; `None` for everything that is written to.
    derivation: Mutex<Option<Arc<Derivation>>>,
    /// The view that this one is made to replace.
    pub(crate) replaces: Option<Arc<Object>>,
    pub(crate) holds: Holds,
    pub(crate) faults: Mutex<Faults>,
    retention_ms: AtomicU64,
    /// The read frontier never goes back, whatever happens to the retention.
    compacted: AtomicU64,
    dropped: OnceLock<()>,
}

/// Where an object can be read.
pub(crate) struct Frontiers {
    pub(crate) since: u64,
    /// `None` if it is complete.
    pub(crate) upper: Option<u64>,
}

/// What an object is made of.
pub(crate) struct Parts {
    pub(crate) kind: Kind,
    pub(crate) columns: Vec<Column>,
    /// Made from the derivation, or empty, if `None`.
    pub(crate) content: Option<Content>,
    pub(crate) derivation: Option<Derivation>,
    pub(crate) replaces: Option<Arc<Object>>,
    pub(crate) retention_ms: Option<u64>,
}

impl Parts {
    /// An object that is written to.
    pub(crate) fn writable(kind: Kind, columns: Vec<Column>, retention_ms: Option<u64>) -> Self {
        Self {
            kind,
            columns,
            content: None,
            derivation: None,
            replaces: None,
            retention_ms,
        }
    }

    fn take_content(&mut self, now: u64) -> Content {
        if let Some(content) = self.content.take() {
            return content;
        }
        let ledger = match &self.derivation {
            Some(derivation) => derivation.ledger(now),
            None => Ledger::new(now + 1),
        };
        Content::Ledger(Arc::new(Mutex::new(ledger)))
    }
}

impl Object {
    pub(crate) fn new(id: u64, name: Name, mut parts: Parts, created_at: u64) -> Self {
        let content = parts.take_content(created_at);
        Self {
            identity: Mutex::new(Identity {
                id,
                name,
                global_ids: vec![id],
            }),
            kind: parts.kind,
            columns: parts.columns,
            content,
            derivation: Mutex::new(parts.derivation.map(Arc::new)),
            replaces: parts.replaces,
            holds: Holds::default(),
            faults: Mutex::default(),
            retention_ms: AtomicU64::new(parts.retention_ms.unwrap_or(DEFAULT_RETENTION_MS)),
            compacted: AtomicU64::new(created_at),
            dropped: OnceLock::new(),
        }
    }

    pub(crate) fn identity(&self) -> Identity {
        lock(&self.identity).clone()
    }

    pub(crate) fn id(&self) -> u64 {
        lock(&self.identity).id
    }

    pub(crate) fn name(&self) -> Name {
        lock(&self.identity).name.clone()
    }

    pub(crate) fn is_named(&self, name: &Name) -> bool {
        lock(&self.identity).name == *name
    }

    /// The catalog id, `u<number>`.
    pub(crate) fn catalog_id(&self) -> String {
        format!("u{}", self.id())
    }

    /// What its shard is named after: a replacement writes to that of what it replaces.
    pub(crate) fn shard(&self) -> u64 {
        match &self.replaces {
            Some(replaced) => replaced.shard(),
            None => lock(&self.identity).global_ids[0],
        }
    }

    pub(crate) fn move_to_schema(&self, schema: &str) {
        schema.clone_into(&mut lock(&self.identity).name.schema);
    }

    /// Takes over the id of a replacement.
    pub(crate) fn become_id(&self, id: u64) {
        let mut identity = lock(&self.identity);
        identity.id = id;
        identity.global_ids.push(id);
    }

    pub(crate) fn derivation(&self) -> Option<Arc<Derivation>> {
        lock(&self.derivation).clone()
    }

    pub(crate) fn set_derivation(&self, derivation: Option<Arc<Derivation>>) {
        *lock(&self.derivation) = derivation;
    }

    /// Whether this is a view that reads `input`, itself or through other views.
    pub(crate) fn reads(&self, input: &Arc<Object>) -> bool {
        self.derivation()
            .is_some_and(|d| Arc::ptr_eq(&d.input, input) || d.input.reads(input))
    }

    pub(crate) fn is_replacement_for(&self, view: &Arc<Object>) -> bool {
        let replaced = self.replaces.as_ref();
        replaced.is_some_and(|replaced| Arc::ptr_eq(replaced, view))
    }

    pub(crate) fn retention_ms(&self) -> u64 {
        self.retention_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn set_retention_ms(&self, retention_ms: u64) {
        // What is gone by the old retention stays gone.
        self.frontiers();
        self.retention_ms.store(retention_ms, Ordering::Relaxed);
    }

    /// Forgets the history below `since`.
    pub(crate) fn compact(&self, since: u64) {
        self.compacted.fetch_max(since, Ordering::Relaxed);
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.get().is_some()
    }

    /// The name of what was dropped: this object, or what it reads.
    pub(crate) fn dropped_input(&self) -> Option<Name> {
        match self.derivation() {
            _ if self.is_dropped() => Some(self.name()),
            Some(derivation) => derivation.input.dropped_input(),
            None => None,
        }
    }

    pub(crate) fn set_dropped(&self) {
        // Dropping twice is dropping.
        let _ = self.dropped.set(());
    }

    pub(crate) fn frontiers(&self) -> Frontiers {
        match &self.content {
            Content::Ledger(ledger) => {
                let ledger = lock(ledger);
                if ledger.finished() {
                    return Frontiers {
                        since: 0,
                        upper: None,
                    };
                }
                let upper = ledger.upper();
                // A real server forgets history by whole seconds.
                let wanted = upper.saturating_sub(self.retention_ms()) / 1000 * 1000;
                let held = wanted.min(self.holds.earliest().unwrap_or(u64::MAX));
                let since = self.compacted.fetch_max(held, Ordering::Relaxed).max(held);
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

    /// The first time that can be written at, as far as this object is concerned.
    pub(crate) fn open_from(&self) -> u64 {
        match &self.content {
            Content::Ledger(ledger) => lock(ledger).reached(),
            Content::Recording(_) | Content::Bench(_) => 0,
        }
    }

    /// AS OF of a subscription that names none.
    pub(crate) fn default_as_of(&self, now: u64) -> u64 {
        match (&self.content, self.frontiers().upper) {
            (Content::Recording(recording), _) => recording.start,
            (Content::Bench(bench), _) => bench.start,
            (_, Some(upper)) => upper - 1,
            (_, None) => now,
        }
    }

    pub(crate) fn subscribe(&self, request: Request) -> Result<Box<dyn Feed>, SqlError> {
        Ok(match &self.content {
            Content::Ledger(ledger) => Box::new(LedgerFeed::new(ledger.clone(), request)),
            Content::Recording(recording) => {
                Box::new(RecordingFeed::new(recording.clone(), request))
            }
            Content::Bench(bench) => Box::new(BenchFeed::new(bench.clone(), request)?),
        })
    }

    /// Every distinct row of the contents at `as_of` with its multiplicity.
    pub(crate) fn for_each_row(&self, as_of: u64, mut each: impl FnMut(&Row, i64)) {
        match &self.content {
            Content::Ledger(ledger) => {
                let contents = lock(ledger).contents(as_of);
                for (row, count) in contents {
                    each(&row, count);
                }
            }
            Content::Recording(recording) => recording.for_each_row(as_of, each),
            Content::Bench(bench) => bench.for_each_row(as_of, each),
        }
    }

    /// Why the contents at `as_of` cannot be read: a view failed to compute one of its rows.
    pub(crate) fn evaluation_error(&self, as_of: u64) -> Option<SqlError> {
        match &self.content {
            Content::Ledger(ledger) => lock(ledger).error_at(as_of),
            Content::Recording(_) | Content::Bench(_) => None,
        }
    }
}

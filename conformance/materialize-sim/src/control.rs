//! The handle through which tests change and look at the server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::bench::{Bench, BenchOptions};
use crate::error::SimError;
use crate::object::{Content, Kind, Name, Object, Parts};
use crate::recording::{Recording, ReplayOptions};
use crate::row::{Change, Row};
use crate::types::Column;
use crate::world::{Clock, World};

/// What recorded and generated objects say they retain.
const DAY_MS: u64 = 86_400_000;

/// Changes and looks at a running [`Server`](crate::Server). Cheap to clone.
///
/// Objects are named `[database.][schema.]name`; what is left out is `materialize.public`.
/// Times are milliseconds since the epoch.
#[derive(Clone)]
pub struct Control {
    pub(crate) world: Arc<World>,
}

impl Control {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self { world }
    }

    /// Adds an empty object, writable with [`Control::apply`]. `retention_ms` as by RETAIN HISTORY.
    ///
    /// # Errors
    /// [`SimError::Exists`] if the name is taken.
    pub fn create(
        &self,
        name: &str,
        kind: Kind,
        columns: Vec<Column>,
        retention_ms: Option<u64>,
    ) -> Result<(), SimError> {
        let parts = Parts::writable(kind, columns, retention_ms);
        self.add(Name::parse(name), parts)
    }

    /// Adds an empty table; see [`Control::create`].
    ///
    /// # Errors
    /// [`SimError::Exists`] if the name is taken.
    pub fn create_table(
        &self,
        name: &str,
        columns: Vec<Column>,
        retention_ms: Option<u64>,
    ) -> Result<(), SimError> {
        self.create(name, Kind::Table, columns, retention_ms)
    }

    fn add(&self, name: Name, parts: Parts) -> Result<(), SimError> {
        let pair = (name.database.clone(), name.schema.clone());
        let mut inner = self.world.inner();
        if !inner.schemas.contains(&pair) {
            inner.schemas.push(pair);
        }
        drop(inner);
        self.world.create(name, parts).map(|_| ())
    }

    /// Writes at the next timestamp, which is returned and closed.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`], [`SimError::Width`], or [`SimError::NotWritable`].
    pub fn apply(&self, name: &str, changes: Vec<Change>) -> Result<u64, SimError> {
        self.world.write(&self.object(name)?, changes)
    }

    /// Drops an object; running subscriptions to it fail.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn drop_object(&self, name: &str) -> Result<(), SimError> {
        let dropped = self.world.drop_object(&Name::parse(name));
        dropped
            .map(|_| ())
            .ok_or_else(|| SimError::UnknownObject(name.to_owned()))
    }

    /// Adds a recorded stream as the materialized view it was recorded from; its full name.
    ///
    /// A subscription without AS OF starts where the recording does. The whole history stays
    /// readable, and after the end the frontier goes on.
    ///
    /// # Errors
    /// [`SimError::Recording`] if the file is no recording, [`SimError::Exists`].
    pub fn replay(&self, file: &Path, options: ReplayOptions) -> Result<String, SimError> {
        let recording = Recording::read(file, options)?;
        let name = recording.name.clone();
        let columns = recording.columns.clone();
        let content = Content::Recording(Arc::new(recording));
        let parts = Parts::writable(Kind::MaterializedView, columns, Some(DAY_MS));
        let content = Some(content);
        self.add(Name::parse(&name), Parts { content, ..parts })?;
        Ok(name)
    }

    /// Adds a generated table for measurements: `rows` rows of eight columns at one timestamp,
    /// keyed by `id`, then steady updates. Nothing of it is kept in memory.
    ///
    /// # Errors
    /// [`SimError::Exists`] if the name is taken.
    pub fn create_bench(&self, name: &str, options: BenchOptions) -> Result<(), SimError> {
        let bench = Bench::new(options);
        let columns = bench.columns.clone();
        let content = Content::Bench(Arc::new(bench));
        let parts = Parts::writable(Kind::Table, columns, Some(DAY_MS));
        let content = Some(content);
        self.add(Name::parse(name), Parts { content, ..parts })
    }

    /// The contents at `time`: each distinct row with its multiplicity.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn fold(&self, name: &str, time: u64) -> Result<BTreeMap<Row, i64>, SimError> {
        let mut rows = BTreeMap::new();
        self.for_each_row(name, time, |row, count| {
            *rows.entry(row.clone()).or_default() += count;
        })?;
        Ok(rows)
    }

    /// The same as [`Control::fold`] without holding the rows: for large objects.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn for_each_row(
        &self,
        name: &str,
        time: u64,
        each: impl FnMut(&Row, i64),
    ) -> Result<(), SimError> {
        self.object(name)?.for_each_row(time, each);
        Ok(())
    }

    /// The write frontier of an object: times below it are closed. `None` if it is complete.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn frontier(&self, name: &str) -> Result<Option<u64>, SimError> {
        Ok(self.object(name)?.frontiers().upper)
    }

    /// First timestamp after the end of a replayed recording; `None` for other objects.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn recording_end(&self, name: &str) -> Result<Option<u64>, SimError> {
        Ok(match &self.object(name)?.content {
            Content::Recording(recording) => Some(recording.end()),
            _ => None,
        })
    }

    /// Closes every connection without a word, as a server does that stops.
    pub fn kill_connections(&self) {
        self.world.killed.send_modify(|count| *count += 1);
    }

    /// Makes every session hang (nothing is answered or sent, sockets stay open), or go on.
    pub fn stall(&self, stalled: bool) {
        self.world.stalled.send_replace(stalled);
        self.world.notify();
    }

    /// Stops the clock of tables at `time`, or lets it follow the wall clock again.
    ///
    /// Frontiers move to the time at once. Writes still get increasing timestamps.
    pub fn set_clock(&self, time: Option<u64>) {
        self.world.inner().clock = time.map_or(Clock::Wall, Clock::Held);
        self.world.tick();
    }

    /// Every SQL text received so far, oldest first.
    pub fn statements(&self) -> Vec<String> {
        self.world.inner().statements.clone()
    }

    /// The number of sessions.
    pub fn connections(&self) -> usize {
        self.world.inner().backends.len()
    }

    pub(crate) fn object(&self, name: &str) -> Result<Arc<Object>, SimError> {
        let found = self.world.inner().find(&Name::parse(name)).cloned();
        found.ok_or_else(|| SimError::UnknownObject(name.to_owned()))
    }
}

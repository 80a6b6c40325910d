//! The server's state: its objects, its clock, and what tests look at.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::derived::Derived;
use crate::error::SimError;
use crate::faults::{Failure, Logins};
use crate::object::{Content, Name, Object, Parts};
use crate::privileges::Privileges;
use crate::row::Change;
use crate::server::TimeLimits;
use crate::{lock, wall_clock};

/// An index, which decides what a subscription in its cluster can still read.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) on: u64,
    pub(crate) cluster: String,
    pub(crate) created_at: u64,
}

/// What makes timestamps.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock {
    Wall,
    /// It stands still until it is set again.
    Held(u64),
}

/// A running SUBSCRIBE, as the catalog lists it.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) session: String,
    pub(crate) cluster: String,
    pub(crate) created_at: u64,
    pub(crate) object: String,
}

/// `max_result_size` of a server that was not told otherwise, in bytes.
pub(crate) const DEFAULT_MAX_RESULT_SIZE: u64 = 1 << 30;

pub(crate) struct Inner {
    pub(crate) clock: Clock,
    pub(crate) objects: Vec<Arc<Object>>,
    /// What subscriptions to queries read, for as long as they last.
    pub(crate) queries: Vec<Weak<Object>>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) clusters: Vec<String>,
    /// Everything besides `materialize.public`, as `(database, schema)`.
    pub(crate) schemas: Vec<(String, String)>,
    pub(crate) statements: Vec<String>,
    pub(crate) backends: HashMap<i32, (i32, Arc<Notify>)>,
    pub(crate) subscriptions: BTreeMap<u64, Subscription>,
    pub(crate) privileges: Privileges,
    /// In bytes, of all updates between two progress rows.
    pub(crate) max_result_size: u64,
    /// In bytes, of what a client has not fetched yet.
    pub(crate) max_buffered_bytes: u64,
    /// How far behind the clock a SERIALIZABLE transaction reads, in milliseconds.
    pub(crate) serializable_lag: u64,
    pub(crate) logins: Logins,
    /// Asked for if there is one.
    pub(crate) password: Option<String>,
    /// Sources with `ENVELOPE MATERIALIZE`, by catalog id.
    pub(crate) own_timelines: BTreeSet<u64>,
    /// Why the catalog does not answer.
    pub(crate) catalog_failure: Option<Failure>,
    /// Where the next connection is cut, in bytes.
    pub(crate) cut_next_after: Option<u64>,
    next_id: u64,
    next_subscription: u64,
}

/// Everything the sessions share.
pub(crate) struct World {
    inner: Mutex<Inner>,
    time_limits: TimeLimits,
    /// Counts up whenever a frontier moved, an object went away or the clock was set.
    pub(crate) changed: watch::Sender<u64>,
    /// Counts up when every connection must close.
    pub(crate) killed: watch::Sender<u64>,
    /// While true no session sends anything.
    pub(crate) stalled: watch::Sender<bool>,
    /// What every session there is must be told before it ends.
    pub(crate) ended: watch::Sender<Option<Failure>>,
}

/// When something is given up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deadline {
    Real(Instant),
    /// In milliseconds of the simulated clock.
    Clock(u64),
}

impl World {
    pub(crate) fn new(time_limits: TimeLimits, first_id: u64) -> Self {
        Self {
            inner: Mutex::new(Inner {
                clock: Clock::Wall,
                objects: Vec::new(),
                queries: Vec::new(),
                indexes: Vec::new(),
                clusters: vec!["quickstart".to_owned()],
                schemas: vec![("materialize".to_owned(), "public".to_owned())],
                statements: Vec::new(),
                backends: HashMap::new(),
                subscriptions: BTreeMap::new(),
                privileges: Privileges::default(),
                max_result_size: DEFAULT_MAX_RESULT_SIZE,
                max_buffered_bytes: u64::MAX,
                serializable_lag: 0,
                logins: Logins::Accepted,
                password: None,
                own_timelines: BTreeSet::new(),
                catalog_failure: None,
                cut_next_after: None,
                next_id: first_id,
                next_subscription: 1,
            }),
            time_limits,
            changed: watch::Sender::new(0),
            killed: watch::Sender::new(0),
            stalled: watch::Sender::new(false),
            ended: watch::Sender::new(None),
        }
    }

    pub(crate) fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    pub(crate) fn notify(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Lets every frontier follow the clock.
    pub(crate) fn tick(&self) {
        let inner = self.inner();
        let now = inner.now();
        for object in inner.all() {
            if let Content::Ledger(ledger) = &object.content {
                lock(ledger).advance(now);
                // Compaction follows, also where nobody asks for the frontiers.
                object.frontiers();
            }
        }
        drop(inner);
        self.notify();
    }

    pub(crate) fn deadline(&self, after: Duration) -> Deadline {
        match self.time_limits {
            TimeLimits::RealTime => Deadline::Real(Instant::now() + after),
            TimeLimits::SimulatedClock => {
                let ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                Deadline::Clock(self.inner().now().saturating_add(ms))
            }
        }
    }

    /// Waits for the deadline, forever if there is none.
    pub(crate) async fn reached(&self, deadline: Option<Deadline>) {
        match deadline {
            None => std::future::pending().await,
            Some(Deadline::Real(at)) => tokio::time::sleep_until(at).await,
            Some(Deadline::Clock(at)) => {
                let mut changed = self.changed.subscribe();
                // The sender lives in this world.
                let _ = changed.wait_for(|_| self.inner().now() >= at).await;
            }
        }
    }

    /// Writes to a table at the next timestamp, which is returned.
    pub(crate) fn write(
        &self,
        object: &Arc<Object>,
        changes: Vec<Change>,
    ) -> Result<u64, SimError> {
        let not_writable = || SimError::NotWritable(object.name().to_string());
        let Content::Ledger(ledger) = &object.content else {
            return Err(not_writable());
        };
        if object.derivation().is_some() || lock(ledger).finished() {
            return Err(not_writable());
        }
        for (row, _) in &changes {
            if row.len() != object.columns.len() {
                return Err(SimError::Width {
                    object: object.name().to_string(),
                    expected: object.columns.len(),
                    got: row.len(),
                });
            }
        }
        let changes = changes
            .into_iter()
            .map(|(row, diff)| (Arc::new(row), diff))
            .collect();
        let inner = self.inner();
        let time = inner.next_time(object);
        let errors = Vec::new();
        inner.append(object, time, Derived { changes, errors });
        drop(inner);
        self.notify();
        Ok(time)
    }

    /// Adds an object; its frontier starts at the clock.
    /// An object that is in no catalog.
    pub(crate) fn list_query(&self, parts: Parts) -> Arc<Object> {
        let mut inner = self.inner();
        let name = Name::parse("query");
        let object = Arc::new(Object::new(0, name, parts, inner.now()));
        inner.queries.retain(|query| query.strong_count() > 0);
        inner.queries.push(Arc::downgrade(&object));
        object
    }

    pub(crate) fn create(&self, name: Name, parts: Parts) -> Result<Arc<Object>, SimError> {
        let mut inner = self.inner();
        if inner.find(&name).is_some() {
            return Err(SimError::Exists(name.to_string()));
        }
        let now = inner.now();
        let id = inner.take_id();
        let object = Arc::new(Object::new(id, name, parts, now));
        inner.objects.push(object.clone());
        Ok(object)
    }

    /// Adds an index, which holds nothing from before.
    pub(crate) fn create_index(&self, object: &Object, name: Option<String>, cluster: String) {
        let mut inner = self.inner();
        let id = inner.take_id();
        let created_at = inner.now();
        inner.indexes.push(Index {
            id,
            name: name.unwrap_or_else(|| format!("{}_primary_idx", object.name().item)),
            on: object.id(),
            cluster,
            created_at,
        });
    }

    /// Removes an object; running subscriptions to it fail.
    pub(crate) fn drop_object(&self, name: &Name) -> Option<Arc<Object>> {
        let mut inner = self.inner();
        let at = inner.objects.iter().position(|o| o.is_named(name))?;
        let object = inner.objects.remove(at);
        let id = object.id();
        inner.indexes.retain(|index| index.on != id);
        object.set_dropped();
        drop(inner);
        self.notify();
        Some(object)
    }

    /// Exchanges the names of two schemas of one database; the objects in them keep their ids.
    pub(crate) fn swap_schemas(&self, database: &str, a: &str, b: &str) -> Result<(), String> {
        let mut inner = self.inner();
        let find = |inner: &Inner, schema: &str| {
            let pair = (database.to_owned(), schema.to_owned());
            let found = inner.schemas.iter().position(|known| *known == pair);
            found.ok_or_else(|| schema.to_owned())
        };
        let (at_a, at_b) = (find(&inner, a)?, find(&inner, b)?);
        b.clone_into(&mut inner.schemas[at_a].1);
        a.clone_into(&mut inner.schemas[at_b].1);
        for object in &inner.objects {
            let name = object.name();
            match &name.schema {
                _ if name.database != database => {}
                schema if schema == a => object.move_to_schema(b),
                schema if schema == b => object.move_to_schema(a),
                _ => {}
            }
        }
        Ok(())
    }

    /// Lets a view go on as `replacement`: its shard and stream stay, id and retention change,
    /// and the difference of the contents is written at one timestamp.
    pub(crate) fn apply_replacement(&self, view: &Arc<Object>, replacement: &Arc<Object>) {
        let (Content::Ledger(old), Content::Ledger(new)) = (&view.content, &replacement.content)
        else {
            // Only views with a history of their own can be replaced, or be replacements.
            return;
        };
        let mut inner = self.inner();
        let time = inner.next_time(view);
        let mut difference = {
            let new = lock(new);
            Derived {
                changes: new.contents(u64::MAX),
                errors: new.errors(u64::MAX),
            }
        };
        {
            let old = lock(old);
            let removed = |(row, diff): (_, i64)| (row, -diff);
            let contents = old.contents(u64::MAX);
            difference.changes.extend(contents.into_iter().map(removed));
            let errors = old.errors(u64::MAX).into_iter();
            difference
                .errors
                .extend(errors.map(|(text, diff)| (text, -diff)));
        }
        difference.changes = crate::row::consolidate(&difference.changes);
        let was = view.id();
        view.become_id(replacement.id());
        view.set_derivation(replacement.derivation());
        view.set_retention_ms(replacement.retention_ms());
        for index in inner.indexes.iter_mut().filter(|index| index.on == was) {
            index.on = replacement.id();
        }
        inner
            .objects
            .retain(|object| !Arc::ptr_eq(object, replacement));
        inner.append(view, time, difference);
        drop(inner);
        self.notify();
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
        self.objects.iter().find(|o| o.is_named(name))
    }

    pub(crate) fn find_id(&self, id: &str) -> Option<&Arc<Object>> {
        let id = id.strip_prefix('u')?.parse::<u64>().ok()?;
        self.objects.iter().find(|o| o.id() == id)
    }

    /// Lists a subscription; the number to take it off the list again.
    pub(crate) fn list_subscription(&mut self, subscription: Subscription) -> u64 {
        let number = self.next_subscription;
        self.next_subscription += 1;
        self.subscriptions.insert(number, subscription);
        number
    }

    /// Objects, and queries that somebody has subscribed to.
    fn all(&self) -> Vec<Arc<Object>> {
        let queries = self.queries.iter().filter_map(Weak::upgrade);
        self.objects.iter().cloned().chain(queries).collect()
    }

    /// The first time that is open in an object and in every view of it.
    fn next_time(&self, object: &Arc<Object>) -> u64 {
        let all = self.all();
        let views = all.iter().filter(|view| view.reads(object));
        let open = views.chain([object]).map(|object| object.open_from()).max();
        open.unwrap_or(0).max(self.now())
    }

    /// Writes to an object and to every view of it.
    fn append(&self, object: &Arc<Object>, time: u64, derived: Derived) {
        let all = self.all();
        let views = all.iter().filter_map(|view| {
            let derivation = view.derivation()?;
            Arc::ptr_eq(&derivation.input, object).then_some((view, derivation))
        });
        for (view, derivation) in views {
            let mut of_view = derivation.apply(&derived.changes);
            // What the input cannot compute its views cannot either.
            of_view.errors.extend(derived.errors.iter().cloned());
            self.append(view, time, of_view);
        }
        if let Content::Ledger(ledger) = &object.content {
            lock(ledger).append(time, derived);
        }
    }
}

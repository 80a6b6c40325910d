//! A model of Materialize: objects, their whole history, a clock, connections.
//!
//! It answers the statements that the core sends, by their structure, and keeps every object's
//! history for ever, so that what a target holds can be compared with what the object held.

mod catalog;
mod cursor;
mod row;
mod shard;
mod statement;
mod traffic;
mod upheaval;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use catalog::Session;
pub(crate) use cursor::Cursor;
use mz_sink_core::server_error::{ErrorKind, ServerError};

use crate::dice::Dice;
use crate::profile::Profile;
pub(crate) use row::{Bag, Key, Layout, Row, Text, TextRow, Upsert, is_refused, upserts};
pub(crate) use shard::{Shard, add};
pub(crate) use traffic::Traffic;

/// The cluster of every session.
pub(crate) const CLUSTER: &str = "quickstart";

/// The history of an object without `RETAIN HISTORY`, and of an index, in milliseconds.
pub(crate) const DEFAULT_HISTORY: u64 = 1_000;

/// Where the server's clock starts.
const EPOCH: u64 = 1_000_000;

/// Names a connection for ever.
pub(crate) type ConnectionId = u64;

/// An item of the catalog.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    /// `u<id>`.
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) layout: Layout,
    pub(crate) shard: usize,
    /// `RETAIN HISTORY`, in milliseconds.
    pub(crate) history: Option<u64>,
    /// Whether it has an index in the cluster.
    pub(crate) indexed: bool,
}

/// The server.
#[derive(Debug)]
pub(crate) struct World {
    /// The latest closed time: the upper of every shard is one more.
    pub(crate) clock: u64,
    leap: u64,
    pub(crate) shards: Vec<Shard>,
    pub(crate) objects: Vec<Object>,
    next_id: u64,
    next_value: u64,
    views: usize,
    fat_value: usize,
    /// Until then, in milliseconds since the start: no connections, no credentials, no answers.
    pub(crate) down_until: u64,
    pub(crate) refused_until: u64,
    pub(crate) expired_until: u64,
    pub(crate) hangs_until: u64,
    /// Open connections.
    pub(crate) connections: BTreeSet<ConnectionId>,
    next_connection: ConnectionId,
    /// Times at which transactions keep shards readable.
    holds: BTreeMap<ConnectionId, Vec<(usize, u64)>>,
    /// Which shards a name has stood for.
    named: BTreeSet<(String, usize)>,
    /// Shards and times of the snapshots that were served.
    pub(crate) snapshots: BTreeSet<(usize, u64)>,
}

/// The name of the view `index`, and of its object.
pub(crate) fn view_name(index: usize) -> String {
    format!("v{index}")
}

impl World {
    pub(crate) fn new(profile: &Profile, dice: &mut Dice) -> Self {
        let mut world = Self {
            clock: EPOCH,
            leap: 0,
            shards: Vec::new(),
            objects: Vec::new(),
            next_id: 1,
            next_value: 1,
            views: profile.views,
            fat_value: profile.fat_value,
            down_until: 0,
            refused_until: 0,
            expired_until: 0,
            hangs_until: 0,
            connections: BTreeSet::new(),
            next_connection: 1,
            holds: BTreeMap::new(),
            named: BTreeSet::new(),
            snapshots: BTreeSet::new(),
        };
        for view in 0..profile.views {
            world.create(&view_name(view), Layout(view), Some(profile.history));
        }
        world.advance(1_000);
        world.transact(EPOCH, Traffic::of(profile), dice);
        for shard in &mut world.shards[..profile.constant] {
            shard.constant = true;
            shard.since = world.clock;
        }
        world
    }

    /// Creates an object with a shard of its own.
    pub(crate) fn create(&mut self, name: &str, layout: Layout, history: Option<u64>) {
        let shard = self.shards.len();
        self.shards
            .push(Shard::new(format!("s{shard}"), self.clock));
        self.add_object(name, layout, shard, history);
    }

    pub(crate) fn add_object(
        &mut self,
        name: &str,
        layout: Layout,
        shard: usize,
        history: Option<u64>,
    ) {
        self.named.insert((name.into(), shard));
        self.objects.push(Object {
            id: self.next_id,
            name: name.into(),
            layout,
            shard,
            history,
            indexed: false,
        });
        self.next_id += 1;
    }

    pub(crate) fn object(&self, name: &str) -> Option<&Object> {
        self.objects.iter().find(|object| object.name == name)
    }

    pub(crate) fn object_mut(&mut self, name: &str) -> Option<&mut Object> {
        self.objects.iter_mut().find(|object| object.name == name)
    }

    pub(crate) fn shard_named(&self, name: &str) -> Option<usize> {
        self.shards.iter().position(|shard| shard.name == name)
    }

    /// Lets the server's clock reach `elapsed`, in milliseconds since the start, and history go.
    pub(crate) fn advance(&mut self, elapsed: u64) {
        self.clock = self.clock.max(EPOCH + elapsed + self.leap);
        for object in &self.objects {
            let kept = object.history.unwrap_or(DEFAULT_HISTORY);
            let held = self
                .holds
                .values()
                .flatten()
                .filter(|(shard, _)| *shard == object.shard)
                .map(|(_, time)| *time)
                .min();
            let since = (self.clock + 1)
                .saturating_sub(kept)
                .min(held.unwrap_or(u64::MAX));
            let shard = &mut self.shards[object.shard];
            shard.since = shard.since.max(since);
        }
    }

    /// Sets the clock ahead.
    pub(crate) fn leap(&mut self, millis: u64) {
        self.leap += millis;
    }

    pub(crate) fn connect(&mut self, elapsed: u64) -> Result<ConnectionId, ServerError> {
        if elapsed < self.down_until || elapsed < self.refused_until {
            return Err(connection_lost("connection refused"));
        }
        if elapsed < self.expired_until {
            return Err(server_error("28000", "authentication expired"));
        }
        let id = self.next_connection;
        self.next_connection += 1;
        self.connections.insert(id);
        Ok(id)
    }

    /// Ends a connection, and with it what it held.
    pub(crate) fn disconnect(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
        self.holds.remove(&id);
    }

    pub(crate) fn restart(&mut self, down_until: u64) {
        self.down_until = down_until;
        self.connections.clear();
        self.holds.clear();
    }

    /// Whether a worker could not even start.
    pub(crate) fn is_out(&self, elapsed: u64) -> bool {
        let until = self
            .down_until
            .max(self.refused_until)
            .max(self.expired_until)
            .max(self.hangs_until);
        elapsed < until || self.missing().is_some()
    }

    /// A view without an object.
    pub(crate) fn missing(&self) -> Option<usize> {
        (0..self.views).find(|view| self.object(&view_name(*view)).is_none())
    }

    /// Ends every kind of outage.
    pub(crate) fn recover(&mut self) {
        self.down_until = 0;
        self.refused_until = 0;
        self.expired_until = 0;
        self.hangs_until = 0;
    }
}

pub(crate) fn server_error(code: &str, message: &str) -> ServerError {
    ServerError {
        kind: ErrorKind::Server,
        code: Some(code.into()),
        message: message.into(),
        detail: None,
        hint: None,
    }
}

/// Without a code: the connection itself failed.
pub(crate) fn connection_lost(message: &str) -> ServerError {
    ServerError {
        kind: ErrorKind::Connection,
        code: None,
        message: message.into(),
        detail: None,
        hint: None,
    }
}

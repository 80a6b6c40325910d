//! The faults a test can order. [`Control`] has the rest.

use crate::control::Control;
use crate::derived::Derived;
use crate::error::SimError;
use crate::faults::{Failure, Logins};
use crate::ledger::Ledger;
use crate::lock;
use crate::object::{Content, Kind, Name, Object, Parts};
use crate::row::Change;
use crate::world::DEFAULT_MAX_RESULT_SIZE;

use std::sync::{Arc, Mutex};

/// Connections.
impl Control {
    /// Closes every connection without a word, and new ones too until [`Control::start`]: a
    /// server that is stopped. Objects and their history stay.
    pub fn stop(&self) {
        self.set_logins(Logins::Closed);
        self.kill_connections();
    }

    /// Takes new connections again.
    pub fn start(&self) {
        self.set_logins(Logins::Accepted);
    }

    /// What happens to new connections from now on; those there are go on.
    pub fn set_logins(&self, logins: Logins) {
        self.world.inner().logins = logins;
    }

    /// From now on this password is asked for; sessions that are open stay so.
    pub fn set_password(&self, password: impl Into<String>) {
        self.world.inner().password = Some(password.into());
    }

    /// Tells every session, a running FETCH included, and closes it: credentials that expire,
    /// a session that idled. The client may log in again.
    pub fn end_sessions(&self, failure: Failure) {
        self.world.ended.send_replace(Some(failure));
    }

    /// Cancels the running FETCH of every session, or its next one.
    pub fn cancel_statements(&self) {
        for (_, cancel) in self.world.inner().backends.values() {
            cancel.notify_one();
        }
    }

    /// Closes the next new connection after this many bytes sent to it, login included, in the
    /// middle of a message or not.
    pub fn cut_next_connection(&self, bytes: u64) {
        self.world.inner().cut_next_after = Some(bytes);
    }

    /// Closes the connection of the next subscription to an object after this many bytes from
    /// its first FETCH on, in the middle of a message or not.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn cut_next_subscription(&self, name: &str, bytes: u64) -> Result<(), SimError> {
        lock(&self.object(name)?.faults).cut_next_after = Some(bytes);
        Ok(())
    }
}

/// Subscriptions.
impl Control {
    /// Lets the dataflow of an object fail, in running subscriptions and whenever one starts,
    /// until [`Control::cure`]. A new subscription is told its AS OF before.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn poison(&self, name: &str, failure: Failure) -> Result<(), SimError> {
        lock(&self.object(name)?.faults).poison = Some(failure);
        self.world.notify();
        Ok(())
    }

    /// Takes the poison away.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn cure(&self, name: &str) -> Result<(), SimError> {
        lock(&self.object(name)?.faults).poison = None;
        Ok(())
    }

    /// Fails the subscriptions to an object that have started, each once; a running FETCH at
    /// once. New ones are not touched.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn fail_subscriptions(&self, name: &str, failure: Failure) -> Result<(), SimError> {
        let object = self.object(name)?;
        let mut faults = lock(&object.faults);
        faults.generation += 1;
        faults.failure = Some(failure);
        drop(faults);
        self.world.notify();
        Ok(())
    }

    /// Lets the streams of an object say nothing, or go on. Everything else goes on meanwhile,
    /// its frontier included.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn stall_stream(&self, name: &str, stalled: bool) -> Result<(), SimError> {
        lock(&self.object(name)?.faults).stalled = stalled;
        self.world.notify();
        Ok(())
    }

    /// Keeps the write frontier of an object where it is, in streams and in the catalog, or lets
    /// it catch up: an object that lags behind the others. What is written meanwhile is seen then.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`]; [`SimError::NotWritable`] for recorded and generated objects.
    pub fn hold_frontier(&self, name: &str, held: bool) -> Result<(), SimError> {
        match &self.object(name)?.content {
            Content::Ledger(ledger) => lock(ledger).hold(held),
            _ => return Err(SimError::NotWritable(name.to_owned())),
        }
        self.world.notify();
        Ok(())
    }

    /// The most a server keeps for a client that does not fetch, in bytes, 1 KiB counted for
    /// each message; past it the next FETCH says that the client fell behind. No limit if `None`.
    /// Recorded and generated objects are never behind.
    pub fn set_max_buffered_bytes(&self, limit: Option<u64>) {
        self.world.inner().max_buffered_bytes = limit.unwrap_or(u64::MAX);
    }

    /// `max_result_size`, in bytes, for subscriptions started from now on; 1 GiB if `None`.
    /// Recorded and generated objects have no limit.
    pub fn set_max_result_size(&self, limit: Option<u64>) {
        self.world.inner().max_result_size = limit.unwrap_or(DEFAULT_MAX_RESULT_SIZE);
    }
}

/// History, and what objects are.
impl Control {
    /// Times from this on can be read, the first of a pair with [`Control::frontier`].
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn read_frontier(&self, name: &str) -> Result<u64, SimError> {
        Ok(self.object(name)?.frontiers().since)
    }

    /// Forgets the history below `since`, for good; the last closed time always stays readable.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn compact(&self, name: &str, since: u64) -> Result<(), SimError> {
        let object = self.object(name)?;
        let latest = object.frontiers().upper.unwrap_or(1) - 1;
        object.compact(since.min(latest));
        Ok(())
    }

    /// As `ALTER .. SET (RETAIN HISTORY FOR ..)`, in milliseconds. What is gone stays gone.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn set_retention(&self, name: &str, retention_ms: u64) -> Result<(), SimError> {
        self.object(name)?.set_retention_ms(retention_ms);
        Ok(())
    }

    /// How far in the past a transaction that is only SERIALIZABLE reads, in milliseconds, as
    /// far as that is readable. A real server's may see less than what was just committed.
    pub fn set_serializable_lag(&self, lag_ms: u64) {
        self.world.inner().serializable_lag = lag_ms;
    }

    /// Lets every query of the catalog fail with this, or answers again.
    pub fn fail_catalog(&self, failure: Option<Failure>) {
        self.world.inner().catalog_failure = failure;
    }

    /// Adds an index in a cluster, which takes the place of the object for subscriptions there.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn create_index(&self, name: &str, cluster: &str) -> Result<(), SimError> {
        let object = self.object(name)?;
        self.world.create_index(&object, None, cluster.to_owned());
        Ok(())
    }

    /// Lists an object as a source with `ENVELOPE MATERIALIZE`, whose times are its own.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`].
    pub fn set_own_timeline(&self, name: &str) -> Result<(), SimError> {
        let object = self.object(name)?;
        self.world.inner().own_timelines.insert(object.id());
        Ok(())
    }

    /// Drops a cluster; subscriptions that run in it fail.
    pub fn drop_cluster(&self, cluster: &str) {
        self.world.inner().clusters.retain(|name| name != cluster);
        self.world.notify();
    }

    /// `ALTER SCHEMA a SWAP WITH b` in the database `materialize`.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`] names the schema that is not there.
    pub fn swap_schemas(&self, a: &str, b: &str) -> Result<(), SimError> {
        let swapped = self.world.swap_schemas("materialize", a, b);
        swapped.map_err(SimError::UnknownObject)
    }

    /// Replaces a view made by hand, as `APPLY REPLACEMENT` does: a new id on the same shard, the
    /// retention of the replacement (in milliseconds, the default if `None`), and the difference
    /// to the new contents at one timestamp of the running streams.
    ///
    /// # Errors
    /// [`SimError::UnknownObject`]; [`SimError::NotWritable`] for anything but a materialized
    /// view made by [`Control::create`]; [`SimError::Width`].
    pub fn replace(
        &self,
        name: &str,
        contents: Vec<Change>,
        retention_ms: Option<u64>,
    ) -> Result<(), SimError> {
        let view = self.object(name)?;
        let by_hand = matches!(view.content, Content::Ledger(_)) && view.derivation().is_none();
        if view.kind != Kind::MaterializedView || !by_hand || view.frontiers().upper.is_none() {
            return Err(SimError::NotWritable(name.to_owned()));
        }
        let columns = view.columns.clone();
        if let Some((row, _)) = contents.iter().find(|(row, _)| row.len() != columns.len()) {
            return Err(SimError::Width {
                object: name.to_owned(),
                expected: columns.len(),
                got: row.len(),
            });
        }
        let changes = contents.into_iter().map(|(row, n)| (Arc::new(row), n));
        let changes = changes.collect();
        let errors = Vec::new();
        let mut inner = self.world.inner();
        let (id, now) = (inner.take_id(), inner.now());
        drop(inner);
        let ledger = Ledger::beginning(now + 1, Derived { changes, errors });
        let content = Some(Content::Ledger(Arc::new(Mutex::new(ledger))));
        let parts = Parts::writable(view.kind, columns, retention_ms);
        let parts = Parts { content, ..parts };
        let replacement = Arc::new(Object::new(id, Name::parse(name), parts, now));
        self.world.apply_replacement(&view, &replacement);
        Ok(())
    }
}

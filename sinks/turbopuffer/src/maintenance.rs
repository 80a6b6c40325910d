//! Housekeeping: namespaces that nobody reads any more, and tombstones older than the grace.
//!
//! A worker that was fenced and does not know it may be here, so each step is harmless then:
//!
//! - An incarnation is deleted only if its worker's epoch is not above ours and the document does
//!   not name it as active. It cannot become active: the patch that would make it so expects a
//!   checkpoint of that epoch, and a newer one is stored, or is ours.
//! - A tombstone goes only when it is older than both the committed frontier and the grace.
//!
//! What a late write makes again is found again: the listing has every namespace of this sink.

use mz_sink_guest::{Clock, Error, Http, Level, Log, Maintain};
use serde_json::json;

use crate::checkpoint::Incarnations;
use crate::incarnation;
use crate::sink::Turbopuffer;

/// Most namespaces deleted in one call, and most requests of a sweep.
const MAX_DELETED: usize = 50;
const MAX_SWEEPS: usize = 20;

impl<H: Http + Clock + Log> Maintain for Turbopuffer<H> {
    fn maintain(&mut self, committed: u64) -> Result<(), Error> {
        let known = self.control.text().map(str::to_owned);
        // As it is stored now: what this worker remembers may be another worker's past.
        if self.control.read(&self.client)? != known {
            return Ok(());
        }
        let incarnations = self.control.incarnations();
        self.remove_unread(&incarnations)?;
        for active in incarnations.active.iter().flatten() {
            self.sweep(active, committed)?;
        }
        Ok(())
    }
}

impl<H: Http + Clock + Log> Turbopuffer<H> {
    /// Deletes retired incarnations after their grace, and those of attempts that failed.
    fn remove_unread(&self, incarnations: &Incarnations) -> Result<(), Error> {
        let now_ms = self.client.host().now_ms();
        let grace_ms = self.config.retired_grace()?.as_millis();
        let mut left = MAX_DELETED;
        for prefix in &self.prefixes {
            let mut cursor = None;
            loop {
                let page = self.client.list(prefix, cursor.as_deref());
                let (names, next) = page.map_err(|trouble| trouble.of_idempotent())?;
                for name in &names {
                    let ours = incarnation::epoch_of(name, prefix);
                    let is_newer = ours.is_none_or(|epoch| epoch > self.epoch);
                    if is_newer || incarnations.active.iter().flatten().any(|n| n == name) {
                        continue;
                    }
                    let retired = incarnations.retired.iter().find(|r| r.namespace == *name);
                    let age = retired.map(|retired| now_ms.saturating_sub(retired.at_ms));
                    if age.is_some_and(|age| u128::from(age) < grace_ms) {
                        continue;
                    }
                    if left == 0 {
                        return Ok(());
                    }
                    left -= 1;
                    self.remove(name, retired.is_some())?;
                }
                match next {
                    Some(next) if !names.is_empty() => cursor = Some(next),
                    _ => break,
                }
            }
        }
        Ok(())
    }

    fn remove(&self, name: &str, was_active: bool) -> Result<(), Error> {
        let deleted = self.client.delete(name);
        if deleted.map_err(|trouble| trouble.of_idempotent())? {
            let why = if was_active {
                "replaced by a newer snapshot"
            } else {
                "left by a snapshot that failed"
            };
            self.client.host().log(
                Level::Info,
                "deleted a namespace",
                &[("namespace", name), ("why", why)],
            );
        }
        Ok(())
    }

    /// Removes tombstones that no late write can be older than.
    fn sweep(&self, namespace: &str, committed: u64) -> Result<(), Error> {
        let Some(grace) = self.config.tombstone_grace()? else {
            return Ok(());
        };
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let before_ms = self.client.host().now_ms().saturating_sub(grace_ms);
        // A comparison with null is true, hence the second condition on `written_at`.
        let request = json!({
            "create_namespace": false,
            "delete_by_filter": ["And", [
                ["deleted", "Eq", true],
                ["mz_timestamp", "Lt", committed],
                ["written_at", "NotEq", null],
                ["written_at", "Lt", before_ms],
            ]],
            "delete_by_filter_allow_partial": true,
        });
        let body = request.to_string().into_bytes();
        let mut removed = 0;
        for _ in 0..MAX_SWEEPS {
            let written = self.client.write(namespace, body.clone());
            let written = written.map_err(|trouble| trouble.of_idempotent())?;
            removed += written.rows_deleted();
            if !written.rows_remaining() {
                break;
            }
        }
        if removed > 0 {
            self.client.host().log(
                Level::Info,
                "removed the documents of rows that were deleted long ago",
                &[("namespace", namespace), ("rows", &removed.to_string())],
            );
        }
        Ok(())
    }
}

//! Writes documents: data in requests of their own, and the change of the checkpoint last.

use std::collections::BTreeMap;

use mz_sink_core::batch::SinkError;

use super::pull::is_put;
use super::{Answer, ModelSink, failure, replace};
use crate::bug::ModelBug;
use crate::target::{Change, Commit, Doc, Store};
use crate::wire;
use crate::worker::point;
use crate::world::Key;

/// Documents of one request, for one namespace.
struct Request {
    view: usize,
    namespace: String,
    /// Only a fresh namespace may be created by a write.
    create: bool,
    docs: Vec<(Key, Doc)>,
}

impl ModelSink {
    pub(super) async fn converge(&mut self, commit: Commit, changes: Vec<Change>) -> Answer<()> {
        // A fenced worker stops here, before it writes a document.
        if self.known.as_ref().map(|(text, _)| text) != Some(&commit.expected) {
            let found = self.read().await?;
            if found != commit.expected {
                return Err(SinkError::Conflict(found));
            }
        }
        let mut active = match &self.known {
            Some((_, active)) => active.clone(),
            None => Vec::new(),
        };
        let mut fresh = Vec::new();
        for (view, active) in active.iter_mut().enumerate() {
            if commit.info.snapshot_of.contains(&(view as u32)) {
                // The generation alone tells a snapshot from the one before.
                let in_place = self.sim.has_bug(ModelBug::SnapshotInPlace);
                let generation = if in_place { 1 } else { commit.info.generation };
                *active = Some(format!("g{generation}"));
                fresh.push(view);
            }
        }
        let early = self.sim.has_bug(ModelBug::CheckpointBeforeData);
        if early {
            self.change_control(&commit, active.clone()).await?;
        }
        for request in self.requests(&changes, &active, &fresh) {
            point(&self.sim, self.worker, "documents").await;
            self.upsert(request).await?;
        }
        point(&self.sim, self.worker, "documents written").await;
        if early {
            return Ok(());
        }
        self.change_control(&commit, active).await
    }

    /// The last change of each key, split into a few requests; at least one for a fresh
    /// namespace, which readers must find.
    fn requests(
        &mut self,
        changes: &[Change],
        active: &[Option<String>],
        fresh: &[usize],
    ) -> Vec<Request> {
        let mut requests = Vec::new();
        for (view, namespace) in active.iter().enumerate() {
            let mut last: BTreeMap<Key, Doc> = BTreeMap::new();
            for change in changes.iter().filter(|change| change.view == view) {
                let doc = Doc {
                    time: change.time,
                    value: is_put(change).then(|| change.row.value.clone()),
                };
                last.insert(change.row.key.clone(), doc);
            }
            let docs: Vec<_> = last.into_iter().collect();
            let create = fresh.contains(&view);
            let each = self.dice.pick(&[1, 3, 100]);
            let mut parts: Vec<Vec<_>> = docs.chunks(each).map(<[_]>::to_vec).collect();
            if create && parts.is_empty() {
                parts.push(Vec::new());
            }
            requests.extend(parts.into_iter().map(|docs| Request {
                view,
                namespace: namespace.clone().unwrap_or_default(),
                create,
                docs,
            }));
        }
        requests
    }

    async fn upsert(&mut self, request: Request) -> Answer<()> {
        let id = self.target;
        let sent = wire::send(&self.sim, id, &mut self.dice, move |sim| {
            let at_once = sim.has_bug(ModelBug::TombstoneAsDelete);
            let (view, docs) = (request.view, &request.docs);
            let verdict = {
                let mut state = sim.state();
                let state = &mut *state;
                let target = &mut state.targets[id];
                let Store::Documents(documents) = &mut target.store else {
                    return false;
                };
                if !documents.upsert(view, &request.namespace, request.create, docs, at_once) {
                    return false;
                }
                let keys: Vec<_> = docs.iter().map(|(key, _)| key).collect();
                target.landed(&state.world, view, &keys)
            };
            if let Err(broken) = verdict {
                sim.broken(broken);
            }
            true
        });
        match sent.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(SinkError::Retryable(failure("no-namespace"))),
            // Writing it again changes nothing.
            Err(wire::Unanswered) => Err(SinkError::Retryable(failure("timeout"))),
        }
    }

    /// The compare-and-set of the control document, which also switches readers over.
    async fn change_control(&mut self, commit: &Commit, active: Vec<Option<String>>) -> Answer<()> {
        let (id, worker, commit) = (self.target, self.worker, commit.clone());
        let known = (Some(commit.next.clone()), active.clone());
        self.known = None;
        let sent = wire::send(&self.sim, id, &mut self.dice, move |sim| {
            let found = sim.state().targets[id].checkpoint.clone();
            let blind = sim.has_bug(ModelBug::ClaimWithoutCompare) && commit.info.rows == 0;
            if found != commit.expected && !blind {
                return Err(found);
            }
            if let Store::Documents(documents) = &mut sim.state().targets[id].store {
                documents.active = active;
            }
            replace(sim, id, worker, &commit);
            Ok(())
        });
        let sent = sent.await;
        let answer = self.concluded(sent);
        if answer.is_ok() {
            self.known = Some(known);
        }
        answer
    }
}

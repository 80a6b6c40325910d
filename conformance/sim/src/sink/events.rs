//! Delivers effects one after the other, and then changes the checkpoint.

use mz_sink_core::batch::SinkError;

use super::{Answer, ModelSink, failure, replace};
use crate::bug::ModelBug;
use crate::target::{Change, Commit, Effect, Store, Subject};
use crate::wire;
use crate::worker::point;
use crate::world::Text;

impl ModelSink {
    pub(super) async fn deliver(&mut self, commit: Commit, changes: Vec<Change>) -> Answer<()> {
        let early = self.sim.has_bug(ModelBug::CheckpointBeforeData);
        if early {
            self.store(&commit).await?;
        }
        let effects: Vec<_> = changes
            .iter()
            .enumerate()
            .filter(|(_, change)| !change.refused)
            .map(|(at, change)| {
                let of_snapshot = commit.info.snapshot_of.contains(&(change.view as u32));
                Effect {
                    key: self.idempotency_key(at, change, of_snapshot),
                    subject: Subject::of(change, of_snapshot),
                }
            })
            .collect();
        let each = self.dice.pick(&[1, 4, 100]);
        for effects in effects.chunks(each) {
            point(&self.sim, self.worker, "effects").await;
            self.send_effects(effects.to_vec()).await?;
        }
        point(&self.sim, self.worker, "effects delivered").await;
        if early {
            return Ok(());
        }
        self.store(&commit).await
    }

    /// The same for the same change, however batches fall: everything that names it, and its
    /// place within its time. Of a snapshot or not: a fenced worker may deliver a snapshot at a
    /// time that is an ordinary one for its successor.
    fn idempotency_key(&self, at: usize, change: &Change, of_snapshot: bool) -> Text {
        let sink_id = self.sim.state().targets[self.target].sink_id.clone();
        let view = &self.views[change.view].name;
        let key = &change.row.key;
        let ordinal = if self.sim.has_bug(ModelBug::OrdinalOfBatch) {
            at as u32
        } else {
            change.ordinal
        };
        format!(
            "{sink_id}/{view}/{}/{of_snapshot}/{}/{:?}/{ordinal}",
            change.time, key.id, key.tag
        )
        .into()
    }

    async fn send_effects(&mut self, effects: Vec<Effect>) -> Answer<()> {
        let id = self.target;
        let sent = wire::send(&self.sim, id, &mut self.dice, move |sim| {
            for effect in &effects {
                let verdict = {
                    let mut state = sim.state();
                    let state = &mut *state;
                    let target = &mut state.targets[id];
                    let Store::Effects(log) = &mut target.store else {
                        return;
                    };
                    let delivered = log.deliver(effect);
                    delivered.and_then(|()| target.check_subject(&state.world, &effect.subject))
                };
                if let Err(broken) = verdict {
                    sim.broken(broken);
                }
            }
        });
        // Delivered again, it has the same key.
        sent.await
            .map_err(|wire::Unanswered| SinkError::Retryable(failure("timeout")))
    }

    async fn store(&mut self, commit: &Commit) -> Answer<()> {
        let (id, worker, commit) = (self.target, self.worker, commit.clone());
        let sent = wire::send(&self.sim, id, &mut self.dice, move |sim| {
            let found = sim.state().targets[id].checkpoint.clone();
            let blind = sim.has_bug(ModelBug::ClaimWithoutCompare) && commit.info.rows == 0;
            if found != commit.expected && !blind {
                return Err(found);
            }
            replace(sim, id, worker, &commit);
            Ok(())
        });
        let sent = sent.await;
        self.concluded(sent)
    }
}

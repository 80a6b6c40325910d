//! Delivers effects one after the other, and then changes the checkpoint.

use mz_sink_core::batch::SinkError;

use super::{Answer, ModelSink, failure, replace};
use crate::bug::ModelBug;
use crate::target::{Change, Commit, Effect, Store, Subject};
use crate::wire;
use crate::worker::point;

impl ModelSink {
    pub(super) async fn deliver(&mut self, commit: Commit, changes: Vec<Change>) -> Answer<()> {
        let early = self.sim.has_bug(ModelBug::CheckpointBeforeData);
        if early {
            self.store(&commit).await?;
        }
        let effects: Vec<_> = changes
            .iter()
            .filter(|change| !change.refused)
            .map(|change| {
                let of_snapshot = commit.info.snapshot_of.contains(&(change.view as u32));
                Effect {
                    key: change.idempotency_key.clone(),
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

//! The model sink: what an honest sink of each kind does, with faults in between.

mod convergent;
mod events;
mod pull;

pub(crate) use pull::decoded;

use mz_sink_core::batch::{BatchInfo, BatchRows, Failure, SinkError};
use mz_sink_core::types::View;
use mz_sink_driver::Sink;

use crate::bug::ModelBug;
use crate::dice::Dice;
use crate::profile::{Fault, Kind};
use crate::state::Shared;
use crate::target::{Change, Commit, Store, TargetId};
use crate::wire;
use crate::worker::{Mark, WorkerId, point};

/// What a sink answers when all is well is `T`.
type Answer<T> = Result<T, SinkError>;

/// One instance in one worker.
pub(crate) struct ModelSink {
    sim: Shared,
    worker: WorkerId,
    target: TargetId,
    dice: Dice,
    views: Vec<View>,
    /// An instance is there: not before `open`, nor after a trap.
    is_open: bool,
    /// The outcome of the last write is not known to the host.
    in_doubt: bool,
    /// The control document as last seen: its text, and the namespaces that readers look at.
    known: Option<(Option<String>, Vec<Option<String>>)>,
}

pub(crate) fn failure(code: &str) -> Failure {
    Failure {
        code: code.into(),
        message: "as drawn".into(),
        retry_after_ms: None,
    }
}

impl ModelSink {
    pub(crate) fn new(sim: Shared, worker: WorkerId, target: TargetId, dice: Dice) -> Self {
        Self {
            sim,
            worker,
            target,
            dice,
            views: Vec::new(),
            is_open: false,
            in_doubt: false,
            known: None,
        }
    }

    /// A fault for the call that begins, or that just ended.
    fn fault(&mut self, among: &[Fault]) -> Option<Fault> {
        let state = self.sim.state();
        if !self.dice.chance(state.profile.trouble) {
            return None;
        }
        let fault = self.dice.pick(among);
        // The end of a worker is rarer than another try.
        let is_end = matches!(fault, Fault::Permanent | Fault::Limit);
        (state.may(fault) && (!is_end || self.dice.chance(150))).then_some(fault)
    }

    fn error(&mut self, fault: Fault, found: Option<String>) -> SinkError {
        let mut failed = failure(fault.name());
        match fault {
            Fault::Retryable => {
                failed.retry_after_ms = self.dice.pick(&[None, None, Some(0), Some(2_500)]);
                SinkError::Retryable(failed)
            }
            Fault::Trap => {
                self.is_open = false;
                SinkError::Trapped(failed)
            }
            Fault::Limit => {
                self.is_open = false;
                SinkError::Limit(failed)
            }
            Fault::Permanent => SinkError::Permanent(failed),
            Fault::Conflict => SinkError::Conflict(found),
            _ => SinkError::Unknown(failed),
        }
    }

    /// Keeps the record of the worker, and the trace.
    fn answered<T: std::fmt::Debug>(&mut self, call: &str, answer: Answer<T>) -> Answer<T> {
        match &answer {
            Ok(_) => self
                .sim
                .note(format_args!("worker {} {call}: done", self.worker)),
            Err(error) => {
                self.sim
                    .note(format_args!("worker {} {call}: {error:?}", self.worker));
                let mut state = self.sim.state();
                let worker = &mut state.workers[self.worker];
                worker.sink_failures += 1;
                let answer = match error {
                    SinkError::Permanent(_) => {
                        worker.mark(Mark::Permanent);
                        "sink: permanent"
                    }
                    SinkError::Limit(_) => {
                        worker.mark(Mark::Limit);
                        "sink: limit"
                    }
                    SinkError::Conflict(_) => "sink: conflict",
                    SinkError::Trapped(_) => "sink: trap",
                    SinkError::Unknown(_) => "sink: unknown",
                    _ => "sink: retryable",
                };
                state.count(answer);
            }
        }
        answer
    }

    /// Reads the checkpoint, seeing the latest change.
    async fn read(&mut self) -> Answer<Option<String>> {
        let target = self.target;
        let found = wire::send(&self.sim, target, &mut self.dice, move |sim| {
            let state = sim.state();
            let target = &state.targets[target];
            let active = match &target.store {
                Store::Documents(documents) => documents.active.clone(),
                _ => Vec::new(),
            };
            (target.checkpoint.clone(), active)
        });
        let Ok(found) = found.await else {
            return Err(SinkError::Retryable(failure("timeout")));
        };
        self.known = Some(found.clone());
        Ok(found.0)
    }

    async fn try_open(&mut self) -> Answer<Option<String>> {
        point(&self.sim, self.worker, "open").await;
        self.is_open = false;
        if let Some(fault) = self.fault(&[Fault::Retryable, Fault::Trap, Fault::Permanent]) {
            return Err(self.error(fault, None));
        }
        let stored = self.read().await?;
        self.is_open = true;
        self.in_doubt = false;
        point(&self.sim, self.worker, "opened").await;
        Ok(stored)
    }

    async fn try_checkpoint(&mut self) -> Answer<Option<String>> {
        self.needs_instance("checkpoint");
        point(&self.sim, self.worker, "checkpoint").await;
        let faults = [Fault::Retryable, Fault::Trap, Fault::Unknown];
        if let Some(fault) = self.fault(&faults) {
            return Err(self.error(fault, None));
        }
        let stored = self.read().await?;
        self.in_doubt = false;
        point(&self.sim, self.worker, "checkpoint read").await;
        Ok(stored)
    }

    async fn try_write(
        &mut self,
        rows: Box<dyn BatchRows>,
        expected: Option<String>,
        next: String,
    ) -> Answer<()> {
        self.check_call(rows.info(), &next);
        point(&self.sim, self.worker, "write").await;
        let faults = [
            Fault::Retryable,
            Fault::Retryable,
            Fault::Trap,
            Fault::Permanent,
            Fault::Limit,
            Fault::Unknown,
            Fault::Conflict,
        ];
        if let Some(fault) = self.fault(&faults) {
            let found = self.known.as_ref().and_then(|(text, _)| text.clone());
            let found = if fault == Fault::Conflict {
                self.read().await?
            } else {
                found
            };
            return Err(self.error(fault, found));
        }
        let commit = Commit {
            info: rows.info().clone(),
            expected,
            next,
        };
        let changes = self.pull(rows)?;
        point(&self.sim, self.worker, "pulled").await;
        let kind = self.sim.state().profile.kind;
        let written = match kind {
            Kind::Transactional => self.transact(commit, changes).await,
            Kind::Convergent => self.converge(commit, changes).await,
            Kind::AtLeastOnce => self.deliver(commit, changes).await,
        };
        point(&self.sim, self.worker, "written").await;
        if written.is_ok()
            && let Some(fault) = self.fault(&[Fault::Unknown, Fault::Trap])
        {
            return Err(self.error(fault, None));
        }
        written
    }

    /// Data and checkpoint in one transaction.
    async fn transact(&mut self, commit: Commit, changes: Vec<Change>) -> Answer<()> {
        let (id, worker) = (self.target, self.worker);
        let sent = wire::send(&self.sim, id, &mut self.dice, move |sim| {
            let found = sim.state().targets[id].checkpoint.clone();
            let blind = sim.has_bug(ModelBug::ClaimWithoutCompare) && commit.info.rows == 0;
            if found != commit.expected && !blind {
                return Err(found);
            }
            if let Store::Tables(tables) = &mut sim.state().targets[id].store {
                tables.apply(&commit.info.snapshot_of, &changes);
            }
            replace(sim, id, worker, &commit);
            Ok(())
        });
        let sent = sent.await;
        self.concluded(sent)
    }

    /// What the answer to the last request of a write means.
    fn concluded(&self, sent: Result<Result<(), Option<String>>, wire::Unanswered>) -> Answer<()> {
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(found)) => Err(SinkError::Conflict(found)),
            Err(wire::Unanswered) if self.sim.has_bug(ModelBug::UnknownIsDone) => Ok(()),
            Err(wire::Unanswered) => Err(SinkError::Unknown(failure("timeout"))),
        }
    }

    fn needs_instance(&self, call: &str) {
        if !self.is_open {
            self.sim.broken(format!(
                "worker {}: {call} of an instance that is gone",
                self.worker
            ));
        }
    }

    /// What the host must keep to at every write.
    fn check_call(&mut self, info: &BatchInfo, next: &str) {
        self.needs_instance("write");
        self.sim.note(format_args!(
            "worker {} writes [{}, {}) {} row(s), epoch {}, generation {}, snapshot of {:?}",
            self.worker,
            info.lower,
            info.upper,
            info.rows,
            info.epoch,
            info.generation,
            info.snapshot_of
        ));
        if self.in_doubt {
            self.sim.broken(format!(
                "worker {} writes although it does not know what became of its last write",
                self.worker
            ));
        }
        if !self.sim.state().texts.insert(next.into()) {
            self.sim
                .broken(format!("two attempts have the text {next}"));
        }
    }
}

/// Changes the checkpoint: the last step of a write that landed.
pub(crate) fn replace(sim: &Shared, target: TargetId, worker: WorkerId, commit: &Commit) {
    let verdict = {
        let mut state = sim.state();
        let state = &mut *state;
        let target = &mut state.targets[target];
        target.checkpoint = Some(commit.next.clone());
        target.committed(&state.world, worker, commit)
    };
    sim.note(format_args!(
        "target {target}: worker {worker} has committed up to {}",
        commit.info.upper
    ));
    if let Err(broken) = verdict {
        sim.broken(broken);
    }
}

impl Sink for ModelSink {
    async fn open(&mut self, views: &[View]) -> Answer<Option<String>> {
        self.views = views.to_vec();
        let answer = self.try_open().await;
        self.answered("open", answer)
    }

    async fn checkpoint(&mut self) -> Answer<Option<String>> {
        let answer = self.try_checkpoint().await;
        self.answered("checkpoint", answer)
    }

    async fn write(
        &mut self,
        rows: Box<dyn BatchRows>,
        expected: Option<String>,
        next: String,
    ) -> Answer<()> {
        let answer = self.try_write(rows, expected, next).await;
        self.in_doubt = matches!(
            answer,
            Err(SinkError::Unknown(_) | SinkError::Trapped(_) | SinkError::Limit(_))
        );
        self.answered("write", answer)
    }

    async fn close(&mut self) {}
}

//! Workers: the real driver and core, started, paused, and killed at any point.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::Arc;

use mz_sink_core::dead_letter::Refused;
use mz_sink_core::server_error::ServerError;
use mz_sink_core::session::{Notice, OnKeyViolation, Outcome};
use mz_sink_driver::{DeadLetters, run};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::dice::Dice;
use crate::options;
use crate::profile::{Blow, Fault};
use crate::sink::{ModelSink, decoded};
use crate::source::ModelSource;
use crate::state::Shared;
use crate::target::{Letter, TargetId};

/// Names a worker for ever.
pub(crate) type WorkerId = usize;

/// What happened to a worker that explains how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    Connected,
    SawIndex,
    SawNoObject,
    /// Went on from a checkpoint.
    Resumed,
    CredentialsExpired,
    HistoryLost,
    ObjectDropped,
    FellBehind,
    Canceled,
    TooLarge,
    Poisoned,
    InvalidId,
    LettersFull,
    KeyViolation,
    Permanent,
    Limit,
    ShutDown,
}

/// What is known of a worker.
pub(crate) struct Worker {
    pub(crate) target: TargetId,
    /// Stands still while this is set. Woken in order: a `watch` would wake at random.
    paused: bool,
    wake: Arc<Notify>,
    shutdown: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
    chaos: Dice,
    pub(crate) marks: BTreeSet<Mark>,
    /// Errors that the source gave, the connection's and others.
    pub(crate) source_failures: u32,
    /// Anything but success that the sink answered.
    pub(crate) sink_failures: u32,
    pub(crate) expirations: u32,
    /// Races for an epoch that another worker won.
    pub(crate) claims_lost: u32,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) killed: bool,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("target", &self.target)
            .field("marks", &self.marks)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

impl Worker {
    pub(crate) fn mark(&mut self, mark: Mark) {
        self.marks.insert(mark);
    }

    pub(crate) fn source_failed(&mut self, error: &ServerError) {
        self.source_failures += 1;
        let text = &error.message;
        let mark = match error.code.as_deref() {
            Some("28000") => {
                self.expirations += 1;
                Mark::CredentialsExpired
            }
            Some("22000") => Mark::HistoryLost,
            Some("42704") => Mark::ObjectDropped,
            Some("53200") => Mark::FellBehind,
            Some("57014") => Mark::Canceled,
            Some(_) if text.contains("was dropped") => Mark::ObjectDropped,
            Some(_) if text.contains("fell behind") => Mark::FellBehind,
            Some(_) if text.contains("max size") => Mark::TooLarge,
            Some(_) if text.contains("division") => Mark::Poisoned,
            Some(_) if text.contains("invalid id") || text.contains("unknown") => Mark::InvalidId,
            _ => return,
        };
        self.mark(mark);
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.outcome.is_none() && !self.killed
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    pub(crate) fn kill(&mut self) {
        self.killed = true;
        if let Some(task) = &self.task {
            task.abort();
        }
    }

    pub(crate) fn pause(&mut self, paused: bool) {
        self.paused = paused;
        self.wake.notify_waiters();
    }

    pub(crate) fn ask_to_stop(&mut self) {
        self.mark(Mark::ShutDown);
        self.shutdown.send_replace(true);
    }

    /// The task, when it may have panicked.
    pub(crate) fn take_finished(&mut self) -> Option<JoinHandle<()>> {
        self.task.take_if(|task| task.is_finished())
    }
}

/// Starts a worker of the deployment `target`.
pub(crate) fn start(sim: &Shared, target: TargetId) -> WorkerId {
    let (id, mut dice, config) = {
        let mut state = sim.state();
        let dice = state.dice.fork();
        let mut config = options::session(&state.profile, &state.targets[target].sink_id);
        if state.calm {
            // What an operator sets who wants to go on.
            config.on_key_violation = OnKeyViolation::Reject;
        }
        (state.workers.len(), dice, config)
    };
    let connections = config.connections();
    let (shutdown, asked) = watch::channel(false);
    sim.state().workers.push(Worker {
        target,
        paused: false,
        wake: Arc::default(),
        shutdown,
        task: None,
        chaos: dice.fork(),
        marks: BTreeSet::new(),
        source_failures: 0,
        sink_failures: 0,
        expirations: 0,
        claims_lost: 0,
        outcome: None,
        killed: false,
    });
    sim.note(format_args!("worker {id} starts for target {target}"));
    let sources: Vec<_> = (0..connections)
        .map(|_| ModelSource::new(sim.clone(), id, dice.fork()))
        .collect();
    let sink = ModelSink::new(sim.clone(), id, target, dice.fork());
    let told = sim.clone();
    let letters = Arc::new(Letters {
        sim: sim.clone(),
        worker: id,
        target,
    });
    let tell = Box::new(move |notice: &Notice| hear(&told, id, target, notice));
    let options = options::options(config, dice.next(), letters, tell, asked);
    let ended = sim.clone();
    let task = tokio::spawn(async move {
        let outcome = run(sources, sink, options).await;
        match &outcome {
            Outcome::Failed(error) => {
                ended.note(format_args!("worker {id} ends: {} ({error})", error.code()))
            }
            other => ended.note(format_args!("worker {id} ends: {other:?}")),
        }
        ended.state().workers[id].outcome = Some(outcome);
    });
    sim.state().workers[id].task = Some(task);
    id
}

/// A point in a command: here a worker may die, or stand still until it is woken.
pub(crate) async fn point(sim: &Shared, id: WorkerId, at: &str) {
    let (die, stop, wake) = {
        let mut state = sim.state();
        let blow = state.strikes(true);
        let (deadly, kill, pause) = (
            state.profile.deadly,
            state.may(Fault::Kill),
            state.may(Fault::Pause),
        );
        let worker = &mut state.workers[id];
        let (die, stop) = (worker.chaos.chance(deadly), worker.chaos.chance(deadly));
        (
            die && kill || blow == Some(Blow::Kill),
            stop && pause || blow == Some(Blow::Pause),
            worker.wake.clone(),
        )
    };
    if die {
        sim.note(format_args!("worker {id} dies at: {at}"));
        sim.state().count("death at a point");
        sim.state().workers[id].kill();
        return std::future::pending().await;
    }
    if stop {
        sim.note(format_args!("worker {id} stands still at: {at}"));
        sim.state().count("pause at a point");
        sim.state().workers[id].pause(true);
    }
    loop {
        let woken = wake.notified();
        if !sim.state().workers[id].is_paused() {
            return;
        }
        woken.await;
    }
}

/// Takes what a worker tells.
fn hear(sim: &Shared, id: WorkerId, target: TargetId, notice: &Notice) {
    sim.note(format_args!("worker {id} tells {notice:?}"));
    let broken = {
        let mut state = sim.state();
        if matches!(notice, Notice::ClaimLost { .. }) {
            state.workers[id].claims_lost += 1;
        }
        let target = &mut state.targets[target];
        match notice {
            Notice::Claimed { epoch, .. } => match target.epochs.get(epoch) {
                Some(owner) if *owner == id => None,
                owner => Some(format!(
                    "worker {id} says that epoch {epoch} is its own; it is of {owner:?}"
                )),
            },
            Notice::Committed { frontier, .. } if target.frontier < Some(*frontier) => {
                Some(format!(
                    "worker {id} says that {frontier} is committed; the target has {:?}",
                    target.frontier
                ))
            }
            Notice::Skipped { lower, upper, .. } => {
                target.given_up.insert((id, *lower, *upper));
                None
            }
            _ => None,
        }
    };
    if let Some(broken) = broken {
        sim.broken(broken);
    }
}

/// The dead-letter log of a deployment.
struct Letters {
    sim: Shared,
    worker: WorkerId,
    target: TargetId,
}

impl DeadLetters for Letters {
    fn keep(&self, refused: &Refused<'_>) -> io::Result<()> {
        let full = self.sim.state().letters_full_until > self.sim.millis();
        let mut state = self.sim.state();
        if full {
            state.workers[self.worker].mark(Mark::LettersFull);
            return Err(io::Error::other("no space left on device"));
        }
        let view = refused.chunk.view as usize;
        let letter = Letter {
            view,
            time: refused.chunk.timestamps[refused.row],
            key: decoded(refused.view, refused.chunk, refused.row).key,
        };
        state.targets[self.target].letters.insert(letter);
        Ok(())
    }
}

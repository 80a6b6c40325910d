//! Everything that the parts of a run share. One thread runs it all; the lock is never waited
//! for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Arguments;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::bug::ModelBug;
use crate::dice::Dice;
use crate::profile::{Blow, Fault, Profile};
use crate::target::{Target, TargetId};
use crate::trace::Trace;
use crate::worker::Worker;
use crate::world::World;

/// A run.
pub(crate) struct Sim {
    state: Mutex<State>,
    start: Instant,
    /// A mistake planted into the model sinks.
    pub(crate) bug: Option<ModelBug>,
}

/// A run, shared by its tasks.
pub(crate) type Shared = Arc<Sim>;

/// How often each thing happened.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// What changes.
pub(crate) struct State {
    pub(crate) profile: Profile,
    pub(crate) trace: Trace,
    pub(crate) world: World,
    pub(crate) dice: Dice,
    pub(crate) targets: Vec<Target>,
    pub(crate) workers: Vec<Worker>,
    /// Every text that a worker handed to a sink.
    pub(crate) texts: BTreeSet<String>,
    /// Points in commands, and requests, that there were before the calm.
    pub(crate) points: u64,
    pub(crate) requests: u64,
    /// How often what happened, to show that it does happen.
    pub(crate) counts: Counts,
    /// Whether nothing goes wrong any more.
    pub(crate) calm: bool,
    /// Until then, in milliseconds since the start, no dead letter can be kept.
    pub(crate) letters_full_until: u64,
    /// The first promise that was broken.
    pub(crate) violation: Option<String>,
}

impl Sim {
    pub(crate) fn new(profile: Profile, bug: Option<ModelBug>) -> Shared {
        let mut dice = Dice::new(profile.seed);
        let world = World::new(&profile, &mut dice);
        Arc::new(Self {
            state: Mutex::new(State {
                dice: dice.fork(),
                trace: Trace::new(profile.kept),
                targets: vec![Target::new(0, &profile)],
                workers: Vec::new(),
                texts: BTreeSet::new(),
                counts: Counts::new(),
                points: 0,
                requests: 0,
                calm: false,
                letters_full_until: 0,
                violation: None,
                world,
                profile,
            }),
            start: Instant::now(),
            bug,
        })
    }

    /// The shared state.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic in a task is a violation by itself; what it left is still worth showing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the start.
    pub(crate) fn millis(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    pub(crate) fn note(&self, what: Arguments<'_>) {
        let at = self.start.elapsed();
        self.state().trace.note(at, what);
    }

    /// Records a broken promise; the first one counts.
    pub(crate) fn broken(&self, promise: String) {
        self.note(format_args!("BROKEN: {promise}"));
        self.state().violation.get_or_insert(promise);
    }

    pub(crate) fn has_bug(&self, bug: ModelBug) -> bool {
        self.bug == Some(bug)
    }
}

impl State {
    /// What strikes at the next point in a command, or at the next request.
    pub(crate) fn strikes(&mut self, at_point: bool) -> Option<Blow> {
        if self.calm {
            return None;
        }
        let count = if at_point {
            &mut self.points
        } else {
            &mut self.requests
        };
        let now = *count;
        *count += 1;
        let strike = self.profile.strike?;
        (strike.blow.is_at_point() == at_point && strike.at == now).then_some(strike.blow)
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// The latest deployment.
    pub(crate) fn deployment(&self) -> TargetId {
        self.targets.len() - 1
    }

    /// Whether this kind of trouble may happen now.
    pub(crate) fn may(&self, fault: Fault) -> bool {
        !self.calm && self.profile.faults.has(fault)
    }
}

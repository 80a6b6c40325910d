//! One run of one profile, and what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::bug::{Bug, plant};
use crate::director::direct;
use crate::profile::Profile;
use crate::state::Sim;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Of all events, in order.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Workers started.
    pub workers: u64,
    /// Changes of checkpoints.
    pub commits: u64,
    /// How often each thing happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// Points in commands before the calm.
    pub points: u64,
    /// Requests to targets before the calm.
    pub requests: u64,
    /// Time that passed inside the run.
    pub simulated: Duration,
    /// The first promise that was broken.
    pub broken: Option<String>,
    /// The last events.
    pub last: Vec<String>,
}

/// Runs a profile to its end.
///
/// # Panics
/// When no runtime can be made.
pub(crate) fn run(profile: &Profile, bug: Option<Bug>) -> Report {
    plant(bug);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime with a clock needs nothing of the system");
    runtime.block_on(async {
        let sim = Sim::new(profile.clone(), bug.and_then(Bug::model));
        direct(sim.clone()).await;
        let simulated = Duration::from_millis(sim.millis());
        let state = sim.state();
        Report {
            hash: state.trace.hash(),
            events: state.trace.events(),
            workers: state.workers.len() as u64,
            commits: state.targets.iter().map(|t| t.commits.len() as u64).sum(),
            counts: state.counts.clone(),
            points: state.points,
            requests: state.requests,
            simulated,
            broken: state.violation.clone(),
            last: state.trace.last(),
        }
    })
}

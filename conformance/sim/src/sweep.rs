//! Strikes once at every point of short quiet runs: what random runs may miss.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::bug::Bug;
use crate::profile::{Blow, Profile, Strike};
use crate::run::run;
use crate::search::{Failure, twice};

/// Kinds of targets and envelopes that a quiet run can have, chosen by the seed.
const KINDS: u64 = 4;

/// Strikes everywhere in a quiet run of each kind; gives the number of runs.
///
/// # Errors
/// The first strike that broke a promise.
pub fn sweep(first: u64, threads: usize, bug: Option<Bug>) -> Result<u64, Box<Failure>> {
    let mut strikes = Vec::new();
    for seed in first..first + KINDS {
        let report = run(&Profile::quiet(seed, None), bug);
        for blow in Blow::ALL {
            let count = if blow.is_at_point() {
                report.points
            } else {
                report.requests
            };
            strikes.extend((0..count).map(|at| (seed, Strike { blow: *blow, at })));
        }
    }
    let next = AtomicU64::new(0);
    let failed: Mutex<Option<Box<Failure>>> = Mutex::new(None);
    let work = || {
        while let Some((seed, strike)) = strikes.get(next.fetch_add(1, Relaxed) as usize) {
            let profile = Profile::quiet(*seed, Some(*strike));
            let report = twice(&profile, bug);
            if let Some(broken) = report.broken {
                next.store(strikes.len() as u64, Relaxed);
                let strike = format!("{}@{}", strike.blow.name(), strike.at);
                let mut repeat = format!("--seed {seed} --strike {strike}");
                if let Some(bug) = bug {
                    repeat.push_str(&format!(" --bug {}", bug.name));
                }
                let failure = Failure {
                    seed: *seed,
                    broken,
                    profile: profile.describe(),
                    repeat,
                    last: report.last,
                };
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(Box::new(failure));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => Ok(strikes.len() as u64),
    }
}

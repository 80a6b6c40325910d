//! Runs many seeds, finds the first that fails, and makes it smaller.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::bug::Bug;
use crate::profile::{Fault, Profile, Strike};
use crate::run::{Report, run};

/// A seed that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The promise.
    pub broken: String,
    /// The smallest profile found that still breaks one, in words.
    pub profile: String,
    /// What it takes on the command line to repeat that.
    pub repeat: String,
    /// The last events of the smallest run.
    pub last: Vec<String>,
}

/// Sums over runs.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Seeds run, each twice.
    pub seeds: u64,
    /// Events in all.
    pub events: u64,
    /// Workers started.
    pub workers: u64,
    /// Changes of checkpoints.
    pub commits: u64,
    /// Time that passed inside the runs, in seconds.
    pub simulated_seconds: u64,
    /// How often each thing happened: faults, answers, ends.
    pub counts: BTreeMap<&'static str, u64>,
}

/// Seeds to run.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
    /// A mistake to plant.
    pub bug: Option<Bug>,
    /// Threads to use.
    pub threads: usize,
}

/// What is left of a seed's profile.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// It ends after so many steps.
    pub steps: Option<u64>,
    /// Kinds of faults that are switched off, by name.
    pub without: Vec<String>,
    /// A quiet run with one strike instead, such as `kill@17`.
    pub strike: Option<String>,
    /// Every event is shown, not only the last.
    pub all: bool,
}

/// What to make of a profile before it is run.
#[derive(Clone, Copy, Debug, Default)]
struct Smaller<'a> {
    steps: Option<u64>,
    without: &'a [Fault],
}

fn profile(seed: u64, smaller: Smaller<'_>) -> Profile {
    let mut profile = Profile::draw(seed);
    profile.steps = smaller.steps.unwrap_or(profile.steps);
    for fault in smaller.without {
        profile.faults = profile.faults.without(*fault);
    }
    profile
}

/// Runs one seed twice; gives its profile in words, and what came of it.
///
/// # Errors
/// When `cut` names something that there is not.
pub fn run_seed(seed: u64, cut: &Cut, bug: Option<Bug>) -> Result<(String, Report), String> {
    if let Some(text) = &cut.strike {
        let strike = Strike::parse(text).ok_or_else(|| format!("there is no strike {text:?}"))?;
        let mut profile = Profile::quiet(seed, Some(strike));
        if cut.all {
            profile.kept = usize::MAX;
        }
        return Ok((profile.describe(), twice(&profile, bug)));
    }
    let without = cut
        .without
        .iter()
        .map(|name| {
            let fault = Fault::ALL.iter().find(|fault| fault.name() == name);
            fault
                .copied()
                .ok_or_else(|| format!("there is no fault {name:?}"))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let smaller = Smaller {
        steps: cut.steps,
        without: &without,
    };
    let mut profile = profile(seed, smaller);
    if cut.all {
        profile.kept = usize::MAX;
    }
    Ok((profile.describe(), twice(&profile, bug)))
}

/// Runs a profile twice; a difference is a broken promise.
pub(crate) fn twice(profile: &Profile, bug: Option<Bug>) -> Report {
    let mut first = run(profile, bug);
    if first.broken.is_none() {
        let second = run(profile, bug);
        if second != first {
            first.broken = Some(format!(
                "two runs differ: {} events with hash {:016x}, {} events with hash {:016x}",
                first.events, first.hash, second.events, second.hash
            ));
        }
    }
    first
}

impl Search {
    /// Runs them. `progress` is called after each seed, by any thread.
    ///
    /// # Errors
    /// The failure with the lowest seed, made smaller.
    pub fn run(self, progress: impl Fn(u64) + Sync) -> Result<Tally, Box<Failure>> {
        let (tally, failed) = self.find(progress);
        match failed {
            Some(seed) => Err(Box::new(shrink(seed, self.bug))),
            None => Ok(tally),
        }
    }

    /// Runs them up to the first that fails; gives that one.
    pub fn find(self, progress: impl Fn(u64) + Sync) -> (Tally, Option<u64>) {
        let (next, done, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let found: Mutex<(Tally, Option<u64>)> = Mutex::default();
        let work = || {
            while !stop.load(Relaxed) {
                let index = next.fetch_add(1, Relaxed);
                if index >= self.seeds {
                    break;
                }
                let seed = self.first + index;
                let report = twice(&Profile::draw(seed), self.bug);
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                if report.broken.is_some() {
                    stop.store(true, Relaxed);
                    found.1 = Some(found.1.map_or(seed, |other| other.min(seed)));
                }
                found.0.add(&report);
                drop(found);
                progress(done.fetch_add(1, Relaxed) + 1);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(work);
            }
        });
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.events += report.events;
        self.workers += report.workers;
        self.commits += report.commits;
        self.simulated_seconds += report.simulated.as_secs();
        for (what, count) in &report.counts {
            *self.counts.entry(what).or_default() += count;
        }
    }
}

/// Finds a smaller profile of a failing seed: fewer kinds of faults, then fewer steps.
fn shrink(seed: u64, bug: Option<Bug>) -> Failure {
    let mut without = Vec::new();
    let mut report = twice(&profile(seed, Smaller::default()), bug);
    let fails = |steps, without: &[Fault]| {
        let report = twice(&profile(seed, Smaller { steps, without }), bug);
        report.broken.is_some().then_some(report)
    };
    for fault in Fault::ALL {
        if !Profile::draw(seed).faults.has(*fault) {
            continue;
        }
        without.push(*fault);
        match fails(None, &without) {
            Some(smaller) => report = smaller,
            None => {
                without.pop();
            }
        }
    }
    // Fewer steps are another run, not the beginning of this one: calm comes earlier. So this
    // halves while it can, and then goes down in small steps.
    let mut steps = Profile::draw(seed).steps;
    let mut cut = steps / 2;
    while cut > 0 {
        match fails(Some(steps - cut), &without) {
            Some(smaller) => {
                report = smaller;
                steps -= cut;
                cut = cut.min(steps / 2);
            }
            None => cut /= 2,
        }
    }
    let names: Vec<_> = without.iter().map(|fault| fault.name()).collect();
    let mut repeat = format!("--seed {seed} --steps {steps}");
    if !names.is_empty() {
        repeat.push_str(&format!(" --without {}", names.join(",")));
    }
    if let Some(bug) = bug {
        repeat.push_str(&format!(" --bug {}", bug.name));
    }
    let smaller = Smaller {
        steps: Some(steps),
        without: &without,
    };
    Failure {
        seed,
        broken: report.broken.unwrap_or_default(),
        profile: profile(seed, smaller).describe(),
        repeat,
        last: report.last,
    }
}

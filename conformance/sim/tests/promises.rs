//! What the simulator itself promises. The full run is `cargo xtask sim`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mz_sink_sim::{Bug, Cut, Search, WITHIN, run_seed, sweep};

fn search(seeds: u64, bug: Option<Bug>) -> Search {
    Search {
        first: 1_000_000,
        seeds,
        bug,
        threads: 2,
    }
}

#[test]
fn a_hundred_seeds_break_no_promise_and_are_the_same_twice() {
    match search(100, None).run(|_| {}) {
        Ok(tally) => {
            assert_eq!(tally.seeds, 100);
            assert!(tally.commits > 1000, "only {} commits", tally.commits);
        }
        Err(failure) => panic!("{}: {}", failure.repeat, failure.broken),
    }
}

#[test]
fn seeds_differ() {
    let hash = |seed| run_seed(seed, &Cut::default(), None).unwrap().1.hash;
    assert_ne!(hash(1), hash(2));
}

#[test]
fn every_kind_of_trouble_does_happen() {
    let (tally, failed) = search(300, None).find(|_| {});
    assert_eq!(failed, None);
    for what in [
        "answer lost",
        "connection",
        "death at a point",
        "fenced",
        "history-lost",
        "indexed-target",
        "object-dropped",
        "object-replaced",
        "pause at a point",
        "request late",
        "request lost",
        "sink: conflict",
        "sink: limit",
        "sink: permanent",
        "sink: retryable",
        "sink: trap",
        "sink: unknown",
    ] {
        assert!(tally.counts.contains_key(what), "no {what} in 300 seeds");
    }
}

#[test]
fn a_strike_at_any_point_of_a_quiet_run_breaks_no_promise() {
    match sweep(0, 2, None) {
        Ok(strikes) => assert!(strikes > 500, "only {strikes} strikes"),
        Err(failure) => panic!("{}: {}", failure.repeat, failure.broken),
    }
}

#[test]
fn a_failure_is_made_smaller_and_repeats() {
    let bug = Bug::named("silent-reject");
    let failure = search(500, bug)
        .run(|_| {})
        .expect_err("the mistake is found");
    let words: Vec<_> = failure.repeat.split(' ').collect();
    let after = |name| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).copied()
    };
    let cut = Cut {
        steps: after("--steps").map(|steps| steps.parse().unwrap()),
        without: after("--without")
            .map(|names| names.split(',').map(Into::into).collect())
            .unwrap_or_default(),
        ..Cut::default()
    };
    let (profile, report) = run_seed(failure.seed, &cut, bug).unwrap();
    assert_eq!(profile, failure.profile);
    assert_eq!(report.broken, Some(failure.broken));
    assert_eq!(report.last, failure.last);
}

/// More often, and those inside the core too: `cargo xtask sim --bites`.
#[test]
fn every_mistake_planted_into_a_sink_is_found() {
    for bug in Bug::all() {
        let (_, failed) = search(WITHIN, Some(bug)).find(|_| {});
        assert!(failed.is_some(), "{} was not found", bug.name);
    }
}

//! The simulator beside a real server: the statements of every recorded scenario, sent in their
//! order and at their times, must get the recorded answers.
//!
//! `scenarios.rs` lists the scenarios and, with a reason each, what is answered otherwise: it
//! fails here when that has become untrue. `normal.rs` says what is not compared.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod normal;
mod replay;
mod scenarios;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;

use replay::{Compared, replay};
use scenarios::{Differs, SCENARIOS, Scenario};

/// One test for each scenario.
macro_rules! answers_as_recorded {
    ($($name:ident)*) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        $(#[tokio::test]
        async fn $name() {
            check(stringify!($name)).await;
        })*
    };
}

answers_as_recorded! {
    session_start snapshot_then_stream diff_multiplicity resume_without_snapshot history_lost
    upsert_envelope bounded_up_to constant_collection empty_table by_id object_dropped
    poisoned_dataflow result_too_large fell_behind cancelled session_limits indexed_object
    schema_swap replacement catalog type_formats extended_protocol copy_out one_as_of_for_two
    privileges server_restart verify_queries
}

async fn check(name: &str) {
    let scenario = SCENARIOS.iter().find(|s| s.name == name).unwrap();
    let compared = replay(scenario).await;
    assert!(!compared.is_empty(), "{name} has no statements");
    let problems = problems(scenario, &compared);
    assert!(problems.is_empty(), "{name}\n{}", problems.join("\n"));
}

/// Differences that are not listed, and listed ones that are none.
fn problems(scenario: &Scenario, compared: &[Compared]) -> Vec<String> {
    let statements: Vec<&str> = compared.iter().map(|pair| &*pair.statement).collect();
    let differing: Vec<usize> = (0..compared.len())
        .filter(|at| compared[*at].differs())
        .collect();
    let unlisted = differing
        .iter()
        .filter(|at| !scenario.lists(&statements[..=**at]))
        .map(|at| show(&compared[*at]));
    let differs = |listed: &Differs| {
        differing
            .iter()
            .any(|at| listed.covers(&statements[..=*at]))
    };
    let stale = scenario.differs.iter().filter(|listed| !differs(listed));
    let stale = stale.map(|listed| {
        format!(
            "{:?} is answered as recorded by now; take it off the list in scenarios.rs, where it \
             says: {}",
            listed.statement, listed.because,
        )
    });
    unlisted.chain(stale).collect()
}

/// Where two answers part.
fn show(pair: &Compared) -> String {
    let same = pair.real.iter().zip(&pair.simulated);
    let same = same
        .take_while(|(real, simulated)| real == simulated)
        .count();
    let rest = |answer: &[serde_json::Value]| {
        let rest = answer[same..].iter().take(4).map(|m| format!("    {m}\n"));
        rest.collect::<String>()
    };
    format!(
        "{}\n  {same} messages are the same, then a real server sent\n{}  and the simulator\n{}",
        pair.statement,
        rest(&pair.real),
        rest(&pair.simulated),
    )
}

#[test]
fn every_recording_is_a_scenario_and_every_scenario_is_tested_once() {
    let folder = std::fs::read_dir(support::recordings().join("wire")).unwrap();
    let files: BTreeSet<String> = folder
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|file| file.split('.').next().unwrap().to_owned())
        .collect();
    let listed: Vec<String> = SCENARIOS.iter().map(|s| s.name.to_owned()).collect();
    let tested: Vec<String> = TESTED.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(listed, tested);
    assert_eq!(files, listed.iter().cloned().collect());
    assert_eq!(listed.len(), files.len(), "a scenario is listed twice");
}

#[test]
fn a_difference_must_be_listed_and_a_listed_one_must_still_be_one() {
    let pair = |statement: &str, real: &str, simulated: &str| Compared {
        statement: statement.to_owned(),
        real: vec![real.into()],
        simulated: vec![simulated.into()],
    };
    let listing = |only| Scenario {
        differs: match only {
            None => &[Differs {
                statement: "B",
                only: None,
                because: "of this",
            }],
            Some(_) => &[Differs {
                statement: "B",
                only: Some(2),
                because: "of that",
            }],
        },
        ..SCENARIOS[0]
    };
    let same = [
        pair("A", "1", "1"),
        pair("B", "1", "1"),
        pair("B", "1", "1"),
    ];
    let second = [
        pair("A", "1", "1"),
        pair("B", "1", "1"),
        pair("B", "1", "2"),
    ];
    let first = [
        pair("A", "1", "1"),
        pair("B", "1", "2"),
        pair("B", "1", "1"),
    ];
    let count = |scenario: &Scenario, compared| problems(scenario, compared).len();
    let found: Vec<usize> = [None, Some(2)]
        .iter()
        .flat_map(|only| [&same, &second, &first].map(|pairs| count(&listing(*only), pairs)))
        .collect();
    // The first is stale, the last is both stale and about another statement.
    assert_eq!(found, [1, 0, 0, 1, 0, 2]);
    assert_eq!(count(&SCENARIOS[0], &second), 1);
    assert!(problems(&listing(None), &same)[0].ends_with("where it says: of this"));
}

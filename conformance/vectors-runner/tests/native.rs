//! The core, as it is built for this machine, does what the vectors say.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use core_vectors::{FILES, Report, run};
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn text(file: &str) -> String {
    std::fs::read_to_string(folder("vectors").join(format!("{file}.json"))).unwrap()
}

fn reports() -> Vec<Report> {
    let report = |file: &&str| run(file, &text(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    FILES.iter().map(report).collect()
}

/// Names of files in a folder, up to the first dot.
fn names(folder: PathBuf, end: &str) -> BTreeSet<String> {
    let files = std::fs::read_dir(folder).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.contains(end))
        .map(|name| name.split('.').next().unwrap().to_owned())
        .collect()
}

#[test]
fn every_case_holds() {
    for (file, report) in FILES.iter().zip(reports()) {
        let failed = &report.failed;
        assert!(failed.is_empty(), "{file}.json:\n{}", failed.join("\n"));
    }
}

#[test]
fn every_file_is_run() {
    let there = names(folder("vectors"), ".json");
    assert_eq!(there, FILES.map(String::from).into());
}

#[test]
fn every_recording_contributes() {
    let used: BTreeSet<_> = reports().into_iter().flat_map(|r| r.recordings).collect();
    let mut there = names(folder("recordings/wire"), ".jsonl");
    there.extend(names(folder("recordings/streams"), ".jsonl"));
    assert_eq!(used, there);
}

#[test]
fn there_are_as_many_as_were_promised() {
    let cases: usize = reports().iter().map(|report| report.cases).sum();
    assert!(cases >= 300, "only {cases} cases");
}

/// Another value of the same kind, so that nothing but the comparison can notice it.
fn other(value: &Value) -> Value {
    match value {
        Value::Null => true.into(),
        Value::Bool(b) => (!b).into(),
        Value::Number(n) => n
            .as_u64()
            .map_or(Value::from(0), |n| n.wrapping_add(1).into()),
        Value::String(text) => format!("{text}!").into(),
        Value::Array(list) => match list.split_last() {
            Some((last, rest)) => rest.iter().cloned().chain([other(last)]).collect(),
            None => Value::from(vec![0]),
        },
        Value::Object(map) => {
            let mut map = map.clone();
            if let Some(value) = map.values_mut().last() {
                *value = other(value);
            }
            map.into()
        }
    }
}

#[test]
fn a_case_that_expects_anything_else_fails() {
    for file in FILES {
        let mut cases: Vec<Value> = serde_json::from_str(&text(file)).unwrap();
        for case in &mut cases {
            case["expected"] = other(&case["expected"]);
        }
        let report = run(file, &serde_json::to_string(&cases).unwrap()).unwrap();
        assert_eq!(report.failed.len(), report.cases, "{file}");
    }
}

#[test]
fn a_file_without_cases_or_with_a_case_twice_is_refused() {
    let case =
        r#"{"name": "n", "why": "w", "input": {"type": "text", "type_mod": -1}, "expected": 1}"#;
    let twice = format!("[{case}, {case}]");
    for (file, text) in [
        ("column_types", "[]"),
        ("column_types", &twice),
        ("column_types", "[{}]"),
        ("no_such_file", &format!("[{case}]")),
    ] {
        assert!(run(file, text).is_err(), "{file}: {text}");
    }
}

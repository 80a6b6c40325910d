//! Runs the language-neutral cases of `conformance/vectors`; its README describes the files.

mod decision;
mod protocol;
mod stream;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One case of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    why: String,
    input: Value,
    expected: Value,
    /// Made from a recording of a real server, not written by hand.
    #[serde(default)]
    generated: bool,
}

/// Runs every case of a file, and names all that fail.
fn run<I: DeserializeOwned>(file: &str, case: impl Fn(I) -> Value) {
    let path = format!(
        "{}/../../conformance/vectors/{file}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let cases: Vec<Case> = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert!(!cases.is_empty(), "{path} has no cases");
    let mut failed = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for Case {
        name,
        why,
        input,
        expected,
        generated,
    } in cases
    {
        assert!(names.insert(name.clone()), "{file}: two cases named {name}");
        let input = serde_json::from_value(input)
            .unwrap_or_else(|e| panic!("{file}: {name}: the input cannot be read: {e}"));
        let found = case(input);
        if found != expected {
            let origin = if generated { ", recorded" } else { "" };
            failed.push(format!(
                "{name} ({why}{origin})\n  expected {expected}\n  found    {found}"
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{file}: {} cases failed\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// A name of an enum's variant, as the vectors write it.
fn variant(debug: &impl std::fmt::Debug) -> String {
    let shown = format!("{debug:?}");
    let name = shown
        .split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or_default();
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.extend(c.to_lowercase());
    }
    out
}

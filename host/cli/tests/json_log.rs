//! A JSON log is JSON to the last line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

#[test]
fn the_error_that_ends_a_run_is_a_json_line_with_its_code() {
    let output = Command::new(env!("CARGO_BIN_EXE_mz-wasm-sink"))
        .args(["run", "no-such.wasm", "--config", "no-such.toml"])
        .args(["--log-format", "json"])
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = lines.last().unwrap();
    assert_eq!(last["level"], "ERROR");
    assert_eq!(last["code"], "config");
    assert!(last["message"].as_str().unwrap().contains("no-such.toml"));
}

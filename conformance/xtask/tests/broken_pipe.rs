//! `cargo xtask … | head -1` ends as any program does whose reader has gone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Stdio};

#[test]
fn a_reader_that_has_gone_ends_a_task_quietly() {
    for (task, code) in [("checks", 128 + 13), ("--help", 0)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .arg(task)
            .stdout(Stdio::from(writer))
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(!told.contains("panicked"), "{told}");
    }
}

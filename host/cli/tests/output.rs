//! Output whose reader has gone, or cannot be written.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::pipe;
use std::process::{Command, Stdio};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mz-wasm-sink"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

/// A pipe that nobody reads.
fn gone() -> Stdio {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_program_quietly() {
    for arguments in [["example-config"], ["--help"], ["--version"]] {
        let output = program(&arguments).stdout(gone()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn an_error_that_nobody_reads_keeps_its_exit_code() {
    for format in ["text", "json"] {
        let run = ["run", "no-such.wasm", "--log-format", format];
        let status = program(&run).stderr(gone()).status().unwrap();
        assert_eq!(status.code(), Some(2));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = program(&["example-config"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("error[output]: cannot write"), "{text}");
}

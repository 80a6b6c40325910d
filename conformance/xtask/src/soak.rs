//! Real processes, killed again and again.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::{guests, process, toolchain};

/// Cycles in every test run.
const CYCLES: &str = "20";

/// Builds what the soak runs, and runs it. The arguments go to its program.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    toolchain::ready()?;
    guests::run(&["turbopuffer".into()])?;
    let packages = ["build", "-p", "mz-wasm-sink", "-p", "soak"];
    process::run(&mut process::cargo(&packages)?)?;
    let status = program()?.args(arguments).status();
    let status = status.context("the soak could not be started")?;
    Ok(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// What must hold in every test run. Everything is built already.
pub fn test() -> Result<()> {
    process::run(program()?.args(["sim", "--cycles", CYCLES]))
}

fn program() -> Result<Command> {
    Ok(Command::new(process::root()?.join("target/debug/soak")))
}

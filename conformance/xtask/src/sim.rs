//! The seeded simulator of the whole worker.

use std::process::ExitCode;

use anyhow::Result;

use crate::process;

/// The package.
const PACKAGE: &str = "mz-sink-sim";

/// Seeds that must hold in every test run, each run twice.
const SEEDS: &str = "2000";

/// Runs the simulator with the caller's arguments.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let mut command = process::cargo(&["run", "--quiet", "--package", PACKAGE, "--"])?;
    command.args(arguments);
    process::run(&mut command).map(|()| ExitCode::SUCCESS)
}

/// What must hold in every test run: a strike at every point, the fixed seeds, and that each
/// planted mistake is found.
pub fn test() -> Result<()> {
    for arguments in [&["--sweep"][..], &["--seeds", SEEDS], &["--bites"]] {
        let mut command = process::cargo(&["run", "--quiet", "--package", PACKAGE, "--"])?;
        process::run(command.args(arguments))?;
    }
    Ok(())
}

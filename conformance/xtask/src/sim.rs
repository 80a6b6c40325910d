//! The seeded simulator of the whole worker.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::process;

/// Seeds that must hold in every test run, each run twice.
const SEEDS: &str = "2000";

/// The feature with which mistakes can be planted into the core.
const PLANTED: &str = "planted-bugs";

/// Runs the simulator with the caller's arguments.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let plants = arguments.contains(&"--bites") || arguments.contains(&"--bug");
    simulate(plants, &arguments).map(|()| ExitCode::SUCCESS)
}

/// What must hold in every test run: a strike at every point, the fixed seeds, and that each
/// planted mistake is found.
pub fn test() -> Result<()> {
    simulate(false, &["--sweep"])?;
    simulate(false, &["--seeds", SEEDS])?;
    simulate(true, &["--bites"])
}

fn simulate(plants: bool, arguments: &[&str]) -> Result<()> {
    let features: &[&str] = if plants {
        &["--features", PLANTED]
    } else {
        &[]
    };
    let program = ["run", "--quiet", "--package", "mz-sink-sim"];
    process::run(&mut process::cargo(
        &[&program, features, &["--"], arguments].concat(),
    )?)
}

/// Mistakes are planted for the simulator alone: whatever features the product is built with, the
/// core has none of them.
pub fn check() -> Result<()> {
    let tree = |package: &str| {
        let words = ["tree", "--all-features", "--invert", "mz-sink-core"];
        let edges = ["--edges", "normal,build,features", "--package", package];
        process::output(&mut process::cargo(&[&words[..], &edges].concat())?)
    };
    // Otherwise this would look for something that is not told.
    if !tree("mz-sink-sim")?.contains(PLANTED) {
        bail!("the simulator has lost its feature `{PLANTED}`");
    }
    if tree("mz-wasm-sink")?.contains(PLANTED) {
        bail!("mz-wasm-sink can be built with `{PLANTED}`, which is for the simulator only");
    }
    println!("planted mistakes: none in the product");
    Ok(())
}

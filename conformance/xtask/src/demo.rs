//! Builds what the demo and the benchmark run, and runs them.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::{guests, process, toolchain};

/// Shows the main job end to end. The arguments go to the demo program.
pub fn demo(arguments: &[String]) -> Result<ExitCode> {
    toolchain::ready()?;
    guests::run(&["turbopuffer".into()])?;
    build("demo", &["mz-wasm-sink", "demo"])?;
    let folder = process::root()?.join("target/demo");
    let mut command = Command::new(folder.join("demo"));
    command
        .arg("--program")
        .arg(folder.join("mz-wasm-sink"))
        .arg("--component")
        .arg(process::root()?.join("target/guests/turbopuffer.wasm"))
        .args(arguments);
    let status = command.status().context("the demo could not be started")?;
    Ok(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Measures. The arguments go to the benchmark program.
pub fn bench(arguments: &[String]) -> Result<ExitCode> {
    toolchain::ready()?;
    guests::run(&["turbopuffer".into()])?;
    build(
        "release",
        &[
            "mz-wasm-sink",
            "bench",
            "materialize-sim",
            "turbopuffer-sim",
        ],
    )?;
    let root = process::root()?;
    let folder = root.join("target/release");
    let mut command = Command::new(folder.join("bench"));
    command
        .arg("path")
        .arg("--binaries")
        .arg(&folder)
        .arg("--component")
        .arg(root.join("target/guests/turbopuffer.wasm"))
        .arg("--python")
        .arg(python()?)
        .args(arguments);
    let status = command
        .status()
        .context("the benchmark could not be started")?;
    if !status.success() {
        bail!("the benchmark failed");
    }
    Ok(ExitCode::SUCCESS)
}

fn build(profile: &str, packages: &[&str]) -> Result<()> {
    let mut arguments = vec!["build", "--profile", profile];
    for package in packages {
        arguments.extend(["-p", package]);
    }
    println!(
        "building {} (the first time takes some minutes)",
        packages.join(", ")
    );
    process::run(&mut process::cargo(&arguments)?)
}

/// What the Python contender imports.
const PYTHON_PACKAGES: [&str; 2] = ["psycopg[binary]==3.3.9", "turbopuffer==3.1.0"];

/// A virtual environment for the Python contender, made when missing.
fn python() -> Result<PathBuf> {
    let folder = process::root()?.join("target/bench-python");
    let python = folder.join("bin/python");
    if !process::succeeds(Command::new(&python).args(["-c", "import psycopg, turbopuffer"])) {
        println!(
            "making {} with {}",
            folder.display(),
            PYTHON_PACKAGES.join(", ")
        );
        process::run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet"])
            .args(PYTHON_PACKAGES);
        process::run(&mut pip)?;
    }
    Ok(python)
}

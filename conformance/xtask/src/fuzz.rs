//! Fuzzing of what reads the writing of others, with libFuzzer.
//!
//! The flags are those of cargo-fuzz without a sanitizer: they work with a stable compiler, and
//! memory safety is not what is looked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{process, setup};

/// Below `conformance/fuzz`, one program and one folder of inputs for each.
const TARGETS: [&str; 6] = [
    "checkpoint",
    "config",
    "dead_letters",
    "decode",
    "errors",
    "release",
];

/// What lets libFuzzer see which code an input reaches.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Inputs of each target in every test run, those in its folder included.
const SMOKE_RUNS: u32 = 20_000;

/// What to fuzz, and for how long.
#[derive(clap::Args)]
pub struct Options {
    /// Only these; all unless given.
    #[arg(long, value_parser = TARGETS)]
    target: Vec<String>,
    /// How long each.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Fuzzes for a while. New inputs are kept below `target/fuzz`, and are where the next run begins.
pub fn run(options: &Options) -> Result<()> {
    let built = build()?;
    for target in TARGETS {
        if options.target.is_empty() || options.target.iter().any(|only| only == target) {
            println!("\n{target}, {} s", options.seconds);
            let found = folder(&format!("target/fuzz/found/{target}"))?;
            let limit = format!("-max_total_time={}", options.seconds);
            fuzz(&built, target, &found, &[&limit])?;
        }
    }
    Ok(())
}

/// What must hold in every test run: always the same inputs.
pub fn test() -> Result<()> {
    let built = build()?;
    for target in TARGETS {
        let found = process::root()?.join("target/fuzz/smoke").join(target);
        if found.exists() {
            fs::remove_dir_all(&found).with_context(|| format!("emptying {}", found.display()))?;
        }
        let found = folder(&format!("target/fuzz/smoke/{target}"))?;
        let runs = format!("-runs={SMOKE_RUNS}");
        fuzz(&built, target, &found, &[&runs, "-seed=1", "-verbosity=0"])?;
        println!("{target}: {SMOKE_RUNS} inputs");
    }
    Ok(())
}

/// Runs one target; what makes it fail is kept and told.
fn fuzz(built: &Path, target: &str, found: &Path, arguments: &[&str]) -> Result<()> {
    let corpus = process::root()?
        .join("conformance/fuzz/corpus")
        .join(target);
    let failures = folder("target/fuzz/failures")?;
    let prefix = format!("-artifact_prefix={}/{target}-", failures.display());
    let program = built.join(target);
    let mut command = Command::new(&program);
    command.args(arguments);
    command.args(["-max_len=4096", "-timeout=20", &prefix]);
    command.arg(found).arg(corpus);
    if process::run(&mut command).is_err() {
        bail!(
            "an input makes {target} fail: it is the newest {target}-* in {}; repeat it with `{} FILE`",
            failures.display(),
            program.display()
        );
    }
    Ok(())
}

/// Builds all targets, apart from everything else, and gives the folder with the programs.
fn build() -> Result<PathBuf> {
    if !process::succeeds(Command::new("c++").arg("--version")) {
        setup::apt_install(&["g++"], "a C++ compiler, for libFuzzer")?;
    }
    let host = host()?;
    let target = process::root()?.join("target/fuzz");
    let mut command = process::cargo(&["build", "--release", "--locked", "--bins"])?;
    command
        .args(["--manifest-path", "conformance/fuzz/Cargo.toml"])
        // With a target, build scripts are not counted.
        .args(["--target", &host, "--target-dir"])
        .arg(&target)
        .env("RUSTFLAGS", COVERAGE);
    process::run(&mut command)?;
    Ok(target.join(host).join("release"))
}

/// This machine as the compiler calls it.
fn host() -> Result<String> {
    let about = process::output(Command::new("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .context("`rustc -vV` does not name the host")?
        .to_owned())
}

fn folder(path: &str) -> Result<PathBuf> {
    let folder = process::root()?.join(path);
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

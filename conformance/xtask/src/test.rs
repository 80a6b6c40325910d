//! Everything that must hold, step by step, up to the first failure.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{checks, fuzz, guests, process, setup, sim, soak};

const DENY: [&str; 3] = ["deny", "--config", ".cargo/deny.toml"];

/// The fuzz targets are a workspace of their own.
const FUZZ: [&str; 2] = ["--manifest-path", "conformance/fuzz/Cargo.toml"];

/// How much to run.
#[derive(clap::Args)]
pub struct Options {
    /// Leave out the lints and the check of licences and advisories.
    #[arg(long)]
    quick: bool,
    /// Handed on to `cargo test`, for example `-p mz-sink-core` or `-- name_of_a_test`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// The steps.
pub fn run(options: &Options) -> Result<()> {
    let started = Instant::now();
    step("setup", "cargo xtask setup", setup::run)?;
    cargo_step("format", &["fmt", "--all", "--check"])?;
    cargo_step(
        "format of fuzz targets",
        &["fmt", "--check", FUZZ[0], FUZZ[1]],
    )?;
    if !options.quick {
        cargo_step(
            "lints",
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ],
        )?;
    }
    if !options.quick {
        let shared = ["--target-dir", "target", "--", "-D", "warnings"];
        let lints = [&["clippy"], &FUZZ[..], &shared].concat();
        cargo_step("lints of fuzz targets", &lints)?;
    }
    step("guests", "cargo xtask guests", || guests::run(&[]))?;
    step("checks", "cargo xtask checks", checks::run)?;
    // Tests start these; `cargo test` builds a binary for the tests of its own package only.
    cargo_step("programs", &["build", "--workspace", "--bins"])?;
    tests(&options.arguments)?;
    step("simulator", "cargo xtask sim", sim::test)?;
    step("fuzz", "cargo xtask fuzz", fuzz::test)?;
    step("soak", "cargo xtask soak sim", soak::test)?;
    if !options.quick {
        let check = ["check", "bans", "licenses", "sources"];
        cargo_step("dependencies", &[&DENY[..], &check].concat())?;
        let of_fuzz = [&["deny"], &FUZZ[..], &DENY[1..], &check].concat();
        cargo_step("dependencies of fuzz targets", &of_fuzz)?;
        advisories()?;
    }
    println!("\nall steps passed in {}", seconds(started.elapsed()));
    Ok(())
}

/// Runs one step under a heading and prints its time.
fn step(name: &str, again: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("\n== {name}");
    let started = Instant::now();
    run().with_context(|| format!("step `{name}` failed; run it again with `{again}`"))?;
    println!("== {name}: passed in {}", seconds(started.elapsed()));
    Ok(())
}

fn cargo_step(name: &str, arguments: &[&str]) -> Result<()> {
    let mut command = process::cargo(arguments)?;
    let again = process::shown(&command);
    step(name, &again, || process::run(&mut command))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// All tests, or those that the arguments select.
fn tests(arguments: &[String]) -> Result<()> {
    let mut command = process::cargo(&["test"])?;
    if !arguments
        .iter()
        .any(|word| word == "-p" || word.starts_with("--package"))
    {
        command.arg("--workspace");
    }
    command.args(arguments);
    let again = process::shown(&command);
    step("tests", &again, || {
        let (tally, passed) = tallied(&mut command)?;
        println!(
            "{} tests passed, {} failed, {} ignored",
            tally.passed, tally.failed, tally.ignored
        );
        if !passed {
            bail!("not all tests passed");
        }
        Ok(())
    })
}

/// Sums over all test programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Tally {
    /// Counts a line of the form `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    fn count(&mut self, line: &str) {
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|result| result.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            let Some((number, what)) = count.split_once(' ') else {
                continue;
            };
            let number: u64 = number.parse().unwrap_or(0);
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

/// Runs `cargo test`, shows what it writes, and counts.
fn tallied(command: &mut Command) -> Result<(Tally, bool)> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("could not start cargo")?;
    let output = child.stdout.take().context("cargo's output is not piped")?;
    let mut tally = Tally::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("reading what the tests write")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        tally.count(&line);
    }
    let status = child.wait().context("waiting for cargo")?;
    Ok((tally, status.success()))
}

/// Known security problems of dependencies. Needs the database, thus the network.
fn advisories() -> Result<()> {
    let fetch = [&DENY[..], &["fetch", "db"]].concat();
    if !process::succeeds(&mut process::cargo(&fetch)?) {
        println!(
            "\n== advisories: SKIPPED, the advisory database could not be fetched \
             (https://github.com/rustsec/advisory-db)"
        );
        return Ok(());
    }
    cargo_step(
        "advisories",
        &[&DENY[..], &["check", "advisories"]].concat(),
    )
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn results_of_all_test_programs_are_summed() {
        let mut tally = Tally::default();
        for line in [
            "running 4 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
             finished in 0.00s",
            "test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; \
             finished in 1.00s",
        ] {
            tally.count(line);
        }
        let sum = Tally {
            passed: 8,
            failed: 2,
            ignored: 1,
        };
        assert_eq!(tally, sum);
    }
}

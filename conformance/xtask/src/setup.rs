//! What building and testing need on a machine, installed where it is missing.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{process, toolchain};

/// The version the rules in `.cargo/deny.toml` were written for.
const CARGO_DENY: &str = "cargo-deny@0.20.2";

/// Everything. Under a second when nothing is missing.
pub fn run() -> Result<()> {
    println!("guest toolchain: {}", toolchain::ready()?.origin());
    components()?;
    python()?;
    cargo_deny()
}

/// What rustup's minimal profile leaves out.
fn components() -> Result<()> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !process::succeeds(&mut process::cargo(&[subcommand, "--version"])?) {
            println!("{component}: adding it with rustup");
            process::run(Command::new("rustup").args(["component", "add", component]))
                .with_context(|| format!("`cargo {subcommand}` is missing"))?;
        }
    }
    println!("rustfmt, clippy: ok");
    Ok(())
}

/// Tests drive the official turbopuffer client, from a virtual environment of its own.
fn python() -> Result<()> {
    let new_enough = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";
    let found = || process::succeeds(Command::new("python3").args(["-c", new_enough]));
    if !found() {
        apt_install(
            &["python3", "python3-venv"],
            "Python 3.11 or newer with venv",
        )?;
        if !found() {
            bail!(
                "`python3` is older than 3.11 or lacks the venv module: \
                 install a newer one and put it first on PATH"
            );
        }
    }
    println!("python: ok");
    Ok(())
}

fn cargo_deny() -> Result<()> {
    if !process::succeeds(&mut process::cargo(&["deny", "--version"])?) {
        println!("cargo-deny: installing {CARGO_DENY}, this takes minutes");
        process::run(&mut process::cargo(&["install", "--locked", CARGO_DENY])?)?;
    }
    println!("cargo-deny: ok");
    Ok(())
}

/// Installs Debian packages as root; for everyone else, the error is the command to type.
pub fn apt_install(packages: &[&str], purpose: &str) -> Result<()> {
    let names = packages.join(" ");
    if !process::succeeds(Command::new("apt-get").arg("--version")) {
        bail!("{purpose} is missing: install it (on Debian the packages are {names})");
    }
    let user = process::output(Command::new("id").arg("-u")).context("asking for the user id")?;
    if user.trim() != "0" {
        bail!(
            "{purpose} is missing: run \
             `sudo apt-get update && sudo apt-get install --no-install-recommends {names}`"
        );
    }
    println!("installing {names} ({purpose})");
    process::run(Command::new("apt-get").args(["-qq", "update"]))?;
    process::run(
        Command::new("apt-get")
            .args(["-qq", "install", "-y", "--no-install-recommends"])
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
}

//! Development commands, run as `cargo xtask …`.
//!
//! This crate is the first thing a fresh checkout compiles, so its dependencies stay few: no
//! async, no wasmtime, nothing of the product.

mod checks;
mod guests;
mod process;
mod setup;
mod test;
mod toolchain;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Development commands for mz-wasm-sink.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what building and testing need; does nothing when it is all there.
    Setup,
    /// Build the sinks written in Rust into components under target/guests.
    Guests {
        /// Only these, by component name.
        #[arg(value_parser = guests::names())]
        only: Vec<String>,
    },
    /// Check that the core is pure and that crates depend on each other in one direction.
    Checks,
    /// Run everything that must hold: format, lints, guests, checks, tests, licences.
    Test(test::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Setup => setup::run(),
        Task::Guests { only } => guests::run(&only),
        Task::Checks => checks::run(),
        Task::Test(options) => test::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

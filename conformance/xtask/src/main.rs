//! Development commands, run as `cargo xtask …`.
//!
//! This crate is the first thing a fresh checkout compiles, so its dependencies stay few: no
//! async, no wasmtime, nothing of the product.

/// For the whole crate in place of std's, which panics when the reader has gone, as `head` does.
macro_rules! println {
    ($($text:tt)*) => { $crate::print_line(std::io::stdout(), format_args!($($text)*)) };
}

/// As [`println!`], to standard error.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::print_line(std::io::stderr(), format_args!($($text)*)) };
}

mod checks;
mod demo;
mod fuzz;
mod guests;
mod process;
mod setup;
mod sim;
mod soak;
mod test;
mod toolchain;

use std::fmt::Arguments as Text;
use std::io::Write;
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
    /// Show the main job end to end against simulated servers, with a proof.
    Demo {
        /// `--rows N` grows the stream, `--json` prints one object, `--keep` leaves servers up.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure throughput beside native code and a Python loop.
    Bench {
        /// `--rows N`, `--python-rows N`, `--rounds N`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Attack the whole worker in simulated time, with many seeds.
    Sim {
        /// `--seeds N --first K` or `--seed N` to repeat one; `--bites`, `--sweep`, `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Fuzz what reads the writing of others: rows, streams, checkpoints, configurations.
    Fuzz(fuzz::Options),
    /// Kill real processes again and again, with a proof each time.
    Soak {
        /// `sim --cycles N`, `--seed S` to repeat a plan, `--json`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        arguments: Vec<String>,
    },
    /// Run everything that must hold: format, lints, guests, checks, tests, licences.
    Test(test::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Demo { arguments } => return finish(demo::demo(&arguments)),
        Task::Bench { arguments } => return finish(demo::bench(&arguments)),
        Task::Soak { arguments } => return finish(soak::run(&arguments)),
        Task::Sim { arguments } => return finish(sim::run(&arguments)),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Setup => setup::run(),
        Task::Guests { only } => guests::run(&only),
        Task::Checks => checks::run(),
        Task::Test(options) => test::run(&options),
    };
    finish(result.map(|()| ExitCode::SUCCESS))
}

fn finish(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("  because: {cause}");
            }
            ExitCode::FAILURE
        }
    }
}

/// How a shell reports a program that SIGPIPE has ended: this one stops in the same way.
const READER_HAS_GONE: i32 = 128 + 13;

/// Writes a line; ends the program, quietly, where it cannot be written.
fn print_line(mut out: impl Write, line: Text) {
    if writeln!(out, "{line}").is_err() {
        std::process::exit(READER_HAS_GONE);
    }
}

//! `mz-wasm-sink`: run sandboxed WebAssembly sinks on Materialize change streams.
//!
//! This crate only puts things together: arguments, configuration, telemetry, signals and exit
//! codes. Whatever a test would want to call lives in the libraries.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod commands;
mod exit;
mod materialize;
mod notices;
mod output;
mod progress;
mod sandbox;
mod telemetry;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mz_sink_config as config;

use crate::telemetry::LogFormat;

/// Run sandboxed WebAssembly sinks on Materialize change streams.
#[derive(Parser)]
#[command(version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Read an object from Materialize and write its changes with a sink component.
    Run(commands::run::Arguments),
    /// Look at everything that can be known before a run, and say what to do about it.
    ///
    /// The sink is asked to open, as a run does first: one may create what it needs in the target
    /// then; the turbopuffer sink creates nothing. Nothing else is changed anywhere.
    Check(commands::check::Arguments),
    /// Show what a sink component is and what it wants.
    Inspect(commands::inspect::Arguments),
    /// Show the changes of a query or an object as JSON lines, a batch of closed changes each.
    Tail(commands::tail::Arguments),
    /// Look at rows that never reached the target, give them up, or write them after all.
    Dlq(commands::dlq::Arguments),
    /// Print a configuration file with every setting, its default and its meaning.
    ExampleConfig,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let format = match &arguments.command {
        Command::Run(run) => run.log_format,
        _ => LogFormat::Text,
    };
    let result = match arguments.command {
        Command::Run(arguments) => commands::run::run(arguments),
        Command::Inspect(arguments) => commands::inspect::run(&arguments),
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Tail(arguments) => commands::tail::run(&arguments),
        Command::Dlq(arguments) => commands::dlq::run(arguments),
        Command::ExampleConfig => output::print(config::EXAMPLE),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(format),
    }
}

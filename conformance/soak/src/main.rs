//! Real processes under `kill -9`: the real program with the real turbopuffer component between
//! two servers, killed again and again while rows change and servers fail, and after each time a
//! proof, row by row.
//!
//! ```text
//!  plan (seed) ─> one life: start, perhaps faults, perhaps a rival, a moment, a kill
//!              ─> the next life: catch up, and prove: target == SELECT … AS OF frontier - 1
//! ```

mod cycle;
mod deployment;
mod plan;
mod report;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use report::Report;

/// Kills real processes again and again, and proves each time that nothing was lost or repeated.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    against: Against,
}

#[derive(Subcommand)]
enum Against {
    /// Against the simulated Materialize.
    Sim(Options),
}

#[derive(clap::Args)]
struct Options {
    /// How often.
    #[arg(long, default_value_t = 20)]
    cycles: u32,
    /// Repeats the plan, not the moments: processes are as fast as the machine is.
    #[arg(long)]
    seed: Option<u64>,
    /// Print one JSON object as the last line.
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Against::Sim(options) = Arguments::parse().against;
    let seed = options
        .seed
        .unwrap_or_else(|| u64::from(std::process::id()));
    let mut report = Report::new(seed, options.cycles);
    let outcome = cycle::run(seed, options.cycles, &mut report).await;
    let is_well = report.finish(options.json, outcome.as_ref().err());
    match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

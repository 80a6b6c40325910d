//! `mz-sink-sim`: attacks the worker with many seeds, or repeats one.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use mz_sink_sim::{BUGS, Bug, Search, run_seed};

/// Attacks the whole worker in simulated time.
#[derive(Parser)]
#[command(name = "mz-sink-sim")]
struct Arguments {
    /// How many seeds to run, each twice.
    #[arg(long, default_value_t = 2000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Repeat one seed and show its last events.
    #[arg(long)]
    seed: Option<u64>,
    /// With --seed: cut it short after so many steps.
    #[arg(long, requires = "seed")]
    steps: Option<u64>,
    /// With --seed: switch kinds of faults off.
    #[arg(long, requires = "seed", value_delimiter = ',')]
    without: Vec<String>,
    /// Plant a mistake, which must be found: by name, or `list`.
    #[arg(long)]
    bug: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.bug.as_deref() == Some("list") {
        BUGS.iter().for_each(|bug| println!("{}", bug.name));
        return ExitCode::SUCCESS;
    }
    let bug = match arguments
        .bug
        .as_deref()
        .map(|name| (name, Bug::named(name)))
    {
        Some((name, None)) => {
            eprintln!("error: there is no bug {name:?}; --bug list prints all");
            return ExitCode::FAILURE;
        }
        Some((_, bug)) => bug,
        None => None,
    };
    match arguments.seed {
        Some(seed) => one(seed, &arguments, bug),
        None => many(&arguments, bug),
    }
}

fn one(seed: u64, arguments: &Arguments, bug: Option<Bug>) -> ExitCode {
    let (profile, report) = match run_seed(seed, arguments.steps, &arguments.without, bug) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    if arguments.json {
        let shown = serde_json::json!({
            "seed": seed,
            "profile": profile,
            "broken": report.broken,
            "events": report.events,
            "hash": format!("{:016x}", report.hash),
            "last": report.last,
        });
        println!("{shown}");
    } else {
        println!("seed {seed}: {profile}");
        report.last.iter().for_each(|line| println!("{line}"));
        println!("{} events, hash {:016x}", report.events, report.hash);
    }
    match report.broken {
        Some(broken) => {
            eprintln!("error: {broken}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

fn many(arguments: &Arguments, bug: Option<Bug>) -> ExitCode {
    let started = Instant::now();
    let shows = std::io::stderr().is_terminal();
    let total = arguments.seeds;
    let search = Search {
        first: arguments.first,
        seeds: total,
        bug,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let result = search.run(|done| {
        if done.is_multiple_of(100) && done < total {
            let rate = done as f64 / started.elapsed().as_secs_f64();
            let line = format!("{done} of {total} seeds, {rate:.0} each second");
            if shows {
                eprint!("\r{line}");
            } else if done.is_multiple_of(1000) {
                eprintln!("{line}");
            }
        }
    });
    if shows {
        eprintln!();
    }
    let seconds = started.elapsed().as_secs_f64();
    match (result, arguments.json) {
        (Ok(tally), true) => {
            let shown = serde_json::json!({
                "seeds": tally.seeds,
                "seconds": seconds,
                "events": tally.events,
                "workers": tally.workers,
                "commits": tally.commits,
                "simulated_seconds": tally.simulated_seconds,
            });
            println!("{shown}");
            ExitCode::SUCCESS
        }
        (Ok(tally), false) => {
            println!(
                "{} seeds, each twice, in {seconds:.1} s: {} events, {} workers, {} commits, \
                 {} hours of simulated time; no promise was broken",
                tally.seeds,
                tally.events,
                tally.workers,
                tally.commits,
                tally.simulated_seconds / 3600
            );
            ExitCode::SUCCESS
        }
        (Err(failure), true) => {
            let shown = serde_json::json!({
                "seed": failure.seed,
                "broken": failure.broken,
                "profile": failure.profile,
                "repeat": failure.repeat,
                "last": failure.last,
                "seconds": seconds,
            });
            println!("{shown}");
            ExitCode::FAILURE
        }
        (Err(failure), false) => {
            println!("seed {} broke a promise: {}", failure.seed, failure.broken);
            println!("made smaller: {}", failure.profile);
            failure.last.iter().for_each(|line| println!("{line}"));
            println!("repeat with: mz-sink-sim {}", failure.repeat);
            ExitCode::FAILURE
        }
    }
}

//! `mz-sink-sim`: attacks the worker with many seeds, or repeats one.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use mz_sink_sim::{Bug, Cut, Failure, Search, WITHIN, bite, run_seed, sweep};

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
    /// With --seed: show every event, not only the last.
    #[arg(long, requires = "seed")]
    all: bool,
    /// With --seed: a quiet run with one strike, such as kill@17.
    #[arg(long, requires = "seed")]
    strike: Option<String>,
    /// Strike once at every point of short quiet runs, instead of running seeds.
    #[arg(long, conflicts_with = "seed")]
    sweep: bool,
    /// Plant every mistake, and count the seeds until it is found.
    #[arg(long, conflicts_with_all = ["seed", "sweep", "bug"])]
    bites: bool,
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
        Bug::all().for_each(|bug| println!("{}", bug.name));
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
        None if arguments.bites => bites(arguments.json),
        None if arguments.sweep => everywhere(&arguments, bug),
        None => many(&arguments, bug),
    }
}

fn one(seed: u64, arguments: &Arguments, bug: Option<Bug>) -> ExitCode {
    let cut = Cut {
        steps: arguments.steps,
        without: arguments.without.clone(),
        strike: arguments.strike.clone(),
        all: arguments.all,
    };
    let (profile, report) = match run_seed(seed, &cut, bug) {
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
        threads: threads(),
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
                "counts": tally.counts,
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
        (Err(failure), _) => failed(&failure, arguments.json),
    }
}

fn everywhere(arguments: &Arguments, bug: Option<Bug>) -> ExitCode {
    let started = Instant::now();
    match sweep(arguments.first, threads(), bug) {
        Ok(runs) => {
            let seconds = started.elapsed().as_secs_f64();
            if arguments.json {
                println!(
                    "{}",
                    serde_json::json!({ "strikes": runs, "seconds": seconds })
                );
            } else {
                println!("{runs} strikes, each twice, in {seconds:.1} s; no promise was broken");
            }
            ExitCode::SUCCESS
        }
        Err(failure) => failed(&failure, arguments.json),
    }
}

fn bites(json: bool) -> ExitCode {
    let mut all = true;
    let mut shown = serde_json::Map::new();
    for bug in Bug::all() {
        let bite = bite(bug, threads());
        all &= bite.found();
        if json {
            shown.insert(bug.name.into(), serde_json::json!(bite.seeds));
        } else {
            match bite.typical() {
                Some(seeds) if bite.found() => println!("{:<32} {seeds:>5} seeds", bug.name),
                _ => println!(
                    "{:<32} NOT FOUND within {WITHIN} seeds: {:?}",
                    bug.name, bite.seeds
                ),
            }
        }
    }
    if json {
        println!("{}", serde_json::Value::Object(shown));
    }
    if all {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn failed(failure: &Failure, json: bool) -> ExitCode {
    if json {
        let shown = serde_json::json!({
            "seed": failure.seed,
            "broken": failure.broken,
            "profile": failure.profile,
            "repeat": failure.repeat,
            "last": failure.last,
        });
        println!("{shown}");
    } else {
        println!("seed {} broke a promise: {}", failure.seed, failure.broken);
        println!("made smaller: {}", failure.profile);
        failure.last.iter().for_each(|line| println!("{line}"));
        println!("repeat with: mz-sink-sim {}", failure.repeat);
    }
    ExitCode::FAILURE
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

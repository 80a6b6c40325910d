//! Throughput of the whole path, measured as ratios against stated peers in the same run.
//!
//! Each contender moves the same generated table (8 columns, one snapshot, upserts) from the
//! simulated Materialize to the turbopuffer emulator. Servers and contenders are processes of
//! their own, started anew for each round; the time is from starting the contender to its
//! commit of the snapshot.
//!
//! | contender | what it is |
//! | --- | --- |
//! | wasm | `mz-wasm-sink run turbopuffer.wasm` |
//! | native | the same host and the same sink code, the sink compiled into the process |
//! | python | psycopg and the official client in a straightforward loop, without a checkpoint |
//!
//! Run by `cargo xtask bench`, which builds what is needed first.

mod contender;
mod native;
mod process;
mod start;
mod target;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::contender::{Contender, Run};

#[derive(Parser)]
#[command(about = "Throughput of the whole path, beside native code and a Python loop")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure all contenders.
    Path(Path),
    /// Be the native contender.
    #[command(hide = true)]
    Native(native::Arguments),
}

/// Where things are, and how much to measure.
#[derive(Args)]
struct Path {
    /// Rows for the compiled contenders.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Rows for Python, which is slower by far.
    #[arg(long, default_value_t = 100_000)]
    python_rows: u64,
    /// Rounds for each contender, taking turns; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Folder with the release binaries.
    #[arg(long, hide = true)]
    binaries: PathBuf,
    /// The turbopuffer component.
    #[arg(long, hide = true)]
    component: PathBuf,
    /// A Python with psycopg and turbopuffer; without it the loop is left out.
    #[arg(long, hide = true)]
    python: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // One provider for this process; a second call would only say that there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match Arguments::parse().command {
        Command::Native(arguments) => native::run(arguments).await,
        Command::Path(path) => measure(&path).await,
    }
}

async fn measure(path: &Path) -> anyhow::Result<()> {
    let mut contenders = vec![
        Contender::wasm(&path.binaries, &path.component),
        Contender::native(&path.binaries),
    ];
    contenders.extend(path.python.as_deref().map(Contender::python));
    let mut runs: Vec<Vec<Run>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 1..=path.rounds {
        for (contender, runs) in contenders.iter().zip(&mut runs) {
            let rows = match contender.name {
                "python" => path.python_rows,
                _ => path.rows,
            };
            eprintln!(
                "round {round}/{}: {} with {rows} rows",
                path.rounds, contender.name
            );
            runs.push(contender.run(&path.binaries, rows).await?);
        }
    }
    let medians: Vec<Run> = runs.into_iter().map(median).collect();
    println!(
        "{:<8} {:>10} {:>12} {:>9} {:>14} {:>12} {:>14}",
        "", "rows", "rows/s", "ratio", "own CPU s", "peak MiB", "servers' CPU s"
    );
    for (contender, run) in contenders.iter().zip(&medians) {
        println!(
            "{:<8} {:>10} {:>12.0} {:>9.2} {:>14.2} {:>12.0} {:>14}",
            contender.name,
            run.rows,
            run.rows_per_second(),
            medians[0].rows_per_second() / run.rows_per_second(),
            run.cpu_seconds,
            mib(run.peak_bytes),
            format!("{:.2} + {:.2}", run.materialize_cpu, run.turbopuffer_cpu),
        );
    }
    println!(
        "\nratio: rows/s of wasm over rows/s of this line; own CPU and peak memory of the contender's process"
    );
    let wasm = &contenders[0];
    let twice = wasm.run(&path.binaries, path.rows * 2).await?;
    println!(
        "\npeak memory of wasm: {:.0} MiB with {} rows, {:.0} MiB with {} (buffer.memory = 64 MiB)",
        mib(medians[0].peak_bytes),
        medians[0].rows,
        mib(twice.peak_bytes),
        twice.rows,
    );
    let start = start::measure(&path.binaries, &path.component).await?;
    println!(
        "start with a warm cache to the first FETCH: {:.0} ms",
        start * 1000.0
    );
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn median(mut runs: Vec<Run>) -> Run {
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    runs.swap_remove(runs.len() / 2)
}

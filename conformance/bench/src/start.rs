//! How long a start takes: from starting the process to the first FETCH on the wire.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use materialize_sim::{BenchOptions, Options, Server};

use crate::contender::configuration;
use crate::process::Process;

/// Starts measured, after one that fills the cache of compiled components.
const STARTS: usize = 9;

/// The median of several starts with a warm cache, in seconds.
pub async fn measure(binaries: &Path, component: &Path) -> anyhow::Result<f64> {
    let mut seconds = Vec::new();
    for start in 0..=STARTS {
        let took = first_fetch(binaries, component).await?;
        if start > 0 {
            seconds.push(took);
        }
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[STARTS / 2])
}

async fn first_fetch(binaries: &Path, component: &Path) -> anyhow::Result<f64> {
    let materialize = Server::start(Options::default()).await?;
    let control = materialize.control();
    control.create_bench(
        "bench",
        BenchOptions {
            rows: 1,
            changes_per_second: 0,
        },
    )?;
    let (_turbopuffer, url) = Process::server(&mut Command::new(binaries.join("turbopuffer-sim")))?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("bench.toml");
    std::fs::write(&config, configuration(&materialize.url(), &url))?;
    let started = Instant::now();
    let mut process = Process::start(
        Command::new(binaries.join("mz-wasm-sink"))
            .args(["run", "--progress", "none"])
            .arg(component)
            .arg("--config")
            .arg(&config)
            .env("API_KEY", "bench-key")
            .env("RUST_LOG", "warn"),
    )?;
    loop {
        if control
            .statements()
            .iter()
            .any(|sql| sql.starts_with("FETCH"))
        {
            return Ok(started.elapsed().as_secs_f64());
        }
        process.check_running()?;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

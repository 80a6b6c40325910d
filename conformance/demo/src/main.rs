//! The main job end to end: a recorded stream through the turbopuffer sink, and a proof.
//!
//! ```text
//!   recording ──> materialize-sim ──pgwire──> mz-wasm-sink run turbopuffer.wasm ──HTTP──> turbopuffer-sim
//!                       └────────── folded to the committed frontier == read back ──────────┘
//! ```
//!
//! Run by `cargo xtask demo`, which builds what is needed first.

mod host;
mod proof;
mod recording;
mod target;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use materialize_sim::{ReplayOptions, Speed};
use serde_json::json;

use crate::host::Host;
use crate::recording::Recording;
use crate::target::Target;

/// How fast the recording goes by when it is not grown: a minute and a half in five seconds.
const SPEED: f64 = 20.0;

/// Without a commit for this long, something is stuck.
const STUCK: Duration = Duration::from_secs(60);

#[derive(Parser)]
#[command(about = "The main job end to end against simulated servers, with a proof")]
struct Arguments {
    /// Grow the stream to at least this many rows.
    #[arg(long)]
    rows: Option<u64>,
    /// Print the result as one JSON object, as the last line.
    #[arg(long)]
    json: bool,
    /// Leave the servers up and say how to look at them.
    #[arg(long)]
    keep: bool,
    /// The program to run.
    #[arg(long, hide = true)]
    program: PathBuf,
    /// The component to run.
    #[arg(long, hide = true)]
    component: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    // For reqwest, which is built without a provider of its own.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let recording = Recording::open("auction_board")?;
    let materialize = materialize_sim::Server::start(materialize_sim::Options::default()).await?;
    let control = materialize.control();
    let object = control.replay(
        &recording.path,
        ReplayOptions {
            speed: arguments.rows.map_or(Speed::Times(SPEED), |_| Speed::Max),
            rows: arguments.rows,
        },
    )?;
    let end = control
        .recording_end(&object)?
        .context("the simulator does not know where the recording ends")?;
    let turbopuffer = turbopuffer_sim::Server::start(turbopuffer_sim::Options {
        api_key: Some(host::API_KEY.into()),
        ..turbopuffer_sim::Options::default()
    })
    .await?;
    let target = Target::new(turbopuffer.url());
    eprintln!("Materialize (simulated)  {}", materialize.url());
    eprintln!("turbopuffer (simulated)  {}", turbopuffer.url());
    eprintln!(
        "object                   {object}, upsert by {}",
        recording.key.join(", ")
    );

    let started = Instant::now();
    let mut host = Host::start(
        &arguments.program,
        &arguments.component,
        &materialize.url(),
        &turbopuffer.url(),
        &object,
        &recording.key,
    )?;
    wait_for(&target, &mut host, end).await?;
    let elapsed = started.elapsed();
    host.stop().await?;

    let (frontier, namespace) = target.committed().await?.context("nothing was committed")?;
    let expected = proof::expected(&control, &object, frontier, &recording)?;
    let found = target.documents(&namespace, &recording).await?;
    let differences = proof::compare(&expected, &found);
    let requests = turbopuffer.requests().len();
    if arguments.json {
        println!(
            "{}",
            json!({
                "object": object,
                "rows": expected.len(),
                "frontier": frontier,
                "seconds": elapsed.as_secs_f64(),
                "namespace": namespace,
                "requests": requests,
                "differences": differences.len(),
                "equal": differences.is_empty(),
            })
        );
    } else {
        println!();
        println!("  documents in {namespace:<24} {:>10}", found.len());
        println!(
            "  rows of the view at the frontier       {:>10}",
            expected.len()
        );
        println!("  committed frontier                     {frontier:>10}");
        println!("  HTTP requests                          {requests:>10}");
        println!(
            "  seconds                                {:>10.1}",
            elapsed.as_secs_f64()
        );
        println!();
        match differences.as_slice() {
            [] => println!(
                "proof: every document equals its row of {object} AS OF {}",
                frontier - 1
            ),
            some => println!("NOT EQUAL: {} differences", some.len()),
        }
    }
    for difference in differences.iter().take(10) {
        eprintln!("  {difference}");
    }
    if arguments.keep {
        eprintln!("\nThe servers stay up until Ctrl-C. Look at them with:");
        eprintln!(
            "  psql '{}' -c 'SELECT * FROM {object} LIMIT 5'",
            materialize.url()
        );
        eprintln!(
            "  curl -s -H 'Authorization: Bearer {}' -d '{{\"rank_by\":[\"id\",\"asc\"],\"limit\":5,\"include_attributes\":true}}' {}/v2/namespaces/{namespace}/query",
            host::API_KEY,
            turbopuffer.url(),
        );
        tokio::signal::ctrl_c().await?;
    }
    Ok(if differences.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Waits until everything below `end` is committed.
async fn wait_for(target: &Target, host: &mut Host, end: u64) -> anyhow::Result<()> {
    let mut last = 0;
    let mut moved = Instant::now();
    loop {
        if let Some(status) = host.ended()? {
            bail!("mz-wasm-sink ended with {status} before the stream did");
        }
        let frontier = target
            .committed()
            .await?
            .map_or(0, |(frontier, _)| frontier);
        if frontier >= end {
            return Ok(());
        }
        if frontier > last {
            (last, moved) = (frontier, Instant::now());
        } else if moved.elapsed() > STUCK {
            bail!("nothing was committed for {} s", STUCK.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

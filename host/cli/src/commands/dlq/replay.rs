//! `dlq replay`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use mz_sink_core::classify::ErrorClass;
use mz_sink_core::dead_letter::Entry;
use mz_sink_core::replay::Replayed;
use mz_sink_core::session::SessionError;
use mz_sink_driver::{LetterFile, ReplayFailure};

use super::{Chosen, config, confirm, counted, file_failure, path_in, warn_of_cut};
use crate::commands::deployment::Deployment;
use crate::commands::run::random_seed;
use crate::exit::Failure;
use crate::output;
use crate::telemetry::{self, LogFormat};

/// Arguments of `dlq replay`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The sink component, a .wasm file.
    component: PathBuf,
    #[command(flatten)]
    chosen: Chosen,
    /// The configuration of the sink; by default `mz-wasm-sink.toml` beside the component.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Read what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

/// Writes rows into the target after all.
///
/// # Errors
/// When they could not be written; they stay in the file then.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    telemetry::start(LogFormat::Text);
    let beside = arguments.component.with_file_name("mz-wasm-sink.toml");
    let config = config(arguments.config.as_ref().unwrap_or(&beside))?;
    let mut file = LetterFile::lock(&path_in(&config)?).map_err(file_failure)?;
    warn_of_cut(&file);
    let chosen = arguments.chosen.of(&file)?;
    if chosen.is_empty() {
        return output::print("no dead letters\n");
    }
    let question = format!(
        "write {} into the target of {:?}? A worker that still runs for it will be fenced.",
        counted(chosen.len()),
        config.sink_id
    );
    if !arguments.dry_run && !confirm(&question, arguments.yes)? {
        return output::print("nothing was written\n");
    }
    let runtime = tokio::runtime::Runtime::new().map_err(|e| Failure::failed("runtime", e))?;
    let replayed = runtime.block_on(replay(arguments, config, chosen));
    // A blocking task that never ends must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    let replayed = replayed?;
    let done: BTreeSet<_> = entries(&replayed)
        .filter(|(replayed, entry)| replayed.stays(entry).is_none())
        .map(|(_, entry)| entry.id.clone())
        .collect();
    if !arguments.dry_run {
        file.keep_only(|entry| !done.contains(&entry.id))
            .map_err(file_failure)?;
    }
    report(&replayed, done.len(), arguments.dry_run)
}

async fn replay(
    arguments: &Arguments,
    config: crate::config::Config,
    chosen: Vec<Entry>,
) -> Result<Vec<Replayed>, Failure> {
    let deployment = Deployment::load(&arguments.component, config).await?;
    let (mut source, mut sink) = (deployment.source(), deployment.sink()?);
    mz_sink_driver::replay(
        &mut source,
        &mut sink,
        &deployment.session(),
        random_seed(),
        chosen,
        arguments.dry_run,
    )
    .await
    .map_err(failure)
}

fn failure(error: ReplayFailure) -> Failure {
    match &error {
        ReplayFailure::Session(
            cause @ SessionError::Server {
                class: ErrorClass::HistoryLost,
                ..
            },
        ) => Failure::failed(
            cause.code(),
            "the object cannot be read any more as it was at the committed frontier: run the sink \
             until it has committed more, then try again",
        ),
        ReplayFailure::Session(cause) if cause.needs_operator() => {
            Failure::needs_operator(cause.code(), cause)
        }
        ReplayFailure::Session(cause) => Failure::failed(cause.code(), cause),
        ReplayFailure::WorkerRuns => Failure::needs_operator("conflict", error),
        _ => Failure::failed("dead-letter", error),
    }
}

fn entries(replayed: &[Replayed]) -> impl Iterator<Item = (&Replayed, &Entry)> {
    let all = replayed.iter();
    all.flat_map(|replayed| replayed.entries.iter().map(move |entry| (replayed, entry)))
}

fn report(replayed: &[Replayed], done: usize, is_rehearsal: bool) -> Result<(), Failure> {
    let rows: usize = replayed
        .iter()
        .flat_map(|r| &r.rows)
        .map(|c| c.rows())
        .sum();
    let mut text = match is_rehearsal {
        true => format!("{} would be replayed with {rows} rows\n", counted(done)),
        false => format!("{} replayed with {rows} rows\n", counted(done)),
    };
    let mut stay = std::collections::BTreeMap::new();
    for (replayed, entry) in entries(replayed) {
        if let Some(why) = replayed.stays(entry) {
            *stay.entry(why).or_insert(0) += 1;
        }
    }
    for (why, count) in &stay {
        text += &format!("{} kept: {why}\n", counted(*count));
    }
    output::print(&text)?;
    match stay.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed(
            "dead-letter",
            "some dead letters could not be replayed; `dlq list` shows them",
        )),
    }
}

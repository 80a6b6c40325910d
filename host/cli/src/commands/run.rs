//! `mz-wasm-sink run`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use mz_sink_core::session::Outcome;
use mz_sink_core::types::{CLOSED, Frontier, Guarantee};
use mz_sink_driver::{DeadLetters, FileDeadLetters, LogDeadLetters, Options, Progress};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::commands::deployment::Deployment;
use crate::commands::load;
use crate::config::Config;
use crate::exit::Failure;
use crate::notices;
use crate::progress::{self, Style};
use crate::telemetry::{self, LogFormat};

/// Arguments of `run`.
#[derive(Args)]
pub struct Arguments {
    /// The sink component, a .wasm file.
    component: PathBuf,
    /// The configuration; by default `mz-wasm-sink.toml` beside the component.
    #[arg(long, short)]
    config: Option<PathBuf>,
    /// How to show progress, on standard error.
    #[arg(long, value_enum, default_value_t)]
    progress: Style,
    /// How log lines look. RUST_LOG chooses what is logged.
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// Runs until the stream ends, somebody stops it, or an error needs somebody.
///
/// # Errors
/// With the exit code that fits.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    telemetry::start(arguments.log_format);
    let config = load::config(&arguments.component, arguments.config.as_deref())?;
    let runtime = tokio::runtime::Runtime::new().map_err(|e| Failure::failed("runtime", e))?;
    let outcome = runtime.block_on(run_sink(&arguments, config));
    // A blocking task that never ends must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn run_sink(arguments: &Arguments, config: Config) -> Result<(), Failure> {
    let shutdown = watch_signals()?;
    let deployment = Deployment::load(&arguments.component, config).await?;
    let Deployment {
        config, inspection, ..
    } = &deployment;
    let spill_folder = config.buffer.dir.clone().unwrap_or_else(std::env::temp_dir);
    mz_sink_driver::check_spill_folder(&spill_folder).map_err(|error| {
        let text = format!("{} cannot be written: {error}", spill_folder.display());
        Failure::usage("config", config.wrong("buffer.dir", text))
    })?;
    let progress = Arc::new(Progress::default());
    let sink = deployment.sink()?;
    let options = Options {
        session: deployment.session(),
        seed: random_seed(),
        spill_folder,
        dead_letters: dead_letters(config)?,
        progress: progress.clone(),
        tell: Box::new(notices::tell(config.sink_id.clone())),
        shutdown,
    };
    tracing::info!(
        sink_id = %config.sink_id,
        component = %inspection.name,
        version = %inspection.version,
        digest = %inspection.digest,
        guarantee = %guarantee(inspection.guarantee),
        "starting"
    );
    // Lines for people would break a log for collectors.
    let style = match (arguments.log_format, arguments.progress) {
        (LogFormat::Json, Style::Auto) => Style::None,
        (_, style) => style,
    };
    let showing = tokio::spawn(progress::show(progress.clone(), style));
    let connections = options.session.connections();
    let sources = (0..connections).map(|_| deployment.source());
    let outcome = mz_sink_driver::run(sources, sink, options).await;
    showing.abort();
    let end = progress.snapshot();
    tracing::info!(
        rows = end.rows_committed,
        batches = end.batches,
        frontier = open(end.committed),
        retries = end.retries,
        fell_behind = end.fell_behind,
        dead_letters = end.dead_letters,
        dead_letters_by_category = by_category(&progress),
        "{}",
        match outcome {
            Outcome::Finished => "stopped: all there is up to the end is committed",
            _ => "stopped",
        }
    );
    match outcome {
        Outcome::Finished | Outcome::ShutDown => Ok(()),
        Outcome::Failed(error) if error.needs_operator() => {
            Err(Failure::needs_operator(error.code(), error))
        }
        Outcome::Failed(error) => Err(Failure::failed(error.code(), error)),
    }
}

fn dead_letters(config: &Config) -> Result<Arc<dyn DeadLetters>, Failure> {
    let log = LogDeadLetters {
        sink_id: config.sink_id.clone(),
        log_key: config.dead_letter.log_key,
    };
    Ok(match &config.dead_letter.path {
        Some(path) => Arc::new(
            FileDeadLetters::open(path, log)
                .map_err(|e| Failure::usage("config", config.wrong("dead_letter.path", e)))?,
        ),
        None => Arc::new(log),
    })
}

/// `category=count` of each, if there is any.
fn by_category(progress: &Progress) -> Option<String> {
    let counts = progress.dead_letters();
    let counts: Vec<_> = counts
        .iter()
        .map(|(word, n)| format!("{word}={n}"))
        .collect();
    (!counts.is_empty()).then(|| counts.join(" "))
}

/// A frontier that is a time.
fn open(frontier: Frontier) -> Option<Frontier> {
    (frontier != 0 && frontier != CLOSED).then_some(frontier)
}

/// The contract's own word.
fn guarantee(guarantee: Guarantee) -> &'static str {
    match guarantee {
        Guarantee::Transactional => "transactional",
        Guarantee::Convergent => "convergent",
        Guarantee::AtLeastOnce => "at-least-once",
    }
}

/// From the process's own hash seeds, which the operating system gives.
pub fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// The first SIGTERM or SIGINT asks for a clean end; the second ends at once with 128 + signal.
pub fn watch_signals() -> Result<watch::Receiver<bool>, Failure> {
    let stream = |kind| signal(kind).map_err(|e| Failure::failed("signals", e));
    let mut terminate = stream(SignalKind::terminate())?;
    let mut interrupt = stream(SignalKind::interrupt())?;
    let (ask, asked) = watch::channel(false);
    tokio::spawn(async move {
        loop {
            let number = tokio::select! {
                _ = terminate.recv() => 15,
                _ = interrupt.recv() => 2,
            };
            if ask.send_replace(true) {
                std::process::exit(128 + number);
            }
            tracing::info!("stopping after the write in flight; again to stop at once");
        }
    });
    Ok(asked)
}

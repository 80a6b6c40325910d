//! `mz-wasm-sink run`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use mz_sink_core::catalog::IdentityPolicy;
use mz_sink_core::retry::RetryPolicy;
use mz_sink_core::session::{
    OnFailure, OnHistoryLoss, OnKeyViolation, Outcome, SessionConfig, ViewConfig,
};
use mz_sink_core::types::{CLOSED, Envelope, Frontier, Guarantee};
use mz_sink_driver::{DeadLetters, FileDeadLetters, LogDeadLetters, Options, Progress};
use mz_sink_plugin::{Inspection, PluginOptions, PluginSink};
use mz_sink_source::ConnectOptions;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::commands::load;
use crate::config::{Config, HistoryLoss, KeyViolation, NewColumns, WriteFailure};
use crate::exit::Failure;
use crate::materialize::Materialize;
use crate::notices;
use crate::progress::{self, Style};
use crate::sandbox::Sandboxed;
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
    let component = load::component(&arguments.component, &config)?;
    let inspection = component
        .inspect()
        .await
        .map_err(|e| Failure::usage("component", e))?;
    config
        .check_sink(&inspection.config_schema)
        .map_err(|e| Failure::usage("config", e))?;
    let connect = connect_options(&config)?;
    let progress = Arc::new(Progress::default());
    let sink = PluginSink::new(
        component,
        PluginOptions {
            limits: load::limits(&config),
            http: load::http(&config)?,
            sink_id: config.sink_id.clone(),
            config_json: config.sink.to_string(),
        },
    );
    let options = Options {
        session: session_config(&config, &inspection),
        seed: random_seed(),
        spill_folder: config.buffer.dir.clone().unwrap_or_else(std::env::temp_dir),
        dead_letters: dead_letters(&config)?,
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
    let password_file = &config.materialize.password_file;
    let sources =
        (0..connections).map(|_| Materialize::new(connect.clone(), password_file.clone()));
    let outcome = mz_sink_driver::run(sources, Sandboxed(sink), options).await;
    showing.abort();
    let end = progress.snapshot();
    tracing::info!(
        rows = end.rows_committed,
        batches = end.batches,
        frontier = open(end.committed),
        retries = end.retries,
        fell_behind = end.fell_behind,
        dead_letters = end.dead_letters,
        margin_ms = end.margin_ms,
        "{}",
        if end.committed == CLOSED {
            "stopped: the stream is complete"
        } else {
            "stopped"
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

fn connect_options(config: &Config) -> Result<ConnectOptions, Failure> {
    let password = config
        .materialize_password()
        .map_err(|e| Failure::usage("config", e))?;
    ConnectOptions::parse(&config.materialize.url, password)
        .map_err(|e| Failure::usage("config", config.refused_url(e)))
}

fn session_config(config: &Config, inspection: &Inspection) -> SessionConfig {
    let views = config.source.views().into_iter().map(|view| ViewConfig {
        object: view.object,
        name: view.name,
        key: view.key,
    });
    SessionConfig {
        sink_id: config.sink_id.clone(),
        component_digest: inspection.digest.clone(),
        views: views.collect(),
        envelope: config.source.envelope.unwrap_or(inspection.envelope),
        netted: inspection.netted && inspection.envelope == Envelope::Upsert,
        cluster: config.materialize.cluster.clone(),
        up_to: config.source.up_to,
        allow_short_retention: config.source.allow_short_retention,
        identity: IdentityPolicy {
            refollow: config.source.refollow,
            ignore_new_columns: config.source.on_new_columns == NewColumns::Ignore,
        },
        on_history_loss: match config.source.on_history_loss {
            HistoryLoss::Stall => OnHistoryLoss::Stall,
            HistoryLoss::Resnapshot => OnHistoryLoss::Resnapshot,
            HistoryLoss::SkipToNow => OnHistoryLoss::SkipToNow,
        },
        on_key_violation: match config.source.on_key_violation {
            KeyViolation::Reject => OnKeyViolation::Reject,
            KeyViolation::Stall => OnKeyViolation::Stall,
        },
        on_failure: match config.retry.on_failure {
            WriteFailure::Stall => OnFailure::Stall,
            WriteFailure::Skip => OnFailure::Skip,
        },
        commit_interval: config.commit.interval,
        idle_commit_interval: config.commit.idle_interval,
        max_commit_bytes: config.commit.max_bytes as usize,
        memory_bytes: config.buffer.memory as usize,
        spill_bytes: config.buffer.spill,
        retry: RetryPolicy {
            attempts: config.retry.attempts,
            min_backoff: config.retry.min_backoff,
            max_backoff: config.retry.max_backoff,
        },
    }
}

fn dead_letters(config: &Config) -> Result<Arc<dyn DeadLetters>, Failure> {
    Ok(match &config.dead_letter.path {
        Some(path) => Arc::new(FileDeadLetters::open(path, &config.sink_id).map_err(|e| {
            let message = format!(
                "{} cannot be written: {e}; check the folder and who may write to it",
                path.display()
            );
            Failure::usage("config", config.wrong("dead_letter.path", message))
        })?),
        None => Arc::new(LogDeadLetters {
            sink_id: config.sink_id.clone(),
        }),
    })
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
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// The first SIGTERM or SIGINT asks for a clean end; the second ends at once with 128 + signal.
fn watch_signals() -> Result<watch::Receiver<bool>, Failure> {
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

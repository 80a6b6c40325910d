//! `mz-wasm-sink check`: what can be known before a run.

mod local;
mod report;
mod source;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::commands::deployment::Deployment;
use crate::commands::load;
use crate::exit::Failure;
use crate::telemetry::{self, LogFormat};
use report::Report;

/// Arguments of `check`.
#[derive(Args)]
pub struct Arguments {
    /// The sink component, a .wasm file.
    component: PathBuf,
    /// The configuration; by default `mz-wasm-sink.toml` beside the component.
    #[arg(long, short)]
    config: Option<PathBuf>,
    /// Do not read the objects: leaves out whether keys are unique.
    #[arg(long)]
    no_data: bool,
    /// Do not open the sink: leaves out the target and its checkpoint.
    #[arg(long)]
    no_target: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Looks at everything.
///
/// # Errors
/// With exit code 2 when the arguments, the configuration or the component cannot be used, and 1
/// when an error was found.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    telemetry::start(LogFormat::Text);
    let config = load::config(&arguments.component, arguments.config.as_deref())?;
    let runtime = tokio::runtime::Runtime::new().map_err(|e| Failure::failed("runtime", e))?;
    let mut report = Report::new(arguments.json);
    let looked = runtime.block_on(async {
        let deployment = Deployment::load(&arguments.component, config).await?;
        look(&deployment, arguments, &mut report).await
    });
    // A blocking task that never ends must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    looked?;
    report.finish()
}

async fn look(
    deployment: &Deployment,
    arguments: &Arguments,
    report: &mut Report,
) -> Result<(), Failure> {
    local::look(deployment, report)?;
    let session = deployment.session();
    let mut source = deployment.source();
    let seen = source::look(&mut source, &session, arguments.no_data, report).await?;
    let resumes = match (&seen, arguments.no_target) {
        (_, true) => {
            report.skipped(&["target", "checkpoint"], "not asked for")?;
            None
        }
        (None, _) => {
            report.skipped(&["target", "checkpoint"], "the views are not known")?;
            None
        }
        (Some(seen), false) => target::look(deployment, &session, seen, report).await?,
    };
    match &seen {
        Some(seen) => source::try_out(&mut source, &session, seen, resumes, report).await,
        None => report.skipped(&["subscribe"], "the views are not known"),
    }
}

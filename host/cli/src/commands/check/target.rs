//! What the target says: whether it can be reached, and the checkpoint in it.

use mz_sink_core::check::{self, Finding, Level, Seen};
use mz_sink_core::session::SessionConfig;
use mz_sink_core::types::{Frontier, View};
use mz_sink_driver::{Sink, sink_error};

use super::report::Report;
use crate::commands::deployment::Deployment;
use crate::exit::Failure;

/// Opens the sink and reads its checkpoint; gives the frontier from which a run would resume.
pub(super) async fn look(
    deployment: &Deployment,
    session: &SessionConfig,
    seen: &[Seen],
    report: &mut Report,
) -> Result<Option<Frontier>, Failure> {
    let mut sink = match deployment.sink() {
        Ok(sink) => sink,
        Err(failure) => {
            report.add(Finding::bad("target", "", Level::Error, failure.text()))?;
            report.skipped(&["checkpoint"], "the sink is not open")?;
            return Ok(None);
        }
    };
    let views: Vec<View> = seen.iter().map(|seen| seen.view.clone()).collect();
    let opened = sink.open(&views).await;
    sink.close().await;
    let stored = match opened {
        Ok(stored) => stored,
        Err(error) => {
            report.add(check::failed("target", "", &sink_error(error)))?;
            report.skipped(&["checkpoint"], "the sink is not open")?;
            return Ok(None);
        }
    };
    report.add(Finding::ok("target", "", "the sink can be opened"))?;
    let (findings, resumes) = check::checkpoint(stored.as_deref(), session, seen);
    for finding in findings {
        report.add(finding)?;
    }
    Ok(resumes)
}

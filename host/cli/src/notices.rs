//! What the session tells, as lines of the log. Never values.

use std::time::Duration;

use mz_sink_core::catalog::Change;
use mz_sink_core::release::Start;
use mz_sink_core::session::{Notice, OnHistoryLoss};

use crate::output::one_line;

/// Puts notices into the log.
pub fn tell(sink_id: String) -> impl FnMut(&Notice) + Send {
    move |notice| match notice {
        Notice::Resolved { object, id } => tracing::info!(%sink_id, %object, %id, "found"),
        Notice::Claimed { epoch, frontier } => {
            tracing::info!(%sink_id, epoch, frontier, "this worker has the epoch");
        }
        Notice::Subscribing { object, start } => match start {
            Start::Snapshot => tracing::info!(%sink_id, %object, "subscribing, with a snapshot"),
            Start::SnapshotAt(as_of) => {
                tracing::info!(%sink_id, %object, as_of, "subscribing, with a snapshot");
            }
            Start::Resume(frontier) => {
                tracing::info!(%sink_id, %object, frontier, "subscribing, after what is committed");
            }
        },
        Notice::Committed { rows, frontier, .. } => {
            tracing::debug!(%sink_id, rows, frontier, "committed");
        }
        Notice::Retrying {
            error,
            wait,
            failures,
            is_first,
        } => {
            let wait = humantime::format_duration(Duration::from_millis(wait.as_millis() as u64));
            tracing::warn!(
                %sink_id,
                code = %error.code(),
                %wait,
                failures,
                "trying again{}: {}",
                if *is_first { " (nothing was committed since the start)" } else { "" },
                one_line(&error.cause())
            );
        }
        Notice::ObjectChanged { object, change } => object_changed(&sink_id, object, change),
        Notice::HistoryLost { object, policy } => tracing::warn!(
            %sink_id,
            %object,
            "the history since the last commit is gone: {}",
            match policy {
                OnHistoryLoss::Resnapshot => "reading the object anew",
                OnHistoryLoss::SkipToNow => "what changed in between never reaches the target",
                OnHistoryLoss::Stall => "stopping",
            }
        ),
        Notice::Margin {
            object,
            margin_ms,
            is_low: false,
        } => tracing::debug!(%sink_id, %object, margin_ms, "history behind the last commit"),
        // What is done about it is told apart.
        Notice::Margin {
            object,
            margin_ms: margin_ms @ ..0,
            ..
        } => {
            tracing::warn!(%sink_id, %object, margin_ms, "the history ends after the last commit");
        }
        Notice::Margin {
            object, margin_ms, ..
        } => tracing::warn!(
            %sink_id,
            %object,
            margin_ms,
            "the history reaches back hardly further than the last commit: after a longer stop \
             it would be gone; raise RETAIN HISTORY on the object"
        ),
        Notice::MarginUnknown { error } => tracing::debug!(
            %sink_id,
            "how far the history reaches is not known: {}",
            one_line(&error.to_string())
        ),
        Notice::MaintenanceFailed { error } => tracing::warn!(
            %sink_id,
            "the sink's housekeeping failed and is left for later: {}",
            one_line(&error.to_string())
        ),
        Notice::Skipped {
            rows,
            lower,
            upper,
            error,
        } => tracing::error!(
            %sink_id,
            code = %error.code(),
            rows,
            lower,
            upper,
            "a batch was given up, and its rows are dead letters: {}",
            one_line(&error.to_string())
        ),
        Notice::ComponentChanged { from, to } => {
            tracing::info!(%sink_id, %from, %to, "the component changed since the last run");
        }
        Notice::ClaimLost { epoch } => {
            tracing::warn!(%sink_id, epoch, "another worker took this epoch; looking again");
        }
        // Of a later core: nothing that an operator waits for.
        other => tracing::debug!(%sink_id, notice = ?other, "something without words"),
    }
}

fn object_changed(sink_id: &str, object: &str, change: &Change) {
    match change {
        Change::Replaced { from, to } => {
            tracing::info!(%sink_id, %object, %from, %to, "a replacement was applied");
        }
        Change::Refollowed { from, to } => tracing::warn!(
            %sink_id,
            %object,
            %from,
            %to,
            "another object has the name: reading it anew, since refollow is set"
        ),
        Change::NewColumns { names } => tracing::warn!(
            %sink_id,
            %object,
            columns = %names.join(", "),
            "columns were added, and are left out"
        ),
        other => tracing::debug!(%sink_id, %object, change = ?other, "something without words"),
    }
}

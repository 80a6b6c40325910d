//! How a worker may end: only for a reason that it was given.

use mz_sink_core::session::{OnHistoryLoss, OnKeyViolation, Outcome};
use mz_sink_core::types::CLOSED;

use crate::state::State;
use crate::worker::{Mark, WorkerId};
use crate::world::view_name;

/// Checks the end of a worker.
///
/// # Errors
/// When nothing that happened to it explains it.
pub(crate) fn explain(state: &State, id: WorkerId) -> Result<(), String> {
    let worker = &state.workers[id];
    let has = |mark| worker.marks.contains(&mark);
    let error = match &worker.outcome {
        Some(Outcome::Failed(error)) => error,
        Some(Outcome::ShutDown) if has(Mark::ShutDown) => return Ok(()),
        None => return Ok(()),
        Some(Outcome::Finished) if state.targets[worker.target].frontier == Some(CLOSED) => {
            return Ok(());
        }
        Some(other) => return Err(format!("worker {id} ended without a reason: {other:?}")),
    };
    let target = &state.targets[worker.target];
    let budget = state.profile.retry.attempts;
    let spent = worker.source_failures > budget;
    let explained = match error.code() {
        "connection" => spent || (!has(Mark::Connected) && worker.source_failures > 0),
        "fell-behind" => has(Mark::FellBehind) && spent,
        "credentials-expired" => worker.expirations > 1 || (has(Mark::CredentialsExpired) && spent),
        "history-lost" => {
            let stalls = state.profile.on_history_loss == OnHistoryLoss::Stall;
            has(Mark::HistoryLost) && (stalls || spent || !has(Mark::Resumed))
        }
        "dead-letter" => has(Mark::LettersFull),
        "key-violation" => {
            let stalls = state.profile.on_key_violation == OnKeyViolation::Stall;
            stalls && has(Mark::KeyViolation)
        }
        "object-dropped" => has(Mark::ObjectDropped) || has(Mark::SawNoObject),
        "unknown-object" => has(Mark::SawNoObject),
        // What has ended cannot be followed by what goes on.
        "object-replaced" if state.profile.identity.refollow => target.frontier == Some(CLOSED),
        "object-replaced" => (0..state.profile.views).any(|view| {
            let expected = target.expected[view].as_ref().map(|e| e.shard);
            let others = |shard: usize| {
                let shards = state.world.once_named(&view_name(view));
                shards.into_iter().any(|other| other != shard)
            };
            expected.map_or_else(|| others(view), others)
        }),
        "indexed-target" => has(Mark::SawIndex),
        "canceled" => has(Mark::Canceled),
        "result-too-large" => has(Mark::TooLarge),
        "stream-poisoned" => has(Mark::Poisoned),
        "server-error" => has(Mark::InvalidId),
        "fenced" => target.writer.is_some_and(|writer| writer != id),
        "sink-retryable" | "sink-unknown" | "sink-trapped" => {
            worker.sink_failures + worker.claims_lost > budget
        }
        "sink-permanent" => has(Mark::Permanent),
        "sink-limit" => has(Mark::Limit),
        _ => false,
    };
    if explained {
        Ok(())
    } else {
        Err(format!(
            "worker {id} ended with {} without a reason: {error}",
            error.code()
        ))
    }
}

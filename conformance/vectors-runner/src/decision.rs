//! What is decided: error classes, waits, identity.

use std::time::Duration;

use mz_sink_core::catalog::check_identity;
use mz_sink_core::checkpoint::ViewIdentity;
use mz_sink_core::classify::{Phase, classify};
use mz_sink_core::retry::{Retries, RetryPolicy};
use mz_sink_core::session::SessionError;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::hold;

#[derive(Deserialize)]
pub(crate) struct ServerSaid {
    phase: Phase,
    code: Option<String>,
    message: String,
}

pub(crate) fn error_classes(input: ServerSaid) -> Value {
    json!(classify(input.phase, input.code.as_deref(), &input.message))
}

#[derive(Deserialize)]
struct Policy {
    attempts: u32,
    min_ms: u64,
    max_ms: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Step {
    Failed { jitter: f64 },
    Asked { asked_ms: u64 },
    Success(String),
}

#[derive(Deserialize)]
pub(crate) struct Failures {
    policy: Policy,
    failures: Option<Vec<Step>>,
}

pub(crate) fn retry(input: Failures) -> Result<Value, String> {
    let policy = RetryPolicy {
        attempts: input.policy.attempts,
        min_backoff: Duration::from_millis(input.policy.min_ms),
        max_backoff: Duration::from_millis(input.policy.max_ms),
    };
    let Some(steps) = input.failures else {
        return Ok(json!({ "budget_ms": policy.budget().as_millis() as u64 }));
    };
    let mut retries = Retries::default();
    let mut waits = Vec::new();
    for step in steps {
        let wait = match step {
            Step::Failed { jitter } => retries.next_wait(&policy, None, jitter),
            Step::Asked { asked_ms } => {
                let asked = Duration::from_millis(asked_ms);
                retries.next_wait(&policy, Some(asked), 0.5)
            }
            Step::Success(word) => {
                hold(word == "success", || format!("{word} is no step"))?;
                retries.reset();
                continue;
            }
        };
        waits.push(wait.map_or(Value::Null, |wait| json!(wait.as_millis() as u64)));
    }
    Ok(json!({ "waits_ms": waits }))
}

#[derive(Deserialize)]
pub(crate) struct ThenAndNow {
    then: ViewIdentity,
    now: ViewIdentity,
}

pub(crate) fn identity(input: ThenAndNow) -> Value {
    match check_identity(&input.then, &input.now) {
        Ok(()) => json!("resume"),
        Err(error) => json!(SessionError::from(error).code()),
    }
}

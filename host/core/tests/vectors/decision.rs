//! What is decided: error classes, waits, identity.

use std::time::Duration;

use mz_sink_core::catalog::check_identity;
use mz_sink_core::checkpoint::ViewIdentity;
use mz_sink_core::classify::{Phase, classify};
use mz_sink_core::retry::{Retries, RetryPolicy};
use mz_sink_core::session::SessionError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::run;

#[test]
fn error_classes() {
    #[derive(Deserialize)]
    struct Input {
        phase: Phase,
        code: Option<String>,
        message: String,
    }
    run("error_classes", |input: Input| {
        json!(classify(input.phase, input.code.as_deref(), &input.message))
    });
}

#[test]
fn retry() {
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
    struct Input {
        policy: Policy,
        failures: Option<Vec<Step>>,
    }
    run("retry", |input: Input| {
        let policy = RetryPolicy {
            attempts: input.policy.attempts,
            min_backoff: Duration::from_millis(input.policy.min_ms),
            max_backoff: Duration::from_millis(input.policy.max_ms),
        };
        let Some(steps) = input.failures else {
            return json!({ "budget_ms": policy.budget().as_millis() as u64 });
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
                    assert_eq!(word, "success");
                    retries.reset();
                    continue;
                }
            };
            waits.push(wait.map_or(Value::Null, |wait| json!(wait.as_millis() as u64)));
        }
        json!({ "waits_ms": waits })
    });
}

#[test]
fn identity() {
    #[derive(Deserialize)]
    struct Input {
        then: ViewIdentity,
        now: ViewIdentity,
    }
    run("identity", |input: Input| {
        match check_identity(&input.then, &input.now) {
            Ok(()) => json!("resume"),
            Err(error) => json!(SessionError::from(error).code()),
        }
    });
}

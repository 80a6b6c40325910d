//! A server can say anything: every text has a class, and what is told of it is one of ours.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mz_sink_core::classify::{Phase, classify};
use mz_sink_core::server_error::{ErrorKind, ServerError};
use mz_sink_core::session::SessionError;

fuzz_target!(|input: (u8, Option<&str>, &str)| {
    let (phase, code, message) = input;
    let phase = [Phase::SetUp, Phase::Declare, Phase::Fetch][usize::from(phase) % 3];
    let class = classify(phase, code, message);
    assert_eq!(class, classify(phase, code, message));
    let error = SessionError::Server {
        class,
        error: ServerError {
            kind: ErrorKind::Server,
            code: code.map(Into::into),
            message: message.into(),
            detail: None,
            hint: None,
        },
    };
    assert!(!error.code().is_empty());
    assert!(error.to_string().contains(message));
});

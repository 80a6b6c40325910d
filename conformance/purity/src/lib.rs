//! Drives the protocol core where there is no system: no files, no sockets, no clock, no
//! randomness.
//!
//! `cargo xtask checks` builds this for `wasm32-unknown-unknown` and fails when the module
//! imports anything. It is never run: what it calls is what gets linked, and so looked at.

// Exporting a function under its own name is unsafe in Rust, as two libraries could use the same
// name. Nothing is linked with this one.
#![allow(unsafe_code)]

use std::time::Duration;

use mz_sink_core::catalog::Table;
use mz_sink_core::decode::Fields;
use mz_sink_core::retry::RetryPolicy;
use mz_sink_core::session::{Command, Event, Session, SessionConfig};
use mz_sink_core::types::Envelope;

/// Answers up to `steps` commands of a session with made-up data and returns how many it gave.
/// The arguments are unknown to the compiler, so it cannot leave any branch out.
#[unsafe(no_mangle)]
pub extern "C" fn drive(seed: u64, steps: u32) -> u32 {
    let text = seed.to_string();
    let mut session = Session::new(config(&text), seed);
    session.start(Duration::ZERO);
    for step in 0..steps {
        let now = Duration::from_secs(step.into());
        let event = match session.poll_command() {
            Some(Command::Connect) => Event::Connected(Ok(())),
            Some(Command::Run { sql }) => Event::Ran(Ok(Table {
                rows: vec![vec![Some(sql), Some(text.clone()), None]],
            })),
            Some(Command::Fetch { sql, .. }) => {
                session.handle_rows(now, &[sql, text.clone()], [Row(&text)]);
                Event::Fetched(Ok(()))
            }
            Some(Command::OpenSink { .. }) => Event::SinkOpened(Ok(None)),
            Some(Command::Write(_)) => Event::Written(Ok(())),
            Some(Command::ReadCheckpoint) => Event::CheckpointRead(Ok(Some(text.clone()))),
            Some(Command::Spill { .. }) => Event::SpillFailed(text.clone()),
            Some(Command::Stop(_)) => return step,
            Some(_) => continue,
            None if seed.is_multiple_of(2) => Event::Timeout,
            None => Event::Shutdown,
        };
        session.handle(now, event);
    }
    steps
}

fn config(text: &str) -> SessionConfig {
    SessionConfig {
        sink_id: text.to_owned(),
        component_digest: text.to_owned(),
        object: text.to_owned(),
        view_name: None,
        key: vec![text.to_owned()],
        envelope: if text.len().is_multiple_of(2) {
            Envelope::Upsert
        } else {
            Envelope::Diff
        },
        netted: text.len().is_multiple_of(3),
        cluster: Some(text.to_owned()),
        allow_short_retention: true,
        commit_interval: Duration::from_secs(1),
        idle_commit_interval: Duration::from_secs(10),
        max_commit_bytes: 1 << 20,
        memory_bytes: 1 << 20,
        spill_bytes: 1 << 20,
        retry: RetryPolicy::default(),
    }
}

/// A row in which every value is the same text.
struct Row<'a>(&'a str);

impl Fields for Row<'_> {
    fn len(&self) -> usize {
        2
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        (index < self.len()).then_some(self.0.as_bytes())
    }
}

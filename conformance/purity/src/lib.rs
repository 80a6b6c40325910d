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
use mz_sink_core::session::{
    Command, Event, Session, SessionConfig, SourceCommand, SourceEvent, ViewConfig,
};
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
            Some(Command::Source {
                connection,
                command,
            }) => {
                let event = match command {
                    SourceCommand::Connect => SourceEvent::Connected(Ok(())),
                    SourceCommand::Run { sql } => SourceEvent::Ran(Ok(Table {
                        rows: vec![vec![Some(sql), Some(text.clone()), None]],
                    })),
                    SourceCommand::Fetch { sql, .. } => {
                        session.handle_rows(now, connection, &[sql, text.clone()], [Row(&text)]);
                        SourceEvent::Fetched(Ok(()))
                    }
                    SourceCommand::Disconnect => continue,
                };
                Event::Source { connection, event }
            }
            Some(Command::OpenSink { .. }) => Event::SinkOpened(Ok(None)),
            Some(Command::Write(_)) => Event::Written(Ok(())),
            Some(Command::ReadCheckpoint) => Event::CheckpointRead(Ok(Some(text.clone()))),
            Some(Command::Spill { .. }) => Event::SpillFailed(text.clone()),
            Some(Command::DeadLetter(_)) => Event::DeadLetterFailed(text.clone()),
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
    let view = || ViewConfig {
        object: text.to_owned(),
        name: None,
        key: vec![text.to_owned()],
    };
    SessionConfig {
        netted: text.len().is_multiple_of(3),
        cluster: Some(text.to_owned()),
        allow_short_retention: true,
        commit_interval: Duration::from_secs(1),
        ..SessionConfig::new(
            text.to_owned(),
            text.to_owned(),
            (0..1 + text.len() % 3).map(|_| view()).collect(),
            if text.len().is_multiple_of(2) {
                Envelope::Upsert
            } else {
                Envelope::Diff
            },
        )
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

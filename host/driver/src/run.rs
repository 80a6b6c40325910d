//! The run loop: asks the session what to do, has it done, tells what came of it.

use std::path::PathBuf;
use std::sync::Arc;

use mz_sink_core::session::{Command, Event, Notice, Outcome, Session, SessionConfig, SourceEvent};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::batch::Prepare;
use crate::dead_letter::{Counted, DeadLetters};
use crate::progress::Progress;
use crate::sink::{self, Sink};
use crate::source::{self, RowBlock, Source, What};
use crate::spill::Spill;

/// What a run needs besides a source and a sink.
pub struct Options {
    /// What the session needs to know.
    pub session: SessionConfig,
    /// Differs between workers: nonces and jitter come from it.
    pub seed: u64,
    /// Where spill files go.
    pub spill_folder: PathBuf,
    /// Where refused rows go.
    pub dead_letters: Arc<dyn DeadLetters>,
    /// Counters to keep.
    pub progress: Arc<Progress>,
    /// Called with everything worth telling.
    pub tell: Box<dyn FnMut(&Notice) + Send>,
    /// Becomes true when an operator asks for a clean end.
    pub shutdown: watch::Receiver<bool>,
}

/// Runs until the stream ends, an error needs somebody, or a shutdown is asked for.
///
/// `sources` are as many connections as [`SessionConfig::connections`] says.
pub async fn run<S: Source>(
    sources: impl IntoIterator<Item = S>,
    sink: impl Sink,
    mut options: Options,
) -> Outcome {
    let start = Instant::now();
    let spill = Spill::new(options.spill_folder);
    let mut session = Session::new(options.session, options.seed);
    let mut sources: Vec<_> = sources.into_iter().map(source::spawn).collect();
    let mut turn = 0;
    let prepare = Prepare {
        spill: spill.clone(),
        dead_letters: Arc::new(Counted {
            kept_by: options.dead_letters,
            progress: options.progress.clone(),
        }),
    };
    let mut sink = sink::spawn(sink, prepare.clone());
    let progress = options.progress.clone();
    let show = |session: &Session| {
        progress.set(
            session.committed(),
            session.read_frontier(),
            session.memory_bytes() as u64,
            session.spilled_bytes(),
        );
    };
    session.start(start.elapsed());
    loop {
        while let Some(command) = session.poll_command() {
            let failed = match command {
                Command::Stop(outcome) => {
                    show(&session);
                    sink.close().await;
                    return outcome;
                }
                Command::Tell(notice) => {
                    options.progress.told(&notice);
                    (options.tell)(&notice);
                    None
                }
                Command::Spill { id, chunk } => {
                    let failed = spill.write(id, &chunk).err();
                    failed.map(|e| Event::SpillFailed(e.to_string()))
                }
                Command::DeadLetter(dead) => {
                    let failed = prepare.dead_letter(&dead).err();
                    failed.map(|e| Event::DeadLetterFailed(e.to_string()))
                }
                Command::Forget { ids } => {
                    spill.forget(&ids);
                    None
                }
                Command::Source {
                    connection,
                    command,
                } => {
                    if let Some(source) = sources.get_mut(connection) {
                        source.send(command);
                    }
                    None
                }
                command => {
                    // A task that is gone is noticed where its events are awaited.
                    let _ = sink.commands.send(command);
                    None
                }
            };
            if let Some(failed) = failed {
                session.handle(start.elapsed(), failed);
            }
        }
        show(&session);
        let wake = session.poll_timeout().map(|at| start + at);
        // In a fixed order, so that a run in paused time is the same each time. What came of a
        // write goes before more rows: it makes room.
        tokio::select! {
            biased;
            () = asked(&mut options.shutdown) => session.handle(start.elapsed(), Event::Shutdown),
            event = sink.events.recv() => match event {
                Some(event) => session.handle(start.elapsed(), event),
                None => return lost("sink"),
            },
            () = sleep_until(wake) => session.handle(start.elapsed(), Event::Timeout),
            report = source::next_report(&mut sources, &mut turn, |i| session.wants_rows(i)) => {
                // A source task that is gone has panicked.
                let Some((connection, what)) = report else { return lost("source") };
                let now = start.elapsed();
                let event = match what {
                    What::Connected(result) => SourceEvent::Connected(result),
                    What::Ran(result) => SourceEvent::Ran(result),
                    What::Fetched(result) => SourceEvent::Fetched(result),
                    What::Rows(block) => {
                        session.handle_rows(now, connection, block.names(), block.rows());
                        options.progress.read_changes(session.take_changes_read());
                        continue;
                    }
                };
                session.handle(now, Event::Source { connection, event });
            }
        }
    }
}

fn lost(task: &'static str) -> Outcome {
    Outcome::Failed(mz_sink_core::session::SessionError::Unexpected {
        event: "the end of a task",
        state: task,
    })
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// Waits for the first request to end; pending for ever after it, or when nobody can ask.
async fn asked(shutdown: &mut watch::Receiver<bool>) {
    if shutdown.changed().await.is_err() || !*shutdown.borrow() {
        std::future::pending::<()>().await;
    }
}

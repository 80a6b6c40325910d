//! The run loop: asks the session what to do, has it done, tells what came of it.

use std::path::PathBuf;
use std::sync::Arc;

use mz_sink_core::session::{Command, Event, Notice, Outcome, Session, SessionConfig};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::batch::Prepare;
use crate::dead_letter::DeadLetters;
use crate::progress::Progress;
use crate::sink::{self, Sink, SinkTask};
use crate::source::{self, RowBlock, Source, SourceTask, What};
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
pub async fn run(source: impl Source, sink: impl Sink, mut options: Options) -> Outcome {
    let start = Instant::now();
    let spill = Spill::new(options.spill_folder);
    let mut session = Session::new(options.session, options.seed);
    let mut source = source::spawn(source);
    let mut sink = sink::spawn(
        sink,
        Prepare {
            spill: spill.clone(),
            dead_letters: options.dead_letters,
        },
    );
    let mut connection = 0;
    session.start(start.elapsed());
    loop {
        while let Some(command) = session.poll_command() {
            let failed = match command {
                Command::Stop(outcome) => {
                    sink.close().await;
                    return outcome;
                }
                Command::Tell(notice) => {
                    match &notice {
                        Notice::Committed { rows, bytes, .. } => {
                            options.progress.committed(*rows, *bytes);
                        }
                        Notice::Retrying { .. } => options.progress.retried(),
                        _ => {}
                    }
                    (options.tell)(&notice);
                    None
                }
                Command::Spill { id, chunk } => spill.write(id, &chunk).err(),
                Command::Forget { ids } => {
                    spill.forget(&ids);
                    None
                }
                command => {
                    dispatch(command, &mut connection, &source, &sink);
                    None
                }
            };
            if let Some(error) = failed {
                session.handle(start.elapsed(), Event::SpillFailed(error.to_string()));
            }
        }
        options.progress.set(
            session.committed(),
            session.read_frontier(),
            session.memory_bytes() as u64,
            session.spilled_bytes(),
        );
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
            report = source.reports.recv(), if session.wants_rows() => {
                // A source task that is gone has panicked; the connection is as good as lost.
                let Some(report) = report else { return lost("source") };
                if report.connection != connection {
                    continue;
                }
                let now = start.elapsed();
                match report.what {
                    What::Connected(result) => session.handle(now, Event::Connected(result)),
                    What::Ran(result) => session.handle(now, Event::Ran(result)),
                    What::Fetched(result) => session.handle(now, Event::Fetched(result)),
                    What::Rows(block) => {
                        let mut rows = 0;
                        session.handle_rows(now, block.names(), block.rows().inspect(|_| rows += 1));
                        options.progress.read_rows(rows);
                    }
                }
            }
        }
    }
}

fn dispatch<B>(command: Command, connection: &mut u64, source: &SourceTask<B>, sink: &SinkTask) {
    // A task that is gone is noticed where its reports are awaited.
    let _ = match command {
        Command::OpenSink { .. } | Command::Write(_) | Command::ReadCheckpoint => {
            sink.commands.send(command)
        }
        command => {
            if matches!(command, Command::Disconnect) {
                *connection += 1;
            }
            source.commands.send(command)
        }
    };
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

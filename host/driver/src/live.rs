//! Runs a subscription that is only looked at.

use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mz_sink_core::classify::Phase;
use mz_sink_core::live::{self, Live, LiveBatch, LiveError, Next};
use mz_sink_core::release::Segment;
use mz_sink_core::session::{SessionError, SourceCommand};
use mz_sink_core::types::View;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::look_up::server_error;
use crate::source::{self, RowBlock, Source, What};
use crate::spill::Spill;

/// How long an end that is asked for waits for whoever looks.
const GOODBYE: Duration = Duration::from_secs(1);

/// How a look ends early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveFailure {
    /// Materialize, or the way to it.
    #[error(transparent)]
    Server(SessionError),
    /// The stream, or too much of it.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// Changes could not be kept on disk.
    #[error(
        "changes could not be kept on disk: {0}; free some space, or choose another folder with --spill-dir"
    )]
    Spill(io::Error),
    /// A line could not be written.
    #[error(transparent)]
    Output(io::Error),
}

/// What is being shown, and where it can be read.
struct Showing {
    batch: LiveBatch,
    view: Arc<View>,
}

/// Subscribes on a connection that is set up, and gives every line to `show`, which may wait as
/// long as it likes: reading goes on. Ends well when the stream does, when `shutdown` becomes
/// true, and when nobody looks any more (a broken pipe).
///
/// # Errors
/// [`LiveFailure`].
pub async fn tail<S: Source>(
    mut source: S,
    mut live: Live,
    spill_folder: PathBuf,
    show: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    mut shutdown: watch::Receiver<bool>,
) -> Result<(), LiveFailure> {
    for statement in live.statements() {
        let ran = source.run(&statement).await;
        ran.map_err(|error| LiveFailure::Server(server_error(Phase::Declare, error)))?;
    }
    let spill = Spill::new(spill_folder);
    let (to_show, mut shown) = spawn_show(spill.clone(), show);
    let mut sources = [source::spawn(source)];
    let mut turn = 0;
    let start = Instant::now();
    let mut showing = None;
    let mut fetched = None;
    let mut rows = 0_u64;
    let mut since = Instant::now();
    let mut has_ended = false;
    send(&mut sources[0], live.next(None)?);
    loop {
        if let Some(fetched) = fetched.take() {
            match live.next(Some(fetched))? {
                Next::End => has_ended = true,
                next => send(&mut sources[0], next),
            }
            (rows, since) = (0, Instant::now());
        }
        for (id, chunk) in live.spill()? {
            spill.write(id, &chunk).map_err(LiveFailure::Spill)?;
        }
        if showing.is_none()
            && let Some(batch) = live.take(start.elapsed())
            && let Some(view) = live.view()
        {
            showing = Some(batch.clone());
            // A thread that is gone is noticed where its answers are awaited.
            let _ = to_show.send(Showing { batch, view });
        }
        if has_ended && showing.is_none() {
            return Ok(());
        }
        let idle_until = live.idle_until().filter(|_| showing.is_none());
        let idle_until = idle_until.map(|at| start + at);
        tokio::select! {
            biased;
            () = asked(&mut shutdown) => {
                // A line that is being written is finished, if somebody reads it.
                if showing.is_some() {
                    let _ = tokio::time::timeout(GOODBYE, shown.recv()).await;
                }
                return Ok(());
            }
            answer = shown.recv() => match (answer, showing.take()) {
                (Some(Ok(())), Some(batch)) => spill.forget(&live.shown(&batch)),
                (Some(Err(error)), _) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                (Some(Err(error)), _) => return Err(LiveFailure::Output(error)),
                (answer, _) => {
                    let text = format!("the output was lost: {answer:?}");
                    return Err(LiveFailure::Output(io::Error::other(text)));
                }
            },
            report = source::next_report(&mut sources, &mut turn, |_| true), if !has_ended => {
                match report.map(|(_, what)| what) {
                    Some(What::Rows(block)) => {
                        for row in block.rows() {
                            rows += 1;
                            live.handle_row(block.names(), &row)?;
                        }
                    }
                    Some(What::Fetched(Ok(()))) => fetched = Some((rows, since.elapsed())),
                    Some(What::Fetched(Err(error))) => {
                        return Err(LiveFailure::Server(server_error(Phase::Fetch, error)));
                    }
                    _ => {
                        let text = io::Error::other("the source was lost");
                        return Err(LiveFailure::Output(text));
                    }
                }
            }
            () = sleep_until(idle_until) => {}
        }
    }
}

fn send<B>(source: &mut source::SourceTask<B>, next: Next) {
    if let Next::Fetch { sql, silence } = next {
        source.send(SourceCommand::Fetch { sql, silence });
    }
}

type Answers = mpsc::UnboundedReceiver<io::Result<()>>;

/// A thread that may wait for whoever looks. It ends with the sender.
fn spawn_show(
    spill: Spill,
    mut show: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
) -> (std::sync::mpsc::Sender<Showing>, Answers) {
    let (to_show, batches) = std::sync::mpsc::channel::<Showing>();
    let (answer, answers) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for Showing { batch, view } in batches {
            let shown = lines(&batch, &view, &spill, &mut show);
            if answer.send(shown).is_err() {
                break;
            }
        }
    });
    (to_show, answers)
}

/// One line for each segment, and one for a batch without any.
fn lines(
    batch: &LiveBatch,
    view: &View,
    spill: &Spill,
    show: &mut impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    if batch.segments.is_empty() {
        return show(&live::line(batch, view, None, true));
    }
    let mut first = 0;
    let last = batch.segments.len() - 1;
    for (at, segment) in batch.segments.iter().enumerate() {
        let chunk = match segment {
            Segment {
                chunk: Some(chunk), ..
            } => chunk.clone(),
            Segment { id, .. } => Arc::new(spill.read(*id)?),
        };
        show(&live::line(batch, view, Some((&chunk, first)), at == last))?;
        first += chunk.rows() as u64;
    }
    Ok(())
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => pending().await,
    }
}

async fn asked(shutdown: &mut watch::Receiver<bool>) {
    if shutdown.wait_for(|asked| *asked).await.is_err() {
        pending::<()>().await;
    }
}

//! Dead letters once more, into a target that no worker writes to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mz_sink_core::batch::{BatchInfo, BatchRows, PullError, SinkError};
use mz_sink_core::catalog::{CatalogError, IdentityPolicy, Reconciled};
use mz_sink_core::checkpoint::Checkpoint;
use mz_sink_core::chunk::Chunk;
use mz_sink_core::classify::Phase;
use mz_sink_core::dead_letter::Entry;
use mz_sink_core::decode::Decoder;
use mz_sink_core::keys;
use mz_sink_core::release::Start;
use mz_sink_core::replay::{ReplayError, Replayed, ViewReplay, Writes};
use mz_sink_core::session::{SessionConfig, SessionError};
use mz_sink_core::statements;
use mz_sink_core::types::{Envelope, View};

use crate::look_up::{connect, look_up, run, server_error};
use crate::sink::{Sink, sink_error};
use crate::source::{BlockEnd, RowBlock, Source};

/// Without a row or an end for this long, the server is taken for dead: a snapshot takes as long
/// as its dataflow needs to start.
const SILENCE: Duration = Duration::from_secs(600);

/// Why a replay ended. Nothing was written unless it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayFailure {
    /// Materialize, the object or the sink.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The dead letters do not fit what is there.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The checkpoint moved meanwhile.
    #[error(
        "the checkpoint changed while the dead letters were read, so a worker is running: stop it, and try again"
    )]
    WorkerRuns,
    /// It is not known whether the rows were written.
    #[error(
        "it is not known whether the rows were written: {0}. Try again: writing them twice does no harm"
    )]
    Unknown(SessionError),
}

impl From<CatalogError> for ReplayFailure {
    fn from(error: CatalogError) -> Self {
        Self::Session(error.into())
    }
}

/// Reads what is to be written for `entries` and, unless `is_rehearsal`, writes it. `seed` must
/// differ between any two replays.
///
/// # Errors
/// [`ReplayFailure`].
pub async fn replay(
    source: &mut impl Source,
    sink: &mut impl Sink,
    config: &SessionConfig,
    seed: u64,
    entries: Vec<Entry>,
    is_rehearsal: bool,
) -> Result<Vec<Replayed>, ReplayFailure> {
    let outcome = attempt(source, sink, config, seed, entries, is_rehearsal).await;
    sink.close().await;
    source.disconnect().await;
    outcome
}

async fn attempt(
    source: &mut impl Source,
    sink: &mut impl Sink,
    config: &SessionConfig,
    seed: u64,
    entries: Vec<Entry>,
    is_rehearsal: bool,
) -> Result<Vec<Replayed>, ReplayFailure> {
    let cluster = connect(source, config.cluster.as_deref()).await?;
    let mut objects = Vec::new();
    let mut views = Vec::new();
    for view in &config.views {
        let (object, _) = look_up(source, &view.object, &cluster).await?;
        object.check_index()?;
        let name = view.name.as_ref().unwrap_or(&object.full_name[2]);
        views.push(object.view(name, &view.key, config.envelope)?);
        objects.push(object);
    }
    let mut stored = sink.open(&views).await.map_err(sink_error)?;
    let found = checkpoint(stored.as_deref(), config)?;
    if found.views.len() != views.len() {
        let names = |all: Vec<&str>| all.join(", ");
        return Err(CatalogError::OtherViews {
            then: names(found.views.iter().map(|v| v.name.as_str()).collect()),
            now: names(views.iter().map(|v| v.name.as_str()).collect()),
        }
        .into());
    }
    let policy = IdentityPolicy {
        // A new snapshot is for a run.
        refollow: false,
        ..config.identity
    };
    let mut seen = Vec::new();
    for ((object, view), then) in objects.iter().zip(views.clone()).zip(&found.views) {
        let then = found
            .views
            .iter()
            .find(|v| v.name == view.name)
            .unwrap_or(then);
        let Reconciled { view, .. } = object.reconcile(then, view, config.envelope, policy)?;
        seen.push(view);
    }
    if seen != views {
        // The sink was opened for columns that it is not to have.
        stored = sink.open(&seen).await.map_err(sink_error)?;
        views = seen;
    }
    let found = checkpoint(stored.as_deref(), config)?;
    let stored = stored.ok_or(ReplayError::NothingCommitted)?;
    let writes = Writes::new(&stored, &found, &config.component_digest, seed)?;
    let mut replayed = Vec::new();
    for (index, entries) in by_view(&views, config, entries)? {
        let view = &views[index];
        let mut replay = ViewReplay::new(
            &config.sink_id,
            index as u32,
            view,
            config.envelope,
            writes.frontier,
            entries,
        )?;
        if let Some(as_of) = replay.reads_at() {
            let sql = statements::subscribe(
                &objects[index].id,
                &objects[index].full_name,
                config.envelope,
                &config.views[index].key,
                Start::SnapshotAt(as_of),
                Some(writes.frontier),
            );
            read(source, &sql, view, &mut replay).await?;
        }
        replayed.push(replay.finish()?);
    }
    if is_rehearsal {
        return Ok(replayed);
    }
    write(sink, config, &views, &writes, replayed).await
}

fn checkpoint(stored: Option<&str>, config: &SessionConfig) -> Result<Checkpoint, ReplayFailure> {
    let text = stored.ok_or(ReplayError::NothingCommitted)?;
    let found = Checkpoint::parse(text, &config.sink_id);
    found.map_err(|error| SessionError::from(error).into())
}

/// The entries of each view that has some.
fn by_view(
    views: &[View],
    config: &SessionConfig,
    entries: Vec<Entry>,
) -> Result<Vec<(usize, Vec<Entry>)>, ReplayError> {
    let mut of: Vec<Vec<Entry>> = views.iter().map(|_| Vec::new()).collect();
    for entry in entries {
        if entry.sink_id != config.sink_id {
            return Err(ReplayError::OtherSink {
                found: entry.sink_id,
                expected: config.sink_id.clone(),
            });
        }
        match views.iter().position(|view| view.name == entry.view) {
            Some(index) => of[index].push(entry),
            None => return Err(ReplayError::OtherView { view: entry.view }),
        }
    }
    let of = of.into_iter().enumerate();
    Ok(of.filter(|(_, entries)| !entries.is_empty()).collect())
}

/// Reads a snapshot to its end.
async fn read<S: Source>(
    source: &mut S,
    [begin, declare]: &[String; 2],
    view: &View,
    replay: &mut ViewReplay,
) -> Result<(), ReplayFailure> {
    run(source, begin).await?;
    let declared = source.run(declare).await;
    declared.map_err(|error| server_error(Phase::Declare, error))?;
    let mut decoder: Option<(Vec<String>, Decoder)> = None;
    loop {
        let mut rows = 0_u64;
        let failed = |error| server_error(Phase::Fetch, error);
        let fetched = source.fetch(&statements::fetch_or_end()).await;
        fetched.map_err(failed)?;
        loop {
            let mut block = S::Block::default();
            let end = source
                .next_block(&mut block, SILENCE)
                .await
                .map_err(failed)?;
            for row in block.rows() {
                rows += 1;
                if decoder
                    .as_ref()
                    .is_none_or(|(names, _)| names != block.names())
                {
                    let names = block.names().to_vec();
                    let made = Decoder::new(view, Envelope::Upsert, &names);
                    decoder = Some((names, made.map_err(ReplayError::from)?));
                }
                if let Some((_, decoder)) = &decoder {
                    replay.accept(decoder, &row)?;
                }
            }
            if end == BlockEnd::Complete {
                break;
            }
        }
        if rows == 0 {
            run(source, "COMMIT").await?;
            return Ok(());
        }
    }
}

/// Takes the epoch and writes the rows.
async fn write(
    sink: &mut impl Sink,
    config: &SessionConfig,
    views: &[View],
    writes: &Writes,
    mut replayed: Vec<Replayed>,
) -> Result<Vec<Replayed>, ReplayFailure> {
    let nothing = Rows::new(writes.info(&[]), Vec::new(), config, views);
    let claimed = sink
        .write(
            Box::new(nothing),
            Some(writes.stored.clone()),
            writes.claim.clone(),
        )
        .await;
    settle(sink, claimed, &writes.claim)
        .await
        .map_err(|failure| match failure {
            // An epoch that may have been taken is no harm.
            ReplayFailure::Unknown(error) => error.into(),
            other => other,
        })?;
    let chunks: Vec<_> = replayed.iter().flat_map(|r| r.rows.clone()).collect();
    let rows = Rows::new(writes.info(&chunks), chunks, config, views);
    let refused = rows.refused.clone();
    let written = sink
        .write(
            Box::new(rows),
            Some(writes.claim.clone()),
            writes.next.clone(),
        )
        .await;
    settle(sink, written, &writes.next).await?;
    let refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
    for name in refused.iter() {
        replayed.iter_mut().for_each(|r| r.refuse(name));
    }
    Ok(replayed)
}

/// Whether a write was done, reading the checkpoint back where the answer leaves that open.
async fn settle(
    sink: &mut impl Sink,
    written: Result<(), SinkError>,
    next: &str,
) -> Result<(), ReplayFailure> {
    let error = match written {
        Ok(()) => return Ok(()),
        Err(SinkError::Conflict(_)) => return Err(ReplayFailure::WorkerRuns),
        Err(error @ (SinkError::Unknown(_) | SinkError::Trapped(_))) => error,
        Err(error) => return Err(sink_error(error).into()),
    };
    match sink.checkpoint().await {
        Ok(Some(stored)) if stored == next => Ok(()),
        Ok(_) => Err(sink_error(error).into()),
        Err(_) => Err(ReplayFailure::Unknown(sink_error(error))),
    }
}

/// The rows of the one write. What the sink refuses stays in the file, so it is only noted.
struct Rows {
    info: BatchInfo,
    chunks: Vec<Arc<Chunk>>,
    left: VecDeque<usize>,
    sink_id: String,
    envelope: Envelope,
    views: Vec<View>,
    /// Names of what was refused: keys (upsert) or ids (diff).
    refused: Arc<Mutex<Vec<String>>>,
}

impl Rows {
    fn new(
        info: BatchInfo,
        chunks: Vec<Arc<Chunk>>,
        config: &SessionConfig,
        views: &[View],
    ) -> Self {
        Self {
            info,
            left: (0..chunks.len()).collect(),
            chunks,
            sink_id: config.sink_id.clone(),
            envelope: config.envelope,
            views: views.to_vec(),
            refused: Arc::default(),
        }
    }
}

impl BatchRows for Rows {
    fn info(&self) -> &BatchInfo {
        &self.info
    }

    fn next(&mut self, _: usize) -> Result<Option<(u64, Arc<Chunk>)>, PullError> {
        let Some(index) = self.left.pop_front() else {
            return Ok(None);
        };
        let before = self.chunks[..index].iter().map(|c| c.rows() as u64).sum();
        Ok(Some((before, self.chunks[index].clone())))
    }

    fn rewind(&mut self) {
        self.left = (0..self.chunks.len()).collect();
    }

    fn reject(&mut self, row: u64, category: &str, message: &str) -> Result<(), PullError> {
        let mut first = 0;
        for chunk in &self.chunks {
            let rows = chunk.rows() as u64;
            if row < first + rows {
                let at = (row - first) as usize;
                let view = &self.views[chunk.view as usize];
                let names = match self.envelope {
                    Envelope::Upsert => {
                        vec![keys::correlation_key(&self.sink_id, view, chunk, at)]
                    }
                    // Whether the row was of a snapshot does not show any more.
                    Envelope::Diff => [false, true]
                        .map(|is_snapshot| {
                            keys::idempotency_key(&self.sink_id, view, chunk, at, is_snapshot)
                        })
                        .to_vec(),
                };
                tracing::warn!(view = %view.name, category, "a row is refused again: {message}");
                let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                refused.extend(names);
                return Ok(());
            }
            first += rows;
        }
        Err(PullError::Limit(format!(
            "row {row} cannot be rejected: this batch has {first} rows"
        )))
    }
}

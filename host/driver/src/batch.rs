//! The rows of one write as a sink pulls them, from memory and from the spill file.

use std::io;
use std::sync::Arc;

use mz_sink_core::batch::{BatchInfo, BatchRows, Failure, PullError, SinkError};
use mz_sink_core::chunk::Chunk;
use mz_sink_core::dead_letter::Refused;
use mz_sink_core::netting;
use mz_sink_core::release::{Segment, SegmentId};
use mz_sink_core::session::{DeadLetter, Write};
use mz_sink_core::types::View;

use crate::dead_letter::DeadLetters;
use crate::spill::Spill;

/// Makes writes into rows to pull.
#[derive(Clone)]
pub(crate) struct Prepare {
    pub(crate) spill: Spill,
    pub(crate) dead_letters: Arc<dyn DeadLetters>,
}

enum Part {
    Memory(Arc<Chunk>),
    Spilled { id: SegmentId, rows: usize },
}

impl Part {
    fn of(segment: &Segment) -> Self {
        match &segment.chunk {
            Some(chunk) => Self::Memory(chunk.clone()),
            None => Self::Spilled {
                id: segment.id,
                rows: segment.rows,
            },
        }
    }

    fn rows(&self) -> usize {
        match self {
            Self::Memory(chunk) => chunk.rows(),
            Self::Spilled { rows, .. } => *rows,
        }
    }
}

impl Prepare {
    pub(crate) fn batch(&self, write: &Write) -> Result<BatchReader, SinkError> {
        let mut info = write.info.clone();
        let parts = if write.net {
            let parts = self.net(write).map_err(lost)?;
            info.rows = parts.iter().map(|p| p.rows() as u64).sum();
            parts
        } else {
            write.segments.iter().map(Part::of).collect()
        };
        Ok(BatchReader {
            info,
            parts,
            part: 0,
            row: 0,
            first_row: 0,
            loaded: None,
            refused_of: None,
            views: write.views.clone(),
            spill: self.spill.clone(),
            dead_letters: self.dead_letters.clone(),
        })
    }

    /// The last change per key, view by view.
    fn net(&self, write: &Write) -> Result<Vec<Part>, PullError> {
        let mut netted = Vec::new();
        for (view, index) in write.views.iter().zip(0..) {
            let segments = write.segments.iter().filter(|s| s.view == index);
            let chunks = segments
                .map(|segment| load(&Part::of(segment), &self.spill))
                .collect::<Result<Vec<_>, _>>()?;
            let chunks = netting::net(&chunks, &view.key);
            netted.extend(chunks.into_iter().map(|c| Part::Memory(Arc::new(c))));
        }
        Ok(netted)
    }

    /// Puts rows into the dead-letter log.
    pub(crate) fn dead_letter(&self, dead: &DeadLetter) -> io::Result<()> {
        for segment in &dead.segments {
            let chunk = load(&Part::of(segment), &self.spill).map_err(io::Error::other)?;
            for row in 0..chunk.rows() {
                let view = &dead.views[chunk.view as usize];
                self.dead_letters.keep(&refused(
                    view,
                    &chunk,
                    row,
                    &dead.category,
                    &dead.message,
                ))?;
            }
        }
        Ok(())
    }
}

/// A row that never reaches the target.
fn refused<'a>(
    view: &'a View,
    chunk: &'a Chunk,
    row: usize,
    category: &'a str,
    message: &'a str,
) -> Refused<'a> {
    Refused {
        view,
        chunk,
        row,
        is_snapshot: false,
        category,
        message,
    }
}

fn load(part: &Part, spill: &Spill) -> Result<Arc<Chunk>, PullError> {
    match part {
        Part::Memory(chunk) => Ok(chunk.clone()),
        Part::Spilled { id, .. } => spill
            .read(*id)
            .map(Arc::new)
            .map_err(|e| PullError::SourceLost(e.to_string())),
    }
}

fn lost(error: PullError) -> SinkError {
    SinkError::Retryable(Failure {
        code: "source-lost".into(),
        message: error.to_string(),
        retry_after_ms: None,
    })
}

/// The rows of one write.
pub struct BatchReader {
    info: BatchInfo,
    parts: Vec<Part>,
    /// The part to read next, and the row in it.
    part: usize,
    row: usize,
    /// Position in the batch of the part's first row.
    first_row: u64,
    loaded: Option<Arc<Chunk>>,
    /// The part of which a row was refused last: others of it may follow.
    refused_of: Option<(usize, Arc<Chunk>)>,
    views: Arc<[View]>,
    spill: Spill,
    dead_letters: Arc<dyn DeadLetters>,
}

impl BatchRows for BatchReader {
    fn info(&self) -> &BatchInfo {
        &self.info
    }

    fn next(&mut self, max_bytes: usize) -> Result<Option<(u64, Arc<Chunk>)>, PullError> {
        let Some(part) = self.parts.get(self.part) else {
            return Ok(None);
        };
        let chunk = match self.loaded.take() {
            Some(chunk) => chunk,
            None => load(part, &self.spill)?,
        };
        let rows = chunk.rows();
        let bytes = chunk.byte_len().max(1);
        let fit =
            (rows as u128 * max_bytes as u128 / bytes as u128).clamp(1, rows as u128) as usize;
        let start = self.row;
        let end = rows.min(start + fit);
        let at = self.first_row + start as u64;
        let whole = start == 0 && end == rows;
        let pulled = if whole {
            chunk.clone()
        } else {
            Arc::new(chunk.slice(start..end))
        };
        if end == rows {
            self.part += 1;
            self.row = 0;
            self.first_row += rows as u64;
        } else {
            self.row = end;
            self.loaded = Some(chunk);
        }
        Ok(Some((at, pulled)))
    }

    fn rewind(&mut self) {
        self.part = 0;
        self.row = 0;
        self.first_row = 0;
        self.loaded = None;
    }

    fn reject(&mut self, row: u64, category: &str, message: &str) -> Result<(), PullError> {
        let mut first = 0;
        for (index, part) in self.parts.iter().enumerate() {
            let rows = part.rows() as u64;
            if row < first + rows {
                let chunk = match self.refused_of.take() {
                    Some((known, chunk)) if known == index => chunk,
                    _ => load(part, &self.spill)?,
                };
                self.refused_of = Some((index, chunk.clone()));
                let Some(view) = self.views.get(chunk.view as usize) else {
                    break;
                };
                let refused = Refused {
                    is_snapshot: self.info.snapshot_of.contains(&chunk.view),
                    ..refused(view, &chunk, (row - first) as usize, category, message)
                };
                return self.dead_letters.keep(&refused).map_err(|e| {
                    PullError::Limit(format!("the dead-letter log cannot be written: {e}"))
                });
            }
            first += rows;
        }
        Err(PullError::Limit(format!(
            "row {row} cannot be rejected: this batch has {first} rows"
        )))
    }
}

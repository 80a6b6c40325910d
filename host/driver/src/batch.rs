//! The rows of one write as a sink pulls them, from memory and from the spill file.

use std::sync::Arc;

use mz_sink_core::batch::{BatchInfo, BatchRows, Failure, PullError, Rejection, SinkError};
use mz_sink_core::chunk::Chunk;
use mz_sink_core::json;
use mz_sink_core::netting;
use mz_sink_core::release::SegmentId;
use mz_sink_core::session::Write;
use mz_sink_core::types::View;

use crate::dead_letter::DeadLetters;
use crate::spill::Spill;

/// Makes writes into rows to pull.
pub(crate) struct Prepare {
    pub(crate) spill: Spill,
    pub(crate) dead_letters: Arc<dyn DeadLetters>,
}

enum Part {
    Memory(Arc<Chunk>),
    Spilled { id: SegmentId, rows: usize },
}

impl Part {
    fn rows(&self) -> usize {
        match self {
            Self::Memory(chunk) => chunk.rows(),
            Self::Spilled { rows, .. } => *rows,
        }
    }
}

impl Prepare {
    pub(crate) fn batch(
        &self,
        write: &Write,
        view: Option<&View>,
    ) -> Result<BatchReader, SinkError> {
        let mut parts: Vec<_> = write
            .segments
            .iter()
            .map(|segment| match &segment.chunk {
                Some(chunk) => Part::Memory(chunk.clone()),
                None => Part::Spilled {
                    id: segment.id,
                    rows: segment.rows,
                },
            })
            .collect();
        let mut info = write.info.clone();
        if let Some(key) = &write.net_by {
            let chunks = parts
                .iter()
                .map(|part| load(part, &self.spill))
                .collect::<Result<Vec<_>, _>>()
                .map_err(lost)?;
            parts = netting::net(&chunks, key)
                .into_iter()
                .map(|chunk| Part::Memory(Arc::new(chunk)))
                .collect();
            info.rows = parts.iter().map(|p| p.rows() as u64).sum();
        }
        Ok(BatchReader {
            info,
            parts,
            part: 0,
            row: 0,
            first_row: 0,
            loaded: None,
            view: view.cloned(),
            spill: self.spill.clone(),
            dead_letters: self.dead_letters.clone(),
        })
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
    view: Option<View>,
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
        for part in &self.parts {
            let rows = part.rows() as u64;
            if row < first + rows {
                let chunk = load(part, &self.spill)?;
                let index = (row - first) as usize;
                let mut form = Vec::new();
                if let Some(view) = &self.view {
                    json::write_rows(&chunk, view, first, index..index + 1, &mut form);
                }
                let rejection = Rejection {
                    view: chunk.view,
                    timestamp: chunk.timestamps[index],
                    category: category.into(),
                    message: message.into(),
                };
                return self.dead_letters.keep(&rejection, &form).map_err(|e| {
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

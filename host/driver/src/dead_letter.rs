//! Where rows go that a sink refuses: durable before the write may commit past them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use mz_sink_core::chunk::Chunk;
use mz_sink_core::types::View;
use mz_sink_core::{json, keys};

/// The format of a line, raised when its meaning changes.
const FORMAT: u32 = 1;

/// A row that never reaches the target.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// Its view.
    pub view: &'a View,
    /// The chunk that it is in.
    pub chunk: &'a Chunk,
    /// Its index in the chunk.
    pub row: usize,
    /// Whether it is of a snapshot.
    pub is_snapshot: bool,
    /// Why, in a word.
    pub category: &'a str,
    /// Why, in a sentence. Without values.
    pub message: &'a str,
}

/// Keeps refused rows.
pub trait DeadLetters: Send + Sync {
    /// Keeps one; durable on return.
    ///
    /// # Errors
    /// When it could not be kept: the batch must not be committed then.
    fn keep(&self, refused: &Refused<'_>) -> io::Result<()>;
}

/// Only says that a row was refused, without its values.
#[derive(Debug)]
pub struct LogDeadLetters {
    /// The deployment, for the log line.
    pub sink_id: String,
}

impl DeadLetters for LogDeadLetters {
    fn keep(&self, refused: &Refused<'_>) -> io::Result<()> {
        tracing::warn!(
            sink_id = %self.sink_id,
            view = %refused.view.name,
            mz_timestamp = refused.chunk.timestamps[refused.row],
            category = %refused.category,
            "a row does not reach the target: {}",
            refused.message
        );
        Ok(())
    }
}

/// A file of JSON lines, readable by its owner only.
#[derive(Debug)]
pub struct FileDeadLetters {
    file: Mutex<File>,
    log: LogDeadLetters,
}

impl FileDeadLetters {
    /// Appends to the file at `path`, creating it with mode 0600.
    ///
    /// # Errors
    /// When it cannot be opened for appending.
    pub fn open(path: &Path, sink_id: &str) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        Ok(Self {
            file: Mutex::new(file),
            log: LogDeadLetters {
                sink_id: sink_id.into(),
            },
        })
    }
}

impl DeadLetters for FileDeadLetters {
    fn keep(&self, refused: &Refused<'_>) -> io::Result<()> {
        let Refused {
            view,
            chunk,
            row,
            is_snapshot,
            ..
        } = *refused;
        let sink_id = &self.log.sink_id;
        let mut form = Vec::new();
        json::write_rows(chunk, view, 0, row..row + 1, &mut form);
        let rows: serde_json::Value = serde_json::from_slice(&form)?;
        let mut line = serde_json::to_vec(&serde_json::json!({
            "format": FORMAT,
            "id": keys::idempotency_key(sink_id, view, chunk, row, is_snapshot),
            "sink_id": sink_id,
            "view": view.name,
            "key": keys::correlation_key(sink_id, view, chunk, row),
            "category": refused.category,
            "message": refused.message,
            "change": rows[0],
        }))?;
        line.push(b'\n');
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(&line)?;
            file.sync_data()?;
        }
        self.log.keep(refused)
    }
}

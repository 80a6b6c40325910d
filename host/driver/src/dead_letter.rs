//! Where rows go that a sink refuses: durable before the write may commit past them.

mod file;

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use mz_sink_core::dead_letter::Refused;
use mz_sink_core::keys;

pub use file::{LetterFile, LetterFileError};

use crate::progress::Progress;

/// Keeps refused rows.
pub trait DeadLetters: Send + Sync {
    /// Keeps one; durable on return.
    ///
    /// # Errors
    /// When it could not be kept: the batch must not be committed then.
    fn keep(&self, refused: &Refused<'_>) -> io::Result<()>;
}

/// Only says that a row was refused, without its values.
#[derive(Clone, Debug)]
pub struct LogDeadLetters {
    /// The deployment, for the log line.
    pub sink_id: String,
    /// Whether an operator wants to see the key in the log.
    pub log_key: bool,
}

impl DeadLetters for LogDeadLetters {
    fn keep(&self, refused: &Refused<'_>) -> io::Result<()> {
        let key = self
            .log_key
            .then(|| keys::key_text(refused.view, refused.chunk, refused.row));
        tracing::warn!(
            sink_id = %self.sink_id,
            view = %refused.view.name,
            mz_timestamp = refused.chunk.timestamps[refused.row],
            category = %refused.category,
            key,
            "a row does not reach the target: {}",
            refused.message
        );
        Ok(())
    }
}

/// A file of JSON lines, readable by its owner only.
#[derive(Debug)]
pub struct FileDeadLetters {
    file: Mutex<std::fs::File>,
    log: LogDeadLetters,
}

impl FileDeadLetters {
    /// Appends to the file at `path`, creating it with mode 0600. While this lives, nobody can
    /// take lines out of the file; other workers may append to it.
    ///
    /// # Errors
    /// When it cannot be opened for appending, or somebody is taking lines out.
    pub fn open(path: &Path, log: LogDeadLetters) -> Result<Self, LetterFileError> {
        Ok(Self {
            file: Mutex::new(file::open_to_append(path)?),
            log,
        })
    }
}

impl DeadLetters for FileDeadLetters {
    fn keep(&self, refused: &Refused<'_>) -> io::Result<()> {
        let line = refused.line(&self.log.sink_id);
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            // One call for the whole line: lines of several workers do not mix.
            file.write_all(&line)?;
            file.sync_data()?;
        }
        self.log.keep(refused)
    }
}

/// Counts what is kept.
pub(crate) struct Counted {
    pub(crate) kept_by: Arc<dyn DeadLetters>,
    pub(crate) progress: Arc<Progress>,
}

impl DeadLetters for Counted {
    fn keep(&self, refused: &Refused<'_>) -> io::Result<()> {
        self.kept_by.keep(refused)?;
        self.progress.dead_lettered(refused.category);
        Ok(())
    }
}

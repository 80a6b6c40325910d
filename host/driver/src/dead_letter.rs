//! Where rows go that a sink refuses: durable before the write may commit past them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use mz_sink_core::batch::Rejection;

/// The format of a line, raised when its meaning changes.
const FORMAT: u32 = 1;

/// Keeps refused rows.
pub trait DeadLetters: Send + Sync {
    /// Keeps one; durable on return. `row` is a JSON array of one row in the form of `next-json`.
    ///
    /// # Errors
    /// When it could not be kept: the batch must not be committed then.
    fn keep(&self, rejection: &Rejection, row: &[u8]) -> io::Result<()>;
}

/// Only says that a row was refused, without its values.
#[derive(Debug)]
pub struct LogDeadLetters {
    /// The deployment, for the log line.
    pub sink_id: String,
}

impl DeadLetters for LogDeadLetters {
    fn keep(&self, rejection: &Rejection, _: &[u8]) -> io::Result<()> {
        tracing::warn!(
            sink_id = %self.sink_id,
            view = rejection.view,
            mz_timestamp = rejection.timestamp,
            category = %rejection.category,
            "the sink refused a row: {}",
            rejection.message
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
    fn keep(&self, rejection: &Rejection, row: &[u8]) -> io::Result<()> {
        let rows: serde_json::Value = serde_json::from_slice(row)?;
        let mut line = serde_json::to_vec(&serde_json::json!({
            "format": FORMAT,
            "sink_id": self.log.sink_id,
            "category": rejection.category,
            "message": rejection.message,
            "change": rows[0],
        }))?;
        line.push(b'\n');
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(&line)?;
            file.sync_data()?;
        }
        self.log.keep(rejection, row)
    }
}

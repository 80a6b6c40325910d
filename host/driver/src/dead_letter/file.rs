//! The file of dead letters: appended to by workers, rewritten by an operator.
//!
//! A worker holds a shared lock for as long as it runs, so that several can append (one may be
//! about to fence the other). Who takes lines out holds the only lock, writes a new file, and
//! puts it in the place of the old one: after a crash at any moment it is one or the other.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mz_sink_core::dead_letter::{Entry, Letters, ReadError};

/// Why a file of dead letters cannot be used. Never contains values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LetterFileError {
    /// The system refused.
    #[error("{path} cannot be {what}: {error}; check the path and who may use it")]
    Io {
        /// The file.
        path: PathBuf,
        /// `read`, `written` or `locked`.
        what: &'static str,
        /// Why.
        error: io::Error,
    },
    /// Not regular: a folder, a pipe, a device.
    #[error("{0} is not a regular file; name a file of its own")]
    NotAFile(PathBuf),
    /// A worker appends to it, or somebody takes lines out.
    #[error(
        "{0} is in use: a sink that runs appends to it, or another dlq command takes lines out; stop that first"
    )]
    InUse(PathBuf),
    /// Its content is not that of such a file.
    #[error("{path}: {error}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: ReadError,
    },
}

fn io_error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> LetterFileError {
    let path = path.to_owned();
    move |error| LetterFileError::Io { path, what, error }
}

/// Opens for appending under a shared lock.
pub(super) fn open_to_append(path: &Path) -> Result<File, LetterFileError> {
    loop {
        // A pipe would wait for somebody to read it.
        if path.exists() && !path.is_file() {
            return Err(LetterFileError::NotAFile(path.into()));
        }
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map_err(io_error(path, "written"))?;
        // Alone, this worker may take off what a crash left of a line: its row was never given
        // up, and comes again. The line that follows must not be glued to it.
        if file.try_lock().is_ok() {
            take_off_cut_line(&file).map_err(io_error(path, "written"))?;
        }
        share(&file, path)?;
        if is_at(&file, path) {
            return Ok(file);
        }
    }
}

/// Takes a shared lock in place of the one that is held, if any. Another worker that starts now
/// may be alone with the file for a moment; a command of an operator is for longer.
fn share(file: &File, path: &Path) -> Result<(), LetterFileError> {
    const TRIES: u32 = 50;
    const WAIT: Duration = Duration::from_millis(10);
    for _ in 0..TRIES {
        match file.try_lock_shared() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(WAIT),
            Err(TryLockError::Error(error)) => return Err(io_error(path, "locked")(error)),
        }
    }
    Err(LetterFileError::InUse(path.into()))
}

/// Whether the path still leads to this file: it may have been replaced before it was locked.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let here = file.metadata().map(identity);
    matches!((here, path.metadata().map(identity)), (Ok(a), Ok(b)) if a == b)
}

fn take_off_cut_line(file: &File) -> io::Result<()> {
    const BLOCK: u64 = 64 << 10;
    let length = file.metadata()?.len();
    let mut end = length;
    let mut file = file;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = vec![0; (end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    if end < length {
        tracing::warn!(
            bytes = length - end,
            "the last dead letter was cut off and is dropped; its row comes again"
        );
        file.set_len(end)?;
        file.sync_data()?;
    }
    Ok(())
}

/// The file as an operator looks at it and takes lines out.
#[derive(Debug)]
pub struct LetterFile {
    path: PathBuf,
    /// Locked; `None` if it is only looked at.
    file: Option<File>,
    /// What is in it.
    pub letters: Letters,
}

impl LetterFile {
    /// Reads the file, whoever uses it.
    ///
    /// # Errors
    /// [`LetterFileError`]; a file that is not there is one.
    pub fn read(path: &Path) -> Result<Self, LetterFileError> {
        let file = open(path)?;
        let letters = letters(&file, path)?;
        let path = path.into();
        Ok(Self {
            path,
            file: None,
            letters,
        })
    }

    /// Reads the file and keeps everybody else from using it until this is dropped.
    ///
    /// # Errors
    /// [`LetterFileError::InUse`] while a worker runs on it; as [`Self::read`].
    pub fn lock(path: &Path) -> Result<Self, LetterFileError> {
        // What a link leads to is replaced, not the link.
        let path = path.canonicalize().map_err(io_error(path, "read"))?;
        loop {
            let file = open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(LetterFileError::InUse(path)),
                Err(TryLockError::Error(error)) => return Err(io_error(&path, "locked")(error)),
            }
            if is_at(&file, &path) {
                let letters = letters(&file, &path)?;
                return Ok(Self {
                    path,
                    file: Some(file),
                    letters,
                });
            }
        }
    }

    /// Takes lines out: those for which `keeps` is false. All of them or, after a crash, none.
    ///
    /// # Errors
    /// When the new file cannot be written; the old one is then untouched.
    pub fn keep_only(&mut self, keeps: impl Fn(&Entry) -> bool) -> Result<(), LetterFileError> {
        let Some(file) = &self.file else {
            return Err(LetterFileError::InUse(self.path.clone()));
        };
        let kept = self.letters.text(keeps);
        replace(&self.path, file, kept.as_bytes()).map_err(io_error(&self.path, "written"))
    }
}

fn open(path: &Path) -> Result<File, LetterFileError> {
    if path.exists() && !path.is_file() {
        return Err(LetterFileError::NotAFile(path.into()));
    }
    File::open(path).map_err(io_error(path, "read"))
}

fn letters(file: &File, path: &Path) -> Result<Letters, LetterFileError> {
    let mut text = Vec::new();
    let mut file = file;
    file.read_to_end(&mut text)
        .map_err(io_error(path, "read"))?;
    // A line that is no text is told by its number, like any other damage.
    let text = String::from_utf8_lossy(&text);
    Letters::parse(&text).map_err(|error| LetterFileError::Content {
        path: path.into(),
        error,
    })
}

fn replace(path: &Path, old: &File, content: &[u8]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = folder.join(name);
    // Left by a crash; the lock on the old file says that nobody is writing it.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    file.set_permissions(old.metadata()?.permissions())?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    File::open(folder)?.sync_all()
}

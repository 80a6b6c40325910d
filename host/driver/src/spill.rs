//! Rows that do not fit into memory, in unlinked files that vanish with the process.
//!
//! Rows are appended to a file of [`FILE_BYTES`]; a file is dropped, and its space given back,
//! when all its rows are forgotten.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mz_sink_core::chunk::Chunk;
use mz_sink_core::release::SegmentId;

/// A file is full when it is this large, in bytes.
const FILE_BYTES: u64 = 64 << 20;

#[derive(Debug)]
struct Place {
    file: Arc<File>,
    offset: u64,
    len: usize,
}

#[derive(Debug, Default)]
struct Files {
    current: Option<(Arc<File>, u64)>,
    places: HashMap<SegmentId, Place>,
}

/// Spilled rows by name. Clones share one store.
#[derive(Clone, Debug)]
pub(crate) struct Spill {
    folder: PathBuf,
    files: Arc<Mutex<Files>>,
}

/// Whether rows can be spilled into a folder: a file without a name is made there and vanishes at
/// once.
///
/// # Errors
/// Why not.
pub fn check_spill_folder(folder: &Path) -> io::Result<()> {
    tempfile::tempfile_in(folder).map(drop)
}

impl Spill {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            files: Arc::default(),
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        // No step under the lock leaves it half changed.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self, id: SegmentId, chunk: &Chunk) -> io::Result<()> {
        let bytes = postcard::to_stdvec(chunk).map_err(io::Error::other)?;
        let mut files = self.files();
        let (file, offset) = match files.current.take() {
            Some((file, offset)) if offset < FILE_BYTES => (file, offset),
            _ => (Arc::new(tempfile::tempfile_in(&self.folder)?), 0),
        };
        file.write_all_at(&bytes, offset)?;
        let place = Place {
            file: file.clone(),
            offset,
            len: bytes.len(),
        };
        files.current = Some((file, offset + bytes.len() as u64));
        files.places.insert(id, place);
        Ok(())
    }

    pub(crate) fn read(&self, id: SegmentId) -> io::Result<Chunk> {
        let (file, offset, len) = match self.files().places.get(&id) {
            Some(place) => (place.file.clone(), place.offset, place.len),
            None => return Err(io::Error::other("these rows were given up")),
        };
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, offset)?;
        postcard::from_bytes(&bytes).map_err(io::Error::other)
    }

    pub(crate) fn forget(&self, ids: &[SegmentId]) {
        let mut files = self.files();
        for id in ids {
            files.places.remove(id);
        }
        if files.places.is_empty() {
            files.current = None;
        }
    }
}

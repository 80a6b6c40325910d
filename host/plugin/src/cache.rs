//! Compiled components on disk, so that a restart does not compile again.
//!
//! ```text
//!   <digest of the component>-<compiler and settings>.cwasm = SHA-256 (32 bytes) + artifact
//! ```
//!
//! An artifact is machine code. It is run only from a directory and a file that nobody else can
//! write to, and only when its checksum is right; anything else is compiled again and written over.

use std::fs::{File, Metadata};
use std::hash::{Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wasmtime::component::Component;

use crate::error::LoadError;

/// Length of the checksum before the artifact.
const CHECKSUM: usize = 32;

/// A directory of compiled components that only this user can write to.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// Makes the directory if need be, and checks who can write to it.
    pub(crate) fn open(dir: PathBuf) -> Result<Self, LoadError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .map_err(|e| refused(&dir, format!("it cannot be made: {e}")))?;
        check(&dir)?;
        Ok(Self { dir })
    }

    fn entry(&self, engine: &wasmtime::Engine, digest: &str) -> PathBuf {
        let mut hasher = std::hash::DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        self.dir
            .join(format!("{digest}-{:016x}.cwasm", hasher.finish()))
    }

    /// The compiled form of the component with this digest (hex), if there is a sound one.
    pub(crate) fn get(&self, engine: &wasmtime::Engine, digest: &str) -> Option<Component> {
        let path = self.entry(engine, digest);
        // The directory may have been opened up since the start.
        if let Err(error) = check(&self.dir) {
            tracing::warn!(%error, "the component cache is not used");
            return None;
        }
        let mut file = File::open(&path).ok()?;
        // What was opened is what is checked and read, whatever the path names by now.
        if !is_ours(&file.metadata().ok()?, user()) {
            tracing::warn!(
                path = %path.display(),
                "a cache entry that somebody else could have written is compiled again"
            );
            return None;
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let (checksum, artifact) = bytes.split_at_checked(CHECKSUM)?;
        if Sha256::digest(artifact).as_slice() != checksum {
            tracing::warn!(path = %path.display(), "a damaged cache entry is compiled again");
            return None;
        }
        // SAFETY: `deserialize` demands bytes that `Component::serialize` made. `put` below is
        // the only writer of this directory: it and the open file belong to our user and nobody
        // else can write to them (`check` and `is_ours`, just above), and the checksum shows
        // that the bytes are those that were written. The engine itself refuses artifacts of other versions and settings.
        #[allow(unsafe_code)]
        let component = unsafe { Component::deserialize(engine, artifact) };
        component
            .inspect_err(|error| {
                tracing::warn!(path = %path.display(), %error, "a cache entry is compiled again");
            })
            .ok()
    }

    /// Keeps the compiled form. A failure costs only time, so it is logged and no more.
    pub(crate) fn put(&self, engine: &wasmtime::Engine, digest: &str, component: &Component) {
        let path = self.entry(engine, digest);
        if let Err(error) = self.write(&path, component) {
            tracing::warn!(path = %path.display(), %error, "the compiled component is not kept");
        }
    }

    fn write(&self, path: &Path, component: &Component) -> wasmtime::Result<()> {
        let artifact = component.serialize()?;
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        file.write_all(&Sha256::digest(&artifact))?;
        file.write_all(&artifact)?;
        // No sync: an entry lost or torn in a crash fails its checksum.
        file.persist(path)?;
        Ok(())
    }
}

/// The user who runs this.
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether an entry is a file that `user` alone can write to. `write` makes it so; 0644 is what a
/// copy of the cache may have.
fn is_ours(entry: &Metadata, user: u32) -> bool {
    entry.is_file() && entry.uid() == user && matches!(entry.mode() & 0o7777, 0o600 | 0o644)
}

/// Refuses a directory that someone else could put machine code into.
fn check(dir: &Path) -> Result<(), LoadError> {
    let found = std::fs::metadata(dir).map_err(|e| refused(dir, format!("cannot look: {e}")))?;
    if !found.is_dir() {
        return Err(refused(dir, "it is not a directory".to_owned()));
    }
    let user = user();
    if found.uid() != user {
        return Err(refused(
            dir,
            format!(
                "it belongs to user {}, not to user {user} who runs this",
                found.uid()
            ),
        ));
    }
    if found.mode() & 0o022 != 0 {
        return Err(refused(
            dir,
            "its group or others can write to it: run `chmod go-w` on it".to_owned(),
        ));
    }
    Ok(())
}

fn refused(dir: &Path, reason: String) -> LoadError {
    LoadError::CacheDirectory {
        path: dir.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_another_user_and_one_that_is_no_file_are_not_ours() {
        let dir = tempfile::tempdir().expect("a directory");
        let entry = tempfile::NamedTempFile::new_in(dir.path()).expect("a file");
        let found = entry.as_file().metadata().expect("it");
        assert!(is_ours(&found, user()));
        assert!(!is_ours(&found, user() + 1));
        let found = std::fs::metadata(dir.path()).expect("it");
        assert!(!is_ours(&found, user()));
    }
}

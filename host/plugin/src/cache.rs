//! Compiled components on disk, so that a restart does not compile again.
//!
//! ```text
//!   <digest of the component>-<compiler and settings>.cwasm = SHA-256 (32 bytes) + artifact
//! ```
//!
//! An artifact is machine code. It is run only from a directory that nobody else can write to,
//! and only when its checksum is right; anything else is compiled again and written over.

use std::hash::{Hash, Hasher};
use std::io::Write;
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
        let bytes = std::fs::read(&path).ok()?;
        let (checksum, artifact) = bytes.split_at_checked(CHECKSUM)?;
        if Sha256::digest(artifact).as_slice() != checksum {
            tracing::warn!(path = %path.display(), "a damaged cache entry is compiled again");
            return None;
        }
        // SAFETY: `deserialize` demands bytes that `Component::serialize` made. `put` below is
        // the only writer of this directory: it belongs to our user and nobody else can write
        // to it (`check`, just above), and the checksum shows that the bytes are those that
        // were written. The engine itself refuses artifacts of other versions and settings.
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

/// Refuses a directory that someone else could put machine code into.
fn check(dir: &Path) -> Result<(), LoadError> {
    let found = std::fs::metadata(dir).map_err(|e| refused(dir, format!("cannot look: {e}")))?;
    if !found.is_dir() {
        return Err(refused(dir, "it is not a directory".to_owned()));
    }
    let user = rustix::process::geteuid().as_raw();
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

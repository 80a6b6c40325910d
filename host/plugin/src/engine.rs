//! The compiler and the clock that keeps guests from running for ever.

use std::path::PathBuf;
use std::time::Duration;

use crate::cache::Cache;
use crate::error::LoadError;

/// How often a running guest gives way to other tasks and is checked for progress.
pub const TICK: Duration = Duration::from_millis(10);

/// Stack of a guest, in bytes. Interpreters inside guests recurse deeply.
const GUEST_STACK: usize = 2 << 20;

/// How an [`Engine`] is made.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// Where compiled components are kept; `None` compiles each time.
    pub cache_dir: Option<PathBuf>,
}

/// Compiles components and runs them. One per process; cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) wasm: wasmtime::Engine,
    pub(crate) cache: Option<Cache>,
}

impl Engine {
    /// An engine with a thread that advances its epoch until the last clone, component and
    /// sink of it is dropped.
    ///
    /// # Errors
    /// [`LoadError::CacheDirectory`] when the cache directory cannot be made or trusted, and
    /// [`LoadError::Engine`] when the platform cannot run WebAssembly.
    pub fn new(options: EngineOptions) -> Result<Self, LoadError> {
        let cache = options.cache_dir.map(Cache::open).transpose()?;
        let mut config = wasmtime::Config::new();
        config
            .epoch_interruption(true)
            .max_wasm_stack(GUEST_STACK)
            // The host's own calls run on the same stack.
            .async_stack_size(2 * GUEST_STACK);
        let wasm =
            wasmtime::Engine::new(&config).map_err(|e| LoadError::Engine(format!("{e:#}")))?;
        let weak = wasm.weak();
        std::thread::Builder::new()
            .name("sink-epoch".to_owned())
            .spawn(move || {
                while let Some(engine) = weak.upgrade() {
                    engine.increment_epoch();
                    drop(engine);
                    std::thread::sleep(TICK);
                }
            })
            .map_err(|e| LoadError::Engine(format!("cannot start the epoch thread: {e}")))?;
        Ok(Self { wasm, cache })
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

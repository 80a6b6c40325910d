//! Why a component cannot be used.

use std::path::PathBuf;

/// Why the engine could not be made, or a component could not be loaded or inspected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The compiler or its ticker could not be set up.
    #[error("cannot set up the WebAssembly engine: {0}")]
    Engine(String),
    /// The cache directory cannot be trusted: whoever can write to it can run code in the host.
    #[error("cache directory {path} is refused: {reason}", path = path.display())]
    CacheDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The file is not WebAssembly at all.
    #[error("{path} is not a WebAssembly component: it does not begin with the magic bytes", path = path.display())]
    NotWasm {
        /// The file.
        path: PathBuf,
    },
    /// The file is a core module.
    #[error("{path} is a core WebAssembly module: make it a component with `wasm-tools component new`", path = path.display())]
    CoreModule {
        /// The file.
        path: PathBuf,
    },
    /// The file is a component, but damaged, cut short or not supported by the engine.
    #[error("{path} is not a valid component (was it copied completely?): {reason}", path = path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What the validator says.
        reason: String,
    },
    /// A component made for something else.
    #[error("{path} is not a sink: it does not export `{missing}`", path = path.display())]
    NotASink {
        /// The file.
        path: PathBuf,
        /// The export that every sink has.
        missing: &'static str,
    },
    /// A sink for a version of the contract that this host does not know.
    #[error("{path} uses `{found}`; this host supports versions {supported} of the contract: \
             rebuild the sink, or use a host that knows that version", path = path.display())]
    ContractVersion {
        /// The file.
        path: PathBuf,
        /// The import or export, with its version.
        found: String,
        /// What this host supports.
        supported: &'static str,
    },
    /// The component wants something that the host does not offer.
    #[error("{path} imports what this host does not offer: {}; \
             build it against a world of `materialize:sink` only", imports.join(", "), path = path.display())]
    UnknownImports {
        /// The file.
        path: PathBuf,
        /// Their names, sorted.
        imports: Vec<String>,
    },
    /// The component wants a part of the contract that comes later.
    #[error("{path} imports `{import}`, which is not supported by this version yet", path = path.display())]
    NotYet {
        /// The file.
        path: PathBuf,
        /// Its name.
        import: String,
    },
    /// The names fit, the shapes do not.
    #[error("the component does not fit the contract: {0}")]
    Shape(String),
    /// `describe` failed.
    #[error("the sink cannot describe itself: {0}")]
    Describe(String),
}

//! Loading a component, and finding out what it is.

use std::path::Path;

use mz_sink_core::types::{Envelope, Guarantee};
use sha2::{Digest, Sha256};
use wasmparser::{Parser, Payload};
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};
use wasmtime::{Store, UpdateDeadline};

use crate::bindings::exports::materialize::sink::{maintenance, read_back, sink};
use crate::bindings::materialize::sink as offered;
use crate::convert;
use crate::engine::Engine;
use crate::error::LoadError;
use crate::http::HttpClient;
use crate::limits::Limits;
use crate::state::State;
use crate::text::clean;

/// The export that makes a component a sink.
const SINK: &str = "materialize:sink/sink@0.1.0";
/// The package of the contract.
const PACKAGE: &str = "materialize:sink/";
/// The versions of the contract that this host runs.
const SUPPORTED: &str = "0.1.x";
/// What the host offers of it.
const OFFERED: [&str; 6] = ["types", "changes", "http", "log", "clock", "random"];
/// The longest name and version in a description, in bytes.
const NAME: usize = 256;

/// A component that is a sink: compiled, checked, its imports linked. Cheap to clone.
#[derive(Clone)]
pub struct SinkComponent {
    engine: Engine,
    pre: InstancePre<State>,
    sink: sink::GuestIndices,
    /// What it need not have.
    maintenance: Option<maintenance::GuestIndices>,
    read_back: Option<read_back::GuestIndices>,
    digest: String,
    size: u64,
    imports: Vec<String>,
    exports: Vec<String>,
    wit_version: String,
}

/// What a component says about itself, and what it is built of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The sink's name.
    pub name: String,
    /// The sink's own version.
    pub version: String,
    /// What it promises about its target.
    pub guarantee: Guarantee,
    /// How it wants changes expressed.
    pub envelope: Envelope,
    /// Whether it wants only the last change per key of a batch.
    pub netted: bool,
    /// JSON Schema of its configuration, as text; not checked here.
    pub config_schema: String,
    /// Version of the contract that it is built for, such as `0.1.0`.
    pub wit_version: String,
    /// See [`SinkComponent::digest`].
    pub digest: String,
    /// See [`SinkComponent::size`].
    pub size: u64,
    /// Its imports, sorted: what it may ask the host for.
    pub imports: Vec<String>,
    /// Its exports, sorted.
    pub exports: Vec<String>,
}

/// A running instance.
pub(crate) struct Instance {
    pub(crate) store: Store<State>,
    pub(crate) sink: sink::Guest,
    pub(crate) maintenance: Option<maintenance::Guest>,
    pub(crate) read_back: Option<read_back::Guest>,
}

impl SinkComponent {
    /// Reads, compiles (or takes from the cache) and checks the component in the file `path`.
    /// Compiling takes seconds for a large component: call it where blocking is allowed.
    ///
    /// # Errors
    /// [`LoadError`] says what is wrong with the file.
    pub fn load(engine: &Engine, path: &Path) -> Result<Self, LoadError> {
        let bytes = std::fs::read(path).map_err(|source| LoadError::Read {
            path: path.to_owned(),
            source,
        })?;
        check_header(path, &bytes)?;
        let invalid = |reason: String| LoadError::Invalid {
            path: path.to_owned(),
            reason: clean(&reason, 1024),
        };
        // Before compiling, which takes seconds for a large component.
        let (imports, exports) = names(&bytes).map_err(|e| invalid(e.to_string()))?;
        let wit_version = check_names(path, &imports, &exports)?;
        let digest = hex::encode(Sha256::digest(&bytes));
        let cached = engine
            .cache
            .as_ref()
            .and_then(|cache| cache.get(&engine.wasm, &digest));
        let fresh = cached.is_none();
        let component = match cached {
            Some(component) => component,
            None => Component::from_binary(&engine.wasm, &bytes)
                .map_err(|e| invalid(format!("{e:#}")))?,
        };
        if let (true, Some(cache)) = (fresh, &engine.cache) {
            cache.put(&engine.wasm, &digest, &component);
        }
        let shape = |e: wasmtime::Error| LoadError::Shape(clean(&format!("{e:#}"), 1024));
        let pre = linker(&engine.wasm)
            .and_then(|linker| linker.instantiate_pre(&component))
            .map_err(shape)?;
        let sink = sink::GuestIndices::new(&pre).map_err(shape)?;
        let has = |name: &str| {
            exports
                .iter()
                .filter_map(|e| contract(e))
                .any(|(i, _)| i == name)
        };
        let maintenance = has("maintenance").then(|| maintenance::GuestIndices::new(&pre));
        let read_back = has("read-back").then(|| read_back::GuestIndices::new(&pre));
        Ok(Self {
            engine: engine.clone(),
            pre,
            sink,
            maintenance: maintenance.transpose().map_err(shape)?,
            read_back: read_back.transpose().map_err(shape)?,
            digest: format!("sha256:{digest}"),
            size: bytes.len() as u64,
            imports,
            exports,
            wit_version,
        })
    }

    /// `sha256:` and the SHA-256 of the file in hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether it has housekeeping to do.
    pub fn has_maintenance(&self) -> bool {
        self.maintenance.is_some()
    }

    /// Asks the component what it is, in an instance that is granted nothing.
    ///
    /// # Errors
    /// [`LoadError::Describe`] when it fails, loops or takes too much memory.
    pub async fn inspect(&self) -> Result<Inspection, LoadError> {
        let failed =
            |e: wasmtime::Error| LoadError::Describe(clean(&e.root_cause().to_string(), 1024));
        let state = State::new(Limits::default(), HttpClient::deny_all(), "inspect");
        let mut instance = self.instantiate(state).await.map_err(failed)?;
        let described = instance
            .sink
            .call_describe(&mut instance.store)
            .await
            .map_err(failed)?;
        Ok(Inspection {
            name: clean(&described.name, NAME),
            version: clean(&described.version, NAME),
            guarantee: convert::guarantee(described.guarantee),
            envelope: convert::envelope(described.envelope),
            netted: described.netted,
            config_schema: described.config_schema,
            wit_version: self.wit_version.clone(),
            digest: self.digest.clone(),
            size: self.size,
            imports: self.imports.clone(),
            exports: self.exports.clone(),
        })
    }

    /// A new instance in a store of its own.
    pub(crate) async fn instantiate(&self, state: State) -> wasmtime::Result<Instance> {
        let mut store = Store::new(&self.engine.wasm, state);
        store.limiter(|state| state);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|mut context| {
            context.data_mut().tick()?;
            Ok(UpdateDeadline::YieldCustom(
                1,
                Box::pin(tokio::task::yield_now()),
            ))
        });
        let instance = self.pre.instantiate_async(&mut store).await?;
        let sink = self.sink.load(&mut store, &instance)?;
        let maintenance = self.maintenance.as_ref();
        let maintenance = maintenance.map(|m| m.load(&mut store, &instance));
        let read_back = self.read_back.as_ref();
        let read_back = read_back.map(|r| r.load(&mut store, &instance));
        Ok(Instance {
            sink,
            maintenance: maintenance.transpose()?,
            read_back: read_back.transpose()?,
            store,
        })
    }
}

impl std::fmt::Debug for SinkComponent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SinkComponent")
            .field("digest", &self.digest)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// Everything that the host offers. What a guest does not import costs nothing.
fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State>> {
    type Own = HasSelf<State>;
    let mut linker = Linker::new(engine);
    offered::types::add_to_linker::<_, Own>(&mut linker, |state| state)?;
    offered::changes::add_to_linker::<_, Own>(&mut linker, |state| state)?;
    offered::http::add_to_linker::<_, Own>(&mut linker, |state| state)?;
    offered::log::add_to_linker::<_, Own>(&mut linker, |state| state)?;
    offered::clock::add_to_linker::<_, Own>(&mut linker, |state| state)?;
    offered::random::add_to_linker::<_, Own>(&mut linker, |state| state)?;
    Ok(linker)
}

/// Tells the frequent mistakes apart before the compiler sees the file.
fn check_header(path: &Path, bytes: &[u8]) -> Result<(), LoadError> {
    let path = path.to_owned();
    let Some(header) = bytes.strip_prefix(b"\0asm") else {
        return Err(LoadError::NotWasm { path });
    };
    match header.first_chunk::<4>() {
        // Version and layer: layer 0 is a core module, layer 1 a component.
        Some([_, _, 1, 0]) => Ok(()),
        Some([_, _, 0, 0]) => Err(LoadError::CoreModule { path }),
        Some(_) => Err(LoadError::Invalid {
            path,
            reason: "the header has an unknown layer".to_owned(),
        }),
        None => Err(LoadError::Invalid {
            path,
            reason: "the file ends within its header".to_owned(),
        }),
    }
}

/// The names that the component itself imports and exports, sorted.
fn names(bytes: &[u8]) -> wasmparser::Result<(Vec<String>, Vec<String>)> {
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    // Components and modules nest; only the outermost counts.
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    exports.push(export?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    imports.sort();
    exports.sort();
    Ok((imports, exports))
}

/// Checks what the component wants and gives, and returns its version of the contract.
fn check_names(path: &Path, imports: &[String], exports: &[String]) -> Result<String, LoadError> {
    let path = path.to_owned();
    for name in imports.iter().chain(exports) {
        if contract(name).is_some_and(|(_, version)| !supported(version)) {
            return Err(LoadError::ContractVersion {
                path,
                found: name.clone(),
                supported: SUPPORTED,
            });
        }
    }
    let Some((_, version)) = exports
        .iter()
        .filter_map(|name| contract(name))
        .find(|(interface, _)| *interface == "sink")
    else {
        return Err(LoadError::NotASink {
            path,
            missing: SINK,
        });
    };
    let version = version.to_owned();
    let interface = |name: &str| contract(name).map(|(interface, _)| interface.to_owned());
    if let Some(import) = imports
        .iter()
        .find(|name| interface(name).as_deref() == Some("postgres"))
    {
        return Err(LoadError::NotYet {
            path,
            import: import.clone(),
        });
    }
    let unknown: Vec<String> = imports
        .iter()
        .filter(|name| !interface(name).is_some_and(|i| OFFERED.contains(&i.as_str())))
        .cloned()
        .collect();
    if unknown.is_empty() {
        Ok(version)
    } else {
        Err(LoadError::UnknownImports {
            path,
            imports: unknown,
        })
    }
}

/// Interface and version of a name that belongs to the contract.
fn contract(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(PACKAGE)?.split_once('@')
}

/// Whether `version` is 0.1 and some patch number: those fit each other.
fn supported(version: &str) -> bool {
    version
        .strip_prefix("0.1.")
        .is_some_and(|patch| !patch.is_empty() && patch.bytes().all(|b| b.is_ascii_digit()))
}

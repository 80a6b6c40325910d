//! Sinks written in Rust: from crate to core module to component.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use wit_component::{ComponentEncoder, DecodedWasm};

use crate::process;
use crate::toolchain::{self, TARGET, Toolchain};

/// The only package a sink may import from; anything else would not be there at run time.
const PACKAGE: &str = "materialize:sink/";

/// Crate and component, by the names of both.
struct Guest {
    package: &'static str,
    component: &'static str,
}

const GUESTS: [Guest; 2] = [
    Guest {
        package: "turbopuffer-sink",
        component: "turbopuffer",
    },
    Guest {
        package: "probe-sink",
        component: "probe",
    },
];

/// The vectors and the protocol core as one module without imports.
const VECTORS: &str = "core-vectors";

/// Names of the components.
pub fn names() -> Vec<&'static str> {
    GUESTS.iter().map(|guest| guest.component).collect()
}

/// Builds these guests, or all when none is named.
pub fn run(only: &[String]) -> Result<()> {
    let toolchain = toolchain::ready()?;
    let guests: Vec<&Guest> = GUESTS
        .iter()
        .filter(|guest| only.is_empty() || only.iter().any(|name| name == guest.component))
        .collect();
    let packages: Vec<&str> = guests.iter().map(|guest| guest.package).collect();
    let modules = build(&toolchain, &packages)?;
    let directory = process::root()?.join("target/guests");
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    for (guest, module) in guests.iter().zip(modules) {
        let component = directory.join(guest.component).with_extension("wasm");
        if !newer(&component, &[&module, &std::env::current_exe()?]) {
            encode(&module, &component)
                .with_context(|| format!("making a component of {}", guest.package))?;
        }
        report(&component)?;
    }
    if only.is_empty() {
        build_vectors(&toolchain, &directory)?;
    }
    Ok(())
}

/// Not a sink: a test runs it to see that the core does the same there as here.
fn build_vectors(toolchain: &Toolchain, directory: &Path) -> Result<()> {
    for module in build(toolchain, &[VECTORS])? {
        let made = directory.join(VECTORS).with_extension("wasm");
        if !newer(&made, &[&module]) {
            fs::copy(&module, &made).with_context(|| format!("writing {}", made.display()))?;
        }
        let bytes = fs::metadata(&made)?.len();
        println!("{VECTORS}.wasm: {} KiB", bytes.div_ceil(1024));
    }
    Ok(())
}

/// Compiles crates for guests, in a target directory that no other build locks, and returns the
/// core modules in the same order.
///
/// The crate type is given here and not in the crates: a crate that is a Rust library as well
/// gets no link-time optimisation, and native tests need no dynamic library.
pub fn build(toolchain: &Toolchain, packages: &[&str]) -> Result<Vec<PathBuf>> {
    let built = process::root()?.join("target/guest-build").join(TARGET);
    let mut modules = Vec::with_capacity(packages.len());
    for package in packages {
        let mut command = toolchain.cargo(&["rustc", "--quiet", "--lib", "--package", package])?;
        command.args(["--crate-type", "cdylib", "--profile", "guest"]);
        command.args(["--target", TARGET, "--target-dir", "target/guest-build"]);
        process::run(&mut command)?;
        let name = package.replace('-', "_");
        let module = built.join("guest").join(name).with_extension("wasm");
        if !module.exists() {
            bail!("{package} built no module at {}", module.display());
        }
        modules.push(module);
    }
    Ok(modules)
}

/// Whether a file is newer than all it was made from.
fn newer(made: &Path, from: &[&Path]) -> bool {
    let changed = |path: &Path| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    let Some(made) = changed(made) else {
        return false;
    };
    from.iter()
        .all(|path| changed(path).is_some_and(|changed| changed < made))
}

/// Wraps a core module into a component. What fails leaves no file behind.
fn encode(module: &Path, component: &Path) -> Result<()> {
    let core = fs::read(module).with_context(|| format!("reading {}", module.display()))?;
    let bytes = ComponentEncoder::default()
        .validate(true)
        .module(&core)?
        .encode()?;
    check_world(&bytes)?;
    let partial = component.with_extension("partial");
    fs::write(&partial, bytes).with_context(|| format!("writing {}", partial.display()))?;
    fs::rename(&partial, component).with_context(|| format!("writing {}", component.display()))
}

/// Names of what a component imports and exports.
fn world(bytes: &[u8]) -> Result<(Vec<String>, Vec<String>)> {
    let DecodedWasm::Component(resolve, world) = wit_component::decode(bytes)? else {
        bail!("the result is a WIT package, not a component");
    };
    let world = &resolve.worlds[world];
    let names = |items: &mut dyn Iterator<Item = _>| -> Vec<String> {
        items.map(|key| resolve.name_world_key(key)).collect()
    };
    Ok((
        names(&mut world.imports.keys()),
        names(&mut world.exports.keys()),
    ))
}

fn check_world(bytes: &[u8]) -> Result<()> {
    let (imports, exports) = world(bytes)?;
    if let Some(foreign) = imports.iter().find(|name| !name.starts_with(PACKAGE)) {
        bail!("it imports {foreign}: a sink may import {PACKAGE}* only");
    }
    if !exports.iter().any(|name| name.starts_with(PACKAGE)) {
        bail!("it exports nothing of {PACKAGE}*: is the sink's export macro called?");
    }
    Ok(())
}

fn report(component: &Path) -> Result<()> {
    let bytes = fs::read(component).with_context(|| format!("reading {}", component.display()))?;
    let (imports, _) = world(&bytes)?;
    let imports: Vec<&str> = imports
        .iter()
        .map(|name| name.strip_prefix(PACKAGE).unwrap_or(name))
        .collect();
    println!(
        "{}: {} KiB, imports {}",
        component.file_name().unwrap_or_default().display(),
        bytes.len().div_ceil(1024),
        imports.join(", ")
    );
    Ok(())
}

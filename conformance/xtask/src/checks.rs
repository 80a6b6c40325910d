//! What the architecture promises and a compiler does not check by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use wasmparser::{Parser, Payload};

use crate::{guests, process, sim, toolchain};

/// The crate that drives the core and is built for wasm32.
const PURITY: &str = "core-purity";

/// Which crates of the workspace a crate may depend on. Crates under `conformance/` may depend
/// on all, and nobody on them.
const MAY_DEPEND_ON: [(&str, &[&str]); 9] = [
    ("mz-sink-text", &[]),
    ("mz-sink-core", &["mz-sink-text"]),
    ("mz-sink-config", &["mz-sink-core"]),
    ("mz-sink-source", &["mz-sink-core"]),
    ("mz-sink-plugin", &["mz-sink-core"]),
    ("mz-sink-driver", &["mz-sink-core"]),
    (
        "mz-wasm-sink",
        &[
            "mz-sink-core",
            "mz-sink-config",
            "mz-sink-source",
            "mz-sink-plugin",
            "mz-sink-driver",
        ],
    ),
    ("mz-sink-guest", &["mz-sink-text"]),
    ("turbopuffer-sink", &["mz-sink-guest"]),
];

/// What would bring I/O, async or chance into the core.
const NOT_IN_CORE: [&str; 6] = [
    "tokio",
    "futures",
    "wasmtime",
    "rand",
    "getrandom",
    "reqwest",
];

/// A file with more lines is told, but is no failure.
const LONG_FILE: usize = 500;

/// All checks.
pub fn run() -> Result<()> {
    let metadata = Metadata::read()?;
    report_long_files(&metadata)?;
    check_direction(&metadata)?;
    check_core_closure(&metadata)?;
    sim::check()?;
    check_purity()
}

/// One concern for each file: a long one is worth a look.
fn report_long_files(metadata: &Metadata) -> Result<()> {
    let mut command = Command::new("git");
    command.args(["ls-files", "*.rs"]);
    command.current_dir(&metadata.workspace_root);
    for file in process::output(&mut command)?.lines() {
        // A file that is deleted but not yet committed is still listed.
        let Ok(text) = fs::read_to_string(metadata.workspace_root.join(file)) else {
            continue;
        };
        let lines = text.lines().count();
        if lines > LONG_FILE {
            println!("long: {file} has {lines} lines");
        }
    }
    Ok(())
}

/// The core, built for a target without a system, must ask nothing of its host.
fn check_purity() -> Result<()> {
    let toolchain = toolchain::ready()?;
    for module in guests::build(&toolchain, &[PURITY])? {
        let bytes = fs::read(&module).with_context(|| format!("reading {}", module.display()))?;
        let functions = pure_functions(&bytes)?;
        println!("purity: mz-sink-core imports nothing ({functions} functions)");
    }
    Ok(())
}

/// Number of functions in a module without imports.
fn pure_functions(module: &[u8]) -> Result<u32> {
    let mut functions = 0;
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::ImportSection(section) => {
                let mut names = Vec::new();
                for import in section.into_imports() {
                    let import = import?;
                    names.push(format!("{}.{}", import.module, import.name));
                }
                if !names.is_empty() {
                    bail!(
                        "mz-sink-core is not pure: it imports {} from its host",
                        names.join(", ")
                    );
                }
            }
            Payload::CodeSectionStart { count, .. } => functions = count,
            _ => {}
        }
    }
    if functions == 0 {
        bail!("{PURITY} has no code: the check would prove nothing");
    }
    Ok(functions)
}

/// Dependencies between crates of the workspace, tests apart.
fn check_direction(metadata: &Metadata) -> Result<()> {
    let members: BTreeSet<&str> = metadata
        .packages
        .iter()
        .filter(|package| metadata.workspace_members.contains(&package.id))
        .map(|package| package.name.as_str())
        .collect();
    let conformance = metadata.workspace_root.join("conformance");
    let mut edges = 0;
    for package in &metadata.packages {
        if !members.contains(package.name.as_str())
            || package.manifest_path.starts_with(&conformance)
        {
            continue;
        }
        let (_, allowed) = MAY_DEPEND_ON
            .iter()
            .find(|(name, _)| *name == package.name)
            .with_context(|| format!("{} has no rule in xtask's checks.rs", package.name))?;
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            if dependency.kind.as_deref() == Some("dev") || !members.contains(name) {
                continue;
            }
            if !allowed.contains(&name) {
                bail!(
                    "{} depends on {name}; of this workspace it may depend on [{}] only",
                    package.name,
                    allowed.join(", ")
                );
            }
            edges += 1;
        }
    }
    println!("direction: {edges} dependencies between crates, all allowed");
    Ok(())
}

/// Everything the core is built from.
fn check_core_closure(metadata: &Metadata) -> Result<()> {
    let names: BTreeMap<&str, &str> = metadata
        .packages
        .iter()
        .map(|package| (package.id.as_str(), package.name.as_str()))
        .collect();
    let core = metadata
        .packages
        .iter()
        .find(|package| package.name == "mz-sink-core")
        .context("mz-sink-core is not in the workspace")?;
    let mut closure = BTreeSet::new();
    let mut open = vec![core.id.as_str()];
    while let Some(id) = open.pop() {
        if !closure.insert(id) {
            continue;
        }
        let node = metadata.resolve.nodes.iter().find(|node| node.id == id);
        let node = node.with_context(|| format!("cargo metadata does not resolve {id}"))?;
        let normal = node.deps.iter().filter(|dep| dep.is_normal());
        open.extend(normal.map(|dep| dep.pkg.as_str()));
    }
    for id in &closure {
        let name = names.get(id).copied().unwrap_or(id);
        if NOT_IN_CORE.contains(&name) {
            bail!(
                "mz-sink-core is built with {name}: the core does no I/O, async or chance \
                 (`cargo tree -p mz-sink-core -e normal -i {name}` shows the way)"
            );
        }
    }
    println!(
        "closure: mz-sink-core is built from {} crates, none of [{}]",
        closure.len(),
        NOT_IN_CORE.join(", ")
    );
    Ok(())
}

/// What of `cargo metadata` is used.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    workspace_root: Box<Path>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    manifest_path: Box<Path>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

impl Edge {
    fn is_normal(&self) -> bool {
        self.dep_kinds.iter().any(|kind| kind.kind.is_none())
    }
}

impl Metadata {
    fn read() -> Result<Self> {
        let mut command = process::cargo(&["metadata", "--format-version", "1"])?;
        let text = process::output(&mut command)?;
        serde_json::from_str(&text).context("reading the answer of `cargo metadata`")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Metadata, check_core_closure, check_direction, pure_functions};

    const HEADER: &[u8] = b"\0asm\x01\0\0\0";

    #[test]
    fn a_module_with_an_import_is_not_pure_and_the_import_is_named() {
        let import = [HEADER, b"\x02\x09\x01\x03env\x01f\0\0"].concat();
        let error = pure_functions(&import).expect_err("an import").to_string();
        assert!(error.contains("env.f"), "{error}");
    }

    #[test]
    fn a_module_without_code_proves_nothing() {
        let error = pure_functions(HEADER).expect_err("no code").to_string();
        assert!(error.contains("no code"), "{error}");
    }

    #[test]
    fn a_module_with_code_and_no_import_is_pure() {
        let module = [HEADER, b"\x03\x02\x01\0\x0a\x04\x01\x02\0\x0b"].concat();
        assert_eq!(pure_functions(&module).expect("pure"), 1);
    }

    /// A workspace of two crates, the second with a dependency on the first.
    fn workspace(dependency: &str, dependent: &str, kind: Option<&str>) -> Metadata {
        let package = |name: &str, dependencies| {
            json!({
                "id": name, "name": name, "manifest_path": format!("/w/host/{name}/Cargo.toml"),
                "dependencies": dependencies,
            })
        };
        let metadata = json!({
            "workspace_root": "/w",
            "workspace_members": [dependency, dependent],
            "packages": [
                package(dependency, json!([])),
                package(dependent, json!([{ "name": dependency, "kind": kind }])),
            ],
            "resolve": { "nodes": [
                { "id": dependency, "deps": [] },
                { "id": dependent, "deps": [{ "pkg": dependency, "dep_kinds": [{ "kind": kind }] }] },
            ]},
        });
        serde_json::from_value(metadata).expect("metadata")
    }

    #[test]
    fn a_dependency_against_the_direction_is_refused_and_named() {
        let error = check_direction(&workspace("mz-sink-driver", "mz-sink-core", None))
            .expect_err("core depends on driver")
            .to_string();
        assert!(
            error.starts_with("mz-sink-core depends on mz-sink-driver"),
            "{error}"
        );
    }

    #[test]
    fn a_dependency_of_tests_may_go_against_the_direction() {
        check_direction(&workspace("mz-sink-driver", "mz-sink-core", Some("dev")))
            .expect("only tests need it");
    }

    #[test]
    fn a_crate_without_a_rule_is_refused() {
        let error = check_direction(&workspace("mz-sink-core", "mz-sink-new", None))
            .expect_err("no rule")
            .to_string();
        assert!(error.contains("mz-sink-new has no rule"), "{error}");
    }

    #[test]
    fn async_in_the_core_is_refused_and_named() {
        let error = check_core_closure(&workspace("tokio", "mz-sink-core", None))
            .expect_err("tokio")
            .to_string();
        assert!(error.contains("built with tokio"), "{error}");
    }
}

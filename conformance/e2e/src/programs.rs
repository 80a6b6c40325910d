//! Where the program and the component under test are.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, ensure};

/// `target/<profile>` of this build: programs are in it, test programs in its `deps`.
fn profile_folder() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().context("there is no target folder")?;
    Ok(match folder.parent() {
        Some(profile) if folder.ends_with("deps") => profile.to_owned(),
        _ => folder.to_owned(),
    })
}

/// The `mz-wasm-sink` of the same profile.
///
/// # Errors
/// When it is not built.
pub fn program() -> anyhow::Result<PathBuf> {
    let program = profile_folder()?.join("mz-wasm-sink");
    ensure!(
        program.exists(),
        "{} is missing: run `cargo build -p mz-wasm-sink` first",
        program.display()
    );
    Ok(program)
}

/// The turbopuffer sink.
///
/// # Errors
/// When it is not built.
pub fn component() -> anyhow::Result<PathBuf> {
    let component = profile_folder()?.join("../guests/turbopuffer.wasm");
    ensure!(
        component.exists(),
        "{} is missing: run `cargo xtask guests` first",
        component.display()
    );
    Ok(component)
}

/// The cache of compiled components that all tests share. It is filled before the first test
/// goes on, so that tests at the same time do not compile the same thing.
pub(crate) fn cache() -> anyhow::Result<PathBuf> {
    static FILLED: OnceLock<Result<(), String>> = OnceLock::new();
    let folder = profile_folder()?.join("../tmp/e2e-components");
    let filled = FILLED.get_or_init(|| fill(&folder).map_err(|error| format!("{error:#}")));
    match filled {
        Ok(()) => Ok(folder),
        Err(error) => anyhow::bail!("cannot fill the cache of components: {error}"),
    }
}

fn fill(cache: &Path) -> anyhow::Result<()> {
    let folder = folder()?;
    let config = folder.path().join("cache.toml");
    let cache_dir = serde_json::json!(cache);
    std::fs::write(
        &config,
        format!(
            "sink_id = \"e2e\"\n[materialize]\nurl = \"postgres://u@127.0.0.1/db\"\n\
             [source]\nobject = \"t\"\n[component]\ncache_dir = {cache_dir}\n"
        ),
    )?;
    let output = std::process::Command::new(program()?)
        .arg("inspect")
        .arg(component()?)
        .arg("--config")
        .arg(&config)
        .output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "inspect failed: {told}");
    Ok(())
}

/// A temporary folder for one test.
///
/// # Errors
/// When it cannot be made.
pub fn folder() -> anyhow::Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new().prefix("mz-e2e-").tempdir()?)
}

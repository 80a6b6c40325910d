//! Starting other programs, cargo above all, from the workspace root.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The workspace root. `cargo run` tells where this crate is.
pub fn root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .context("the workspace was not found: start this as `cargo xtask …`")?;
    let root = PathBuf::from(manifest).join("../..");
    root.canonicalize()
        .with_context(|| format!("{} cannot be read", root.display()))
}

/// Cargo in the workspace root, as if called from a shell: what the outer `cargo run` set to
/// describe this crate is taken out again. The toolchain chosen by the caller stays.
pub fn cargo(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root()?);
    for (name, _) in std::env::vars_os() {
        if describes_this_crate(&name) {
            command.env_remove(name);
        }
    }
    Ok(command)
}

fn describes_this_crate(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    name == "CARGO"
        || [
            "CARGO_MANIFEST_",
            "CARGO_PKG_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Runs a command with its output on the terminal; an error names the command.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("could not start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed with {status}", shown(command));
    }
    Ok(())
}

/// Runs a command and returns what it wrote to standard output; its errors go to the terminal.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("could not start `{}`", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` failed with {}", shown(command), output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` wrote something that is not UTF-8", shown(command)))
}

/// Whether a command can be started and succeeds; nothing is shown.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A command as one would type it.
pub fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

//! The compiler for guests: one that has the standard library for `wasm32-unknown-unknown`.
//!
//! Three ways, the first that works:
//!
//! 1. the compiler in use has it;
//! 2. rustup downloads it;
//! 3. rustup cannot download: Debian's compiler and library sources, with the library built
//!    here once and kept in the user's cache directory (about 80 seconds on two cores).

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{process, setup};

/// What guests are compiled for.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// Set to `debian` to take the third way even where the others work.
const CHOICE: &str = "XTASK_GUEST_TOOLCHAIN";

const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// A compiler that can build guests.
pub struct Toolchain {
    /// `None` is the compiler cargo takes by itself.
    rustc: Option<PathBuf>,
}

impl Toolchain {
    /// Which compiler this is, for people.
    pub fn origin(&self) -> String {
        match &self.rustc {
            None => format!("the compiler in use has {TARGET}"),
            Some(rustc) => rustc.display().to_string(),
        }
    }

    /// Cargo with this compiler. Flags meant for the host are taken out.
    pub fn cargo(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = process::cargo(arguments)?;
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_TARGET",
            "RUSTC_WORKSPACE_WRAPPER",
        ] {
            command.env_remove(name);
        }
        // Every host runs vector instructions, and encoders gain by them.
        command.env("RUSTFLAGS", "-Ctarget-feature=+simd128");
        if let Some(rustc) = &self.rustc {
            command.env("RUSTC", rustc);
        }
        Ok(command)
    }
}

/// Finds the toolchain, or makes it.
pub fn ready() -> Result<Toolchain> {
    let debian_only = std::env::var_os(CHOICE).is_some_and(|choice| choice == "debian");
    if !debian_only && has_target() {
        return Ok(Toolchain { rustc: None });
    }
    if let Some(directory) = debian_directory()?
        && directory.join("complete").exists()
    {
        return Ok(from_debian(&directory));
    }
    if !debian_only && process::succeeds(Command::new("rustup").arg("--version")) {
        println!("guest toolchain: adding {TARGET} with rustup");
        match process::run(Command::new("rustup").args(["target", "add", TARGET])) {
            Ok(()) if has_target() => return Ok(Toolchain { rustc: None }),
            Ok(()) => println!("rustup added {TARGET} to another compiler than the one in use"),
            Err(error) => println!("{error}; taking Debian's compiler instead"),
        }
    }
    build_from_debian()
}

/// Whether the compiler cargo takes has the standard library for guests.
fn has_target() -> bool {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", TARGET]);
    let Ok(output) = rustc.output() else {
        return false;
    };
    let directory = String::from_utf8_lossy(&output.stdout);
    output.status.success() && has_std(Path::new(directory.trim()))
}

fn has_std(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|entries| {
        entries
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
    })
}

fn from_debian(directory: &Path) -> Toolchain {
    Toolchain {
        rustc: Some(directory.join("bin/rustc")),
    }
}

/// Release number of Debian's compiler, such as `1.96.0`, when it is installed with sources.
fn debian_release() -> Result<Option<String>> {
    if !Path::new(DEBIAN_RUSTC).exists() {
        return Ok(None);
    }
    let verbose = process::output(Command::new(DEBIAN_RUSTC).arg("-vV"))?;
    let release = field(&verbose, "release")
        .with_context(|| format!("`{DEBIAN_RUSTC} -vV` does not tell its release"))?;
    Ok(Some(release).filter(|release| sources(release).exists()))
}

fn field(verbose: &str, name: &str) -> Option<String> {
    verbose
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        .map(str::to_owned)
}

fn sources(release: &str) -> PathBuf {
    PathBuf::from(format!("/usr/src/rustc-{release}"))
}

/// Where the toolchain made from Debian's compiler is kept: one directory for each release.
fn debian_directory() -> Result<Option<PathBuf>> {
    let Some(release) = debian_release()? else {
        return Ok(None);
    };
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|cache| cache.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .context("no cache directory: set XDG_CACHE_HOME or HOME")?;
    let name = format!("mz-wasm-sink/guest-toolchain-{release}");
    Ok(Some(cache.join(name)))
}

fn build_from_debian() -> Result<Toolchain> {
    if debian_release()?.is_none() {
        setup::apt_install(
            &["rustc-web", "rust-web-src"],
            "a Rust compiler with library sources, from which to build guests",
        )?;
    }
    let (Some(release), Some(directory)) = (debian_release()?, debian_directory()?) else {
        bail!("{DEBIAN_RUSTC} and its sources under /usr/src are of different releases");
    };
    let started = Instant::now();
    println!("guest toolchain: building the standard library of Rust {release} for {TARGET}");
    if directory.exists() {
        // Left by a build that was interrupted.
        fs::remove_dir_all(&directory)
            .with_context(|| format!("removing {}", directory.display()))?;
    }
    link_sysroot(&directory, &sources(&release))?;
    let toolchain = from_debian(&directory);
    build_std(&toolchain, &directory)?;
    // Cargo tells compilers apart by their version, not by their library.
    let stale = process::root()?.join("target/guest-build").join(TARGET);
    if stale.exists() {
        fs::remove_dir_all(&stale).with_context(|| format!("removing {}", stale.display()))?;
    }
    fs::write(directory.join("complete"), [])?;
    println!(
        "guest toolchain: {} built in {} s",
        directory.display(),
        started.elapsed().as_secs()
    );
    Ok(toolchain)
}

/// A sysroot made of links: Debian's host library, its sources, and the linker rustup ships.
fn link_sysroot(directory: &Path, sources: &Path) -> Result<()> {
    let host = field(&process::output(Command::new("rustc").arg("-vV"))?, "host")
        .context("`rustc -vV` does not tell its host")?;
    let sysroot = process::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let linker = Path::new(sysroot.trim()).join(format!("lib/rustlib/{host}/bin/rust-lld"));
    if !linker.exists() {
        bail!(
            "{} is missing: install Rust with rustup, or the {TARGET} target of your compiler",
            linker.display()
        );
    }
    let libraries = directory.join("lib/rustlib");
    for made in [
        directory.join("bin"),
        libraries.join(&host).join("bin"),
        libraries.join(TARGET).join("lib"),
        libraries.join("src"),
    ] {
        fs::create_dir_all(&made).with_context(|| format!("creating {}", made.display()))?;
    }
    let debian = Path::new("/usr/lib/rustlib").join(&host).join("lib");
    symlink(debian, libraries.join(&host).join("lib"))?;
    symlink(linker, libraries.join(&host).join("bin/rust-lld"))?;
    symlink(sources, libraries.join("src/rust"))?;

    // A link instead of a script would make rustc look for its libraries in /usr. The variable
    // comes from the outer cargo and points at the libraries of another compiler.
    let rustc = directory.join("bin/rustc");
    let script = format!(
        "#!/bin/sh\nunset LD_LIBRARY_PATH\nexec {DEBIAN_RUSTC} --sysroot '{}' \"$@\"\n",
        directory.display()
    );
    fs::write(&rustc, script)?;
    fs::set_permissions(&rustc, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Builds the standard library by way of an empty crate and copies it into the sysroot.
fn build_std(toolchain: &Toolchain, directory: &Path) -> Result<()> {
    let build = directory.join("build");
    fs::create_dir_all(build.join("src"))?;
    fs::write(
        build.join("Cargo.toml"),
        "[package]\nname = \"empty\"\nedition = \"2024\"\n[workspace]\n",
    )?;
    fs::write(build.join("src/lib.rs"), "")?;
    let mut command = toolchain.cargo(&["build", "--release", "--target", TARGET])?;
    command
        .args(["-Zbuild-std=std,panic_abort", "--target-dir", "target"])
        .env("RUSTC_BOOTSTRAP", "1")
        // Link-time optimisation of guests takes the library in as well; cargo leaves this out.
        .env("RUSTFLAGS", "-Cembed-bitcode=yes")
        .current_dir(&build);
    process::run(&mut command)?;

    let built = build.join("target").join(TARGET).join("release/deps");
    let kept = directory.join("lib/rustlib").join(TARGET).join("lib");
    for entry in fs::read_dir(&built).with_context(|| format!("reading {}", built.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "rlib")
            && let Some(name) = path.file_name()
            && !name.to_string_lossy().starts_with("libempty-")
        {
            fs::copy(&path, kept.join(name))?;
        }
    }
    if !has_std(&kept) {
        bail!(
            "the standard library was built but not found in {}",
            built.display()
        );
    }
    fs::remove_dir_all(&build)?;
    Ok(())
}

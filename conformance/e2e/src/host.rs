//! The program under test, as a process of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{API_KEY, programs};

/// A running `mz-wasm-sink run`. Dropping it ends it.
pub struct Host {
    child: Child,
    output: PathBuf,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output and standard error.
    pub output: String,
}

impl Host {
    /// Starts the turbopuffer sink; the file holds its configuration.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(config: &Path) -> anyhow::Result<Self> {
        Self::start_component(&programs::component()?, config)
    }

    /// Starts any file as the component.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_component(component: &Path, config: &Path) -> anyhow::Result<Self> {
        let component = component.as_os_str();
        let arguments = [
            "run".as_ref(),
            component,
            "--config".as_ref(),
            config.as_ref(),
        ];
        Self::start_with(&arguments, config.parent().context("no folder")?)
    }

    /// Starts it with any arguments; its output goes to a file in `folder`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_with(arguments: &[&std::ffi::OsStr], folder: &Path) -> anyhow::Result<Self> {
        let program = programs::program()?;
        let (file, output) = tempfile::NamedTempFile::new_in(folder)?.keep()?;
        let child = Command::new(&program)
            .args(arguments)
            .env("TURBOPUFFER_API_KEY", API_KEY)
            .env_remove("MATERIALIZE_URL")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, output })
    }

    /// Ends it at once, as a crash does.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill_9(mut self) -> anyhow::Result<Ended> {
        self.child.kill()?;
        let code = self.child.wait()?.code();
        Ok(Ended {
            code,
            output: self.output(),
        })
    }

    /// Asks for a clean end with SIGTERM.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn terminate(&self) -> anyhow::Result<()> {
        Ok(kill(
            Pid::from_raw(self.child.id().try_into()?),
            Signal::SIGTERM,
        )?)
    }

    /// Stops it for a while (SIGSTOP), or lets it go on.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn pause(&self, pauses: bool) -> anyhow::Result<()> {
        let signal = match pauses {
            true => Signal::SIGSTOP,
            false => Signal::SIGCONT,
        };
        Ok(kill(Pid::from_raw(self.child.id().try_into()?), signal)?)
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn runs(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// What it has written so far.
    #[must_use]
    pub fn output(&self) -> String {
        let bytes = std::fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// When it does not within `patience`.
    pub async fn end(mut self, patience: Duration) -> anyhow::Result<Ended> {
        let started = Instant::now();
        while started.elapsed() < patience {
            if let Some(status) = self.child.try_wait()? {
                let output = self.output();
                return Ok(Ended {
                    code: status.code(),
                    output,
                });
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        bail!("it did not end within {patience:?}:\n{}", self.output())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

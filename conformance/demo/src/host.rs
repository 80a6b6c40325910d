//! The program under demonstration, as a process of its own.

use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tempfile::TempDir;

/// What the emulator asks for.
pub const API_KEY: &str = "demo-key";

/// How long a clean end may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running `mz-wasm-sink run`. Dropping it ends it.
pub struct Host {
    child: Child,
    _folder: TempDir,
}

impl Host {
    /// Writes a configuration and starts the program.
    pub fn start(
        program: &Path,
        component: &Path,
        materialize_url: &str,
        turbopuffer_url: &str,
        object: &str,
        key: &[String],
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("mz-wasm-sink.toml");
        std::fs::write(
            &config,
            format!(
                "sink_id = \"demo\"\n\n[materialize]\nurl = {url}\n\n[source]\nobject = {object}\nkey = {key}\n\n\
                 [grants]\nhttp = [{target}]\n\n[secrets.turbopuffer_api_key]\nenv = \"TURBOPUFFER_API_KEY\"\n\n\
                 [sink]\nbase_url = {target}\nnamespace = \"demo\"\n",
                url = json!(materialize_url),
                object = json!(object),
                key = json!(key),
                target = json!(turbopuffer_url),
            ),
        )?;
        let child = Command::new(program)
            .arg("run")
            .arg(component)
            .arg("--config")
            .arg(&config)
            .env("TURBOPUFFER_API_KEY", API_KEY)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self {
            child,
            _folder: folder,
        })
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Asks for a clean end and waits for it.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        kill(Pid::from_raw(self.child.id().try_into()?), Signal::SIGTERM)?;
        for _ in 0..PATIENCE.as_millis() / 20 {
            match self.ended()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("mz-wasm-sink was asked to stop and ended with {status}"),
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        bail!("mz-wasm-sink did not stop within {} s", PATIENCE.as_secs())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Both fail when it has ended already, as it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

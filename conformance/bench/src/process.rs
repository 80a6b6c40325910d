//! Processes that are measured, and ended when dropped.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

/// A process started for a measurement.
pub struct Process {
    child: Child,
}

/// What the kernel says a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time, in seconds.
    pub cpu_seconds: f64,
    /// The most memory it has had, in bytes.
    pub peak_bytes: u64,
}

impl Process {
    /// Starts a process.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { child })
    }

    /// Starts a server and waits for the line that says where it listens.
    pub fn server(command: &mut Command) -> anyhow::Result<(Self, String)> {
        let mut process = Self::start(command.stdout(Stdio::piped()))?;
        let output = process.child.stdout.take().context("no output")?;
        for line in BufReader::new(output).lines() {
            if let Some(url) = line?.strip_prefix("listening on ") {
                return Ok((process, url.into()));
            }
        }
        bail!(
            "{} did not say where it listens",
            command.get_program().display()
        )
    }

    /// Fails when it has ended.
    pub fn check_running(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("a contender ended early with {status}"),
        }
    }

    /// Waits for a process that ends by itself; false while it runs.
    pub fn has_succeeded(&mut self) -> anyhow::Result<bool> {
        match self.child.try_wait()? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => bail!("a contender ended with {status}"),
        }
    }

    /// What it has used so far.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        let folder = format!("/proc/{}", self.child.id());
        let stat = std::fs::read_to_string(format!("{folder}/stat"))?;
        // Fields are counted behind the name, which may hold spaces.
        let fields: Vec<_> = stat
            .rsplit_once(')')
            .context("unexpected /proc/PID/stat")?
            .1
            .split_whitespace()
            .collect();
        let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        let status = std::fs::read_to_string(format!("{folder}/status"))?;
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|line| line.split_whitespace().next())
            .context("no VmHWM")?;
        Ok(Usage {
            cpu_seconds: ticks / 100.0,
            peak_bytes: peak.parse::<u64>()? * 1024,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

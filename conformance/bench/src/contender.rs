//! One contender's run over fresh servers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::process::Process;
use crate::target;

/// The object that is moved.
pub const OBJECT: &str = "materialize.public.bench";

/// Something that moves rows.
pub struct Contender {
    /// Its name in the table.
    pub name: &'static str,
    program: PathBuf,
    arguments: Vec<PathBuf>,
    ends_by_itself: bool,
}

/// What one run took.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Rows moved.
    pub rows: u64,
    /// From start to commit.
    pub seconds: f64,
    /// CPU time of the contender.
    pub cpu_seconds: f64,
    /// Peak memory of the contender.
    pub peak_bytes: u64,
    /// CPU time of the simulated Materialize.
    pub materialize_cpu: f64,
    /// CPU time of the emulator.
    pub turbopuffer_cpu: f64,
}

impl Run {
    /// Throughput.
    pub fn rows_per_second(&self) -> f64 {
        self.rows as f64 / self.seconds
    }
}

impl Contender {
    /// The sink in the sandbox.
    pub fn wasm(binaries: &Path, component: &Path) -> Self {
        Self {
            name: "wasm",
            program: binaries.join("mz-wasm-sink"),
            arguments: ["run", "--progress", "none"]
                .map(PathBuf::from)
                .into_iter()
                .chain([component.into(), "--config".into()])
                .collect(),
            ends_by_itself: false,
        }
    }

    /// The sink as native code.
    pub fn native(binaries: &Path) -> Self {
        Self {
            name: "native",
            program: binaries.join("bench"),
            arguments: vec!["native".into(), "--config".into()],
            ends_by_itself: false,
        }
    }

    /// The loop that a user would write first.
    pub fn python(python: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/loop.py");
        Self {
            name: "python",
            program: python.into(),
            arguments: vec![script],
            ends_by_itself: true,
        }
    }

    /// Moves `rows` rows.
    pub async fn run(&self, binaries: &Path, rows: u64) -> anyhow::Result<Run> {
        let (materialize, materialize_url) = Process::server(
            Command::new(binaries.join("materialize-sim")).args(["--bench", &rows.to_string()]),
        )?;
        let (turbopuffer, turbopuffer_url) =
            Process::server(&mut Command::new(binaries.join("turbopuffer-sim")))?;
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("bench.toml");
        std::fs::write(&config, configuration(&materialize_url, &turbopuffer_url))?;
        let client = reqwest::Client::new();

        let started = Instant::now();
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .arg(&config)
            .env("API_KEY", "bench-key")
            .env("RUST_LOG", "warn")
            .stdout(Stdio::null());
        if self.ends_by_itself {
            command
                .env("MATERIALIZE_URL", &materialize_url)
                .env("TURBOPUFFER_BASE_URL", &turbopuffer_url)
                .env("ROWS", rows.to_string());
        } else {
            command.stderr(Stdio::inherit());
        }
        let mut process = Process::start(&mut command)?;
        let mut usage = process.usage()?;
        loop {
            // A process that has ended has no usage any more: keep the last one.
            usage = process.usage().unwrap_or(usage);
            let done = if self.ends_by_itself {
                process.has_succeeded()?
            } else {
                process.check_running()?;
                target::is_committed(&client, &turbopuffer_url).await?
            };
            if done {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let seconds = started.elapsed().as_secs_f64();
        usage = process.usage().unwrap_or(usage);
        let (materialize_cpu, turbopuffer_cpu) = (
            materialize.usage()?.cpu_seconds,
            turbopuffer.usage()?.cpu_seconds,
        );
        target::check_count(&client, &turbopuffer_url, rows).await?;
        Ok(Run {
            rows,
            seconds,
            cpu_seconds: usage.cpu_seconds,
            peak_bytes: usage.peak_bytes,
            materialize_cpu,
            turbopuffer_cpu,
        })
    }
}

/// The configuration of a run.
pub fn configuration(materialize_url: &str, turbopuffer_url: &str) -> String {
    format!(
        "sink_id = \"bench\"\n[materialize]\nurl = {url}\n[source]\nobject = \"{OBJECT}\"\nkey = [\"id\"]\n\
         [grants]\nhttp = [{target}]\n[secrets.turbopuffer_api_key]\nenv = \"API_KEY\"\n\
         [sink]\nbase_url = {target}\nnamespace = \"bench\"\n",
        url = json!(materialize_url),
        target = json!(turbopuffer_url),
    )
}

//! The two servers of one test.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use materialize_sim::Control;
use mz_sink_source::{ConnectOptions, Session};

use crate::{Committed, Host, PATIENCE, Target, config, programs, proof};

/// Rows as text, `None` for NULL.
pub type Rows = Vec<Vec<Option<String>>>;

/// Materialize and turbopuffer, and a folder for files.
pub struct World {
    /// The emulator, for faults and its request log.
    pub turbopuffer: turbopuffer_sim::Server,
    /// What a reader of the target sees.
    pub target: Target,
    materialize: Option<materialize_sim::Server>,
    url: String,
    folder: tempfile::TempDir,
}

/// A table in Materialize.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns in order.
    pub columns: Vec<String>,
}

impl World {
    /// With the Materialize at `MZ_TEST_URL` if that is set, else a simulated one. Tables that a
    /// test makes in a real one stay: give it one that can be thrown away.
    ///
    /// # Errors
    /// When a server cannot be started.
    pub async fn start() -> anyhow::Result<Self> {
        match std::env::var("MZ_TEST_URL") {
            Ok(url) => Self::with(None, url).await,
            Err(_) => Self::simulated(materialize_sim::Options::default()).await,
        }
    }

    /// For a test that needs the simulator's control: `None`, with a word about it, when the
    /// tests run against a real Materialize.
    ///
    /// # Errors
    /// When a server cannot be started.
    pub async fn controlled(why: &str) -> anyhow::Result<Option<(Self, Control)>> {
        if std::env::var_os("MZ_TEST_URL").is_some() {
            println!("skipped with MZ_TEST_URL: {why}");
            return Ok(None);
        }
        let world = Self::simulated(materialize_sim::Options::default()).await?;
        let control = world
            .materialize
            .as_ref()
            .context("not simulated")?
            .control();
        Ok(Some((world, control)))
    }

    /// With a simulated Materialize, whatever `MZ_TEST_URL` says.
    ///
    /// # Errors
    /// When a server cannot be started.
    pub async fn simulated(options: materialize_sim::Options) -> anyhow::Result<Self> {
        let tick = Duration::from_millis(20);
        let options = materialize_sim::Options { tick, ..options };
        let server = materialize_sim::Server::start(options).await?;
        let url = server.url();
        Self::with(Some(server), url).await
    }

    async fn with(
        materialize: Option<materialize_sim::Server>,
        url: String,
    ) -> anyhow::Result<Self> {
        let turbopuffer = turbopuffer_sim::Server::start(turbopuffer_sim::Options {
            api_key: Some(crate::API_KEY.into()),
            ..turbopuffer_sim::Options::default()
        })
        .await?;
        Ok(Self {
            target: Target::new(turbopuffer.url()),
            turbopuffer,
            materialize,
            url,
            folder: programs::folder()?,
        })
    }

    /// The control of the simulated Materialize.
    #[must_use]
    pub fn control(&self) -> Option<Control> {
        self.materialize
            .as_ref()
            .map(materialize_sim::Server::control)
    }

    /// The URL of Materialize.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many times slower than the simulator this Materialize is, roughly: a real one closes
    /// a timestamp once a second.
    #[must_use]
    pub fn pace(&self) -> u64 {
        if self.materialize.is_some() { 1 } else { 4 }
    }

    /// A file of this test.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A new session.
    ///
    /// # Errors
    /// When Materialize cannot be reached.
    pub async fn session(&self) -> anyhow::Result<Session> {
        let options = ConnectOptions::parse(&self.url, None)?;
        Ok(Session::connect(&options).await?)
    }

    /// Waits until so many requests have met a fault. Does not ask the emulator, which could
    /// meet one itself.
    ///
    /// # Errors
    /// When that takes too long, or the program ends.
    pub async fn faulted(&self, count: usize, host: &mut Host) -> anyhow::Result<Vec<String>> {
        let started = Instant::now();
        loop {
            let requests = self.turbopuffer.requests();
            let faulted = requests.into_iter().filter(|request| request.faulted);
            let faulted: Vec<_> = faulted
                .map(|r| format!("{} {}", r.method, r.path))
                .collect();
            if faulted.len() >= count {
                return Ok(faulted);
            }
            let late = started.elapsed() > PATIENCE;
            ensure!(!late, "only {faulted:?} met a fault:\n{}", host.output());
            ensure!(host.runs()?, "it ended too early:\n{}", host.output());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Runs statements one by one in a session of their own; the rows of the last one.
    ///
    /// # Errors
    /// When Materialize refuses one.
    pub async fn sql(&self, statements: &[&str]) -> anyhow::Result<Rows> {
        let session = self.session().await?;
        let mut rows = Rows::new();
        for statement in statements {
            let result = session.query(statement).await;
            rows = result.with_context(|| (*statement).to_owned())?.rows;
        }
        session.close().await;
        Ok(rows)
    }

    /// Makes a table with an hour of history, such as `[("k", "int"), ("v", "text")]`.
    ///
    /// # Errors
    /// When Materialize refuses it.
    pub async fn table(&self, columns: &[(&str, &str)]) -> anyhow::Result<Table> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "e2e_{}_{}_{}",
            SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let list: Vec<_> = columns.iter().map(|(c, ty)| format!("{c} {ty}")).collect();
        let list = list.join(", ");
        let sql = format!("CREATE TABLE {name} ({list}) WITH (RETAIN HISTORY FOR '1h')");
        self.sql(&[&sql]).await?;
        let columns = columns.iter().map(|(column, _)| (*column).to_owned());
        Ok(Table {
            name,
            columns: columns.collect(),
        })
    }

    /// A configuration for a table whose key is its first column.
    ///
    /// # Errors
    /// When the component cannot be compiled.
    pub fn config(&self, table: &Table) -> anyhow::Result<String> {
        Ok(config::config(
            &self.url,
            &table.name,
            &[&table.columns[0]],
            &self.turbopuffer.url(),
            &programs::cache()?,
        ))
    }

    /// A configuration for several tables whose keys are their first columns.
    ///
    /// # Errors
    /// When the component cannot be compiled.
    pub fn config_of(&self, tables: &[&Table]) -> anyhow::Result<String> {
        let views: Vec<_> = tables
            .iter()
            .map(|t| {
                format!(
                    "{{ object = \"{}\", key = [\"{}\"] }}",
                    t.name, t.columns[0]
                )
            })
            .collect();
        let one = self.config(tables[0])?;
        let object = format!("object = \"{}\"\n", tables[0].name);
        let key = format!("key = [\"{}\"]\n", tables[0].columns[0]);
        let views = format!("views = [{}]\n", views.join(", "));
        Ok(config::edited(
            &config::edited(&one, &key, ""),
            &object,
            &views,
        ))
    }

    /// Writes the configuration of a table into a file and starts the program with it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn host(&self, table: &Table) -> anyhow::Result<Host> {
        self.host_with(&self.config(table)?)
    }

    /// The same with a given configuration.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn host_with(&self, config: &str) -> anyhow::Result<Host> {
        Host::start(&self.config_file(config)?)
    }

    /// Writes a configuration into a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn config_file(&self, config: &str) -> anyhow::Result<PathBuf> {
        let path = self.file("mz-wasm-sink.toml");
        std::fs::write(&path, config)?;
        Ok(path)
    }

    /// A time of Materialize at or after everything written to the table so far.
    ///
    /// # Errors
    /// When Materialize does not tell.
    pub async fn now(&self, table: &Table) -> anyhow::Result<u64> {
        let sql = format!("SELECT mz_now(), count(*) FROM {}", table.name);
        let rows = self.sql(&[&sql]).await?;
        let text = rows.first().and_then(|row| row.first().cloned().flatten());
        Ok(text.context("mz_now() is empty")?.parse()?)
    }

    /// Waits until everything up to `time` is committed.
    ///
    /// # Errors
    /// When that takes too long, or the program ends.
    pub async fn committed(&self, time: u64, host: &mut Host) -> anyhow::Result<Committed> {
        let started = Instant::now();
        loop {
            match self.target.committed().await? {
                Some(committed) if committed.frontier > time => return Ok(committed),
                last if started.elapsed() > PATIENCE => {
                    bail!("{time} is not committed, only {last:?}:\n{}", host.output())
                }
                _ => {}
            }
            ensure!(host.runs()?, "it ended too early:\n{}", host.output());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for everything written so far and proves it.
    ///
    /// # Errors
    /// When the target does not hold the table.
    pub async fn caught_up(&self, table: &Table, host: &mut Host) -> anyhow::Result<Committed> {
        self.committed(self.now(table).await?, host).await?;
        self.proof(table, Some(host)).await
    }

    /// The same for several tables, which must all be as they were at one time.
    ///
    /// # Errors
    /// When the target does not hold them.
    pub async fn all_caught_up(
        &self,
        tables: &[&Table],
        host: &mut Host,
    ) -> anyhow::Result<Committed> {
        let mut time = 0;
        for table in tables {
            time = time.max(self.now(table).await?);
        }
        self.committed(time, host).await?;
        self.proof_of(tables, Some(host)).await
    }

    /// Compares the target with the table AS OF the committed frontier - 1. With a `host` that
    /// runs, until a look at the target falls between two commits.
    ///
    /// # Errors
    /// With what differs.
    pub async fn proof(&self, table: &Table, host: Option<&Host>) -> anyhow::Result<Committed> {
        self.proof_of(&[table], host).await
    }

    /// The same for several tables at one time.
    ///
    /// # Errors
    /// With what differs.
    pub async fn proof_of(
        &self,
        tables: &[&Table],
        host: Option<&Host>,
    ) -> anyhow::Result<Committed> {
        for _ in 0..50 {
            let before = self.target.committed().await?;
            let before = before.context("nothing is committed")?;
            let mut found = Vec::new();
            for table in tables {
                let namespace = before.namespaces.get(&table.name);
                let namespace = namespace.unwrap_or(&before.namespace);
                found.push(self.target.documents(namespace, false).await?);
            }
            let after = self.target.committed().await?;
            let after = after.context("nothing is committed")?;
            let as_of = before.frontier - 1;
            let mut differences = Vec::new();
            for (table, documents) in tables.iter().zip(&found) {
                let sql = format!("SELECT * FROM {} AS OF {as_of}", table.name);
                let rows = self.sql(&[&sql]).await?;
                differences.extend(proof::differences(&table.columns, &rows, documents));
            }
            if differences.is_empty() {
                return Ok(before);
            }
            if host.is_none() || before == after {
                bail!("AS OF {as_of}:\n{}", differences.join("\n"));
            }
        }
        bail!("no look at the target fell between two commits")
    }
}

//! One sink and what it reads, with the rows that change all the time.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::{Committed, Host, Random, Table, Traffic, World, change, edited};
use materialize_sim::Control;
use tokio::task::JoinHandle;

const COLUMNS: [(&str, &str); 2] = [("k", "int"), ("v", "text")];

/// One sink and what it reads.
pub struct Deployment {
    /// What it is called in messages.
    pub name: &'static str,
    world: Arc<World>,
    control: Control,
    tables: Vec<Table>,
    /// Written once: a worker that starts must not find half a file.
    config: PathBuf,
    last: Option<Committed>,
    traffic: Arc<Traffic>,
    changes: Vec<JoinHandle<Result<u64>>>,
}

impl Deployment {
    /// With so many tables, and rows in them from the first moment on.
    pub async fn new(name: &'static str, tables: usize, random: &mut Random) -> Result<Self> {
        let world = Arc::new(World::simulated(materialize_sim::Options::default()).await?);
        let control = world.control().context("it is not simulated")?;
        let mut made = Vec::new();
        for _ in 0..tables {
            let table = world.table(&COLUMNS).await?;
            let rows: Vec<_> = (1..300).map(|k| format!("(-{k}, 'first')")).collect();
            let insert = format!("INSERT INTO {} VALUES {}", table.name, rows.join(", "));
            world.sql(&[&insert]).await?;
            made.push(table);
        }
        let config = match &made[..] {
            [table] => world.config(table)?,
            several => world.config_of(&several.iter().collect::<Vec<_>>())?,
        };
        // Many small requests, so that most kills fall between two of one batch.
        let sink = "namespace = \"e2e\"\n";
        let config = edited(&config, sink, &format!("{sink}max_request_rows = 10\n"));
        let config = world.config_file(&config)?;
        let traffic = Arc::new(Traffic::default());
        let changes = made
            .iter()
            .map(|table| {
                let change = change(
                    world.clone(),
                    table.name.clone(),
                    random.fork(),
                    traffic.clone(),
                );
                tokio::spawn(change)
            })
            .collect();
        Ok(Self {
            name,
            world,
            control,
            tables: made,
            config,
            last: None,
            traffic,
            changes,
        })
    }

    /// The world in which all this is.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The simulated Materialize, for faults.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The first of its tables.
    pub fn table(&self) -> &str {
        &self.tables[0].name
    }

    /// Another worker.
    pub fn start(&self) -> Result<Host> {
        Host::start(&self.config)
    }

    /// Looks at the checkpoint: it never goes back.
    pub async fn committed(&mut self) -> Result<Option<Committed>> {
        let now = self.look().await?;
        if let Some(last) = &self.last {
            let now = now.as_ref().context("the checkpoint has vanished")?;
            ensure!(
                now.frontier >= last.frontier && now.epoch >= last.epoch,
                "the checkpoint went back from {last:?} to {now:?}"
            );
            ensure!(
                now.namespace == last.namespace && now.namespaces == last.namespaces,
                "a snapshot has replaced {last:?}, now {now:?}"
            );
        }
        self.last.clone_from(&now);
        Ok(now)
    }

    /// A look can meet a fault that is meant for a worker.
    async fn look(&self) -> Result<Option<Committed>> {
        for _ in 0..20 {
            if let Ok(found) = self.world.target.committed().await {
                return Ok(found);
            }
        }
        self.world.target.committed().await
    }

    /// Whether a worker has committed something since `before`.
    pub async fn has_committed(&mut self, before: &Option<Committed>) -> Result<bool> {
        let frontier = |c: &Option<Committed>| c.as_ref().map_or(0, |c| c.frontier);
        Ok(frontier(&self.committed().await?) > frontier(before))
    }

    /// Waits for a worker to have committed all that was written by now, and proves it. Gives the
    /// number of rows that were compared.
    pub async fn prove(&mut self, host: &mut Host) -> Result<usize> {
        let traffic = self.traffic.clone();
        // A write in flight would show, as it does to readers between two commits.
        let _quiet = traffic.quiet().await;
        let tables: Vec<_> = self.tables.iter().collect();
        self.world.all_caught_up(&tables, host).await?;
        let committed = self.committed().await?.context("nothing is committed")?;
        let mut rows = 0;
        for table in &self.tables {
            let namespace = committed.namespaces.get(&table.name);
            let namespace = namespace.unwrap_or(&committed.namespace);
            rows += self.world.target.documents(namespace, false).await?.len();
        }
        Ok(rows)
    }

    /// How often a snapshot was asked for after something was committed.
    pub fn late_snapshots(&self) -> usize {
        let statements = self.control.statements();
        let subscribes = statements.iter().filter(|sql| sql.contains("SUBSCRIBE"));
        let resumes = |sql: &&String| sql.contains("SNAPSHOT = false");
        let after = subscribes.skip_while(|sql| !resumes(sql));
        after.filter(|sql| !resumes(sql)).count()
    }

    /// How often it was resumed without one.
    pub fn resumes(&self) -> usize {
        let statements = self.control.statements();
        let resumed = statements
            .iter()
            .filter(|sql| sql.contains("SNAPSHOT = false"));
        resumed.count()
    }

    /// Keeps the folder with the output of every worker, and says where it is.
    pub fn keep(&self) -> PathBuf {
        // The folder goes away with the world, so the world must stay.
        std::mem::forget(self.world.clone());
        self.config.with_file_name("")
    }

    /// Ends the changes; how many there were.
    pub async fn finish(self) -> Result<u64> {
        self.traffic.stop();
        let mut changes = 0;
        for of_table in self.changes {
            changes += of_table.await??;
        }
        Ok(changes)
    }
}

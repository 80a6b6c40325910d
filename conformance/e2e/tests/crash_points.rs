//! Killed between any two requests to the target, before or after the last of them was applied,
//! the next worker makes the target right.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use anyhow::Context;
use e2e::{PATIENCE, Table, World, edited};
use turbopuffer_sim::{Fault, FaultRule, Match};

const WHY: &str = "a real one is not broken on purpose";

/// Rows of the table, in requests of [`ROWS_A_REQUEST`].
const ROWS: u32 = 9;

const ROWS_A_REQUEST: u32 = 4;

/// What the worker is doing when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its first start: epoch, namespace, snapshot, switch.
    Start,
    /// A batch of changes and deletions.
    Changes,
    /// Another object has taken the name, and is loaded into a new namespace.
    NewSnapshot,
    /// Housekeeping: what was retired is deleted.
    Housekeeping,
    /// The start of a worker after another.
    Restart,
}

/// Where the requests go that are counted. Those to the control namespace do not end: while
/// nothing happens, the frontier moves.
#[derive(Clone, Copy, Debug)]
enum To {
    Views,
    Control,
}

/// One crash.
struct Crash {
    world: World,
    control: materialize_sim::Control,
    /// In a schema that can be swapped.
    table: Table,
    schema: String,
    config: String,
}

impl Crash {
    async fn new() -> Option<Self> {
        let (world, control) = World::controlled(WHY).await.unwrap()?;
        let any = world.table(&[("k", "int"), ("v", "text")]).await.unwrap();
        let schema = format!("s_{}", any.name);
        let create = |side: &str| {
            format!("CREATE TABLE {schema}_{side}.t (k int, v text) WITH (RETAIN HISTORY FOR '1h')")
        };
        let statements = [
            format!("CREATE SCHEMA {schema}_a"),
            format!("CREATE SCHEMA {schema}_b"),
            create("a"),
            create("b"),
            insert(&format!("{schema}_a.t"), 0, "old"),
            insert(&format!("{schema}_b.t"), 3, "new"),
        ];
        let statements = statements.each_ref().map(String::as_str);
        world.sql(&statements).await.unwrap();
        let table = Table {
            name: format!("{schema}_a.t"),
            ..any
        };
        let config = world.config(&table).unwrap();
        let small = format!("[sink]\nmax_request_rows = {ROWS_A_REQUEST}\nretired_grace = \"0s\"");
        let config = edited(&config, "[sink]", &small);
        let config = edited(&config, "[source]", "[source]\nrefollow = true");
        let config = edited(
            &config,
            "[commit]",
            "[commit]\nmaintenance_interval = \"1s\"",
        );
        Some(Self {
            world,
            control,
            table,
            schema,
            config,
        })
    }

    /// Puts another table in the place of this one.
    fn swap(&self) {
        let schema = &self.schema;
        let (a, b) = (format!("{schema}_a"), format!("{schema}_b"));
        self.control.swap_schemas(&a, &b).unwrap();
        self.control.drop_object(&format!("{b}.t")).unwrap();
    }

    /// Kills a worker in this stage at the request after `requests`.
    async fn kill_at(&self, stage: Stage, to: To, requests: u64, is_applied: bool) {
        let (world, table) = (&self.world, &self.table);
        let mut host = None;
        if stage != Stage::Start {
            let mut first = world.host_with(&self.config).unwrap();
            world.caught_up(table, &mut first).await.unwrap();
            if stage == Stage::Housekeeping {
                let former = world.target.committed().await.unwrap().unwrap();
                self.swap();
                self.is_not(&former.namespace).await;
            }
            match stage {
                Stage::Restart => drop(first.kill_9().unwrap()),
                _ => host = Some(first),
            }
        }
        // From the crash on nothing is answered, so the rest of what is under way is lost, too.
        let prefix = match to {
            To::Views => "/v2/namespaces/e2e-",
            To::Control => "/v2/namespaces/checkpoints",
        };
        let rule = |skip, times, fault| FaultRule {
            matches: Match {
                path_prefix: Some(prefix.into()),
                ..Match::default()
            },
            skip,
            times,
            fault,
        };
        let dropped = Fault {
            drop_after_apply: true,
            ..Fault::default()
        };
        let hang = Fault {
            hang: true,
            ..Fault::default()
        };
        if is_applied {
            world.turbopuffer.add_faults([rule(requests, 1, dropped)]);
        }
        world
            .turbopuffer
            .add_faults([rule(requests, u64::MAX, hang)]);
        match stage {
            Stage::Start | Stage::Restart => host = Some(world.host_with(&self.config).unwrap()),
            Stage::Changes => {
                let t = &table.name;
                let update = format!("UPDATE {t} SET v = 'changed'");
                let delete = |k: u32| format!("DELETE FROM {t} WHERE k = {k}");
                let changes = [update, delete(ROWS - 1), delete(ROWS - 2)];
                let changes = changes.each_ref().map(String::as_str);
                world.sql(&changes).await.unwrap();
            }
            Stage::NewSnapshot => self.swap(),
            Stage::Housekeeping => {}
        }
        let mut host = host.unwrap();
        let reached = world.faulted(1, &mut host).await;
        reached
            .with_context(|| format!("{stage:?} {to:?} {requests}"))
            .unwrap();
        host.kill_9().unwrap();
        world.turbopuffer.clear_faults();
    }

    /// Waits until readers are sent to another namespace.
    async fn is_not(&self, former: &str) {
        let started = std::time::Instant::now();
        while started.elapsed() < PATIENCE {
            let committed = self.world.target.committed().await.unwrap().unwrap();
            if committed.namespace != former {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("{former} is still active");
    }

    /// What the next worker makes of it.
    async fn is_right_after(&self, before: Option<u64>) {
        let mut host = self.world.host_with(&self.config).unwrap();
        let after = self.world.caught_up(&self.table, &mut host).await.unwrap();
        assert!(before.is_none_or(|before| before <= after.frontier));
    }
}

fn insert(table: &str, from: u32, value: &str) -> String {
    let rows: Vec<_> = (from..from + ROWS)
        .map(|k| format!("({k}, '{value}')"))
        .collect();
    format!("INSERT INTO {table} VALUES {}", rows.join(", "))
}

/// Kills at each of the first requests that belong to the stage.
async fn every_request(stage: Stage, to: To, requests: u64) {
    for is_applied in [false, true] {
        for request in 0..requests {
            let Some(crash) = Crash::new().await else {
                return;
            };
            crash.kill_at(stage, to, request, is_applied).await;
            let committed = crash.world.target.committed().await.unwrap();
            crash.is_right_after(committed.map(|c| c.frontier)).await;
        }
    }
}

#[tokio::test]
async fn a_first_start_may_be_killed_at_any_request() {
    // The namespace is made, and the rows need three requests.
    every_request(Stage::Start, To::Views, 4).await;
    every_request(Stage::Start, To::Control, 4).await;
}

#[tokio::test]
async fn a_batch_of_changes_may_be_killed_at_any_request() {
    every_request(Stage::Changes, To::Views, 3).await;
    every_request(Stage::Changes, To::Control, 4).await;
}

#[tokio::test]
async fn a_new_snapshot_may_be_killed_at_any_request() {
    every_request(Stage::NewSnapshot, To::Views, 4).await;
    every_request(Stage::NewSnapshot, To::Control, 4).await;
}

#[tokio::test]
async fn housekeeping_may_be_killed_at_any_request() {
    every_request(Stage::Housekeeping, To::Views, 1).await;
    every_request(Stage::Housekeeping, To::Control, 4).await;
}

#[tokio::test]
async fn a_restart_may_be_killed_at_any_request() {
    every_request(Stage::Restart, To::Views, 1).await;
    every_request(Stage::Restart, To::Control, 4).await;
}

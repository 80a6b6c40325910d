//! A query is looked at: closed batches as JSON lines.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use e2e::{PATIENCE, Table, World, program};
use serde_json::Value;

const COLUMNS: [(&str, &str); 2] = [("k", "int"), ("v", "text")];

const WHY: &str = "a real one is not broken on purpose";

/// A running `tail`. Reading its output blocks, so that the servers need threads of their own.
struct Tail {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Tail {
    fn start(world: &World, arguments: &[&str]) -> Self {
        let mut child = Command::new(program().unwrap())
            .arg("tail")
            .args(arguments)
            .env("MATERIALIZE_URL", world.url())
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// The next line; `None` at the end.
    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    /// The next lines until one has a row with this in column `column`.
    fn until(&mut self, column: &str, value: Value) -> Vec<Value> {
        let mut rows = Vec::new();
        while let Some(batch) = self.next() {
            let (lower, upper) = (batch["lower"].as_u64(), batch["upper"].as_u64().unwrap());
            for row in batch["rows"].as_array().unwrap() {
                let time = row["ts"].as_u64().unwrap();
                assert!(lower.is_none_or(|lower| lower <= time) && time < upper);
                rows.push(row.clone());
            }
            if rows.iter().any(|row| row["row"][column] == value) {
                return rows;
            }
        }
        panic!("it ended:\n{}", self.end(None).1);
    }

    /// Waits for the end; exit code, and what it said.
    fn end(&mut self, signal: Option<nix::sys::signal::Signal>) -> (Option<i32>, String) {
        if let Some(signal) = signal {
            let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
            nix::sys::signal::kill(pid, signal).unwrap();
        }
        let started = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if started.elapsed() > PATIENCE {
                self.child.kill().unwrap();
                panic!("it does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        assert!(!said.contains("panicked"), "{said}");
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn table(world: &World) -> Table {
    let table = world.table(&COLUMNS).await.unwrap();
    let insert = format!("INSERT INTO {} VALUES (1, 'a'), (2, 'b')", table.name);
    world.sql(&[&insert]).await.unwrap();
    table
}

async fn insert(world: &World, table: &Table, key: u32) {
    let insert = format!("INSERT INTO {} VALUES ({key}, 'later')", table.name);
    world.sql(&[&insert]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_shown_with_its_snapshot_and_then_its_changes() {
    let world = World::start().await.unwrap();
    let table = table(&world).await;
    let mut tail = Tail::start(&world, &[&table.name]);
    let snapshot = tail.next().unwrap();
    assert_eq!(snapshot["format"], 1);
    assert_eq!(
        (&snapshot["snapshot"], &snapshot["last"]),
        (&true.into(), &true.into())
    );
    let mut keys: Vec<_> = snapshot["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["row"]["k"].as_u64())
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, [Some(1), Some(2)]);
    insert(&world, &table, 3).await;
    let delete = format!("DELETE FROM {} WHERE k = 1", table.name);
    world.sql(&[&delete]).await.unwrap();
    insert(&world, &table, 4).await;
    let rows = tail.until("k", 4.into());
    let told: Vec<_> = rows
        .iter()
        .map(|r| (r["op"].as_str().unwrap(), r["row"]["k"].as_u64().unwrap()))
        .collect();
    assert_eq!(told, [("put", 3), ("delete", 1), ("put", 4)]);
    let (code, said) = tail.end(Some(nix::sys::signal::SIGTERM));
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_shown_in_texts_and_keys_make_it_upserts() {
    let world = World::start().await.unwrap();
    let table = table(&world).await;
    let query = format!("SELECT k + 1 AS next FROM {}; -- all", table.name);
    let mut tail = Tail::start(&world, &[query.trim_end_matches("; -- all")]);
    tail.until("next", "2".into());
    let query = format!("SELECT k, v FROM {} -- all", table.name);
    let mut keyed = Tail::start(&world, &[&query, "--key", "k"]);
    keyed.until("k", "2".into());
    let update = format!("UPDATE {} SET v = 'new' WHERE k = 2", table.name);
    world.sql(&[&update]).await.unwrap();
    let rows = keyed.until("v", "new".into());
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["op"], "put");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_begins_and_ends_when_it_is_told_to() {
    let world = World::start().await.unwrap();
    let table = table(&world).await;
    let from = world.now(&table).await.unwrap();
    insert(&world, &table, 3).await;
    let bound = world.now(&table).await.unwrap() + 1_500 * world.pace();
    let (from, bound) = (from.to_string(), bound.to_string());
    let arguments = [
        &table.name,
        "--no-snapshot",
        "--as-of",
        &from,
        "--up-to",
        &bound,
    ];
    let mut tail = Tail::start(&world, &arguments);
    let rows = tail.until("k", 3.into());
    assert_eq!(rows.len(), 1, "{rows:?}");
    let mut upper = Value::Null;
    while let Some(batch) = tail.next() {
        upper = batch["upper"].clone();
    }
    assert_eq!(upper.to_string(), bound);
    let (code, said) = tail.end(None);
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_constant_collection_ends() {
    let world = World::start().await.unwrap();
    let mut tail = Tail::start(&world, &["VALUES (1, 'a')"]);
    let mut last = Value::Null;
    let mut rows = 0;
    while let Some(batch) = tail.next() {
        rows += batch["rows"].as_array().unwrap().len();
        last = batch;
    }
    assert_eq!((rows, &last["upper"]), (1, &u64::MAX.to_string().into()));
    assert_eq!(tail.end(None).0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let world = World::start().await.unwrap();
    let table = table(&world).await;
    let mut tail = Tail::start(&world, &[&table.name, "--idle-interval", "10ms"]);
    tail.next().unwrap();
    // A reader that goes away, as `head` does.
    let devnull = std::fs::File::open("/dev/null").unwrap();
    let Tail { child, out } = &mut tail;
    drop(std::mem::replace(
        out,
        BufReader::new(ChildStdout::from(std::os::fd::OwnedFd::from(devnull))),
    ));
    assert!(
        child
            .try_wait()
            .unwrap()
            .is_none_or(|status| status.success())
    );
    let (code, said) = tail.end(None);
    assert_eq!((code, said.as_str()), (Some(0), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_does_not_make_the_server_keep_rows() {
    let Some((world, control)) = World::controlled(WHY).await.unwrap() else {
        return;
    };
    let table = table(&world).await;
    control.set_max_buffered_bytes(Some(256 << 10));
    let mut tail = Tail::start(&world, &[&table.name, "--memory", "1MiB"]);
    tail.next().unwrap();
    let large = "x".repeat(100_000);
    for key in 10..100 {
        let insert = format!("INSERT INTO {} VALUES ({key}, '{large}')", table.name);
        world.sql(&[&insert]).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    insert(&world, &table, 5).await;
    let rows = tail.until("k", 5.into());
    assert_eq!(rows.len(), 91);

    // What does not fit on disk either is the end, not a gap.
    let mut tail = Tail::start(
        &world,
        &[&table.name, "--memory", "100KB", "--spill", "1MB"],
    );
    let (code, said) = tail.end(None);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("raise --spill"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_shown_is_told_with_the_next_step() {
    let Some((world, control)) = World::controlled(WHY).await.unwrap() else {
        return;
    };
    let table = table(&world).await;
    let t = &table.name;
    let old = world.now(&table).await.unwrap();
    control.compact(t, old + 1_000_000).ok();
    for (arguments, text) in [
        (vec!["no_such_object"], "error[unknown-object]"),
        (vec!["SELECT * FROM no_such_object"], "no_such_object"),
        (vec!["(SELEC 1)"], "error[server-error]"),
        (vec!["a.b.c.d"], "error[catalog]"),
        (vec![t, "--key", "nope"], "nope"),
        (vec![t, "--as-of", "1"], "a later --as-of"),
    ] {
        let mut tail = Tail::start(&world, &arguments);
        let (code, said) = tail.end(None);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains(text), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let mut tail = Tail::start(&world, &[t]);
    tail.next().unwrap();
    control.kill_connections();
    let (code, said) = tail.end(None);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("a tail is never resumed"), "{said}");

    let mut tail = Tail::start(&world, &[t]);
    tail.next().unwrap();
    control.drop_object(t).unwrap();
    let (code, said) = tail.end(None);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("error[object-dropped]"), "{said}");
}

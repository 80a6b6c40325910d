//! The run loop with a scripted source and a model target, in paused time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mz_sink_core::batch::{BatchRows, Failure, SinkError};
use mz_sink_core::catalog::Table;
use mz_sink_core::chunk::Value;
use mz_sink_core::decode::Fields;
use mz_sink_core::retry::RetryPolicy;
use mz_sink_core::server_error::{ErrorKind, ServerError};
use mz_sink_core::session::{Outcome, SessionConfig, SessionError, ViewConfig};
use mz_sink_core::types::{Envelope, Op, View};
use mz_sink_driver::{BlockEnd, LogDeadLetters, Options, Progress, RowBlock, Sink, Source, run};
use tokio::sync::watch;

type TextRow = Vec<Option<String>>;

/// One step of the change stream.
#[derive(Clone)]
enum Step {
    Rows(Vec<TextRow>),
    /// The FETCH in progress ends.
    EndOfFetch,
    /// The connection closes.
    Lost,
    /// Nothing more for now.
    Quiet,
}

fn progress(time: u64) -> TextRow {
    vec![Some(time.to_string()), Some("t".into()), None, None, None]
}

fn upsert(time: u64, id: u64, text: &str) -> TextRow {
    let text = Some(text.to_string());
    vec![
        Some(time.to_string()),
        Some("f".into()),
        Some("upsert".into()),
        Some(id.to_string()),
        text,
    ]
}

fn delete(time: u64, id: u64) -> TextRow {
    vec![
        Some(time.to_string()),
        Some("f".into()),
        Some("delete".into()),
        Some(id.to_string()),
        None,
    ]
}

/// Answers look-ups for `db.s.t (id uint8, v text)` and plays a script for each connection.
struct Script {
    connections: VecDeque<VecDeque<Step>>,
    now: VecDeque<Step>,
    statements: Arc<Mutex<Vec<String>>>,
}

#[derive(Default)]
struct Block(Vec<TextRow>);

struct BlockRow<'a>(&'a TextRow);

impl Fields for BlockRow<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize) -> Option<&[u8]> {
        self.0[index].as_deref().map(str::as_bytes)
    }
}

impl RowBlock for Block {
    type Row<'a> = BlockRow<'a>;

    fn names(&self) -> &[String] {
        static NAMES: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
            ["mz_timestamp", "mz_progressed", "mz_state", "id", "v"]
                .map(Into::into)
                .into()
        });
        &NAMES
    }

    fn rows(&self) -> impl Iterator<Item = BlockRow<'_>> {
        self.0.iter().map(BlockRow)
    }
}

fn lost() -> ServerError {
    ServerError {
        kind: ErrorKind::Connection,
        code: None,
        message: "the connection is closed".into(),
        detail: None,
        hint: None,
    }
}

impl Source for Script {
    type Block = Block;

    async fn connect(&mut self) -> Result<(), ServerError> {
        self.now = self.connections.pop_front().ok_or_else(lost)?;
        Ok(())
    }

    async fn run(&mut self, sql: &str) -> Result<Table, ServerError> {
        self.statements.lock().unwrap().push(sql.into());
        let row = |values: &[&str]| values.iter().map(|v| Some((*v).to_string())).collect();
        let rows: Vec<TextRow> = if sql.contains("fully_qualified_names") {
            vec![row(&["u1", "table", "db", "s", "t"])]
        } else if sql.contains("mz_columns") {
            vec![
                row(&["id", "f", "uint8", "-1"]),
                row(&["v", "t", "text", "-1"]),
            ]
        } else if sql.contains("mz_storage_shards") {
            vec![row(&["s1"])]
        } else if sql.contains("retention") {
            vec![row(&["FOR", "3600000"])]
        } else if sql.contains("mz_indexes") {
            vec![vec![None, Some("quickstart".into())]]
        } else if sql == "SHOW cluster" {
            vec![row(&["quickstart"])]
        } else {
            Vec::new()
        };
        Ok(Table { rows })
    }

    async fn fetch(&mut self, sql: &str) -> Result<(), ServerError> {
        self.statements.lock().unwrap().push(sql.into());
        Ok(())
    }

    async fn next_block(
        &mut self,
        block: &mut Block,
        _silence: Duration,
    ) -> Result<BlockEnd, ServerError> {
        match self.now.pop_front() {
            Some(Step::Rows(rows)) => {
                block.0 = rows;
                Ok(BlockEnd::More)
            }
            Some(Step::EndOfFetch) => Ok(BlockEnd::Complete),
            Some(Step::Lost) => Err(lost()),
            Some(Step::Quiet) | None => std::future::pending().await,
        }
    }

    async fn disconnect(&mut self) {}
}

/// What the model target holds, shared with the test.
#[derive(Default)]
struct Held {
    rows: BTreeMap<u64, String>,
    checkpoint: Option<String>,
    writes: usize,
    largest_pull: usize,
}

/// A transactional target with a plan of what goes wrong.
struct Target {
    held: Arc<Mutex<Held>>,
    trouble: VecDeque<Trouble>,
}

#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    None,
    /// Fails without effect.
    Retryable,
    /// Succeeds, and the answer is lost.
    AnswerLost,
    /// Traps without effect.
    Trap,
    Permanent,
}

fn failure(code: &str) -> Failure {
    Failure {
        code: code.into(),
        message: "as planned".into(),
        retry_after_ms: None,
    }
}

impl Sink for Target {
    async fn open(&mut self, _: &[View]) -> Result<Option<String>, SinkError> {
        Ok(self.held.lock().unwrap().checkpoint.clone())
    }

    async fn checkpoint(&mut self) -> Result<Option<String>, SinkError> {
        Ok(self.held.lock().unwrap().checkpoint.clone())
    }

    async fn write(
        &mut self,
        mut rows: Box<dyn BatchRows>,
        expected: Option<String>,
        next: String,
    ) -> Result<(), SinkError> {
        // A write takes time, in which reading goes on.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let trouble = match rows.info().rows {
            0 => Trouble::None,
            _ => self.trouble.pop_front().unwrap_or(Trouble::None),
        };
        match trouble {
            Trouble::Retryable => return Err(SinkError::Retryable(failure("retry"))),
            Trouble::Trap => return Err(SinkError::Trapped(failure("trap"))),
            Trouble::Permanent => return Err(SinkError::Permanent(failure("never"))),
            Trouble::None | Trouble::AnswerLost => {}
        }
        let mut held = self.held.lock().unwrap();
        if held.checkpoint != expected {
            return Err(SinkError::Conflict(held.checkpoint.clone()));
        }
        if !rows.info().snapshot_of.is_empty() {
            held.rows.clear();
        }
        while let Some((_, chunk)) = rows.next(64 << 10).unwrap() {
            held.largest_pull = held.largest_pull.max(chunk.byte_len());
            for row in 0..chunk.rows() {
                let Value::Uint(id) = chunk.columns[0].get(row) else {
                    panic!("an id that is not one");
                };
                match (chunk.op(row), chunk.columns[1].get(row)) {
                    (Op::Put, Value::Text(text)) => {
                        held.rows
                            .insert(id, String::from_utf8(text.to_vec()).unwrap());
                    }
                    (Op::Delete, _) => {
                        held.rows.remove(&id);
                    }
                    _ => panic!("a value that is not one"),
                }
            }
        }
        held.checkpoint = Some(next);
        held.writes += 1;
        match trouble {
            Trouble::AnswerLost => Err(SinkError::Unknown(failure("lost"))),
            _ => Ok(()),
        }
    }

    async fn close(&mut self) {}
}

struct World {
    held: Arc<Mutex<Held>>,
    statements: Arc<Mutex<Vec<String>>>,
    progress: Arc<Progress>,
}

impl World {
    fn new() -> Self {
        Self {
            held: Arc::default(),
            statements: Arc::default(),
            progress: Arc::default(),
        }
    }

    /// Runs to the end, or for a minute and then to a clean shutdown.
    async fn run(
        &self,
        connections: Vec<Vec<Step>>,
        trouble: &[Trouble],
        memory: usize,
    ) -> Outcome {
        let (ask, shutdown) = watch::channel(false);
        let source = Script {
            connections: connections.into_iter().map(Into::into).collect(),
            now: VecDeque::new(),
            statements: self.statements.clone(),
        };
        let beside = Script {
            connections: VecDeque::new(),
            now: VecDeque::new(),
            statements: Arc::default(),
        };
        let target = Target {
            held: self.held.clone(),
            trouble: trouble.iter().copied().collect(),
        };
        let options = Options {
            session: SessionConfig {
                netted: true,
                memory_bytes: memory,
                spill_bytes: 1 << 30,
                retry: RetryPolicy {
                    attempts: 3,
                    ..RetryPolicy::default()
                },
                ..SessionConfig::new(
                    "test".into(),
                    "sha256:00".into(),
                    vec![ViewConfig {
                        object: "db.s.t".into(),
                        name: None,
                        key: vec!["id".into()],
                    }],
                    Envelope::Upsert,
                )
            },
            seed: 7,
            spill_folder: std::env::temp_dir(),
            dead_letters: Arc::new(LogDeadLetters {
                sink_id: "test".into(),
                log_key: false,
            }),
            progress: self.progress.clone(),
            tell: Box::new(|_| {}),
            shutdown,
        };
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            ask.send(true)
        });
        run([source, beside], target, options).await
    }

    fn rows(&self) -> Vec<(u64, String)> {
        self.held.lock().unwrap().rows.clone().into_iter().collect()
    }

    fn frontier(&self) -> String {
        let text = self.held.lock().unwrap().checkpoint.clone().unwrap();
        let checkpoint: serde_json::Value = serde_json::from_str(&text).unwrap();
        checkpoint["frontier"].as_str().unwrap().to_string()
    }

    fn subscribes(&self) -> Vec<String> {
        let statements = self.statements.lock().unwrap();
        statements
            .iter()
            .filter(|s| s.contains("SUBSCRIBE"))
            .cloned()
            .collect()
    }
}

fn pairs(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    expected
        .iter()
        .map(|(id, text)| (*id, (*text).to_string()))
        .collect()
}

fn snapshot() -> Step {
    Step::Rows(vec![
        progress(100),
        upsert(100, 1, "one"),
        upsert(100, 2, "two"),
        progress(101),
    ])
}

fn changes() -> Step {
    Step::Rows(vec![upsert(150, 3, "three"), delete(160, 1), progress(200)])
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_and_changes_arrive_and_a_shutdown_is_clean() {
    let world = World::new();
    let outcome = world
        .run(vec![vec![snapshot(), changes(), Step::Quiet]], &[], 1 << 20)
        .await;
    assert_eq!(outcome, Outcome::ShutDown);
    assert_eq!(world.rows(), pairs(&[(2, "two"), (3, "three")]));
    assert_eq!(world.frontier(), "200");
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_resumes_after_what_was_handed_over_without_the_snapshot() {
    let world = World::new();
    let unclosed = Step::Rows(vec![upsert(150, 9, "not closed")]);
    let resumed = Step::Rows(vec![
        progress(100),
        upsert(150, 3, "three"),
        delete(160, 1),
        progress(200),
    ]);
    let outcome = world
        .run(
            vec![
                vec![snapshot(), unclosed, Step::Lost],
                vec![resumed, Step::Quiet],
            ],
            &[],
            1 << 20,
        )
        .await;
    assert_eq!(outcome, Outcome::ShutDown);
    assert_eq!(world.rows(), pairs(&[(2, "two"), (3, "three")]));
    let subscribes = world.subscribes();
    assert!(!subscribes[0].contains("SNAPSHOT"), "{subscribes:?}");
    assert!(
        subscribes[1].ends_with("SNAPSHOT = false) AS OF 100"),
        "{subscribes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn retryable_failures_traps_and_lost_answers_change_nothing_in_the_end() {
    for trouble in [Trouble::Retryable, Trouble::Trap, Trouble::AnswerLost] {
        let world = World::new();
        let outcome = world
            .run(
                vec![vec![snapshot(), changes(), Step::Quiet]],
                &[trouble, trouble],
                1 << 20,
            )
            .await;
        assert_eq!(outcome, Outcome::ShutDown);
        assert_eq!(world.rows(), pairs(&[(2, "two"), (3, "three")]));
        // The claim, the snapshot, the changes: each applied once.
        assert_eq!(world.held.lock().unwrap().writes, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_stops_at_once_with_the_sinks_own_words() {
    let world = World::new();
    let outcome = world
        .run(
            vec![vec![snapshot(), Step::Quiet]],
            &[Trouble::Permanent],
            1 << 20,
        )
        .await;
    assert_eq!(
        outcome,
        Outcome::Failed(SessionError::SinkPermanent(failure("never")))
    );
    assert!(world.rows().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_ended_stream_is_committed_whole_and_finishes() {
    let world = World::new();
    let script = vec![
        Step::Rows(vec![progress(100), upsert(100, 1, "one")]),
        Step::EndOfFetch,
        Step::EndOfFetch,
        Step::EndOfFetch,
    ];
    assert_eq!(
        world.run(vec![script], &[], 1 << 20).await,
        Outcome::Finished
    );
    assert_eq!(world.rows(), pairs(&[(1, "one")]));
    assert_eq!(world.frontier(), u64::MAX.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_larger_than_memory_goes_through_the_spill_file_in_pieces() {
    let world = World::new();
    let text = "x".repeat(1000);
    let mut script = vec![Step::Rows(vec![progress(100)])];
    for block in 0..40 {
        let rows = (0..500)
            .map(|n| upsert(100, block * 500 + n, &text))
            .collect();
        script.push(Step::Rows(rows));
    }
    script.extend([Step::Rows(vec![progress(101)]), Step::Quiet]);
    let outcome = world
        .run(vec![script], &[Trouble::Retryable], 4 << 20)
        .await;
    assert_eq!(outcome, Outcome::ShutDown);
    assert_eq!(world.rows().len(), 20_000);
    assert!(world.held.lock().unwrap().largest_pull <= 80 << 10);
    let end = world.progress.snapshot();
    assert_eq!((end.rows_committed, end.spilled), (20_000, 0));
}

#[tokio::test(start_paused = true)]
async fn a_data_row_below_the_frontier_stops_with_nothing_of_it_committed() {
    let world = World::new();
    let broken = Step::Rows(vec![upsert(50, 4, "too late")]);
    let outcome = world
        .run(vec![vec![snapshot(), broken, Step::Quiet]], &[], 1 << 20)
        .await;
    match outcome {
        Outcome::Failed(SessionError::Stream { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(!world.rows().iter().any(|(id, _)| *id == 4));
}

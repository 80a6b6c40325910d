//! Scripts: events go in, and the list of commands that comes out is compared as short texts.

mod claim;
mod end;
mod maintain;
mod model;
mod stream;
mod write;

use super::*;
use crate::batch::Failure;
use crate::catalog::{IdentityPolicy, Table};
use crate::checkpoint::Checkpoint;
use crate::retry::RetryPolicy;
use crate::server_error::{ErrorKind, ServerError};
use crate::types::Envelope;

/// A row of the upsert stream of `t (id integer, name text)`.
#[derive(Clone, Debug)]
struct Row([Option<String>; 5]);

impl Fields for Row {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize) -> Option<&[u8]> {
        self.0[index].as_ref().map(String::as_bytes)
    }
}

fn progress(time: u64) -> Row {
    let time = Some(time.to_string());
    Row([time, Some("t".into()), None, None, None])
}

fn change(time: u64, state: &str, id: i64, name: Option<&str>) -> Row {
    Row([
        Some(time.to_string()),
        Some("f".into()),
        Some(state.into()),
        Some(id.to_string()),
        name.map(Into::into),
    ])
}

fn put(time: u64, id: i64) -> Row {
    change(time, "upsert", id, Some("x"))
}

fn config() -> SessionConfig {
    SessionConfig {
        sink_id: "orders".into(),
        component_digest: "d1".into(),
        views: vec![ViewConfig {
            object: "t".into(),
            name: None,
            key: vec!["id".into()],
        }],
        envelope: Envelope::Upsert,
        netted: false,
        cluster: None,
        up_to: None,
        identity: IdentityPolicy::default(),
        on_history_loss: OnHistoryLoss::Stall,
        on_key_violation: OnKeyViolation::Reject,
        on_failure: OnFailure::Stall,
        allow_short_retention: false,
        commit_interval: Duration::ZERO,
        idle_commit_interval: Duration::from_secs(10),
        max_commit_bytes: 64 << 20,
        memory_bytes: 64 << 20,
        spill_bytes: 1 << 30,
        maintenance_interval: None,
        retry: RetryPolicy::default(),
    }
}

fn from(connection: usize, event: SourceEvent) -> Event {
    Event::Source { connection, event }
}

fn connected(result: Result<(), ServerError>) -> Event {
    from(0, SourceEvent::Connected(result))
}

fn ran(result: Result<Table, ServerError>) -> Event {
    from(0, SourceEvent::Ran(result))
}

fn fetched(result: Result<(), ServerError>) -> Event {
    from(0, SourceEvent::Fetched(result))
}

fn failure(code: &str) -> Failure {
    Failure {
        code: code.into(),
        message: "told by the sink".into(),
        retry_after_ms: None,
    }
}

fn throttled(ms: u32) -> Failure {
    Failure {
        retry_after_ms: Some(ms),
        ..failure("rate-limited")
    }
}

fn server_error(code: &str, message: &str) -> ServerError {
    ServerError {
        kind: ErrorKind::Server,
        code: Some(code.into()),
        message: message.into(),
        detail: None,
        hint: None,
    }
}

fn broken() -> ServerError {
    ServerError {
        kind: ErrorKind::Connection,
        code: None,
        message: "connection closed".into(),
        detail: None,
        hint: None,
    }
}

/// A checkpoint as a worker of this deployment would have left it.
fn checkpoint(epoch: u64, frontier: Option<u64>) -> Checkpoint {
    Checkpoint {
        format: 1,
        sink_id: "orders".into(),
        epoch,
        nonce: "former-1".into(),
        generation: 1,
        frontier,
        component: "d1".into(),
        views: vec![crate::checkpoint::ViewIdentity {
            name: "t".into(),
            object: "materialize.public.t".into(),
            id: "u7".into(),
            shard: Some("s7".into()),
            envelope: Envelope::Upsert,
            key: vec!["id".into()],
            columns: vec![
                ("id".into(), "integer".into()),
                ("name".into(), "text".into()),
            ],
        }],
    }
}

fn text(checkpoint: &Checkpoint) -> Option<String> {
    Some(checkpoint.encode().unwrap())
}

/// The catalog as the script's server has it.
#[derive(Clone, Debug)]
struct Catalog {
    id: &'static str,
    shard: &'static str,
    retention: &'static str,
    index: Option<&'static str>,
    exists: bool,
    /// Read and write frontier, where they are known.
    frontiers: Option<[&'static str; 2]>,
}

/// Drives a session, answering for the source until it fetches.
struct Script {
    session: Session,
    now: Duration,
    catalog: Catalog,
    /// The latest write.
    write: Option<Write>,
    /// The last SQL text to be answered.
    sql: Option<String>,
    /// What is to be answered on the connection beside the views.
    side: VecDeque<SourceCommand>,
}

impl Script {
    fn new(config: SessionConfig) -> Self {
        let mut session = Session::new(config, 7);
        session.start(Duration::ZERO);
        Self {
            session,
            now: Duration::ZERO,
            catalog: Catalog {
                id: "u7",
                shard: "s7",
                retention: "3600000",
                index: None,
                exists: true,
                frontiers: None,
            },
            write: None,
            sql: None,
            side: VecDeque::new(),
        }
    }

    /// Up to the question for the stored checkpoint.
    fn opening(config: SessionConfig) -> Self {
        let mut script = Self::new(config);
        assert_eq!(script.source(), ["open"]);
        script
    }

    /// Claimed on an empty target, and fetching the snapshot.
    fn snapshot(config: SessionConfig) -> Self {
        let mut script = Self::opening(config);
        script.on(Event::SinkOpened(Ok(None)));
        script.on(Event::Written(Ok(())));
        assert_eq!(script.source(), ["declare snapshot", "fetch"]);
        script
    }

    /// Claimed on a target that is committed up to `frontier`, and fetching from there.
    fn resumed(config: SessionConfig, frontier: u64) -> Self {
        let mut script = Self::opening(config);
        let stored = text(&checkpoint(1, Some(frontier)));
        script.on(Event::SinkOpened(Ok(stored)));
        script.on(Event::Written(Ok(())));
        let declare = format!("declare AS OF {}", frontier - 1);
        assert_eq!(script.source(), [declare.as_str(), "fetch"]);
        script.rows(&[progress(frontier - 1)]);
        script
    }

    fn on(&mut self, event: Event) -> Vec<String> {
        self.session.handle(self.now, event);
        self.drain()
    }

    fn rows(&mut self, rows: &[Row]) -> Vec<String> {
        let names = ["mz_timestamp", "mz_progressed", "mz_state", "id", "name"];
        let names = names.map(String::from);
        self.session
            .handle_rows(self.now, 0, &names, rows.iter().cloned());
        self.drain()
    }

    /// Goes to the next moment at which something is due, looks at the history aside.
    fn later(&mut self) -> Vec<String> {
        loop {
            self.now = self.session.poll_timeout().expect("nothing is due");
            self.session.handle(self.now, Event::Timeout);
            let told = self.commands();
            let only_looks = !self.side.is_empty() && told.is_empty();
            self.answer_side();
            if !only_looks {
                return told;
            }
        }
    }

    fn drain(&mut self) -> Vec<String> {
        let mut told = self.commands();
        while !self.side.is_empty() {
            self.answer_side();
            told.extend(self.commands());
        }
        told
    }

    fn commands(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Some(command) = self.session.poll_command() {
            told.push(self.note(command));
        }
        told.retain(|text| !text.is_empty());
        told
    }

    /// The connection beside the view knows the name, and nothing of any history.
    fn answer_side(&mut self) {
        let event = match self.side.pop_front() {
            Some(SourceCommand::Connect) => SourceEvent::Connected(Ok(())),
            Some(SourceCommand::Run { sql }) if sql.contains("WHERE id IN ('u7')") => {
                let catalog = &self.catalog;
                let is_known = catalog.exists && catalog.id == "u7" && sql.contains("_names");
                let name = ["u7", "materialize", "public", "t"].map(|v| Some(v.to_owned()));
                SourceEvent::Ran(Ok(Table {
                    rows: is_known.then(|| name.to_vec()).into_iter().collect(),
                }))
            }
            Some(SourceCommand::Run { .. }) => SourceEvent::Ran(Ok(Table::default())),
            _ => return,
        };
        self.session.handle(self.now, from(1, event));
    }

    /// A short text for a command; what is only noise in a script has none.
    fn note(&mut self, command: Command) -> String {
        match command {
            Command::Source {
                connection: 1,
                command,
            } => {
                self.side.push_back(command);
                String::new()
            }
            Command::Source { command, .. } => match command {
                SourceCommand::Connect => "connect".into(),
                SourceCommand::Run { sql } => {
                    let note = match sql.split_once(" AS OF ") {
                        Some((_, as_of)) => format!("declare AS OF {as_of}"),
                        None if sql.starts_with("DECLARE") => "declare snapshot".into(),
                        None => String::new(),
                    };
                    self.sql = Some(sql);
                    note
                }
                SourceCommand::Fetch { sql, .. } if sql.contains("timeout") => "fetch".into(),
                SourceCommand::Fetch { .. } => "fetch to the end".into(),
                SourceCommand::Disconnect => "disconnect".into(),
            },
            Command::OpenSink { .. } => "open".into(),
            Command::Write(write) => {
                let info = &write.info;
                let mut note = if info.lower == info.upper {
                    match self.session.writer.has_claimed() {
                        false => format!("claim {}", info.epoch),
                        true => format!("raise generation to {}", info.generation),
                    }
                } else {
                    format!("write {}..{}", info.lower, info.upper)
                };
                if info.rows > 0 {
                    note += &format!(" with {} rows", info.rows);
                }
                if !info.snapshot_of.is_empty() {
                    note += " as snapshot";
                }
                self.write = Some(*write);
                note
            }
            Command::ReadCheckpoint => "read back".into(),
            Command::Maintain { committed } => format!("maintain {committed}"),
            Command::Spill { .. } => "spill".into(),
            Command::Forget { ids } => format!("forget {}", ids.len()),
            Command::DeadLetter(dead) => {
                let rows: usize = dead.segments.iter().map(|s| s.rows).sum();
                let at = dead.segments[0].min;
                format!("dead letter {}: {rows} rows from {at}", dead.category)
            }
            Command::Tell(notice) => match notice {
                Notice::MaintenanceFailed { .. } => "maintenance failed".into(),
                Notice::Retrying { error, .. } => format!("retry after {}", error.code()),
                Notice::ObjectChanged { change, .. } => match change {
                    Change::Replaced { from, to } => format!("replaced {from} by {to}"),
                    Change::Refollowed { from, to } => format!("refollowed {from} to {to}"),
                    Change::NewColumns { names } => format!("new columns {}", names.join(", ")),
                },
                Notice::HistoryLost { policy, .. } => format!("history lost: {policy:?}"),
                Notice::Skipped { rows, upper, .. } => format!("skipped {rows} rows to {upper}"),
                Notice::Margin { .. } | Notice::MarginUnknown { .. } => String::new(),
                Notice::ComponentChanged { from, to } => format!("component {from} now {to}"),
                Notice::ClaimLost { epoch } => format!("claim lost to {epoch}"),
                Notice::Committed { frontier, .. } => format!("committed {frontier}"),
                Notice::Resolved { .. } | Notice::Claimed { .. } | Notice::Subscribing { .. } => {
                    String::new()
                }
            },
            Command::Stop(Outcome::Finished) => "stop: finished".into(),
            Command::Stop(Outcome::ShutDown) => "stop: shut down".into(),
            Command::Stop(Outcome::Failed(error)) => format!("stop: {}", error.code()),
        }
    }

    /// Answers for the source for as long as it is asked, and gives what else was commanded.
    fn source(&mut self) -> Vec<String> {
        let mut told = self.drain();
        if told.last().is_some_and(|last| last == "connect") {
            told = self.on(connected(Ok(())));
        }
        while let Some(sql) = self.sql.take() {
            let table = self.answer(&sql);
            told.extend(self.on(ran(Ok(table))));
        }
        told
    }

    fn answer(&self, sql: &str) -> Table {
        let row = |values: &[&str]| values.iter().map(|v| Some((*v).to_string())).collect();
        let catalog = &self.catalog;
        let rows = if sql.contains("mz_object_fully_qualified_names") && catalog.exists {
            vec![row(&[catalog.id, "table", "materialize", "public", "t"])]
        } else if sql.contains("mz_columns") {
            vec![
                row(&["id", "f", "integer", "-1"]),
                row(&["name", "t", "text", "-1"]),
            ]
        } else if sql.contains("mz_storage_shards") {
            vec![row(&[catalog.shard])]
        } else if sql.contains("mz_history_retention_strategies") {
            vec![row(&["FOR", catalog.retention])]
        } else if sql.contains("mz_indexes") {
            let index = catalog.index.map(Into::into);
            vec![vec![index, Some("quickstart".into())]]
        } else if let (true, Some([read, write])) =
            (sql.contains("mz_frontiers"), catalog.frontiers)
        {
            vec![row(&[catalog.id, catalog.id, read, write])]
        } else if sql == "SHOW cluster" {
            vec![row(&["quickstart"])]
        } else {
            Vec::new()
        };
        Table { rows }
    }

    /// The text that the latest write wants stored.
    fn next(&self) -> String {
        self.write.as_ref().unwrap().next.clone()
    }

    /// The inside of that text.
    fn next_checkpoint(&self) -> Checkpoint {
        Checkpoint::parse(&self.next(), "orders").unwrap()
    }
}

//! The half of the session that talks to Materialize: connect, look up, subscribe, fetch.

mod failure;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::command::{Command, Notice};
use super::{Now, SessionConfig, SessionError};
use crate::catalog::{CatalogError, LookUp, Object, Table};
use crate::chunk::Chunk;
use crate::classify::Phase;
use crate::decode::{Decoder, Fields};
use crate::release::{Accepted, Held, Segment, SegmentId, Start, StreamError, Taken};
use crate::retry::{Entropy, Retries};
use crate::server_error::ServerError;
use crate::statements;
use crate::types::{Frontier, View};

/// How long one FETCH stays open. Rows come while it is, so this is no latency.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that says nothing for this long beyond the time it may take is taken for dead.
const SILENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
enum State {
    Idle,
    Connecting,
    Settings(VecDeque<String>),
    /// `SHOW cluster`.
    Cluster,
    LookingUp(Box<LookUp>),
    /// The object is known; the writer says from where to read.
    Resolved,
    /// BEGIN and DECLARE.
    Declaring(VecDeque<String>),
    Fetching {
        since: Now,
        rows: u64,
        /// Whether an empty answer proves the end.
        proves_end: bool,
    },
    Waiting {
        until: Now,
    },
    Ended,
    Stopped,
}

/// What the session needs to know after an event.
#[derive(Debug)]
pub(super) enum Outcome {
    Nothing,
    /// The object is known.
    Resolved(Box<Object>),
    Failed(SessionError),
}

#[derive(Debug)]
pub(super) struct Reader {
    state: State,
    retries: Retries,
    entropy: Entropy,
    cluster: String,
    was_connected: bool,
    renewed_credentials: bool,
    looked_up_again: bool,
    object: Option<Object>,
    view: Option<View>,
    names: Vec<String>,
    decoder: Option<Decoder>,
    held: Option<Held>,
    /// Upper of what was handed to the writer, or committed before.
    lower: Option<Frontier>,
    spilled: BTreeMap<SegmentId, u64>,
}

impl Reader {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            state: State::Idle,
            retries: Retries::default(),
            entropy: Entropy::new(seed),
            cluster: String::new(),
            was_connected: false,
            renewed_credentials: false,
            looked_up_again: false,
            object: None,
            view: None,
            names: Vec::new(),
            decoder: None,
            held: None,
            lower: None,
            spilled: BTreeMap::new(),
        }
    }

    pub(super) fn connect(&mut self, out: &mut VecDeque<Command>) {
        self.state = State::Connecting;
        out.push_back(Command::Connect);
    }

    pub(super) fn is_resolved(&self) -> bool {
        matches!(self.state, State::Resolved)
    }

    /// Whether nothing more will come.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    pub(super) fn timeout(&self) -> Option<Now> {
        match self.state {
            State::Waiting { until } => Some(until),
            _ => None,
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Now, out: &mut VecDeque<Command>) {
        if self.timeout().is_some_and(|until| now >= until) {
            self.connect(out);
        }
    }

    pub(super) fn stop(&mut self, out: &mut VecDeque<Command>) {
        let is_connected = !matches!(
            self.state,
            State::Waiting { .. } | State::Ended | State::Stopped
        );
        if is_connected {
            out.push_back(Command::Disconnect);
        }
        self.state = State::Stopped;
    }

    pub(super) fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    pub(super) fn lower(&self) -> Option<Frontier> {
        self.lower
    }

    pub(super) fn spilled_bytes(&self) -> u64 {
        self.spilled.values().sum()
    }

    /// Takes a batch.
    pub(super) fn take(&mut self, max_bytes: usize) -> Option<(Taken, Frontier)> {
        let held = self.held.as_mut()?;
        let snapshot_at = held.snapshot_at();
        let taken = held.take(max_bytes)?;
        let lower = match (snapshot_at, self.lower) {
            (Some(as_of), _) => as_of,
            (None, Some(lower)) => lower,
            (None, None) => 0,
        };
        self.lower = Some(taken.upper);
        Some((taken, lower))
    }

    /// Segments are committed or given up.
    pub(super) fn release(&mut self, segments: &[Segment], out: &mut VecDeque<Command>) {
        let ids: Vec<_> = segments
            .iter()
            .filter(|s| s.chunk.is_none())
            .map(|s| s.id)
            .collect();
        self.forget(ids, out);
    }

    fn forget(&mut self, ids: Vec<SegmentId>, out: &mut VecDeque<Command>) {
        for id in &ids {
            self.spilled.remove(id);
        }
        if !ids.is_empty() {
            out.push_back(Command::Forget { ids });
        }
    }

    /// Spills what is over `memory` bytes.
    pub(super) fn spill(&mut self, memory: usize, out: &mut VecDeque<Command>) {
        let Some(held) = &mut self.held else { return };
        while held.memory_bytes() > memory {
            let Some((id, chunk, bytes)) = held.spill_newest() else {
                break;
            };
            self.spilled.insert(id, bytes as u64);
            out.push_back(Command::Spill { id, chunk });
        }
    }

    pub(super) fn handle_connected(
        &mut self,
        now: Now,
        result: Result<(), ServerError>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        match (&self.state, result) {
            (State::Connecting, Ok(())) => {
                self.was_connected = true;
                let settings = statements::session_settings(config.cluster.as_deref());
                self.state = State::Settings(settings.into());
                self.step(now, config, out)
            }
            (State::Connecting, Err(error)) => self.failed(now, Phase::SetUp, error, config, out),
            (State::Stopped, _) => Outcome::Nothing,
            _ => self.unexpected("Connected"),
        }
    }

    pub(super) fn handle_ran(
        &mut self,
        now: Now,
        result: Result<Table, ServerError>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        let table = match result {
            _ if matches!(self.state, State::Stopped) => return Outcome::Nothing,
            Ok(table) => table,
            Err(error) => {
                let phase = match self.state {
                    State::Declaring(_) => Phase::Declare,
                    _ => Phase::SetUp,
                };
                return self.failed(now, phase, error, config, out);
            }
        };
        match &mut self.state {
            State::Settings(_) | State::Declaring(_) => self.step(now, config, out),
            State::Cluster => {
                let name = table
                    .rows
                    .first()
                    .and_then(|r| r.first().cloned().flatten());
                self.cluster = name.unwrap_or_default();
                match LookUp::new(&config.object) {
                    Ok(look_up) => {
                        out.push_back(Command::Run {
                            sql: look_up.query(),
                        });
                        self.state = State::LookingUp(Box::new(look_up));
                        Outcome::Nothing
                    }
                    Err(error) => Outcome::Failed(error.into()),
                }
            }
            State::LookingUp(look_up) => match look_up.answer(&table, &self.cluster) {
                Ok(None) => {
                    out.push_back(Command::Run {
                        sql: look_up.query(),
                    });
                    Outcome::Nothing
                }
                Ok(Some(object)) => {
                    let kind = look_up.sql_kind();
                    self.resolve(object, kind, config, out)
                }
                Err(error) => Outcome::Failed(self.missing(error).into()),
            },
            _ => self.unexpected("Ran"),
        }
    }

    /// Sends the next of several statements, or goes on after the last.
    fn step(&mut self, now: Now, _: &SessionConfig, out: &mut VecDeque<Command>) -> Outcome {
        match &mut self.state {
            State::Settings(statements) | State::Declaring(statements)
                if !statements.is_empty() =>
            {
                if let Some(sql) = statements.pop_front() {
                    out.push_back(Command::Run { sql });
                }
            }
            State::Settings(_) => {
                out.push_back(Command::Run {
                    sql: "SHOW cluster".into(),
                });
                self.state = State::Cluster;
            }
            _ => self.fetch(now, false, out),
        }
        Outcome::Nothing
    }

    fn resolve(
        &mut self,
        object: Object,
        kind: String,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        if let Some(index) = &object.index {
            return Outcome::Failed(
                CatalogError::Indexed {
                    object: object.name(),
                    index: index.clone(),
                }
                .into(),
            );
        }
        let needed = config.commit_interval.saturating_add(config.retry.budget());
        if object.retention < needed && !config.allow_short_retention {
            return Outcome::Failed(
                CatalogError::ShortRetention {
                    object: object.sql_name(),
                    kind,
                    kept: object.retention,
                    needed,
                    advice: needed.as_secs().div_ceil(3600).max(1),
                }
                .into(),
            );
        }
        out.push_back(Command::Tell(Notice::Resolved {
            object: object.name(),
            id: object.id.clone(),
        }));
        self.object = Some(object.clone());
        self.state = State::Resolved;
        Outcome::Resolved(Box::new(object))
    }

    /// Subscribes from `start`, dropping whatever was held.
    pub(super) fn subscribe(
        &mut self,
        start: Start,
        view: &View,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) {
        let Some(object) = &self.object else { return };
        let empty = Chunk::new(0, view.columns.iter().map(|c| &c.ty));
        let dropped = match &mut self.held {
            Some(held) => held.restart(start),
            None => {
                self.held = Some(Held::new(empty, start));
                Vec::new()
            }
        };
        self.view = Some(view.clone());
        self.decoder = None;
        self.lower = match start {
            Start::Snapshot => None,
            Start::Resume(frontier) => Some(frontier),
        };
        let [begin, declare] = statements::subscribe(
            &object.id,
            &object.full_name,
            config.envelope,
            &config.key,
            start,
        );
        self.forget(dropped, out);
        out.push_back(Command::Tell(Notice::Subscribing { start }));
        out.push_back(Command::Run { sql: begin });
        self.state = State::Declaring(VecDeque::from([declare]));
    }

    /// Starts over from the lookup, after what is held turned out not to be wanted.
    pub(super) fn reconnect(&mut self, out: &mut VecDeque<Command>) {
        self.lower = None;
        if let Some(held) = &mut self.held {
            let dropped = held.restart(Start::Snapshot);
            self.forget(dropped, out);
        }
        out.push_back(Command::Disconnect);
        self.connect(out);
    }

    fn fetch(&mut self, now: Now, proves_end: bool, out: &mut VecDeque<Command>) {
        out.push_back(if proves_end {
            Command::Fetch {
                sql: statements::fetch_or_end(),
                silence: SILENCE,
            }
        } else {
            Command::Fetch {
                sql: statements::fetch(FETCH_TIMEOUT),
                silence: FETCH_TIMEOUT + SILENCE,
            }
        });
        self.state = State::Fetching {
            since: now,
            rows: 0,
            proves_end,
        };
    }

    pub(super) fn handle_row(
        &mut self,
        names: &[String],
        row: &(impl Fields + ?Sized),
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), SessionError> {
        let State::Fetching { rows, .. } = &mut self.state else {
            return Ok(());
        };
        *rows += 1;
        let (Some(view), Some(held)) = (&self.view, &mut self.held) else {
            return Ok(());
        };
        let broken = |error| SessionError::Stream {
            object: config.object.clone(),
            error,
        };
        if self.decoder.is_none() || self.names != names {
            let decoder =
                Decoder::new(view, config.envelope, names).map_err(|e| broken(e.into()))?;
            self.decoder = Some(decoder);
            self.names = names.to_vec();
        }
        let Some(decoder) = &self.decoder else {
            return Ok(());
        };
        match held.accept(decoder, row).map_err(broken)? {
            Accepted::Held => {}
            // Only a stream that moves on shows that a reconnect has worked.
            Accepted::Advanced(_) => {
                self.retries.reset();
                self.renewed_credentials = false;
                self.looked_up_again = false;
            }
            Accepted::KeyViolation(time) => {
                out.push_back(Command::Tell(Notice::KeyViolation { time }));
            }
        }
        Ok(())
    }

    pub(super) fn handle_fetched(
        &mut self,
        now: Now,
        result: Result<(), ServerError>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        let (since, rows, proved_end) = match self.state {
            State::Stopped => return Outcome::Nothing,
            State::Fetching {
                since,
                rows,
                proves_end,
            } => (since, rows, proves_end),
            _ => return self.unexpected("Fetched"),
        };
        if let Err(error) = result {
            return self.failed(now, Phase::Fetch, error, config, out);
        }
        if proved_end && rows == 0 {
            out.push_back(Command::Disconnect);
            self.state = State::Ended;
            if let Some(held) = &mut self.held {
                held.finish();
            }
            if self.held.as_ref().and_then(Held::closed).is_none() {
                return Outcome::Failed(SessionError::Stream {
                    object: config.object.clone(),
                    error: StreamError::EndedBeforeStart,
                });
            }
            return Outcome::Nothing;
        }
        // A stream that ended answers an empty FETCH at once; one that is quiet, at the deadline.
        let early = rows == 0 && now.saturating_sub(since) < FETCH_TIMEOUT / 2;
        self.fetch(now, early, out);
        Outcome::Nothing
    }
}

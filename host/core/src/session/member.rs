//! One view's connection to Materialize: connect, look up, subscribe, fetch.

use std::collections::VecDeque;
use std::time::Duration;

use super::command::{Command, SourceCommand, SourceEvent};
use super::{Now, SessionConfig, SessionError};
use crate::catalog::{CatalogError, LookUp, Object};
use crate::classify::Phase;
use crate::decode::{Decoder, Fields};
use crate::planted::{self, Planted};
use crate::release::{Accepted, Held, Start, StreamError};
use crate::server_error::ServerError;
use crate::statements;
use crate::types::View;

/// How long one FETCH stays open. Rows come while it is, so this is no latency.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that says nothing for this long beyond the time it may take is taken for dead.
const SILENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
enum State {
    Off,
    Connecting,
    Settings(VecDeque<String>),
    /// `SHOW cluster`.
    Cluster,
    LookingUp(Box<LookUp>),
    /// The object is known; waits to be told from where to read.
    Resolved,
    /// BEGIN and DECLARE.
    Declaring(VecDeque<String>),
    Fetching {
        since: Now,
        rows: u64,
        /// Whether an empty answer proves the end.
        proves_end: bool,
    },
    Ended,
}

/// What came of an event.
#[derive(Debug)]
pub(super) enum Step {
    Nothing,
    /// The object is known.
    Resolved,
    /// The stream has ended.
    Ended,
}

/// Why a connection cannot go on.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The source failed, and it is not yet known what that means.
    Server(Phase, ServerError),
    /// An error that needs somebody.
    Final(SessionError),
}

impl<E: Into<SessionError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Final(error.into())
    }
}

#[derive(Debug)]
pub(super) struct Member {
    index: usize,
    state: State,
    cluster: String,
    /// The object's kind in SQL.
    kind: String,
    object: Option<Object>,
    names: Vec<String>,
    decoder: Option<Decoder>,
}

impl Member {
    pub(super) fn new(index: usize) -> Self {
        Self {
            index,
            state: State::Off,
            cluster: String::new(),
            kind: String::new(),
            object: None,
            names: Vec::new(),
            decoder: None,
        }
    }

    pub(super) fn object(&self) -> Option<&Object> {
        self.object.as_ref()
    }

    pub(super) fn sql_kind(&self) -> &str {
        &self.kind
    }

    pub(super) fn is_resolved(&self) -> bool {
        matches!(self.state, State::Resolved)
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn send(&self, command: SourceCommand, out: &mut VecDeque<Command>) {
        out.push_back(Command::Source {
            connection: self.index,
            command,
        });
    }

    fn run(&self, sql: String, out: &mut VecDeque<Command>) {
        self.send(SourceCommand::Run { sql }, out);
    }

    pub(super) fn connect(&mut self, out: &mut VecDeque<Command>) {
        self.state = State::Connecting;
        self.send(SourceCommand::Connect, out);
    }

    pub(super) fn disconnect(&mut self, out: &mut VecDeque<Command>) {
        if !matches!(self.state, State::Off | State::Ended) {
            self.send(SourceCommand::Disconnect, out);
        }
        self.state = State::Off;
    }

    pub(super) fn handle(
        &mut self,
        now: Now,
        event: SourceEvent,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<Step, Trouble> {
        match (&mut self.state, event) {
            (State::Off | State::Ended, _) => {}
            (State::Connecting, SourceEvent::Connected(result)) => {
                result.map_err(|e| Trouble::Server(Phase::SetUp, e))?;
                let settings = statements::session_settings(config.cluster.as_deref());
                self.state = State::Settings(settings.into());
                self.step(now, out);
            }
            (State::Declaring(_), SourceEvent::Ran(result)) => {
                result.map_err(|e| Trouble::Server(Phase::Declare, e))?;
                self.step(now, out);
            }
            (
                State::Settings(_) | State::Cluster | State::LookingUp(_),
                SourceEvent::Ran(result),
            ) => {
                let table = result.map_err(|e| Trouble::Server(Phase::SetUp, e))?;
                match &mut self.state {
                    State::Cluster => {
                        let name = table.rows.first().and_then(|r| r.first().cloned());
                        self.cluster = name.flatten().unwrap_or_default();
                        let look_up = LookUp::new(&config.views[self.index].object)?;
                        self.run(look_up.query(), out);
                        self.state = State::LookingUp(Box::new(look_up));
                    }
                    State::LookingUp(look_up) => {
                        let answer = look_up.answer(&table, &self.cluster);
                        let (query, kind) = (look_up.query(), look_up.sql_kind());
                        match answer.map_err(|e| self.missing(e))? {
                            None => self.run(query, out),
                            Some(object) => {
                                self.kind = kind;
                                self.object = Some(object);
                                self.state = State::Resolved;
                                return Ok(Step::Resolved);
                            }
                        }
                    }
                    _ => self.step(now, out),
                }
            }
            (State::Fetching { .. }, SourceEvent::Fetched(result)) => {
                result.map_err(|e| Trouble::Server(Phase::Fetch, e))?;
                return Ok(self.fetched(now, out));
            }
            (_, event) => return Err(self.unexpected(&event).into()),
        }
        Ok(Step::Nothing)
    }

    /// Sends the next of several statements, or goes on after the last.
    fn step(&mut self, now: Now, out: &mut VecDeque<Command>) {
        match &mut self.state {
            State::Settings(statements) | State::Declaring(statements)
                if !statements.is_empty() =>
            {
                if let Some(sql) = statements.pop_front() {
                    self.run(sql, out);
                }
            }
            State::Settings(_) => {
                self.run("SHOW cluster".into(), out);
                self.state = State::Cluster;
            }
            _ => self.fetch(now, false, out),
        }
    }

    /// An object that was found once and is not there now was not misspelt.
    fn missing(&self, error: CatalogError) -> CatalogError {
        match (error, &self.object) {
            (CatalogError::Unknown(_), Some(object)) => CatalogError::Dropped(object.name()),
            (error, _) => error,
        }
    }

    /// Subscribes from `start`.
    pub(super) fn subscribe(
        &mut self,
        start: Start,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) {
        let Some(object) = &self.object else { return };
        let [begin, declare] = statements::subscribe(
            &object.id,
            &object.full_name,
            config.envelope,
            &config.views[self.index].key,
            start,
            config.up_to,
        );
        self.decoder = None;
        self.run(begin, out);
        self.state = State::Declaring(VecDeque::from([declare]));
    }

    fn fetch(&mut self, now: Now, proves_end: bool, out: &mut VecDeque<Command>) {
        let command = if proves_end {
            SourceCommand::Fetch {
                sql: statements::fetch_or_end(),
                silence: SILENCE,
            }
        } else {
            SourceCommand::Fetch {
                sql: statements::fetch(FETCH_TIMEOUT),
                silence: FETCH_TIMEOUT + SILENCE,
            }
        };
        self.send(command, out);
        self.state = State::Fetching {
            since: now,
            rows: 0,
            proves_end,
        };
    }

    /// Takes one row of the running FETCH into `held`.
    pub(super) fn handle_row(
        &mut self,
        names: &[String],
        row: &(impl Fields + ?Sized),
        view: &View,
        held: &mut Held,
        config: &SessionConfig,
    ) -> Result<Option<Accepted>, StreamError> {
        let State::Fetching { rows, .. } = &mut self.state else {
            return Ok(None);
        };
        *rows += 1;
        if self.decoder.is_none() || self.names != names {
            self.decoder = Some(Decoder::new(view, config.envelope, names)?);
            self.names = names.to_vec();
        }
        let Some(decoder) = &self.decoder else {
            return Ok(None);
        };
        held.accept(decoder, row).map(Some)
    }

    fn fetched(&mut self, now: Now, out: &mut VecDeque<Command>) -> Step {
        let State::Fetching {
            since,
            rows,
            proves_end,
        } = self.state
        else {
            return Step::Nothing;
        };
        if (proves_end || planted::is(Planted::EmptyFetchIsEnd)) && rows == 0 {
            self.send(SourceCommand::Disconnect, out);
            self.state = State::Ended;
            return Step::Ended;
        }
        // A stream that ended answers an empty FETCH at once; one that is quiet, at the deadline.
        let early = rows == 0 && now.saturating_sub(since) < FETCH_TIMEOUT / 2;
        self.fetch(now, early, out);
        Step::Nothing
    }

    fn unexpected(&self, event: &SourceEvent) -> SessionError {
        SessionError::Unexpected {
            event: event.name(),
            state: match self.state {
                State::Off => "not connected",
                State::Connecting => "connecting",
                State::Settings(_) => "setting the session up",
                State::Cluster | State::LookingUp(_) => "looking the object up",
                State::Resolved => "the object is known",
                State::Declaring(_) => "declaring the cursor",
                State::Fetching { .. } => "fetching",
                State::Ended => "the stream has ended",
            },
        }
    }
}

//! The connection beside the views: it holds one time readable while several views start at it,
//! and looks now and then how far the history still reaches and what the objects are called.

use std::collections::{BTreeMap, VecDeque};

use super::SessionConfig;
use super::command::{Command, SourceCommand, SourceEvent};
use super::member::Trouble;
use crate::catalog::{self, CatalogError, Frontiers, Names, Table};
use crate::classify::Phase;
use crate::statements;
use crate::types::Timestamp;

#[derive(Debug, Default)]
enum State {
    #[default]
    Off,
    Connecting(Purpose),
    /// Statements whose answers say nothing.
    Preparing(VecDeque<String>, Purpose),
    /// `SELECT mz_now()`.
    AskingTime,
    /// The transaction is open, and everything readable at its time.
    Holding,
    /// Of these catalog ids.
    AskingFrontiers(Vec<String>),
    AskingNames(BTreeMap<String, Frontiers>),
}

#[derive(Debug)]
enum Purpose {
    Hold(Vec<[String; 3]>),
    /// At these catalog ids.
    Look(Vec<String>),
}

/// What came of an event.
#[derive(Debug)]
pub(super) enum Answer {
    Nothing,
    /// Everything is readable at this time until [`Side::disconnect`].
    Held(Timestamp),
    /// By catalog id: how far the history reaches, and what the objects are called.
    Seen(BTreeMap<String, Frontiers>, Names),
}

#[derive(Debug)]
pub(super) struct Side {
    connection: usize,
    state: State,
}

impl Side {
    pub(super) fn new(connection: usize) -> Self {
        Self {
            connection,
            state: State::Off,
        }
    }

    pub(super) fn is_off(&self) -> bool {
        matches!(self.state, State::Off)
    }

    /// Whether a time is held readable.
    pub(super) fn is_holding(&self) -> bool {
        matches!(self.state, State::Holding)
    }

    /// Whether a failure means no more than that nothing new is known.
    pub(super) fn only_looks(&self) -> bool {
        matches!(
            self.state,
            State::Connecting(Purpose::Look(_))
                | State::Preparing(_, Purpose::Look(_))
                | State::AskingFrontiers(_)
                | State::AskingNames(_)
        )
    }

    /// Starts to hold these objects readable at one time.
    pub(super) fn hold(&mut self, names: Vec<[String; 3]>, out: &mut VecDeque<Command>) {
        self.connect(Purpose::Hold(names), out);
    }

    /// Asks for the frontiers and the names of these catalog ids.
    pub(super) fn look(&mut self, ids: Vec<String>, out: &mut VecDeque<Command>) {
        self.connect(Purpose::Look(ids), out);
    }

    fn connect(&mut self, purpose: Purpose, out: &mut VecDeque<Command>) {
        self.disconnect(out);
        self.send(SourceCommand::Connect, out);
        self.state = State::Connecting(purpose);
    }

    pub(super) fn disconnect(&mut self, out: &mut VecDeque<Command>) {
        if !self.is_off() {
            self.send(SourceCommand::Disconnect, out);
            self.state = State::Off;
        }
    }

    fn send(&self, command: SourceCommand, out: &mut VecDeque<Command>) {
        out.push_back(Command::Source {
            connection: self.connection,
            command,
        });
    }

    fn run(&self, sql: String, out: &mut VecDeque<Command>) {
        self.send(SourceCommand::Run { sql }, out);
    }

    pub(super) fn handle(
        &mut self,
        event: SourceEvent,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<Answer, Trouble> {
        let table = match event {
            SourceEvent::Connected(result) => result.map(|()| Table::default()),
            SourceEvent::Ran(result) => result,
            SourceEvent::Fetched(result) => result.map(|()| Table::default()),
        };
        if self.is_off() {
            return Ok(Answer::Nothing);
        }
        // The objects are named in the transaction: it fails as a DECLARE does.
        let phase = match &self.state {
            State::Preparing(_, Purpose::Hold(_)) | State::AskingTime => Phase::Declare,
            _ => Phase::SetUp,
        };
        let table = table.map_err(|e| Trouble::Server(phase, e))?;
        match std::mem::take(&mut self.state) {
            State::Connecting(purpose) => {
                let mut first =
                    VecDeque::from(statements::session_settings(config.cluster.as_deref()));
                if let Purpose::Hold(names) = &purpose {
                    first.extend(statements::hold_readable(names));
                }
                self.prepare(first, purpose, out);
            }
            State::Preparing(rest, purpose) => self.prepare(rest, purpose, out),
            State::AskingTime => {
                let text = table.rows.first().and_then(|r| r.first()?.as_deref());
                let time = text.and_then(|t| t.parse().ok());
                let time = time.ok_or(CatalogError::Shape("mz_now()"))?;
                self.state = State::Holding;
                return Ok(Answer::Held(time));
            }
            State::AskingFrontiers(ids) => {
                let frontiers = catalog::frontiers(&table)?;
                self.run(statements::names(ids.iter().map(String::as_str)), out);
                self.state = State::AskingNames(frontiers);
            }
            State::AskingNames(frontiers) => {
                let names = catalog::names(&table)?;
                self.state = State::Holding;
                self.disconnect(out);
                return Ok(Answer::Seen(frontiers, names));
            }
            state @ (State::Off | State::Holding) => self.state = state,
        }
        Ok(Answer::Nothing)
    }

    fn prepare(
        &mut self,
        mut statements: VecDeque<String>,
        purpose: Purpose,
        out: &mut VecDeque<Command>,
    ) {
        if let Some(sql) = statements.pop_front() {
            self.run(sql, out);
            self.state = State::Preparing(statements, purpose);
            return;
        }
        self.state = match purpose {
            Purpose::Hold(_) => {
                self.run(statements::held_timestamp(), out);
                State::AskingTime
            }
            Purpose::Look(ids) => {
                self.run(statements::frontiers(ids.iter().map(String::as_str)), out);
                State::AskingFrontiers(ids)
            }
        };
    }
}

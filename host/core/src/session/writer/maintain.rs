//! Housekeeping of the sink, between writes.

use std::collections::VecDeque;

use super::{Outcome, State, Writer, of_sink};
use crate::batch::SinkError;
use crate::session::command::{Command, Notice};
use crate::session::{Now, SessionConfig};

impl Writer {
    /// When housekeeping may start, if nothing is in flight then. Not before this worker has
    /// committed a batch: until then the epoch may already be another's.
    pub(in crate::session) fn next_maintenance(&self, config: &SessionConfig) -> Option<Now> {
        let interval = config.maintenance_interval?;
        if !self.has_committed || !self.is_ready() {
            return None;
        }
        let last = self.last_maintenance;
        Some(last.map_or(Now::ZERO, |last| last.saturating_add(interval)))
    }

    pub(in crate::session) fn maintain(&mut self, out: &mut VecDeque<Command>) {
        if let Some(committed) = self.committed {
            out.push_back(Command::Maintain { committed });
            self.state = State::Maintaining;
        }
    }

    /// Nothing follows from a failure. After a trap the next write finds the sink closed, and
    /// opens it as after any trap.
    pub(in crate::session) fn handle_maintained(
        &mut self,
        now: Now,
        result: Result<(), SinkError>,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        match std::mem::replace(&mut self.state, State::Stopped) {
            State::Maintaining => self.state = State::Ready,
            other => return self.unexpected("Maintained", other),
        }
        self.last_maintenance = Some(now);
        if let Err(error) = result {
            let error = of_sink(error, "maintenance");
            out.push_back(Command::Tell(Notice::MaintenanceFailed { error }));
        }
        Outcome::Nothing
    }
}

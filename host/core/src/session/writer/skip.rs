//! Giving a batch up: into the dead-letter log, and on after it.

use std::collections::VecDeque;

use super::{InFlight, Outcome, Purpose, Then, Writer};
use crate::session::command::{Command, DeadLetter, Notice};
use crate::session::{OnFailure, SessionConfig, SessionError};

impl Writer {
    /// The retry budget is spent.
    pub(super) fn give_up(
        &mut self,
        error: SessionError,
        then: Then,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        if config.on_failure == OnFailure::Stall {
            return Outcome::Failed(error);
        }
        match then {
            Then::Write(mut in_flight) if in_flight.can_be_skipped() => {
                in_flight.give_up = Some(error);
                self.not_applied(in_flight, config, out)
            }
            // The instance is gone; a new one tells whether the write was applied.
            Then::Open(Some(mut in_flight))
                if in_flight.can_be_skipped() && in_flight.give_up.is_none() =>
            {
                in_flight.give_up = Some(error);
                self.reopen(Some(in_flight), out);
                Outcome::Nothing
            }
            _ => Outcome::Failed(error),
        }
    }

    /// The write in flight was certainly not applied: tries it again, or skips it.
    pub(super) fn not_applied(
        &mut self,
        mut in_flight: Box<InFlight>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        let (Some(error), Some(views)) = (in_flight.give_up.take(), self.views()) else {
            return self.send_again(in_flight, config, out);
        };
        let segments = std::mem::take(&mut in_flight.segments);
        out.push_back(Command::DeadLetter(Box::new(DeadLetter {
            views,
            segments: segments.clone(),
            category: error.code().into(),
            message: error.to_string(),
        })));
        let info = &in_flight.info;
        out.push_back(Command::Tell(Notice::Skipped {
            rows: info.rows,
            lower: info.lower,
            upper: info.upper,
            error,
        }));
        self.done_segments.extend(segments);
        self.retries.reset();
        in_flight.info = self.nothing(info.lower, info.upper);
        in_flight.purpose = Purpose::Skip;
        self.send_again(in_flight, config, out)
    }
}

impl InFlight {
    /// What the target holds can be wrong by a batch, if the operator says so, but not by a
    /// snapshot; and what has no rows has nothing to skip.
    fn can_be_skipped(&self) -> bool {
        self.purpose == Purpose::Batch && self.info.snapshot_of.is_empty() && self.info.rows > 0
    }
}

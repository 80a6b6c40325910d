//! One attempt at a write: what is sent, and with which text.

use std::collections::VecDeque;

use super::{InFlight, Outcome, State, Writer};
use crate::batch::BatchInfo;
use crate::checkpoint::{Checkpoint, FORMAT};
use crate::release::Taken;
use crate::session::command::{Command, Write};
use crate::session::{SessionConfig, SessionError};
use crate::types::{Envelope, Frontier};

impl Writer {
    /// Hands a batch over.
    pub(in crate::session) fn write(
        &mut self,
        taken: Taken,
        lower: Frontier,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), SessionError> {
        let info = BatchInfo {
            lower,
            upper: taken.upper,
            committed: self.committed,
            generation: self.generation,
            epoch: self.epoch,
            rows: taken.segments.iter().map(|s| s.rows as u64).sum(),
            bytes: taken.segments.iter().map(|s| s.bytes as u64).sum(),
            snapshot_of: if taken.snapshot { vec![0] } else { Vec::new() },
        };
        let next = self.checkpoint(Some(taken.upper), config);
        self.send(
            Box::new(InFlight {
                info,
                segments: taken.segments,
                next,
                next_text: String::new(),
                is_claim: false,
                unknown: None,
            }),
            config,
            out,
        )
    }

    fn checkpoint(&self, frontier: Option<Frontier>, config: &SessionConfig) -> Checkpoint {
        Checkpoint {
            format: FORMAT,
            sink_id: config.sink_id.clone(),
            epoch: self.epoch,
            nonce: String::new(),
            generation: self.generation,
            frontier,
            component: config.component_digest.clone(),
            views: self.identity.iter().cloned().collect(),
        }
    }

    /// Takes the next epoch with a write of nothing.
    pub(super) fn claim(
        &mut self,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), SessionError> {
        if self.committed.is_none() {
            // A snapshot will follow. Its generation is durable before its first row: a worker
            // that comes after a crash in the middle of it must take a higher one.
            self.generation += 1;
        }
        let at = self.committed.unwrap_or(0);
        let info = BatchInfo {
            lower: at,
            upper: at,
            committed: self.committed,
            generation: self.generation,
            epoch: self.epoch,
            rows: 0,
            bytes: 0,
            snapshot_of: Vec::new(),
        };
        let next = self.checkpoint(self.committed, config);
        self.send(
            Box::new(InFlight {
                info,
                segments: Vec::new(),
                next,
                next_text: String::new(),
                is_claim: true,
                unknown: None,
            }),
            config,
            out,
        )
    }

    /// Every attempt has a text of its own, so that one that lands late is recognised.
    pub(super) fn send(
        &mut self,
        mut in_flight: Box<InFlight>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), SessionError> {
        self.attempt += 1;
        in_flight.unknown = None;
        in_flight.next.nonce = format!("{}-{}", self.worker, self.attempt);
        in_flight.next_text = in_flight.next.encode()?;
        let spans_timestamps = match (in_flight.segments.first(), in_flight.segments.last()) {
            (Some(first), Some(last)) => first.min < last.max,
            _ => false,
        };
        // Only the upsert envelope has a last change per key.
        let nets = config.netted && config.envelope == Envelope::Upsert && spans_timestamps;
        let key = self.view.as_ref().map(|v| v.key.clone());
        out.push_back(Command::Write(Box::new(Write {
            info: in_flight.info.clone(),
            segments: in_flight.segments.clone(),
            net_by: key.filter(|_| nets),
            expected: self.expected.clone(),
            next: in_flight.next_text.clone(),
        })));
        self.state = State::Writing(in_flight);
        Ok(())
    }

    pub(super) fn send_again(
        &mut self,
        in_flight: Box<InFlight>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        match self.send(in_flight, config, out) {
            Ok(()) => Outcome::Nothing,
            Err(error) => Outcome::Failed(error),
        }
    }
}

//! One attempt at a write: what is sent, and with which text.

use std::collections::VecDeque;

use super::{InFlight, Outcome, Purpose, State, Writer};
use crate::batch::BatchInfo;
use crate::checkpoint::{Checkpoint, FORMAT};
use crate::cut::Taken;
use crate::planted::{self, Planted};
use crate::release::Segment;
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
            rows: taken.segments.iter().map(|s| s.rows as u64).sum(),
            bytes: taken.segments.iter().map(|s| s.bytes as u64).sum(),
            snapshot_of: taken.snapshot_of,
            ..self.nothing(lower, taken.upper)
        };
        let in_flight = self.in_flight(Purpose::Batch, info, Some(taken.upper), config);
        let segments = taken.segments;
        self.send(
            Box::new(InFlight {
                segments,
                ..in_flight
            }),
            config,
            out,
        )
    }

    /// Takes over what is stored, and takes the next epoch with a write of nothing.
    pub(in crate::session) fn claim(
        &mut self,
        found: Option<Checkpoint>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), SessionError> {
        self.epoch = found.as_ref().map_or(1, |found| found.epoch + 1);
        self.generation = found.as_ref().map_or(0, |found| found.generation);
        self.committed = found.and_then(|found| found.frontier);
        if self.committed.is_none() && !planted::is(Planted::GenerationNotRaised) {
            // A snapshot will follow. Its generation is durable before its first row: a worker
            // that comes after a crash in the middle of it must take a higher one.
            self.generation += 1;
        }
        self.write_nothing(Purpose::Claim, config, out)
    }

    /// Raises the generation with a write of nothing, before the first row of another snapshot.
    pub(in crate::session) fn raise_generation(
        &mut self,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), SessionError> {
        self.generation += u64::from(!planted::is(Planted::GenerationNotRaisedAgain));
        self.write_nothing(Purpose::Generation, config, out)
    }

    fn write_nothing(
        &mut self,
        purpose: Purpose,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), SessionError> {
        let at = self.committed.unwrap_or(0);
        let info = self.nothing(at, at);
        let in_flight = self.in_flight(purpose, info, self.committed, config);
        self.send(Box::new(in_flight), config, out)
    }

    /// A batch without rows.
    pub(super) fn nothing(&self, lower: Frontier, upper: Frontier) -> BatchInfo {
        BatchInfo {
            lower,
            upper,
            committed: self.committed,
            generation: self.generation,
            epoch: self.epoch,
            rows: 0,
            bytes: 0,
            snapshot_of: Vec::new(),
        }
    }

    /// A write without segments, and without a text yet.
    fn in_flight(
        &self,
        purpose: Purpose,
        info: BatchInfo,
        frontier: Option<Frontier>,
        config: &SessionConfig,
    ) -> InFlight {
        let is_replaced = |view: &u32| self.committed.is_none() || info.snapshot_of.contains(view);
        let views = self.identities.iter().zip(0..).map(|(now, view)| {
            let former = self.former.get(&view);
            former
                .filter(|_| !is_replaced(&view) && !planted::is(Planted::FormerForgotten))
                .unwrap_or(now)
                .clone()
        });
        InFlight {
            next: Checkpoint {
                format: FORMAT,
                sink_id: config.sink_id.clone(),
                epoch: self.epoch,
                nonce: String::new(),
                generation: self.generation,
                frontier,
                component: config.component_digest.clone(),
                views: views.collect(),
            },
            info,
            segments: Vec::new(),
            next_text: String::new(),
            purpose,
            give_up: None,
            unknown: None,
        }
    }

    /// Every attempt has a text of its own, so that one that lands late is recognised.
    pub(super) fn send(
        &mut self,
        mut in_flight: Box<InFlight>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), SessionError> {
        let Some(views) = &self.views else {
            return Ok(());
        };
        self.attempt += 1;
        in_flight.unknown = None;
        in_flight.next.nonce = format!("{}-{}", self.worker, self.attempt);
        if planted::is(Planted::NoNonce) {
            in_flight.next.nonce.clear();
        }
        in_flight.next_text = in_flight.next.encode()?;
        // Only the upsert envelope has a last change per key.
        let nets = config.netted
            && config.envelope == Envelope::Upsert
            && spans_timestamps(&in_flight.segments);
        out.push_back(Command::Write(Box::new(Write {
            info: in_flight.info.clone(),
            views: views.clone(),
            segments: in_flight.segments.clone(),
            net: nets,
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

/// Whether a key can occur more than once.
fn spans_timestamps(segments: &[Segment]) -> bool {
    let times = segments.iter().map(|s| (s.min, s.max));
    let span = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    span.is_some_and(|(min, max)| min < max)
}

//! The half of the session that talks to Materialize: all views, from one time, at one frontier.
//!
//! ```text
//!   look up every view ──> [epoch is claimed] ──> resume all, or hold one time readable and
//!                                                 start the snapshots at it one after another
//! ```
//!
//! Any view's failure ends all of them, and all start again at the common frontier.

mod failure;
mod start;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::command::{Command, DeadLetter, Notice, SourceEvent};
use super::member::{Member, Step};
use super::side::{Answer, Side};
use super::{Now, OnKeyViolation, SessionConfig, SessionError};
use crate::catalog::{CatalogError, Frontiers, Object};
use crate::cut::{self, Taken};
use crate::decode::Fields;
use crate::release::{Accepted, Held, Segment, SegmentId};
use crate::retry::{Entropy, Retries};
use crate::types::{Frontier, Timestamp, View};

/// Time between two looks at how far the history reaches, and at what the names stand for.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug)]
enum Phase {
    LookingUp,
    /// Every object is known; the session says from where to read.
    Resolved,
    /// Waits for a time at which all can be read.
    Holding(Plan),
    Streaming {
        /// The view whose snapshot is being read.
        loading: Option<usize>,
        /// Views whose snapshot has not begun, in order, and their time.
        waiting: VecDeque<usize>,
        as_of: Timestamp,
    },
    Waiting {
        until: Now,
    },
    Ended,
    Stopped,
}

/// From where each view is to be read.
#[derive(Debug)]
struct Plan {
    /// Where the views resume that need no snapshot.
    from: Option<Frontier>,
    /// Views that need one.
    snapshots: BTreeSet<usize>,
    /// Views that go on from now.
    skips: BTreeSet<usize>,
}

/// What the session needs to know after an event.
#[derive(Debug)]
pub(super) enum Outcome {
    Nothing,
    /// Every object is known.
    Resolved,
    Failed(SessionError),
}

#[derive(Debug)]
pub(super) struct Reader {
    phase: Phase,
    members: Vec<Member>,
    side: Side,
    views: Arc<[View]>,
    /// One for each view, once there is a stream.
    held: Vec<Held>,
    retries: Retries,
    entropy: Entropy,
    was_connected: bool,
    renewed_credentials: bool,
    looked_up_again: bool,
    /// Views whose contents must be read anew although there is a checkpoint.
    expired: BTreeSet<usize>,
    /// Views that go on from now, since their history is gone.
    skipping: BTreeSet<usize>,
    /// Upper of what was handed to the writer, or committed before.
    lower: Option<Frontier>,
    spilled: BTreeMap<SegmentId, (usize, u64)>,
    next_look: Option<Now>,
    changes_read: u64,
}

impl Reader {
    pub(super) fn new(seed: u64, views: usize) -> Self {
        Self {
            phase: Phase::LookingUp,
            members: (0..views).map(Member::new).collect(),
            side: Side::new(views),
            views: Arc::from([]),
            held: Vec::new(),
            retries: Retries::default(),
            entropy: Entropy::new(seed),
            was_connected: false,
            renewed_credentials: false,
            looked_up_again: false,
            expired: BTreeSet::new(),
            skipping: BTreeSet::new(),
            lower: None,
            spilled: BTreeMap::new(),
            next_look: None,
            changes_read: 0,
        }
    }

    pub(super) fn connect(&mut self, out: &mut VecDeque<Command>) {
        self.phase = Phase::LookingUp;
        for member in &mut self.members {
            member.connect(out);
        }
    }

    pub(super) fn is_resolved(&self) -> bool {
        matches!(self.phase, Phase::Resolved)
    }

    /// Whether nothing more will come.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Whether anything was subscribed to yet.
    pub(super) fn has_read(&self) -> bool {
        !self.held.is_empty()
    }

    /// What the catalog said, of every view.
    pub(super) fn objects(&self) -> Vec<Object> {
        let objects = self.members.iter().filter_map(Member::object);
        objects.cloned().collect()
    }

    pub(super) fn timeout(&self) -> Option<Now> {
        match self.phase {
            Phase::Waiting { until } => Some(until),
            Phase::Streaming { .. } => self.next_look,
            _ => None,
        }
    }

    pub(super) fn handle_timeout(
        &mut self,
        now: Now,
        committed: Option<Frontier>,
        out: &mut VecDeque<Command>,
    ) {
        if self.timeout().is_none_or(|at| now < at) {
            return;
        }
        if matches!(self.phase, Phase::Waiting { .. }) {
            self.connect(out);
            return;
        }
        self.next_look = Some(now.saturating_add(LOOK_INTERVAL));
        if committed.is_some() && self.side.is_off() {
            let ids = self.members.iter().filter_map(Member::object);
            let ids = ids.map(|object| object.id.clone()).collect();
            self.side.look(ids, out);
        }
    }

    pub(super) fn stop(&mut self, out: &mut VecDeque<Command>) {
        self.disconnect(out);
        self.phase = Phase::Stopped;
    }

    fn disconnect(&mut self, out: &mut VecDeque<Command>) {
        for member in &mut self.members {
            member.disconnect(out);
        }
        self.side.disconnect(out);
    }

    pub(super) fn lower(&self) -> Option<Frontier> {
        self.lower
    }

    /// The frontier below which everything is closed in every view.
    pub(super) fn closed(&self) -> Option<Frontier> {
        if self.held.is_empty() {
            return None;
        }
        cut::closed(&self.held)
    }

    pub(super) fn has_closed_rows(&self) -> bool {
        cut::has_closed_rows(&self.held)
    }

    pub(super) fn take_changes_read(&mut self) -> u64 {
        std::mem::take(&mut self.changes_read)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.held.iter().map(Held::memory_bytes).sum()
    }

    pub(super) fn spilled_bytes(&self) -> u64 {
        self.spilled.values().map(|(_, bytes)| bytes).sum()
    }

    fn spilled_bytes_of(&self, view: usize) -> u64 {
        let of_view = self.spilled.values().filter(|(of, _)| *of == view);
        of_view.map(|(_, bytes)| bytes).sum()
    }

    /// Whether rows of this connection have room.
    pub(super) fn wants_rows(&self, connection: usize, config: &SessionConfig) -> bool {
        self.spilled_bytes_of(connection) < config.spill_quota()
    }

    /// Whether some view has no more room.
    pub(super) fn is_full(&self, config: &SessionConfig) -> bool {
        (0..self.members.len()).any(|view| !self.wants_rows(view, config))
    }

    /// Whether a view has no more room although no other holds it back: what belongs together is
    /// too large.
    pub(super) fn is_stuck(&self, config: &SessionConfig) -> bool {
        let joint = self.closed();
        let holds_back = |held: &Held| held.closed() == joint;
        let views = self.held.iter().enumerate();
        views
            .filter(|(_, held)| holds_back(held))
            .any(|(view, _)| !self.wants_rows(view, config))
    }

    /// Takes a batch, with its lower bound.
    pub(super) fn take(&mut self, max_bytes: usize) -> Option<(Taken, Frontier)> {
        if self.held.is_empty() {
            return None;
        }
        let taken = cut::take(&mut self.held, self.lower, max_bytes)?;
        let lower = match taken.snapshot_at {
            Some(as_of) if taken.snapshot_of.len() == self.held.len() => as_of,
            Some(as_of) => self.lower.unwrap_or(0).min(as_of),
            None => self.lower.unwrap_or(0),
        };
        self.lower = Some(taken.upper);
        for view in &taken.snapshot_of {
            self.expired.remove(&(*view as usize));
        }
        Some((taken, lower))
    }

    /// Marks views whose contents must be read anew.
    pub(super) fn expire(&mut self, views: impl IntoIterator<Item = usize>) {
        self.expired.extend(views);
    }

    /// Another checkpoint is taken over, of which nothing is known to be lost.
    pub(super) fn forget_expired(&mut self) {
        self.expired.clear();
    }

    pub(super) fn expired(&self) -> &BTreeSet<usize> {
        &self.expired
    }

    /// Segments are committed or given up.
    pub(super) fn release(&mut self, segments: &[Segment], out: &mut VecDeque<Command>) {
        let spilled = segments.iter().filter(|s| s.chunk.is_none());
        self.forget(spilled.map(|s| s.id).collect(), out);
    }

    fn forget(&mut self, ids: Vec<SegmentId>, out: &mut VecDeque<Command>) {
        for id in &ids {
            self.spilled.remove(id);
        }
        if !ids.is_empty() {
            out.push_back(Command::Forget { ids });
        }
    }

    /// Spills what is over `memory` bytes, of the view that holds most.
    pub(super) fn spill(&mut self, memory: usize, out: &mut VecDeque<Command>) {
        while self.memory_bytes() > memory {
            let mut views: Vec<_> = (0..self.held.len()).collect();
            views.sort_by_key(|view| std::cmp::Reverse(self.held[*view].memory_bytes()));
            let spilled = views
                .into_iter()
                .find_map(|view| Some((view, self.held[view].spill_newest()?)));
            let Some((view, (id, chunk, bytes))) = spilled else {
                break;
            };
            self.spilled.insert(id, (view, bytes as u64));
            out.push_back(Command::Spill { id, chunk });
        }
    }

    pub(super) fn handle(
        &mut self,
        now: Now,
        connection: usize,
        event: SourceEvent,
        committed: Option<Frontier>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        if matches!(self.phase, Phase::Stopped | Phase::Waiting { .. }) {
            return Outcome::Nothing;
        }
        let Some(member) = self.members.get_mut(connection) else {
            return match self.side.handle(event, config, out) {
                Ok(answer) => self.answered(now, answer, committed, config, out),
                Err(trouble) => self.side_failed(now, trouble, config, out),
            };
        };
        let is_connected = matches!(event, SourceEvent::Connected(Ok(())));
        self.was_connected |= is_connected;
        let step = match member.handle(now, event, config, out) {
            Ok(step) => step,
            Err(trouble) => return self.failed(now, connection, trouble, config, out),
        };
        match step {
            Step::Nothing => Outcome::Nothing,
            Step::Resolved => match self.resolved(connection, config, out) {
                Err(error) => Outcome::Failed(error.into()),
                Ok(()) if self.members.iter().all(Member::is_resolved) => {
                    self.phase = Phase::Resolved;
                    Outcome::Resolved
                }
                Ok(()) => Outcome::Nothing,
            },
            Step::Ended => self.ended(connection, config, out),
        }
    }

    /// Checks what is known of an object by itself.
    fn resolved(
        &self,
        view: usize,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), CatalogError> {
        let member = &self.members[view];
        let Some(object) = member.object() else {
            return Ok(());
        };
        object.check_index()?;
        object.check_timeline(config.views.len())?;
        if !config.allow_short_retention {
            object.check_retention(member.sql_kind(), config.commit_lag())?;
        }
        out.push_back(Command::Tell(Notice::Resolved {
            object: object.name(),
            id: object.id.clone(),
        }));
        Ok(())
    }

    fn answered(
        &mut self,
        now: Now,
        answer: Answer,
        committed: Option<Frontier>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        match answer {
            Answer::Nothing => Outcome::Nothing,
            Answer::Held(as_of) => self.held_at(now, as_of, config, out),
            Answer::Seen(frontiers, names) => {
                let objects = || self.members.iter().filter_map(Member::object);
                let is_other = |object: &Object| names.get(&object.id) != Some(&object.full_name);
                // A swap, a new name or a replacement: the stream would go on with what was there
                // before, and say nothing.
                if objects().any(is_other) {
                    self.look_up_again(out);
                    return Outcome::Nothing;
                }
                for object in objects() {
                    if let Some(found) = frontiers.get(&object.id) {
                        self.tell_margin(object, *found, committed, config, out);
                    }
                }
                Outcome::Nothing
            }
        }
    }

    fn tell_margin(
        &self,
        object: &Object,
        found: Frontiers,
        committed: Option<Frontier>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) {
        let Some(committed) = committed else { return };
        let margin = i128::from(committed) - 1 - i128::from(found.read);
        let margin_ms = margin.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        out.push_back(Command::Tell(Notice::Margin {
            object: object.name(),
            margin_ms,
            is_low: object.is_margin_low(found, committed, config.commit_lag()),
        }));
    }

    /// Takes one row of a view.
    pub(super) fn handle_row(
        &mut self,
        view: usize,
        names: &[String],
        row: &(impl Fields + ?Sized),
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Result<(), SessionError> {
        let (Some(member), Some(held)) = (self.members.get_mut(view), self.held.get_mut(view))
        else {
            return Ok(());
        };
        let object = &config.views[view].object;
        let accepted = member
            .handle_row(names, row, &self.views[view], held, config)
            .map_err(|error| SessionError::Stream {
                object: object.clone(),
                error,
            })?;
        match accepted {
            None | Some(Accepted::Nothing) => {}
            Some(Accepted::Held) => self.changes_read += 1,
            // Only a stream that moves on shows that a reconnect has worked.
            Some(Accepted::Advanced(_)) => {
                self.retries.reset();
                self.renewed_credentials = false;
                self.looked_up_again = false;
                self.has_advanced(view, config, out);
            }
            Some(Accepted::KeyViolation(chunk)) => {
                if config.on_key_violation == OnKeyViolation::Stall {
                    return Err(SessionError::KeyViolation {
                        object: object.clone(),
                        time: chunk.timestamps[0],
                    });
                }
                self.changes_read += 1;
                out.push_back(Command::DeadLetter(Box::new(DeadLetter {
                    views: self.views.clone(),
                    segments: vec![Segment::alone(chunk)],
                    category: "key-violation".into(),
                    message:
                        "several rows have this key, so the target has none of them: source.key \
                              must be unique"
                            .into(),
                })));
            }
        }
        Ok(())
    }

    fn ended(
        &mut self,
        view: usize,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        if let Some(held) = self.held.get_mut(view)
            && let Err(error) = held.finish()
        {
            return Outcome::Failed(SessionError::Stream {
                object: config.views[view].object.clone(),
                error,
            });
        }
        self.has_advanced(view, config, out);
        if self.members.iter().all(Member::is_ended) {
            self.side.disconnect(out);
            self.phase = Phase::Ended;
        }
        Outcome::Nothing
    }
}

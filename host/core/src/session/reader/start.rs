//! From where the views are read: all at one time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::{LOOK_INTERVAL, Outcome, Phase, Plan, Reader};
use crate::catalog::CatalogError;
use crate::chunk::Chunk;
use crate::planted::{self, Planted};
use crate::release::{Held, Start};
use crate::session::command::{Command, Notice};
use crate::session::{Now, SessionConfig};
use crate::types::{Frontier, Timestamp, View};

impl Reader {
    /// Drops whatever was held and reads every view from `from`, with the snapshot of all when
    /// there is none, and of those that have expired.
    pub(in crate::session) fn begin(
        &mut self,
        now: Now,
        from: Option<Frontier>,
        views: Arc<[View]>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) {
        if let Some(from) = from {
            for object in self.members.iter().filter_map(super::Member::object) {
                if let Some(frontiers) = object.frontiers {
                    self.tell_margin(object, frontiers, Some(from), config, out);
                }
            }
        }
        self.views = views;
        self.lower = from;
        let all = 0..self.members.len();
        let plan = Plan {
            from,
            snapshots: match from {
                None => all.collect(),
                Some(_) => self.expired.clone(),
            },
            skips: match from {
                None => BTreeSet::new(),
                Some(_) => std::mem::take(&mut self.skipping),
            },
        };
        // The server may choose the time when nothing has to fit to it.
        let is_one_snapshot = self.members.len() == 1 && from.is_none();
        if is_one_snapshot || (plan.snapshots.is_empty() && plan.skips.is_empty()) {
            self.start(now, &plan, None, config, out);
        } else {
            let names = self.members.iter().filter_map(super::Member::object);
            let names = names.map(|object| object.full_name.clone()).collect();
            // Nothing of the streams before may be committed any more: the new ones begin at
            // `from`, and would bring it again.
            self.drop_held(out);
            self.side.hold(names, out);
            self.phase = Phase::Holding(plan);
        }
    }

    /// A frontier that no object has reached was not committed on this server.
    pub(in crate::session) fn check_not_ahead(&self, from: Frontier) -> Result<(), CatalogError> {
        let mut objects = self.members.iter().filter_map(super::Member::object);
        objects.try_for_each(|object| object.check_reached(from))
    }

    /// A snapshot is of now, and what is to end before that has none.
    pub(in crate::session) fn check_not_over(
        &self,
        up_to: Option<Frontier>,
    ) -> Result<(), CatalogError> {
        let mut objects = self.members.iter().filter_map(super::Member::object);
        up_to.map_or(Ok(()), |up_to| {
            objects.try_for_each(|object| object.check_not_over(up_to))
        })
    }

    /// All objects are readable at `as_of`.
    pub(super) fn held_at(
        &mut self,
        now: Now,
        as_of: Timestamp,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) -> Outcome {
        let Phase::Holding(plan) = std::mem::replace(&mut self.phase, Phase::Stopped) else {
            return Outcome::Nothing;
        };
        if let Some(from) = plan.from
            && as_of.saturating_add(1) < from
        {
            // An object that is new under its name may still be on its way to the others' time.
            let error = CatalogError::CheckpointAhead {
                object: config.views[0].object.clone(),
                frontier: from,
                write: as_of.saturating_add(1),
            };
            return self.again(now, true, error.into(), config, out);
        }
        self.start(now, &plan, Some(as_of), config, out);
        Outcome::Nothing
    }

    /// Subscribes: what resumes at once, the snapshots one after another.
    fn start(
        &mut self,
        now: Now,
        plan: &Plan,
        as_of: Option<Timestamp>,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) {
        let starts: Vec<_> = (0..self.members.len())
            .map(|view| match (as_of, plan.from) {
                (None, Some(from)) if !plan.snapshots.contains(&view) => Start::Resume(from),
                (None, _) => Start::Snapshot,
                (Some(as_of), _) if plan.snapshots.contains(&view) => Start::SnapshotAt(as_of),
                (Some(as_of), _) if plan.skips.contains(&view) => {
                    Start::Resume(as_of.saturating_add(1))
                }
                (Some(as_of), from) => Start::Resume(from.unwrap_or(as_of)),
            })
            .collect();
        let snapshot_at = as_of.filter(|_| !plan.snapshots.is_empty());
        self.restart(&starts, snapshot_at, config.end(), out);
        let mut waiting = VecDeque::new();
        for (view, start) in starts.into_iter().enumerate() {
            match start {
                Start::Resume(_) => self.subscribe(view, start, config, out),
                Start::Snapshot | Start::SnapshotAt(_) => waiting.push_back(view),
            }
        }
        let loading = waiting.pop_front();
        if let Some(view) = loading {
            let as_of = as_of.filter(|_| !planted::is(Planted::SnapshotsApart));
            let start = as_of.map_or(Start::Snapshot, Start::SnapshotAt);
            self.subscribe(view, start, config, out);
        }
        self.phase = Phase::Streaming {
            loading,
            waiting,
            as_of: as_of.unwrap_or_default(),
        };
        self.next_look = Some(now.saturating_add(LOOK_INTERVAL));
    }

    fn subscribe(
        &mut self,
        view: usize,
        start: Start,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) {
        let member = &mut self.members[view];
        let object = member.object().map(|o| o.name()).unwrap_or_default();
        out.push_back(Command::Tell(Notice::Subscribing { object, start }));
        member.subscribe(start, config, out);
    }

    /// A view's frontier has moved: when its snapshot is whole by that, the next may begin.
    pub(super) fn has_advanced(
        &mut self,
        view: usize,
        config: &SessionConfig,
        out: &mut VecDeque<Command>,
    ) {
        let Phase::Streaming {
            loading,
            waiting,
            as_of,
        } = &mut self.phase
        else {
            return;
        };
        let as_of = *as_of;
        if *loading == Some(view) && self.held[view].closed().is_some() {
            *loading = waiting.pop_front();
            if let Some(next) = *loading {
                self.subscribe(next, Start::SnapshotAt(as_of), config, out);
            }
        }
        // All have begun to read, so none needs the common time to be held any longer.
        if self.side.is_holding() && self.closed().is_some() {
            self.side.disconnect(out);
        }
    }

    /// Forgets what is held, and expects new streams.
    fn restart(
        &mut self,
        starts: &[Start],
        snapshot_at: Option<Timestamp>,
        end: Frontier,
        out: &mut VecDeque<Command>,
    ) {
        let is_new = self.held.len() != starts.len();
        if is_new {
            self.held = self
                .views
                .iter()
                .zip(0..)
                .map(|(view, index)| {
                    let empty = Chunk::new(index, view.columns.iter().map(|c| &c.ty));
                    Held::new(empty, Start::Snapshot)
                })
                .collect();
        }
        let mut dropped = Vec::new();
        for (held, start) in self.held.iter_mut().zip(starts) {
            dropped.extend(held.restart(*start));
            held.set_end(end);
            if let Some(as_of) = snapshot_at {
                held.set_boundary(as_of.saturating_add(1));
            }
        }
        self.forget(dropped, out);
    }

    /// Reads everything anew from what is committed, after what is held turned out not to be wanted.
    pub(in crate::session) fn reconnect(&mut self, out: &mut VecDeque<Command>) {
        self.lower = None;
        self.drop_held(out);
        self.look_up_again(out);
    }

    fn drop_held(&mut self, out: &mut VecDeque<Command>) {
        let held = self.held.iter_mut();
        let dropped = held
            .flat_map(|held| held.restart(Start::Snapshot))
            .collect();
        self.forget(dropped, out);
    }

    /// Starts over from the look-up.
    pub(in crate::session) fn look_up_again(&mut self, out: &mut VecDeque<Command>) {
        self.disconnect(out);
        self.connect(out);
    }
}

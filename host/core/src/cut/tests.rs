//! Whatever the views do and however they are read: every cut is one time in all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::chunk::{Chunk, Value};
use crate::decode::tests::{change, decoder, empty, progress};
use crate::release::{SegmentId, Start};
use crate::types::CLOSED;

/// A step of one of the views, or of the consumer.
#[derive(Clone, Debug)]
enum Step {
    /// Changes of a view this much later, each with a name of this many bytes.
    Changes(usize, u64, usize, usize),
    /// Everything of a view so far is closed, and this much more.
    Progress(usize, u64),
    Take(usize),
    /// What a view holds over this many bytes is spilled.
    Spill(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let view = 0..3usize;
    let step = prop_oneof![
        6 => (view.clone(), 0..4u64, 1..120usize, 0..40usize)
            .prop_map(|(v, later, n, size)| Step::Changes(v, later, n, size)),
        1 => (view.clone(), 0..4u64, 1..4usize, 300_000..700_000usize)
            .prop_map(|(v, later, n, size)| Step::Changes(v, later, n, size)),
        5 => (view.clone(), 0..6u64).prop_map(|(v, later)| Step::Progress(v, later)),
        4 => prop_oneof![Just(0), 1..3_000_000usize].prop_map(Step::Take),
        1 => (view, 0..1_000_000usize).prop_map(|(v, memory)| Step::Spill(v, memory)),
    ];
    prop::collection::vec(step, 1..80)
}

/// A view: what was sent of it, and what was taken.
struct View {
    time: Timestamp,
    frontier: Frontier,
    sent: Vec<(Timestamp, i64)>,
    taken: Vec<(Timestamp, i64)>,
}

struct Streams {
    held: Vec<Held>,
    views: Vec<View>,
    spilled: BTreeMap<SegmentId, Arc<Chunk>>,
    lower: Option<Frontier>,
}

const AS_OF: Timestamp = 1000;

impl Streams {
    fn new(starts: &[Start]) -> Self {
        let mut held: Vec<Held> = Vec::new();
        let mut views = Vec::new();
        let has_snapshot = starts.iter().any(|start| start.is_snapshot());
        for (start, index) in starts.iter().zip(0..) {
            let mut chunk = empty();
            chunk.view = index;
            let mut one = Held::new(chunk, *start);
            if has_snapshot {
                one.set_boundary(AS_OF + 1);
            }
            let from = match start {
                Start::Resume(from) => *from,
                Start::Snapshot | Start::SnapshotAt(_) => AS_OF,
            };
            let as_of = if start.is_snapshot() { from } else { from - 1 };
            one.accept(&decoder(), &progress(as_of)).unwrap();
            held.push(one);
            views.push(View {
                time: from,
                frontier: from,
                sent: Vec::new(),
                taken: Vec::new(),
            });
        }
        let resumed = starts.iter().find_map(|start| match start {
            Start::Resume(from) => Some(*from),
            Start::Snapshot | Start::SnapshotAt(_) => None,
        });
        Self {
            held,
            views,
            spilled: BTreeMap::new(),
            lower: resumed,
        }
    }

    fn changes(&mut self, index: usize, later: u64, n: usize, size: usize) {
        let view = &mut self.views[index];
        view.time += later;
        for _ in 0..n {
            let key = view.sent.len() as i64;
            let row = change(view.time, key, &"x".repeat(size));
            self.held[index].accept(&decoder(), &row).unwrap();
            view.sent.push((view.time, key));
        }
    }

    fn progress(&mut self, index: usize, later: u64) {
        let view = &mut self.views[index];
        view.frontier = (view.time + 1 + later).max(view.frontier);
        view.time = view.frontier;
        let row = progress(view.frontier);
        self.held[index].accept(&decoder(), &row).unwrap();
    }

    fn take(&mut self, max_bytes: usize) -> bool {
        let closed = closed(&self.held);
        let Some(taken) = take(&mut self.held, self.lower, max_bytes) else {
            return false;
        };
        let lower = self.lower.unwrap_or(0);
        assert!(taken.upper > lower, "a cut goes forward");
        assert!(closed.is_some_and(|closed| taken.upper <= closed));
        if let Some(as_of) = taken.snapshot_at {
            assert_eq!((as_of, taken.upper), (AS_OF, AS_OF + 1));
        }
        for segment in taken.segments {
            let spilled = || self.spilled.remove(&segment.id).unwrap();
            let chunk = segment.chunk.unwrap_or_else(spilled);
            for (row, time) in chunk.timestamps.iter().enumerate() {
                assert!((lower..taken.upper).contains(time), "nothing outside");
                let Value::Int(key) = chunk.columns[0].get(row) else {
                    panic!("the key is gone")
                };
                self.views[chunk.view as usize].taken.push((*time, key));
            }
        }
        for view in &self.views {
            let below = view.sent.iter().filter(|(time, _)| *time < taken.upper);
            assert!(below.eq(&view.taken), "everything inside, once, in order");
        }
        self.lower = Some(taken.upper);
        true
    }

    fn run(mut self, steps: Vec<Step>) {
        let count = self.held.len();
        for step in steps {
            match step {
                Step::Changes(view, later, n, size) => self.changes(view % count, later, n, size),
                Step::Progress(view, later) => self.progress(view % count, later),
                Step::Take(max_bytes) => {
                    self.take(max_bytes);
                }
                Step::Spill(view, memory) => {
                    let held = &mut self.held[view % count];
                    while held.memory_bytes() > memory {
                        let Some((id, chunk, _)) = held.spill_newest() else {
                            break;
                        };
                        assert!(self.spilled.insert(id, chunk).is_none(), "one name twice");
                    }
                }
            }
        }
        for held in &mut self.held {
            held.finish().unwrap();
        }
        while self.take(1_000_000) {}
        assert_eq!(self.lower, Some(CLOSED), "a limit never blocks for ever");
        assert!(self.spilled.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn views_that_resume_are_cut_at_one_time(steps in steps(), views in 2..4usize) {
        Streams::new(&vec![Start::Resume(900); views]).run(steps);
    }

    #[test]
    fn snapshots_at_one_time_are_one_cut(steps in steps(), views in 1..4usize) {
        Streams::new(&vec![Start::SnapshotAt(AS_OF); views]).run(steps);
    }

    #[test]
    fn a_view_read_anew_joins_the_others_in_one_cut(steps in steps()) {
        let resume = Start::Resume(990);
        Streams::new(&[resume, Start::SnapshotAt(AS_OF), resume]).run(steps);
    }
}

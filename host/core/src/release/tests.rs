//! Whatever the stream and whenever it is taken from: every change once, in order, whole.

use proptest::prelude::*;

use super::*;
use crate::cut::{self, Taken};
use crate::decode::tests::{Row, change, decoder, empty, progress};
use crate::types::CLOSED;

/// A step of a random stream.
#[derive(Clone, Debug)]
enum Step {
    /// The clock of the changes goes on.
    Tick(u64),
    /// Changes at the current time, each with a name of this many bytes.
    Changes(usize, usize),
    /// Everything so far is closed; this much later may also be.
    Progress(u64),
    /// A batch is asked for.
    Take(usize),
    /// What is over this many bytes is spilled.
    Spill(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..5u64).prop_map(Step::Tick),
        4 => (1..150usize, 0..50usize).prop_map(|(n, size)| Step::Changes(n, size)),
        1 => (1..4usize, 100_000..800_000usize).prop_map(|(n, size)| Step::Changes(n, size)),
        2 => (0..5u64).prop_map(Step::Progress),
        3 => prop_oneof![Just(0), 1..3_000_000usize].prop_map(Step::Take),
        1 => (0..2_000_000usize).prop_map(Step::Spill),
    ];
    prop::collection::vec(step, 1..60)
}

/// Takes a cut of this one view.
fn take(held: &mut Held, max_bytes: usize) -> Option<Taken> {
    let lower = match held.start {
        Start::Resume(lower) => Some(lower),
        Start::Snapshot | Start::SnapshotAt(_) => None,
    };
    cut::take(std::slice::from_mut(held), lower, max_bytes)
}

/// What was taken, with spilled rows put back.
#[derive(Default)]
struct Consumer {
    spilled: std::collections::BTreeMap<SegmentId, Arc<Chunk>>,
    lower: Option<Frontier>,
    /// Time, ordinal and key.
    rows: Vec<(Timestamp, u32, i64)>,
}

impl Consumer {
    fn spill(&mut self, held: &mut Held, memory: usize) {
        while held.memory_bytes() > memory {
            let Some((id, chunk, _)) = held.spill_newest() else {
                break;
            };
            assert!(self.spilled.insert(id, chunk).is_none(), "one name twice");
        }
    }

    fn take(&mut self, held: &mut Held, max_bytes: usize) -> bool {
        let before = held.memory_bytes();
        let Some(taken) = take(held, max_bytes) else {
            return false;
        };
        assert!(held.memory_bytes() <= before + 64, "taking frees memory");
        let lower = self.lower.unwrap_or(0);
        assert!(taken.upper > lower, "a batch goes forward");
        assert!(held.closed().is_some_and(|closed| taken.upper <= closed));
        if taken.snapshot_at.is_some() {
            assert_eq!(self.lower, None, "the snapshot comes first");
        }
        for segment in taken.segments {
            let chunk = segment
                .chunk
                .unwrap_or_else(|| self.spilled.remove(&segment.id).unwrap());
            assert_eq!(chunk.rows(), segment.rows);
            assert_eq!(chunk.byte_len(), segment.bytes);
            assert_eq!(chunk.timestamps.first(), Some(&segment.min));
            assert_eq!(chunk.timestamps.last(), Some(&segment.max));
            for row in 0..chunk.rows() {
                let time = chunk.timestamps[row];
                assert!((lower..taken.upper).contains(&time));
                let crate::chunk::Value::Int(key) = chunk.columns[0].get(row) else {
                    panic!("the key is gone")
                };
                self.rows.push((time, chunk.ordinals[row], key));
            }
        }
        self.lower = Some(taken.upper);
        true
    }
}

fn run(start: Start, steps: Vec<Step>) {
    let decoder = decoder();
    let mut held = Held::new(empty(), start);
    let mut consumer = Consumer::default();
    let as_of = 1000;
    let accept = |held: &mut Held, row: Row| held.accept(&decoder, &row).unwrap();
    accept(&mut held, progress(as_of));
    let (mut time, mut frontier) = match start {
        Start::Snapshot | Start::SnapshotAt(_) => (as_of, as_of),
        Start::Resume(frontier) => (frontier, frontier),
    };
    let mut sent = Vec::new();
    let mut ordinal = 0;
    for step in steps {
        match step {
            Step::Tick(by) => (time, ordinal) = (time + by, 0),
            Step::Changes(n, size) => {
                for _ in 0..n {
                    let key = sent.len() as i64;
                    accept(&mut held, change(time, key, &"x".repeat(size)));
                    sent.push((time, ordinal, key));
                    ordinal += 1;
                }
            }
            Step::Progress(by) => {
                frontier = (time + 1 + by).max(frontier);
                accept(&mut held, progress(frontier));
                if time < frontier {
                    (time, ordinal) = (frontier, 0);
                }
            }
            Step::Take(max_bytes) => {
                consumer.take(&mut held, max_bytes);
            }
            Step::Spill(memory) => consumer.spill(&mut held, memory),
        }
    }
    held.finish().unwrap();
    while consumer.take(&mut held, 1_000_000) {}
    assert_eq!(consumer.lower, Some(CLOSED));
    assert_eq!(consumer.rows, sent);
    assert!(consumer.spilled.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_change_of_a_snapshot_and_what_follows_is_taken_once(steps in steps()) {
        run(Start::Snapshot, steps);
    }

    #[test]
    fn every_change_after_a_resume_is_taken_once(steps in steps()) {
        run(Start::Resume(1001), steps);
    }
}

/// Held rows of which a chunk was sealed while only its first part was closed.
#[test]
fn a_chunk_sealed_across_the_frontier_loses_nothing() {
    let decoder = decoder();
    let mut held = Held::new(empty(), Start::Resume(10));
    let accept = |held: &mut Held, row: Row| held.accept(&decoder, &row).unwrap();
    accept(&mut held, progress(9));
    accept(&mut held, change(10, 1, "small"));
    accept(&mut held, progress(20));
    accept(&mut held, change(25, 2, &"x".repeat(2 * CHUNK_BYTES)));
    let taken = take(&mut held, usize::MAX).unwrap();
    assert_eq!(taken.upper, 20);
    assert_eq!(taken.segments.iter().map(|s| s.rows).sum::<usize>(), 1);
    accept(&mut held, progress(30));
    let taken = take(&mut held, usize::MAX).unwrap();
    assert_eq!(taken.segments.iter().map(|s| s.rows).sum::<usize>(), 1);
}

/// A server that sends changes ahead of their progress row breaks no rule.
#[test]
fn changes_ahead_of_the_frontier_wait_in_one_piece() {
    let decoder = decoder();
    let mut held = Held::new(empty(), Start::Resume(10));
    let accept = |held: &mut Held, row: Row| held.accept(&decoder, &row).unwrap();
    accept(&mut held, progress(9));
    let half = "x".repeat(CHUNK_BYTES / 2);
    accept(&mut held, change(12, 1, &half));
    accept(&mut held, change(40, 2, &half));
    accept(&mut held, progress(20));
    let taken = take(&mut held, usize::MAX).unwrap();
    assert_eq!(
        taken.upper, 12,
        "not 20: the change at 12 waits for the one at 40"
    );
    assert!(taken.segments.is_empty());
    assert!(take(&mut held, usize::MAX).is_none());
    accept(&mut held, progress(50));
    let taken = take(&mut held, usize::MAX).unwrap();
    assert_eq!((taken.upper, taken.segments[0].rows), (50, 2));
}

#[test]
fn memory_is_that_of_what_is_held() {
    let decoder = decoder();
    let mut held = Held::new(empty(), Start::Resume(10));
    let nothing = held.memory_bytes();
    held.accept(&decoder, &progress(9)).unwrap();
    held.accept(&decoder, &change(10, 1, &"x".repeat(1000)))
        .unwrap();
    assert!(held.memory_bytes() > nothing + 1000);
    held.accept(&decoder, &progress(20)).unwrap();
    take(&mut held, usize::MAX).unwrap();
    assert_eq!(held.memory_bytes(), nothing);
}

#[test]
fn a_restart_forgets_all_and_names_what_was_spilled() {
    let decoder = decoder();
    let mut held = Held::new(empty(), Start::Resume(10));
    held.accept(&decoder, &progress(9)).unwrap();
    held.accept(&decoder, &change(10, 1, &"x".repeat(CHUNK_BYTES)))
        .unwrap();
    let (id, _, _) = held.spill_newest().unwrap();
    held.accept(&decoder, &change(11, 2, "x")).unwrap();
    assert_eq!(held.restart(Start::Resume(10)), [id]);
    assert_eq!(held.closed(), None);
    held.accept(&decoder, &progress(9)).unwrap();
    held.accept(&decoder, &change(10, 1, &"x".repeat(CHUNK_BYTES)))
        .unwrap();
    let (again, _, _) = held.spill_newest().unwrap();
    assert_ne!(again, id, "a name is never used twice");
}

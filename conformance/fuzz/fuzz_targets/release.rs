//! A stream is anything that a server sends: released whole, in order and once, or refused.
//!
//! A second consumer takes the same rows at other moments, and must get the same changes.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use mz_sink_core::chunk::{Chunk, Value};
use mz_sink_core::cut;
use mz_sink_core::decode::{Decoder, Fields};
use mz_sink_core::release::{Held, Start};
use mz_sink_core::types::{Column, ColumnType, Envelope, Frontier, View};

#[derive(Arbitrary, Debug)]
enum Step {
    Progress(u8),
    Change(u8, i8, u8),
    Delete(u8, i8),
    Violation(u8, i8),
    /// Only the first consumer takes here.
    Take(u16),
    End,
}

#[derive(Arbitrary, Debug)]
struct Input {
    resume: Option<u8>,
    end: Option<u8>,
    steps: Vec<Step>,
}

struct Row([Option<String>; 5]);

impl Fields for Row {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize) -> Option<&[u8]> {
        self.0[index].as_deref().map(str::as_bytes)
    }
}

fn change(time: u8, state: &str, key: i8, value: Option<String>) -> Row {
    let (time, key) = (time.to_string(), key.to_string());
    Row([
        Some(time),
        Some("f".into()),
        Some(state.into()),
        Some(key),
        value,
    ])
}

/// What one consumer has got.
struct Consumer {
    held: Held,
    lower: Option<Frontier>,
    got: Vec<(u64, bool, i64, usize)>,
}

impl Consumer {
    fn new(view: &View, input: &Input) -> Self {
        let start = match input.resume {
            Some(frontier) => Start::Resume(u64::from(frontier).max(1)),
            None => Start::Snapshot,
        };
        let mut held = Held::new(Chunk::new(0, view.columns.iter().map(|c| &c.ty)), start);
        if let Some(end) = input.end {
            held.set_end(end.into());
        }
        Self {
            held,
            lower: input.resume.map(|frontier| u64::from(frontier).max(1)),
            got: Vec::new(),
        }
    }

    fn take(&mut self, bytes: usize) -> bool {
        let closed = self.held.closed();
        let views = std::slice::from_mut(&mut self.held);
        let Some(taken) = cut::take(views, self.lower, bytes) else {
            return false;
        };
        assert!(
            closed.is_some_and(|closed| taken.upper <= closed),
            "not closed yet"
        );
        let lower = self.lower.replace(taken.upper).unwrap_or(0);
        for chunk in taken.segments.iter().filter_map(|s| s.chunk.as_ref()) {
            for row in 0..chunk.rows() {
                let time = chunk.timestamps[row];
                assert!(
                    time < taken.upper && time >= lower,
                    "{time} in [{lower}, {})",
                    taken.upper
                );
                let Value::Int(key) = chunk.columns[0].get(row) else {
                    panic!("the key is an integer")
                };
                let value = match chunk.columns[1].get(row) {
                    Value::Text(text) => text.len(),
                    _ => usize::MAX,
                };
                let is_put = chunk.op(row) == mz_sink_core::types::Op::Put;
                self.got.push((time, is_put, key, value));
            }
        }
        true
    }
}

fuzz_target!(|input: Input| {
    let column = |name: &str, ty| Column {
        name: name.into(),
        ty,
        nullable: true,
    };
    let view = View {
        name: "v".into(),
        columns: vec![
            column("k", ColumnType::Int64),
            column("v", ColumnType::Text),
        ],
        key: vec![0],
    };
    let names = ["mz_timestamp", "mz_progressed", "mz_state", "k", "v"].map(String::from);
    let decoder = Decoder::new(&view, Envelope::Upsert, &names).expect("the view has these");
    let mut often = Consumer::new(&view, &input);
    let mut once = Consumer::new(&view, &input);
    let mut accepted = 0_usize;
    for step in &input.steps {
        let row = match step {
            Step::Take(bytes) => {
                often.take((*bytes).into());
                continue;
            }
            Step::End => {
                let ends = [often.held.finish(), once.held.finish()];
                assert_eq!(ends[0].is_ok(), ends[1].is_ok());
                break;
            }
            Step::Progress(time) => {
                Row([Some(time.to_string()), Some("t".into()), None, None, None])
            }
            // Some values are large, so that segments and splits come into it.
            Step::Change(time, key, size) => {
                let value = "x".repeat(usize::from(*size) * 4096);
                change(*time, "upsert", *key, Some(value))
            }
            Step::Delete(time, key) => change(*time, "delete", *key, None),
            Step::Violation(time, key) => change(*time, "key_violation", *key, None),
        };
        let first = often.held.accept(&decoder, &row);
        let second = once.held.accept(&decoder, &row);
        assert_eq!(first.is_ok(), second.is_ok());
        if first.is_err() {
            return;
        }
        accepted += usize::from(!matches!(step, Step::Progress(_)));
    }
    while often.take(usize::MAX) {}
    while once.take(usize::MAX) {}
    assert_eq!(often.got, once.got);
    assert!(once.got.len() <= accepted);
    assert!(once.got.is_sorted_by_key(|(time, ..)| *time));
});

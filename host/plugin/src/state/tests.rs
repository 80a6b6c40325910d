//! What counts as progress, and the size of what is handed out.

use mz_sink_core::batch::BatchInfo;
use mz_sink_core::chunk::Values;
use mz_sink_core::types::{Column, ColumnType};

use super::*;

/// One chunk, handed out in parts of at most `max_bytes`.
struct Parts {
    info: BatchInfo,
    chunk: Chunk,
    next: usize,
}

impl BatchRows for Parts {
    fn info(&self) -> &BatchInfo {
        &self.info
    }

    fn next(&mut self, max_bytes: usize) -> Result<Option<(u64, Arc<Chunk>)>, PullError> {
        let first = self.next;
        let row = self.chunk.byte_len().div_ceil(self.chunk.rows());
        let end = (first + (max_bytes / row).max(1)).min(self.chunk.rows());
        self.next = end;
        Ok((first < end).then(|| (first as u64, Arc::new(self.chunk.slice(first..end)))))
    }

    fn rewind(&mut self) {
        self.next = 0;
    }

    fn reject(&mut self, _: u64, _: &str, _: &str) -> Result<(), PullError> {
        Ok(())
    }
}

/// A write of `rows` rows whose columns have these names and all this type and these values.
fn lent(names: &[String], ty: ColumnType, values: Values, rows: usize) -> (State, u32) {
    let columns: Vec<Column> = names
        .iter()
        .map(|name| Column {
            name: name.clone(),
            ty: ty.clone(),
            nullable: false,
        })
        .collect();
    let mut chunk = Chunk::new(0, columns.iter().map(|c| &c.ty));
    chunk.timestamps = vec![1_700_000_000_000; rows];
    chunk.ops = vec![0; rows];
    chunk.ordinals = (0..rows as u32).collect();
    for column in &mut chunk.columns {
        column.values = values.clone();
    }
    let mut state = State::new(Limits::default(), HttpClient::deny_all(), "test");
    state.set_views(vec![View {
        name: "orders".to_owned(),
        columns,
        key: vec![0],
    }]);
    let info = BatchInfo {
        lower: 1,
        upper: 2,
        committed: None,
        generation: 1,
        epoch: 1,
        rows: rows as u64,
        bytes: 0,
        snapshot_of: Vec::new(),
    };
    let handle = state.lend(Box::new(Parts {
        info,
        chunk,
        next: 0,
    }));
    (state, handle.rep())
}

fn batch(handle: u32) -> Resource<BatchHandle> {
    Resource::new_own(handle)
}

#[test]
fn the_first_json_pull_keeps_to_what_was_asked_for_although_names_outweigh_values() {
    let names: Vec<String> = (0..20)
        .map(|i| format!("a_rather_long_column_name_{i:03}"))
        .collect();
    let rows = 10_000;
    let (mut state, handle) = lent(
        &names,
        ColumnType::Boolean,
        Values::Booleans(vec![1; rows]),
        rows,
    );
    let asked = 256 << 10;
    let text = state
        .pull_json(&batch(handle), asked)
        .expect("rows")
        .expect("not the end");
    assert!(text.len() <= asked, "{} bytes of {asked}", text.len());
    assert!(text.len() > asked / 4, "{} bytes of {asked}", text.len());
}

#[test]
fn text_that_is_not_utf_8_is_a_limit_since_trying_again_cannot_help() {
    let mut texts = mz_sink_core::chunk::Packed::default();
    texts.push(b"\xff");
    let names = ["name".to_owned()];
    let (mut state, handle) = lent(&names, ColumnType::Text, Values::Texts(texts), 1);
    match state.pull_json(&batch(handle), 1000) {
        Err(PullError::Limit(text)) => assert!(text.contains("`orders`"), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn sixteen_more_passes_over_the_rows_are_progress_and_the_next_is_not() {
    let names = ["id".to_owned()];
    let (mut state, handle) = lent(&names, ColumnType::Int64, Values::Ints(vec![7]), 1);
    for pass in 0..=17 {
        state.idle_ticks = 5;
        let pulled = state.pull(&batch(handle), 1000).expect("rows");
        assert!(pulled.is_some());
        assert_eq!(
            state.idle_ticks,
            if pass <= 16 { 0 } else { 5 },
            "pass {pass}"
        );
        changes::HostBatch::rewind(&mut state, batch(handle)).expect("rewound");
    }
}

#[test]
fn rows_not_seen_before_are_progress_however_often_the_guest_went_back() {
    let names = ["id".to_owned()];
    let (mut state, handle) = lent(&names, ColumnType::Int64, Values::Ints(vec![7, 8]), 2);
    for _ in 0..100 {
        state.pull(&batch(handle), 1).expect("rows");
        changes::HostBatch::rewind(&mut state, batch(handle)).expect("rewound");
    }
    state.pull(&batch(handle), 1).expect("rows");
    state.idle_ticks = 5;
    state.pull(&batch(handle), 1).expect("rows");
    assert_eq!(state.idle_ticks, 0);
}

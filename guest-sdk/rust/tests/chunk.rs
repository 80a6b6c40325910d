//! Chunks: what fits together is readable without copies, and nothing else is accepted.

use mz_sink_guest::{
    Chunk, ChunkParts, ColumnData, Error, Op, PackedBytes, PackedTexts, PullError, ValueRef, Values,
};

fn parts(rows: u32, columns: Vec<ColumnData>) -> ChunkParts {
    ChunkParts {
        view: 0,
        rows,
        first_row: 100,
        timestamps: vec![7; rows as usize],
        ops: (0..rows).map(|row| (row % 2) as u8).collect(),
        counts: Vec::new(),
        ordinals: (0..rows).collect(),
        columns,
    }
}

fn is_malformed<T>(result: Result<T, PullError>) -> bool {
    matches!(result, Err(PullError::Malformed(_)))
}

#[test]
fn rows_give_their_values_position_and_operation() {
    let texts = PackedTexts::new(vec![0, 2, 2, 5], b"\xc3\xa9abc".to_vec()).unwrap();
    let bytes = PackedBytes::new(vec![0, 1, 1, 2], vec![1, 2]).unwrap();
    let chunk = Chunk::new(parts(
        3,
        vec![
            ColumnData::new(Some(vec![0b101]), Values::Texts(texts)),
            ColumnData::new(None, Values::Ints(vec![i64::MIN, 0, 9_007_199_254_740_993])),
            ColumnData::new(None, Values::Bytes(bytes)),
            ColumnData::new(None, Values::Booleans(vec![0, 1, 0])),
        ],
    ))
    .unwrap();
    let rows: Vec<_> = chunk.rows().collect();
    assert!(rows[0].value(0) == Some(ValueRef::Text("é")));
    assert!(rows[1].value(0).is_none(), "null");
    assert!(rows[2].value(0) == Some(ValueRef::Text("abc")));
    assert!(rows[2].value(1) == Some(ValueRef::Int(9_007_199_254_740_993)));
    assert!(rows[2].value(2) == Some(ValueRef::Bytes(&[2])));
    assert!(rows[1].value(3) == Some(ValueRef::Bool(true)));
    assert!(rows[0].value(4).is_none(), "no such column");
    assert_eq!((rows[1].op(), rows[1].position()), (Op::Delete, 101));
    assert_eq!(
        (rows[2].timestamp(), rows[2].ordinal(), rows[2].count()),
        (7, 2, 1)
    );
}

#[test]
fn packed_values_must_lie_inside_their_data_and_in_order() {
    for offsets in [vec![], vec![0, 4], vec![2, 1], vec![0, 3, 1]] {
        assert!(is_malformed(PackedBytes::new(offsets.clone(), vec![0; 3])));
        assert!(is_malformed(PackedTexts::new(offsets, vec![b'a'; 3])));
    }
}

#[test]
fn texts_must_be_utf_8_and_split_between_characters() {
    assert!(is_malformed(PackedTexts::new(vec![0, 1], vec![0xff])));
    assert!(is_malformed(PackedTexts::new(vec![0, 1, 2], "é".into())));
}

#[test]
fn every_list_must_have_an_entry_for_each_row() {
    let column = |values| vec![ColumnData::new(None, values)];
    for (what, spoil) in [
        (
            "timestamps",
            (|p| p.timestamps.clear()) as fn(&mut ChunkParts),
        ),
        ("ops", |p| p.ops.push(0)),
        ("ordinals", |p| p.ordinals.clear()),
        ("counts", |p| p.counts = vec![1]),
        ("values", |p| {
            p.columns[0] = ColumnData::new(None, Values::Ints(vec![1]))
        }),
        ("validity", |p| {
            p.columns[0] = ColumnData::new(Some(vec![]), Values::Ints(vec![1, 2]));
        }),
    ] {
        let mut parts = parts(2, column(Values::Ints(vec![1, 2])));
        assert!(Chunk::new(parts.clone()).is_ok());
        spoil(&mut parts);
        assert!(is_malformed(Chunk::new(parts)), "{what}");
    }
}

#[test]
fn a_broken_source_may_be_tried_again_and_a_limit_or_a_malformed_chunk_not() {
    let text = || "text".to_owned();
    assert!(matches!(
        PullError::SourceLost(text()).into(),
        Error::Retryable(_)
    ));
    assert!(matches!(
        PullError::Limit(text()).into(),
        Error::Permanent(_)
    ));
    assert!(matches!(
        PullError::Malformed(text()).into(),
        Error::Permanent(_)
    ));
}

#[test]
fn debug_output_holds_no_values() {
    let texts = Values::texts(["secret"]);
    let chunk = Chunk::new(parts(1, vec![ColumnData::new(None, texts)])).unwrap();
    assert_eq!(format!("{chunk:?}"), "Chunk of 1 rows of view 0");
}

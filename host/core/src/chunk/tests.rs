//! A chunk does what a list of rows does.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Push(Option<i64>, Option<String>, u64),
    Pop,
    Slice(usize, usize),
}

type Model = Vec<(Option<i64>, Option<String>, u64)>;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = prop::option::of("[a-z]{0,5}");
    let step = prop_oneof![
        8 => (any::<Option<i64>>(), text, prop_oneof![4 => Just(1u64), 1 => 2..9u64])
            .prop_map(|(n, text, count)| Step::Push(n, text, count)),
        3 => Just(Step::Pop),
        1 => (0..40usize, 0..40usize).prop_map(|(a, b)| Step::Slice(a, b)),
    ];
    prop::collection::vec(step, 0..80)
}

fn push(chunk: &mut Chunk, n: Option<i64>, text: Option<&str>, count: u64) {
    let at = chunk.rows();
    chunk.push_count(at, count);
    chunk.timestamps.push(1);
    chunk.ops.push(Op::Put as u8);
    chunk.ordinals.push(at as u32);
    match (&mut chunk.columns[0].values, n) {
        (Values::Ints(v), Some(n)) => v.push(n),
        (values, _) => values.push_null(),
    }
    chunk.columns[0].mark(at, n.is_none());
    match (&mut chunk.columns[1].values, text) {
        (Values::Texts(p), Some(text)) => p.push(text.as_bytes()),
        (values, _) => values.push_null(),
    }
    chunk.columns[1].mark(at, text.is_none());
}

fn read(chunk: &Chunk) -> Model {
    (0..chunk.rows())
        .map(|row| {
            let n = match chunk.columns[0].get(row) {
                Value::Int(n) => Some(n),
                _ => None,
            };
            let text = match chunk.columns[1].get(row) {
                Value::Text(t) => Some(String::from_utf8(t.to_vec()).unwrap()),
                _ => None,
            };
            (n, text, chunk.count(row))
        })
        .collect()
}

/// The lists have one entry per row, and a bitmap has no bit beyond the last row.
fn check_shape(chunk: &Chunk) {
    let rows = chunk.rows();
    assert_eq!(chunk.ops.len(), rows);
    assert_eq!(chunk.ordinals.len(), rows);
    assert!(chunk.counts.is_empty() || chunk.counts.len() == rows);
    for column in &chunk.columns {
        if let Some(bits) = &column.validity {
            assert_eq!(bits.len(), rows.div_ceil(8));
            if !rows.is_multiple_of(8) {
                assert_eq!(bits[rows / 8] >> (rows % 8), 0);
            }
        }
    }
    if let Values::Texts(packed) = &chunk.columns[1].values {
        assert_eq!(packed.offsets.len(), rows + 1);
        assert_eq!(
            packed.offsets.last().copied(),
            Some(packed.data.len() as u32)
        );
    }
}

proptest! {
    #[test]
    fn pushing_popping_and_slicing_agree_with_a_list(steps in steps()) {
        let mut chunk = Chunk::new(0, &[ColumnType::Int64, ColumnType::Text]);
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Push(n, text, count) => {
                    push(&mut chunk, n, text.as_deref(), count);
                    model.push((n, text, count));
                }
                Step::Pop => {
                    chunk.pop();
                    model.pop();
                }
                Step::Slice(a, b) => {
                    let range = a.min(b).min(model.len())..a.max(b).min(model.len());
                    let slice = chunk.slice(range.clone());
                    check_shape(&slice);
                    prop_assert_eq!(read(&slice), &model[range]);
                }
            }
            check_shape(&chunk);
            prop_assert_eq!(&read(&chunk), &model);
        }
    }
}

#[test]
fn debug_shows_no_values() {
    let mut chunk = Chunk::new(0, &[ColumnType::Int64, ColumnType::Text]);
    push(&mut chunk, Some(4711), Some("secret"), 1);
    let shown = format!("{chunk:?}");
    assert!(
        !shown.contains("secret") && !shown.contains("4711"),
        "{shown}"
    );
}

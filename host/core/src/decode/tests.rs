//! Nothing that a server could send makes the decoder panic; and rows for other tests.

use proptest::prelude::*;

use super::*;
use crate::types::Column;

/// A row of an upsert stream of `t (id bigint, name text)`.
#[derive(Clone, Debug)]
pub(crate) struct Row(Vec<Option<Vec<u8>>>);

impl Fields for Row {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize) -> Option<&[u8]> {
        self.0[index].as_deref()
    }
}

fn row<const N: usize>(values: [Option<&str>; N]) -> Row {
    Row(values.map(|v| v.map(|v| v.as_bytes().to_vec())).to_vec())
}

pub(crate) fn progress(time: Timestamp) -> Row {
    row([Some(&time.to_string()), Some("t"), None, None, None])
}

pub(crate) fn change(time: Timestamp, key: i64, name: &str) -> Row {
    let (time, key) = (time.to_string(), key.to_string());
    row([
        Some(&time),
        Some("f"),
        Some("upsert"),
        Some(&key),
        Some(name),
    ])
}

pub(crate) fn deletion(time: Timestamp, key: i64) -> Row {
    let (time, key) = (time.to_string(), key.to_string());
    row([Some(&time), Some("f"), Some("delete"), Some(&key), None])
}

pub(crate) fn violation(time: Timestamp, key: i64) -> Row {
    let (time, key) = (time.to_string(), key.to_string());
    let state = Some("key_violation");
    row([Some(&time), Some("f"), state, Some(&key), None])
}

/// A row of a diff stream.
pub(crate) fn difference(time: Timestamp, diff: i64, key: i64, name: &str) -> Row {
    let [time, diff, key] = [time.to_string(), diff.to_string(), key.to_string()];
    row([Some(&time), Some("f"), Some(&diff), Some(&key), Some(name)])
}

pub(crate) fn view(types: [ColumnType; 2]) -> View {
    let [a, b] = types;
    let column = |name: &str, ty, nullable| Column {
        name: name.into(),
        ty,
        nullable,
    };
    View {
        name: "t".into(),
        columns: vec![column("id", a, false), column("name", b, true)],
        key: vec![0],
    }
}

pub(crate) fn decoder_for(types: [ColumnType; 2], envelope: Envelope) -> Decoder {
    let change = match envelope {
        Envelope::Upsert => "mz_state",
        Envelope::Diff => "mz_diff",
    };
    let names = ["mz_timestamp", "mz_progressed", change, "id", "name"].map(String::from);
    Decoder::new(&view(types), envelope, &names).unwrap()
}

pub(crate) fn decoder() -> Decoder {
    decoder_for([ColumnType::Int64, ColumnType::Text], Envelope::Upsert)
}

pub(crate) fn empty() -> Chunk {
    Chunk::new(0, &[ColumnType::Int64, ColumnType::Text])
}

fn any_type() -> impl Strategy<Value = ColumnType> {
    use ColumnType as T;
    prop::sample::select(vec![
        T::Boolean,
        T::Int16,
        T::Int32,
        T::Int64,
        T::Uint16,
        T::Uint32,
        T::Uint64,
        T::Float32,
        T::Float64,
        T::Numeric(Some(2)),
        T::Text,
        T::Bytes,
        T::Uuid,
        T::Json,
        T::Date,
        T::Time,
        T::Timestamp,
        T::TimestampTz,
        T::Interval,
        T::MzTimestamp,
        T::Other("list".into()),
    ])
}

/// Bytes, of which many look like a value of some type.
fn any_value() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop::option::of(prop_oneof![
        prop::collection::vec(any::<u8>(), 0..20),
        "[-+0-9.:TZeE BC\\\\xtf]{0,30}".prop_map(String::into_bytes),
        "-?[0-9]{1,6}-[0-9]{1,2}-[0-9]{1,2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,7})?)?(\\+00)?( BC)?"
            .prop_map(String::into_bytes),
    ])
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_and_no_error_tells_a_value(
        types in [any_type(), any_type()],
        upsert in any::<bool>(),
        start in prop_oneof![Just("17"), Just("x"), Just("-1")],
        state in prop_oneof![
            Just("upsert"), Just("delete"), Just("key_violation"), Just("1"), Just("-3"),
            Just("0"), Just("9223372036854775808"),
        ],
        values in prop::collection::vec(any_value(), 1..4),
    ) {
        let envelope = if upsert { Envelope::Upsert } else { Envelope::Diff };
        let decoder = decoder_for(types.clone(), envelope);
        let mut chunk = Chunk::new(0, &types);
        let mut fields = row([Some(start), Some("f"), Some(state)]).0;
        fields.extend(values.iter().cloned());
        if let Err(error) = decoder.decode(&Row(fields), &mut chunk) {
            let shown = error.to_string();
            for value in values.iter().flatten().filter(|v| v.len() > 8) {
                if let Ok(value) = std::str::from_utf8(value) {
                    prop_assert!(!shown.contains(value), "{}", shown);
                }
            }
        } else {
            prop_assert_eq!(chunk.rows(), 1);
        }
    }
}

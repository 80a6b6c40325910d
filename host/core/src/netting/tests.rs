//! Netting does what a map does.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::decode::tests::{change, decoder, deletion, empty};

/// Short and full of the bytes that end or escape something.
fn awkward() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()];
    prop::collection::vec(byte, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]


    #[test]
    fn the_last_change_per_key_remains_in_key_order(
        changes in prop::collection::vec((0..3u64, -4..5i64, any::<bool>()), 0..200),
        cuts in prop::collection::vec(0..200usize, 0..4),
    ) {
        let decoder = decoder();
        let mut chunks = Vec::new();
        let mut open = empty();
        let mut model = BTreeMap::new();
        let mut time = 1;
        for (i, (tick, key, is_delete)) in changes.into_iter().enumerate() {
            time += tick;
            let name = format!("name {i}");
            let row = if is_delete { deletion(time, key) } else { change(time, key, &name) };
            decoder.decode(&row, &mut open).unwrap();
            model.insert(key, (time, (!is_delete).then_some(name)));
            if cuts.contains(&i) {
                chunks.push(Arc::new(std::mem::replace(&mut open, empty())));
            }
        }
        chunks.push(Arc::new(open));
        let mut netted = Vec::new();
        for chunk in net(&chunks, &[0]) {
            for row in 0..chunk.rows() {
                let Value::Int(key) = chunk.columns[0].get(row) else { panic!("no key") };
                let name = match chunk.columns[1].get(row) {
                    Value::Text(name) => Some(String::from_utf8(name.to_vec()).unwrap()),
                    _ => None,
                };
                prop_assert_eq!(name.is_none(), chunk.op(row) == crate::types::Op::Delete);
                netted.push((key, (chunk.timestamps[row], name)));
            }
        }
        prop_assert_eq!(netted, model.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn keys_compare_as_their_values_do(a in any::<(i64, f64, Vec<u8>)>(), b in any::<(i64, f64, Vec<u8>)>()) {
        let ordered = |(n, x, t): &(i64, f64, Vec<u8>)| {
            let mut out = Vec::new();
            write_ordered(Value::Int(*n), &mut out);
            write_ordered(Value::Float(*x), &mut out);
            write_ordered(Value::Bytes(t), &mut out);
            out
        };
        let expected = a.0.cmp(&b.0)
            .then(a.1.partial_cmp(&b.1).unwrap())
            .then(a.2.cmp(&b.2));
        prop_assert_eq!(ordered(&a).cmp(&ordered(&b)), expected);
    }

    #[test]
    fn byte_keys_do_not_run_into_each_other(
        a in (awkward(), awkward()),
        b in (awkward(), awkward()),
    ) {
        let ordered = |(x, y): &(Vec<u8>, Vec<u8>)| {
            let mut out = Vec::new();
            write_ordered(Value::Text(x), &mut out);
            write_ordered(Value::Text(y), &mut out);
            out
        };
        prop_assert_eq!(ordered(&a).cmp(&ordered(&b)), a.cmp(&b));
    }
}

#[test]
fn the_two_zeros_are_one_key_and_so_are_all_nans() {
    let ordered = |x| {
        let mut out = Vec::new();
        write_ordered(Value::Float(x), &mut out);
        out
    };
    assert_eq!(ordered(0.0), ordered(-0.0));
    assert_eq!(ordered(f64::NAN), ordered(-f64::NAN));
    assert!(ordered(f64::NEG_INFINITY) < ordered(-1.0));
    assert!(ordered(f64::INFINITY) < ordered(f64::NAN));
}

//! What each Materialize type becomes, and which rows are refused.

mod support;

use mz_sink_guest::{ColumnType, Error, PackedBytes, Values};
use serde_json::{Value, json};
use support::*;

fn bytes(values: &[&[u8]]) -> Values {
    let mut offsets = vec![0];
    offsets.extend(values.iter().scan(0, |end, value| {
        *end += value.len() as u32;
        Some(*end)
    }));
    Values::Bytes(PackedBytes::new(offsets, values.concat()).expect("offsets"))
}

#[test]
fn every_type_keeps_its_value_exactly() {
    let cases: Vec<(ColumnType, Values, &str, Value)> = vec![
        (
            ColumnType::Boolean,
            Values::Booleans(vec![1]),
            "bool",
            json!(true),
        ),
        (ColumnType::Int16, Values::Ints(vec![-7]), "int", json!(-7)),
        (ColumnType::Int32, Values::Ints(vec![7]), "int", json!(7)),
        (
            ColumnType::Int64,
            Values::Ints(vec![i64::MIN]),
            "int",
            json!(i64::MIN),
        ),
        (ColumnType::Uint16, Values::Uints(vec![7]), "uint", json!(7)),
        (ColumnType::Uint32, Values::Uints(vec![7]), "uint", json!(7)),
        (
            ColumnType::Uint64,
            Values::Uints(vec![u64::MAX]),
            "uint",
            json!(u64::MAX),
        ),
        (
            ColumnType::Float32,
            Values::Floats(vec![f64::from(0.1_f32)]),
            "float",
            json!(0.1),
        ),
        (
            ColumnType::Float64,
            Values::Floats(vec![1e300]),
            "float",
            json!(1e300),
        ),
        (
            ColumnType::Numeric(None),
            Values::texts(["5.00"]),
            "string",
            json!("5.00"),
        ),
        (
            ColumnType::Numeric(Some(2)),
            Values::texts(["NaN"]),
            "string",
            json!("NaN"),
        ),
        (
            ColumnType::Text,
            Values::texts(["é\u{7f}\t"]),
            "string",
            json!("é\u{7f}\t"),
        ),
        (
            ColumnType::Bytes,
            bytes(&[b"\x00\xff"]),
            "string",
            json!("AP8="),
        ),
        (
            ColumnType::Uuid,
            Values::texts(["a-b"]),
            "uuid",
            json!("a-b"),
        ),
        (
            ColumnType::Json,
            Values::texts(["{\"a\":1}"]),
            "string",
            json!("{\"a\":1}"),
        ),
        (
            ColumnType::Date,
            Values::Ints(vec![19_782]),
            "string",
            json!("2024-02-29"),
        ),
        (
            ColumnType::Time,
            Values::Ints(vec![1]),
            "string",
            json!("00:00:00.000001"),
        ),
        (
            ColumnType::Timestamp,
            Values::Ints(vec![1_709_380_800_123_456]),
            "string",
            json!("2024-03-02 12:00:00.123456"),
        ),
        (
            ColumnType::TimestampTz,
            Values::Ints(vec![411_242_313_600_000_000]),
            "string",
            json!("15001-10-02 00:00:00+00"),
        ),
        (
            ColumnType::Interval,
            Values::texts(["1 day"]),
            "string",
            json!("1 day"),
        ),
        (
            ColumnType::MzTimestamp,
            Values::Uints(vec![9]),
            "uint",
            json!(9),
        ),
        (
            ColumnType::Other("int4[]".into()),
            Values::texts(["{1}"]),
            "string",
            json!("{1}"),
        ),
    ];
    for (ty, values, attribute, expected) in cases {
        let view = view("v", 1, &[("k", ColumnType::Uint64), ("c", ty.clone())]);
        let columns = vec![full(Values::Uints(vec![1])), full(values)];
        let (body, rejected) = written(json!({}), view, columns, 1);
        assert_eq!(rejected, [], "{ty:?}");
        assert_eq!(body["schema"]["c"]["type"], attribute, "{ty:?}");
        assert_eq!(body["upsert_columns"]["c"], json!([expected]), "{ty:?}");
    }
}

#[test]
fn configured_types_change_the_form() {
    let cases: Vec<(ColumnType, Values, &str, Value)> = vec![
        (
            ColumnType::Numeric(None),
            Values::texts(["5.00"]),
            "float",
            json!(5.0),
        ),
        (ColumnType::Int64, Values::Ints(vec![7]), "uint", json!(7)),
        (
            ColumnType::Int64,
            Values::Ints(vec![-7]),
            "float",
            json!(-7),
        ),
        (
            ColumnType::Float64,
            Values::Floats(vec![f64::NAN]),
            "string",
            json!("NaN"),
        ),
        (
            ColumnType::Float64,
            Values::Floats(vec![f64::NEG_INFINITY]),
            "string",
            json!("-Infinity"),
        ),
        (
            ColumnType::Float64,
            Values::Floats(vec![-0.0]),
            "string",
            json!("-0"),
        ),
        (
            ColumnType::Boolean,
            Values::Booleans(vec![0]),
            "string",
            json!("false"),
        ),
        (
            ColumnType::TimestampTz,
            Values::Ints(vec![0]),
            "datetime",
            json!("1970-01-01T00:00:00Z"),
        ),
    ];
    for (ty, values, wanted, expected) in cases {
        let view = view("v", 1, &[("k", ColumnType::Uint64), ("c", ty.clone())]);
        let columns = vec![full(Values::Uints(vec![1])), full(values)];
        let (body, rejected) = written(json!({"types": {"c": wanted}}), view, columns, 1);
        assert_eq!(rejected, []);
        assert_eq!(body["schema"]["c"]["type"], wanted);
        assert_eq!(
            body["upsert_columns"]["c"],
            json!([expected]),
            "{ty:?} as {wanted}"
        );
    }
}

#[test]
fn rows_that_turbopuffer_would_refuse_are_refused_one_by_one() {
    let long = "x".repeat(4097);
    let cases: Vec<(ColumnType, Values, Value, &str)> = vec![
        (
            ColumnType::Float64,
            Values::Floats(vec![1.0, f64::NAN]),
            json!({}),
            "not-finite",
        ),
        (
            ColumnType::Float32,
            Values::Floats(vec![1.0, f64::INFINITY]),
            json!({}),
            "not-finite",
        ),
        (
            ColumnType::Numeric(None),
            Values::texts(["1", "NaN"]),
            json!({"types": {"c": "float"}}),
            "not-finite",
        ),
        (
            ColumnType::Int32,
            Values::Ints(vec![1, -1]),
            json!({"types": {"c": "uint"}}),
            "negative-value",
        ),
        (
            ColumnType::TimestampTz,
            Values::Ints(vec![-62_135_596_800_000_000, -62_135_596_800_000_001]),
            json!({"types": {"c": "datetime"}}),
            "year-out-of-range",
        ),
        (
            ColumnType::Timestamp,
            Values::Ints(vec![253_402_300_799_999_999, 253_402_300_800_000_000]),
            json!({"types": {"c": "datetime"}}),
            "year-out-of-range",
        ),
        (
            ColumnType::Text,
            Values::texts(["a", &long]),
            json!({"filterable": ["c"]}),
            "value-too-long",
        ),
        (
            ColumnType::Bytes,
            bytes(&[b"a", &[0; 3073]]),
            json!({"filterable": ["v.c"]}),
            "value-too-long",
        ),
    ];
    for (ty, values, extra, category) in cases {
        let view = view("v", 1, &[("k", ColumnType::Uint64), ("c", ty.clone())]);
        let columns = vec![full(Values::Uints(vec![1, 2])), full(values)];
        let (body, rejected) = written(extra, view, columns, 2);
        assert_eq!(rejected, [(1, category.to_owned())], "{ty:?}");
        assert_eq!(body["upsert_columns"]["k"], json!([1]), "{ty:?}");
    }
}

#[test]
fn a_null_in_the_key_refuses_the_row_once_whatever_else_is_wrong() {
    let view = view(
        "v",
        2,
        &[("a", ColumnType::Text), ("b", ColumnType::Float64)],
    );
    let columns = vec![
        with_nulls(0b01, Values::texts(["x", ""])),
        full(Values::Floats(vec![1.5, f64::NAN])),
    ];
    let (body, rejected) = written(json!({}), view, columns, 2);
    assert_eq!(rejected, [(1, "null-key".to_owned())]);
    assert_eq!(body["upsert_columns"]["id"], json!(["1:x3:1.5"]));
}

#[test]
fn ids_follow_from_the_keys_types() {
    let uuid = "0188a5eb-2b6e-7d3c-8f4e-0123456789ab";
    let cases: Vec<(ColumnType, Values, &str, Value)> = vec![
        (ColumnType::Uint16, Values::Uints(vec![5]), "uint", json!(5)),
        (
            ColumnType::Uint64,
            Values::Uints(vec![u64::MAX]),
            "uint",
            json!(u64::MAX),
        ),
        (
            ColumnType::MzTimestamp,
            Values::Uints(vec![5]),
            "uint",
            json!(5),
        ),
        (
            ColumnType::Int32,
            Values::Ints(vec![5]),
            "string",
            json!("5"),
        ),
        (
            ColumnType::Int64,
            Values::Ints(vec![-9_007_199_254_740_993]),
            "string",
            json!("-9007199254740993"),
        ),
        (ColumnType::Uuid, Values::texts([uuid]), "uuid", json!(uuid)),
        (
            ColumnType::Text,
            Values::texts(["a\"b"]),
            "string",
            json!("a\"b"),
        ),
        (
            ColumnType::Float64,
            Values::Floats(vec![f64::NAN]),
            "string",
            json!("NaN"),
        ),
        (
            ColumnType::Float64,
            Values::Floats(vec![-0.0]),
            "string",
            json!("0"),
        ),
        (
            ColumnType::Numeric(None),
            Values::texts(["1.50"]),
            "string",
            json!("1.50"),
        ),
        (
            ColumnType::Boolean,
            Values::Booleans(vec![1]),
            "string",
            json!("true"),
        ),
        (
            ColumnType::Date,
            Values::Ints(vec![0]),
            "string",
            json!("1970-01-01"),
        ),
        (ColumnType::Bytes, bytes(&[b"ab"]), "string", json!("YWI=")),
    ];
    for (ty, values, id_type, expected) in cases {
        let view = view("v", 1, &[("k", ty.clone())]);
        let extra = match ty {
            ColumnType::Float64 => json!({"types": {"k": "string"}}),
            _ => json!({}),
        };
        let (body, rejected) = written(extra, view, vec![full(values)], 1);
        assert_eq!(rejected, []);
        assert_eq!(body["schema"]["id"], id_type, "{ty:?}");
        assert_eq!(body["upsert_columns"]["id"], json!([expected]), "{ty:?}");
    }
}

#[test]
fn signed_keys_may_be_unsigned_ids_and_negative_ones_are_then_refused() {
    let view = view("v", 1, &[("id", ColumnType::Int64)]);
    let columns = vec![full(Values::Ints(vec![3, -3]))];
    let (body, rejected) = written(json!({"id_type": "uint"}), view, columns, 2);
    assert_eq!(rejected, [(1, "negative-id".to_owned())]);
    assert_eq!(body["schema"]["id"], "uint");
    assert_eq!(body["upsert_columns"]["id"], json!([3]));
}

#[test]
fn long_empty_and_look_alike_keys_are_hashed_and_the_key_is_kept() {
    let longest = "x".repeat(64);
    let long = "x".repeat(65);
    let sha = "sha256:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";
    let keys = [longest.as_str(), &long, "", sha];
    let view = view("v", 1, &[("id", ColumnType::Text)]);
    let (body, rejected) = written(json!({}), view, vec![full(Values::texts(keys))], 4);
    assert_eq!(rejected, []);
    let ids = body["upsert_columns"]["id"].as_array().unwrap();
    assert_eq!(ids[0], longest);
    assert_eq!(ids[2], sha, "the digest of nothing");
    assert_ne!(
        ids[3], sha,
        "a key that looks like a digest is not taken for one"
    );
    for id in ids {
        assert!(id.as_str().unwrap().len() <= 64);
    }
    assert_eq!(body["upsert_columns"]["source_id"], json!(keys));
}

#[test]
fn composite_keys_that_read_alike_have_different_ids() {
    let view = view("v", 2, &[("a", ColumnType::Text), ("b", ColumnType::Text)]);
    let columns = vec![
        full(Values::texts(["a", "a1:", "", "12"])),
        full(Values::texts(["1:b", "b", "12", ""])),
    ];
    let (body, _) = written(json!({}), view, columns, 4);
    assert_eq!(
        body["upsert_columns"]["id"],
        json!(["1:a3:1:b", "3:a1:1:b", "0:2:12", "2:120:"])
    );
}

#[test]
fn a_configuration_that_cannot_work_is_refused_with_the_fix() {
    let columns = [("id", ColumnType::Uint64), ("c", ColumnType::Text)];
    let good = view("v", 1, &columns);
    let reserved = view(
        "v",
        1,
        &[("k", ColumnType::Uint64), ("deleted", ColumnType::Boolean)],
    );
    let keyless = view("v", 0, &columns);
    let cases = [
        (json!({"base_url": "http://x"}), &good, "both set"),
        (
            json!({"region": null}),
            &good,
            "neither `region` nor `base_url`",
        ),
        (
            json!({"region": null, "base_url": "ftp://x"}),
            &good,
            "https://",
        ),
        (
            json!({"region": "x.evil.example/"}),
            &good,
            "`region` must be",
        ),
        (json!({"namespace": "a b"}), &good, "`namespace` must have"),
        (json!({"control_namespace": "docs"}), &good, "another name"),
        (
            json!({"api_key_secret": "tpuf}}"}),
            &good,
            "not the key itself",
        ),
        (json!({"requests_in_flight": 0}), &good, "from 1 to 64"),
        (json!({"max_request_bytes": 1}), &good, "max_request_bytes"),
        (
            json!({"filterable": ["d"]}),
            &good,
            "`filterable` names `d`",
        ),
        (
            json!({"types": {"c": "int"}}),
            &good,
            "cannot be made from its type",
        ),
        (json!({"rename": {"c": "$c"}}), &good, "rename = { \"c\""),
        (json!({}), &reserved, "rename = { \"deleted\""),
        (json!({}), &keyless, "unique key"),
    ];
    for (extra, view, expected) in cases {
        let error = open(&FakeHost::default(), extra, vec![view.clone()]).map(drop);
        let Err(Error::Permanent(failure)) = error else {
            panic!("accepted: {expected}");
        };
        assert_eq!(failure.code, "invalid-config");
        assert!(failure.message.contains(expected), "{}", failure.message);
    }
}

//! What is refused, with which status, and that a refused write leaves no trace.

use serde_json::{Value, json};
use turbopuffer_sim::{Limits, Options};

use crate::http::Sim;

const SCHEMA: &str = r#"{"id":"uint","t":"uint","n":"int","s":"string","at":"datetime","v":{"type":"[2]f32","ann":true},"tags":"[]string","long":{"type":"string","filterable":false}}"#;

fn row(id: u64) -> Value {
    json!({ "id": id, "v": [1, 0] })
}

async fn sim() -> Sim {
    let sim = Sim::start().await;
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    sim.write(
        200,
        json!({ "upsert_rows": [row(1)], "schema": schema, "distance_metric": "euclidean_squared" }),
    );
    sim
}

fn with(id: u64, name: &str, value: Value) -> Value {
    let mut row = row(id);
    row[name] = value;
    json!({ "upsert_rows": [row] })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refused_write_leaves_the_namespace_as_it_was() {
    let cases = [
        (
            400,
            "appear once",
            json!({ "upsert_rows": [row(2), row(2)] }),
        ),
        (
            400,
            "appear once",
            json!({ "upsert_rows": [row(2)], "deletes": [2] }),
        ),
        (
            400,
            "appear once",
            json!({ "upsert_rows": [row(1)], "patch_rows": [{ "id": 1, "n": 1 }] }),
        ),
        (
            400,
            "unsigned",
            json!({ "upsert_rows": [{ "id": -1, "v": [1, 0] }] }),
        ),
        (
            400,
            "id type mismatch",
            json!({ "upsert_rows": [{ "id": "1", "v": [1, 0] }] }),
        ),
        (400, "id type mismatch", json!({ "deletes": [null] })),
        (400, "signed 64-bit", with(2, "n", json!(9.99))),
        (400, "signed 64-bit", with(2, "n", json!(u64::MAX))),
        (400, "unsigned 64-bit", with(2, "t", json!(-1))),
        (400, "type mismatch", with(2, "s", json!(1))),
        (400, "type mismatch", with(2, "tags", json!("a"))),
        (
            400,
            "failed to parse as DateTime",
            with(2, "at", json!("12:30:00")),
        ),
        (400, "4097 bytes", with(2, "s", json!("x".repeat(4097)))),
        (
            400,
            "4097 bytes",
            with(2, "tags", json!(["x".repeat(4097)])),
        ),
        (
            400,
            "8388609 bytes",
            with(2, "long", json!("x".repeat((8 << 20) + 1))),
        ),
        (400, "must not start with `$`", with(2, "$x", json!(1))),
        (400, "1 to 128 bytes", with(2, &"x".repeat(129), json!(1))),
        (400, "dimensions", with(2, "v", json!([1, 2, 3]))),
        (
            400,
            "missing from a document",
            json!({ "upsert_rows": [{ "id": 2 }] }),
        ),
        (
            400,
            "cannot be patched",
            json!({ "patch_rows": [{ "id": 1, "v": [1, 2] }] }),
        ),
        (400, "cannot be added", with(2, "vector", json!([1, 2]))),
        (
            400,
            "from int to float",
            json!({ "upsert_rows": [row(2)], "schema": { "n": "float" } }),
        ),
        (
            400,
            "must have ann:true",
            json!({ "schema": { "w": "[2]f32" } }),
        ),
        (
            400,
            "distance_metric is required",
            json!({ "schema": { "w": { "type": "[2]f32", "ann": true } } }),
        ),
        (
            400,
            "cannot change distance_metric",
            json!({ "distance_metric": "cosine_distance" }),
        ),
        (
            400,
            "unknown attribute type",
            json!({ "schema": { "w": "decimal" } }),
        ),
        (
            400,
            "column `n` has 1 values",
            json!({ "upsert_columns": { "id": [2, 3], "n": [1] } }),
        ),
        (
            400,
            "not found in schema",
            json!({ "upsert_rows": [row(2)], "upsert_condition": ["nope", "Eq", 1] }),
        ),
        (
            400,
            "not filterable",
            json!({ "delete_by_filter": ["long", "Eq", "a"] }),
        ),
        (
            400,
            "type mismatch, Lt expects uint, but got string",
            json!({ "delete_by_filter": ["t", "Lt", "a"] }),
        ),
        (
            400,
            "not supported by this emulator",
            json!({ "copy_from_namespace": "other" }),
        ),
        (400, "EOF while parsing", Value::Null),
        (
            422,
            "invalid type: map, expected a sequence",
            json!({ "upsert_rows": {} }),
        ),
        (
            422,
            "invalid type: sequence, expected a map",
            json!({ "upsert_columns": [] }),
        ),
        (422, "unknown field `upserts`", json!({ "upserts": [] })),
        (
            422,
            "missing field `id`",
            json!({ "upsert_rows": [{ "n": 1 }] }),
        ),
        (
            422,
            "missing field `id`",
            json!({ "upsert_columns": { "n": [1] } }),
        ),
        (422, "expected an attribute value", with(2, "n", json!({}))),
        (
            422,
            "unknown variant `l2`",
            json!({ "distance_metric": "l2" }),
        ),
    ];
    let sim = sim().await;
    let schema = |sim: &Sim| {
        sim.send("GET", "/v1/namespaces/ns/schema", "")
            .expect("answers")
            .body
    };
    let before = (sim.rows(), schema(&sim));
    for (status, text, mut body) in cases {
        let answer = if body.is_null() {
            let cut = sim
                .send("POST", "/v2/namespaces/ns", r#"{"upsert_rows":["#)
                .expect("answers");
            assert_eq!(cut.status, status);
            cut.json()
        } else {
            // A change that would show if the write were applied in part.
            if status == 400 && body.get("delete_by_filter").is_none() {
                body["delete_by_filter"] = json!(["id", "Eq", 1]);
                if body.get("schema").is_none() {
                    body["schema"] = json!({ "added": "int" });
                }
            }
            sim.write(status, body)
        };
        assert_eq!(answer["status"], "error");
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(error.contains(text), "expected `{text}` in `{error}`");
        assert_eq!((sim.rows(), schema(&sim)), before, "after `{error}`");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_at_a_limit_are_accepted() {
    let sim = sim().await;
    for body in [
        with(2, "s", json!("x".repeat(4096))),
        with(2, "tags", json!(["x".repeat(4096), "y".repeat(4096)])),
        with(2, "long", json!("x".repeat(8 << 20))),
        with(2, &"x".repeat(128), json!(1)),
        with(u64::MAX, "t", json!(u64::MAX)),
        with(2, "n", json!(i64::MIN)),
        with(2, "v", json!("AACAPwAAAEA=")),
    ] {
        sim.write(200, body);
    }
    let last = &sim.rows()[2];
    assert_eq!(
        (&last["id"], &last["t"]),
        (&json!(u64::MAX), &json!(u64::MAX))
    );
    assert_eq!(sim.rows()[1]["v"], json!([1.0, 2.0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn by_filter_operations_over_their_limit_fail_or_are_partial() {
    let limits = Limits {
        delete_by_filter_rows: 3,
        patch_by_filter_rows: 2,
        ..Limits::default()
    };
    let sim = Sim::with(Options {
        limits,
        ..Options::default()
    })
    .await;
    sim.write(
        200,
        json!({ "upsert_columns": { "id": [1, 2, 3, 4, 5], "n": [1, 2, 3, 4, 5] } }),
    );
    let patch = json!({ "filters": ["n", "Lt", 10], "patch": { "n": 10 } });
    sim.write(400, json!({ "patch_by_filter": patch }));
    let mut patched = Vec::new();
    loop {
        let answer = sim.write(
            200,
            json!({ "patch_by_filter": patch, "patch_by_filter_allow_partial": true }),
        );
        patched.push(answer["rows_patched"].as_u64());
        if answer["rows_remaining"] == false {
            break;
        }
    }
    assert_eq!(patched, [Some(2), Some(2), Some(1)]);
    sim.write(400, json!({ "delete_by_filter": ["n", "Eq", 10] }));
    assert_eq!(sim.matching(Value::Null).len(), 5);
    let answer = sim.write(
        200,
        json!({ "delete_by_filter": ["n", "Eq", 10], "delete_by_filter_allow_partial": true }),
    );
    assert_eq!(
        (&answer["rows_deleted"], &answer["rows_remaining"]),
        (&json!(3), &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_writes_that_may_create_a_namespace_do() {
    let sim = Sim::start().await;
    let rows = json!([{ "id": 1 }]);
    for body in [
        json!({ "upsert_rows": rows, "create_namespace": false }),
        json!({ "patch_rows": rows }),
        json!({ "deletes": [1] }),
        json!({ "schema": { "id": "uint" } }),
    ] {
        sim.write(404, body);
    }
    sim.write(400, json!({ "create_namespace": true }));
    assert_eq!(
        sim.send("GET", "/v1/namespaces", "").expect("answers").body,
        r#"{"namespaces":[]}"#
    );
    let answer = sim.write(
        200,
        json!({ "create_namespace": true, "schema": { "id": "uint" } }),
    );
    assert_eq!(answer["rows_affected"], 0);
    sim.write(
        200,
        json!({ "upsert_rows": rows, "create_namespace": false }),
    );
    let bad = sim
        .send(
            "POST",
            "/v2/namespaces/a%20b",
            r#"{"upsert_rows":[{"id":1}]}"#,
        )
        .expect("answers");
    assert_eq!(bad.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_over_the_limit_is_413_and_a_wrong_key_is_401() {
    let limits = Limits {
        request_bytes: 100,
        ..Limits::default()
    };
    let sim = Sim::with(Options {
        limits,
        api_key: Some("k".to_owned()),
        ..Options::default()
    })
    .await;
    let large = " ".repeat(101);
    assert_eq!(sim.write(401, json!({}))["error"], "invalid API key");
    assert_eq!(
        sim.send("GET", "/_sim/requests", "")
            .expect("answers")
            .status,
        200
    );
    let limits = Limits {
        request_bytes: 100,
        ..Limits::default()
    };
    let open = Sim::with(Options {
        limits,
        ..Options::default()
    })
    .await;
    assert_eq!(
        open.send("POST", "/v2/namespaces/ns", &large)
            .expect("answers")
            .status,
        413
    );
}

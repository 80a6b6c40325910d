//! Conditions: who is written, who is skipped, what is counted.

use serde_json::{Value, json};

use crate::http::Sim;

/// Three documents: `t` is 5, null, and missing from the namespace (id 3).
async fn with_two_documents() -> Sim {
    let sim = Sim::start().await;
    sim.write(
        200,
        json!({ "upsert_rows": [{ "id": 1, "t": 5 }, { "id": 2, "name": "no t" }], "schema": { "t": "uint" } }),
    );
    sim
}

fn upsert_all(t: u64, condition: Value) -> Value {
    let rows: Vec<Value> = (1..=3)
        .map(|id| json!({ "id": id, "t": t, "name": "new" }))
        .collect();
    json!({ "upsert_rows": rows, "upsert_condition": condition, "return_affected_ids": true })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_condition_decides_for_existing_documents_only() {
    let new = json!({ "$ref_new": "t" });
    let cases = [
        // condition, t of the write, ids that are written
        (json!(["t", "Lt", new]), 4, json!([2, 3])),
        (json!(["t", "Lt", new]), 5, json!([2, 3])),
        (json!(["t", "Lt", new]), 6, json!([1, 2, 3])),
        (json!(["t", "Lte", new]), 5, json!([1, 2, 3])),
        (json!(["t", "Gt", new]), 4, json!([1, 3])),
        (json!(["t", "Gte", new]), 5, json!([1, 3])),
        (json!(["t", "Eq", new]), 5, json!([1, 3])),
        (json!(["t", "NotEq", new]), 5, json!([2, 3])),
        (json!(["t", "Eq", null]), 9, json!([2, 3])),
        (json!(["t", "NotEq", null]), 9, json!([1, 3])),
        (json!(["t", "Lt", null]), 9, json!([3])),
        (json!(["id", "Eq", null]), 9, json!([3])),
        (json!(["t", "In", [5, 6]]), 9, json!([1, 3])),
        (json!(["t", "NotIn", [5, 6]]), 9, json!([2, 3])),
        (json!(["Not", ["t", "Lt", new]]), 4, json!([1, 3])),
        (
            json!(["Or", [["t", "Lt", new], ["t", "Eq", null]]]),
            4,
            json!([2, 3]),
        ),
        (
            json!([
                "And",
                [["t", "Lt", new], ["Not", ["Or", [["t", "Eq", null]]]]]
            ]),
            6,
            json!([1, 3]),
        ),
        (json!(["And", []]), 9, json!([1, 2, 3])),
        (json!(["Or", []]), 9, json!([3])),
    ];
    for (condition, t, written) in cases {
        let sim = with_two_documents().await;
        let answer = sim.write(200, upsert_all(t, condition.clone()));
        assert_eq!(answer["upserted_ids"], written, "{condition} with t = {t}");
        let count = written.as_array().map(Vec::len);
        assert_eq!(
            answer["rows_upserted"].as_u64(),
            count.map(|count| count as u64)
        );
        assert_eq!(answer["rows_affected"], answer["rows_upserted"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_write_changes_nothing_and_is_not_an_error() {
    let sim = with_two_documents().await;
    let newer = json!(["Or", [["t", "Lt", { "$ref_new": "t" }], ["t", "Eq", null]]]);
    assert_eq!(
        sim.write(200, upsert_all(7, newer.clone()))["rows_affected"],
        3
    );
    let before = sim.rows();
    let replay = sim.write(200, upsert_all(7, newer));
    assert_eq!(replay["rows_affected"], 0);
    assert_eq!(replay.get("upserted_ids"), None);
    assert_eq!(sim.rows(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_never_creates_and_keeps_what_it_does_not_mention() {
    let sim = with_two_documents().await;
    let answer = sim.write(
        200,
        json!({
            "patch_rows": [{ "id": 1, "name": "x" }, { "id": 2, "name": null }, { "id": 3, "name": "x" }],
            "patch_condition": ["And", []],
        }),
    );
    assert_eq!(answer["rows_patched"], 2);
    assert_eq!(answer.get("rows_upserted"), None);
    assert_eq!(
        sim.rows(),
        json!([{ "id": 1, "t": 5, "name": "x" }, { "id": 2 }])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_condition_sees_null_for_every_new_value() {
    let sim = with_two_documents().await;
    let answer = sim.write(
        200,
        json!({ "deletes": [1, 2, 3], "delete_condition": ["t", "Eq", { "$ref_new": "t" }] }),
    );
    assert_eq!(answer["rows_deleted"], 1);
    assert_eq!(sim.matching(Value::Null), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_patch_tells_the_winner_by_its_count() {
    let sim = Sim::start().await;
    let create = json!({
        "create_namespace": true,
        "schema": { "id": "string", "digest": "string", "text": { "type": "string", "filterable": false } },
        "upsert_rows": [{ "id": "c", "digest": "d0", "text": "zero" }],
        "upsert_condition": ["id", "Eq", null],
    });
    assert_eq!(sim.write(200, create.clone())["rows_upserted"], 1);
    assert_eq!(sim.write(200, create)["rows_upserted"], 0);
    let swap = json!({
        "create_namespace": false,
        "patch_rows": [{ "id": "c", "digest": "d1", "text": "x".repeat(100_000) }],
        "patch_condition": ["digest", "Eq", "d0"],
    });
    assert_eq!(sim.write(200, swap.clone())["rows_patched"], 1);
    assert_eq!(sim.write(200, swap)["rows_patched"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_do_not_touch_by_filter_operations() {
    let sim = with_two_documents().await;
    let answer = sim.write(
        200,
        json!({
            "delete_by_filter": ["t", "Eq", 5],
            "delete_condition": ["Or", []],
            "patch_by_filter": { "filters": ["And", []], "patch": { "name": "patched" } },
            "patch_condition": ["Or", []],
            "upsert_rows": [{ "id": 1, "t": 1 }],
        }),
    );
    assert_eq!(answer["rows_deleted"], 1);
    // The row that was deleted first is not there to be patched.
    assert_eq!(answer["rows_patched"], 1);
    assert_eq!(answer["rows_upserted"], 1);
    assert_eq!(answer["rows_affected"], 3);
    assert_eq!(
        sim.rows(),
        json!([{ "id": 1, "t": 1 }, { "id": 2, "name": "patched" }])
    );
    sim.write(
        400,
        json!({ "delete_by_filter": ["t", "Eq", { "$ref_new": "t" }] }),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_by_id_pages_sees_every_document_once() {
    let sim = Sim::start().await;
    let ids: Vec<u64> = (0..1000).map(|n| n * 7919 % 1000).collect();
    sim.write(200, json!({ "upsert_columns": { "id": ids, "t": ids } }));
    let mut seen: Vec<u64> = Vec::new();
    let mut filter = Value::Null;
    loop {
        let page = json!({ "rank_by": ["id", "asc"], "limit": 300, "filters": filter });
        let page = sim.query(page)["rows"].clone();
        let page: Vec<u64> = page
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|r| r["id"].as_u64())
            .collect();
        seen.extend(&page);
        filter = json!(["And", [["id", "Gt", seen.last()], ["t", "Gte", 0]]]);
        if page.len() < 300 {
            break;
        }
    }
    assert_eq!(seen, (0..1000).collect::<Vec<u64>>());
    assert_eq!(
        sim.matching(json!(["And", [["id", "Gt", 9], ["id", "Lt", 3]]])),
        Vec::<u64>::new()
    );
    sim.write(
        200,
        json!({ "deletes": [0], "upsert_rows": [{ "id": 5000 }] }),
    );
    let ends = |order: &str| {
        sim.query(json!({ "rank_by": ["id", order], "limit": 1 }))["rows"][0]["id"].clone()
    };
    assert_eq!((ends("asc"), ends("desc")), (json!(1), json!(5000)));
}

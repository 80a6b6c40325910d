//! The other endpoints, and writes that meet each other.

use serde_json::{Value, json};

use crate::http::{Sim, send};

fn get(sim: &Sim, path: &str) -> Value {
    let answer = sim.send("GET", path, "").expect("answers");
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_and_metadata_show_types_as_documented() {
    let sim = Sim::start().await;
    sim.write(
        200,
        json!({
            "upsert_rows": [{ "id": 1, "vector": [1, 2], "f": 9.99, "i": 5, "tags": ["a"], "text": "t", "none": null }],
            "schema": { "text": { "type": "string", "full_text_search": true } },
            "distance_metric": "cosine_distance",
        }),
    );
    assert_eq!(
        get(&sim, "/v1/namespaces/ns/schema"),
        json!({
            "id": { "type": "uint", "filterable": null, "full_text_search": null },
            "vector": { "type": "[2]f32", "filterable": null, "full_text_search": null, "ann": true },
            "f": { "type": "float", "filterable": true, "full_text_search": null },
            "i": { "type": "int", "filterable": true, "full_text_search": null },
            "tags": { "type": "[]string", "filterable": true, "full_text_search": null },
            "text": { "type": "string", "filterable": false, "full_text_search": true },
        })
    );
    let metadata = get(&sim, "/v2/namespaces/ns/metadata?x=y");
    assert_eq!(
        metadata["schema"]["vector"],
        json!({ "type": "[2]f32", "ann": { "distance_metric": "cosine_distance" } })
    );
    assert_eq!(metadata["approx_row_count"], 1);
    assert_eq!(metadata["index"]["status"], "up-to-date");
    assert_eq!(get(&sim, "/v1/namespaces/ns/metadata"), metadata);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_attribute_cannot_become_filterable() {
    let sim = Sim::start().await;
    let schema = |filterable: bool| json!({ "s": { "type": "string", "filterable": filterable } });
    sim.write(
        200,
        json!({ "upsert_rows": [{ "id": 1, "s": "x".repeat(5000) }], "schema": schema(false) }),
    );
    sim.write(400, json!({ "schema": schema(true) }));
    let path = "/v1/namespaces/ns/schema";
    let update = |filterable| {
        sim.send("POST", path, &schema(filterable).to_string())
            .expect("answers")
    };
    assert_eq!(update(true).status, 400);
    sim.write(200, json!({ "upsert_rows": [{ "id": 1, "s": "x" }] }));
    assert_eq!(update(true).status, 200);
    assert_eq!(sim.matching(json!(["s", "Eq", "x"])), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_listed_by_pages_and_names_can_be_used_again() {
    let sim = Sim::start().await;
    let body = json!({ "upsert_rows": [{ "id": 1 }] }).to_string();
    for name in ["b-1", "a-3", "a-1", "a-2"] {
        let path = format!("/v2/namespaces/{name}?stainless_overload=x");
        assert_eq!(sim.send("POST", &path, &body).expect("answers").status, 200);
    }
    let first = get(&sim, "/v1/namespaces?prefix=a-&page_size=2");
    assert_eq!(
        first["namespaces"],
        json!([{ "id": "a-1" }, { "id": "a-2" }])
    );
    let cursor = first["next_cursor"].as_str().expect("more");
    let last = get(
        &sim,
        &format!("/v1/namespaces?prefix=a-&page_size=2&cursor={cursor}"),
    );
    assert_eq!(last, json!({ "namespaces": [{ "id": "a-3" }] }));

    let delete = || {
        sim.send("DELETE", "/v2/namespaces/a-1", "")
            .expect("answers")
    };
    assert_eq!(delete().json(), json!({ "status": "OK" }));
    assert_eq!(delete().status, 404);
    let text_ids = r#"{"upsert_rows":[{"id":"text"}]}"#;
    let reused = sim
        .send("POST", "/v2/namespaces/a-1", text_ids)
        .expect("answers");
    assert_eq!(reused.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_emulator_cannot_do_is_refused() {
    let sim = Sim::start().await;
    sim.write(200, json!({ "upsert_rows": [{ "id": 1, "s": "a" }] }));
    for body in [
        json!({ "rank_by": ["s", "BM25", "a"], "limit": 1 }),
        json!({ "filters": ["s", "Glob", "a*"], "limit": 1 }),
        json!({ "limit": { "total": 1, "per": { "attributes": ["s"], "limit": 1 } } }),
        json!({ "compute_attributes": {}, "limit": 1 }),
    ] {
        let answer = sim
            .send("POST", "/v2/namespaces/ns/query", &body.to_string())
            .expect("answers");
        assert_eq!(answer.status, 400);
        assert!(
            answer.body.contains("not supported by this emulator"),
            "{}",
            answer.body
        );
    }
    let answer = sim
        .send("POST", "/v1/namespaces/ns/_debug/recall", "{}")
        .expect("answers");
    assert_eq!(answer.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_conditional_writes_leave_the_newest_values() {
    let sim = Sim::start().await;
    let ids: Vec<u64> = (0..500).collect();
    let writers: Vec<_> = (1..=16_u64)
        .map(|t| {
            let url = sim.server.url();
            let body = json!({
                "schema": { "t": "uint" },
                "upsert_columns": { "id": ids, "t": vec![t; ids.len()] },
                "upsert_condition": ["t", "Lt", { "$ref_new": "t" }],
            });
            tokio::task::spawn_blocking(move || {
                send(&url, "POST", "/v2/namespaces/ns", &body.to_string())
                    .map(|answer| answer.status)
            })
        })
        .collect();
    for writer in writers {
        assert_eq!(writer.await.expect("does not panic").ok(), Some(200));
    }
    assert_eq!(sim.matching(json!(["t", "Eq", 16])), ids);
}

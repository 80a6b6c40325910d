//! Vectors: from columns, and made by an embeddings service; and full-text indexes beside them.

mod support;

use mz_sink_guest::{ColumnData, ColumnType, Error, PackedTexts, Sink, Values, View};
use serde_json::{Value, json};
use support::*;
use turbopuffer_sink::Turbopuffer;

const SERVICE: &str = "https://embeddings.test/v1/embeddings";

/// Two numbers in base64, as they go into a request.
const UNIT: &str = "AACAPwAAAAA=";

fn documents() -> View {
    view(
        "v",
        1,
        &[
            ("id", ColumnType::Uint64),
            ("title", ColumnType::Text),
            ("place", ColumnType::Other("real[]".into())),
        ],
    )
}

fn texts(values: &[&str]) -> Values {
    let mut offsets = vec![0];
    let mut data = Vec::new();
    for value in values {
        data.extend_from_slice(value.as_bytes());
        offsets.push(data.len() as u32);
    }
    Values::Texts(PackedTexts::new(offsets, data).expect("well-formed texts"))
}

fn rows(titles: &[&str], places: &[&str]) -> Vec<ColumnData> {
    let ids = (1..=titles.len() as u64).collect();
    vec![
        full(Values::Uints(ids)),
        full(texts(titles)),
        full(texts(places)),
    ]
}

fn vectors() -> Value {
    json!({
        "vectors": {"place": {"dimensions": 2}},
        "distance_metric": "euclidean_squared",
        "full_text_search": {"title": {"language": "english", "stemming": true}},
    })
}

#[test]
fn a_column_of_numbers_is_declared_and_written_as_a_vector() {
    let columns = rows(&["a", "b"], &["{1,-2}", "{0.5,0}"]);
    let (body, rejected) = written(vectors(), documents(), columns, 2);
    assert_eq!(
        body["schema"]["place"],
        json!({"type": "[2]f32", "ann": true})
    );
    assert_eq!(body["distance_metric"], "euclidean_squared");
    assert_eq!(
        body["upsert_columns"]["place"],
        json!(["AACAPwAAAMA=", "AAAAPwAAAAA="])
    );
    assert_eq!(
        body["schema"]["title"],
        json!({
            "type": "string", "filterable": false,
            "full_text_search": {"language": "english", "stemming": true},
        })
    );
    assert_eq!(rejected, []);
}

#[test]
fn a_row_without_a_vector_is_refused_and_its_document_hidden() {
    let columns = rows(&["a", "b", "c", "d"], &["{1,2,3}", "{1,NaN}", "{1,1}", ""]);
    let (body, rejected) = written(vectors(), documents(), columns, 4);
    let category = |row| (row, "not-a-vector".to_owned());
    assert_eq!(rejected, [category(0), category(1), category(3)]);
    assert_eq!(body["upsert_columns"]["id"], json!([3]));
}

#[test]
fn tombstones_have_a_placeholder_for_every_vector() {
    let host = FakeHost::default();
    let mut sink = opened(&host, vectors(), documents(), "A");
    let mut columns = rows(&["a", ""], &["{1,-2}", ""]);
    columns[2] = with_nulls(0b01, texts(&["{1,-2}", ""]));
    let mut batch = changes(columns.clone(), 2);
    batch.chunks = [chunk(0, columns, 2, &[1])].into();
    host.answers(upserted(2)).answers(patched(1));
    sink.write(&mut batch, Some("A"), "B").unwrap();
    let body = host.requests().remove(0).1;
    assert_eq!(body["upsert_columns"]["deleted"], json!([false, true]));
    assert_eq!(
        body["upsert_columns"]["place"],
        json!(["AACAPwAAAMA=", UNIT])
    );
    assert!(batch.rejected.is_empty());
    // A refused row hides its document with one as well.
    host.answers(upserted(1)).answers(patched(1));
    let mut batch = changes(rows(&["a"], &["{1}"]), 1);
    sink.write(&mut batch, Some("B"), "C").unwrap();
    let body = host.requests().remove(0).1;
    assert_eq!(body["upsert_columns"]["place"], json!([UNIT]));
    assert_eq!(body["distance_metric"], "euclidean_squared");
}

fn transform() -> Value {
    json!({"transforms": [{
        "attribute": "meaning", "sources": ["title"], "endpoint": SERVICE, "model": "m",
        "dimensions": 2, "api_key_secret": "embeddings_key", "batch_texts": 2,
    }]})
}

fn embedded(vectors: &[[f32; 2]]) -> Answer {
    // The order of the answer does not matter.
    let data = vectors.iter().enumerate().rev();
    let data: Vec<_> = data
        .map(|(index, vector)| json!({"index": index, "embedding": vector}))
        .collect();
    answer(200, json!({"data": data}))
}

fn kept(ids: &[u64]) -> Answer {
    answer(
        200,
        json!({"status": "OK", "rows_patched": ids.len(), "patched_ids": ids}),
    )
}

fn made(host: &FakeHost) -> Turbopuffer<FakeHost> {
    opened(host, transform(), documents(), "A")
}

#[test]
fn vectors_are_made_for_rows_whose_sources_changed_and_for_no_others() {
    let host = FakeHost::default();
    let mut sink = made(&host);
    host.answers(kept(&[2]));
    host.answers(embedded(&[[1.0, 0.0], [0.0, 1.0]]));
    host.answers(embedded(&[[0.5, 0.0]]));
    host.answers(upserted(3)).answers(patched(1));
    let columns = rows(&["one", "two", "three", "four"], &["{}"; 4]);
    sink.write(&mut changes(columns, 4), Some("A"), "B")
        .unwrap();
    host.finished();
    let requests = host.requests();
    let (patch, asked, upsert) = (&requests[0].1, &requests[1..3], &requests[3].1);
    assert_eq!(patch["patch_columns"]["id"], json!([1, 2, 3, 4]));
    assert_eq!(patch["patch_columns"].get("meaning"), None);
    assert_eq!(
        patch["patch_condition"],
        json!(["And", [
            ["mz_timestamp", "Lt", {"$ref_new": "mz_timestamp"}],
            ["source_hash", "Eq", {"$ref_new": "source_hash"}],
            ["deleted", "Eq", false],
        ]])
    );
    assert_eq!(patch["return_affected_ids"], true);
    assert_eq!(patch["create_namespace"], false);
    for (request, texts) in asked.iter().zip([json!(["one", "three"]), json!(["four"])]) {
        assert_eq!(request.0, format!("POST {SERVICE}"));
        assert_eq!(
            request.1,
            json!({"model": "m", "input": texts, "encoding_format": "float"})
        );
    }
    let columns = &upsert["upsert_columns"];
    assert_eq!(columns["id"], json!([1, 3, 4]));
    assert_eq!(
        columns["meaning"],
        json!([UNIT, "AAAAAAAAgD8=", "AAAAPwAAAAA="])
    );
    assert_eq!(
        columns["source_hash"][0],
        patch["patch_columns"]["source_hash"][0]
    );
    assert_ne!(columns["source_hash"][0], columns["source_hash"][1]);
    assert!(upsert.get("upsert_condition").is_some());
    assert_eq!(upsert["schema"]["source_hash"], "string");
}

#[test]
fn deletes_and_rows_without_text_ask_for_nothing() {
    let host = FakeHost::default();
    let mut sink = made(&host);
    let mut batch = changes(Vec::new(), 2);
    batch.chunks = [chunk(0, rows(&["", "gone"], &["{}"; 2]), 2, &[1])].into();
    host.answers(upserted(1)).answers(kept(&[]));
    host.answers(upserted(1)).answers(patched(1));
    sink.write(&mut batch, Some("A"), "B").unwrap();
    host.finished();
    let requests = host.requests();
    let tombstone = &requests[0].1["upsert_columns"];
    assert_eq!(tombstone["id"], json!([2]));
    assert_eq!(
        (&tombstone["meaning"], &tombstone["source_hash"]),
        (&json!([UNIT]), &json!([null]))
    );
    assert_eq!(requests[2].1["upsert_columns"]["meaning"], json!([UNIT]));
}

#[test]
fn a_snapshot_is_embedded_without_a_patch() {
    let host = FakeHost::default();
    let mut sink = made(&host);
    let mut batch = changes(rows(&["one"], &["{}"]), 1);
    batch.info.snapshot_of = vec![0];
    host.answers(created()).answers(embedded(&[[0.0, 1.0]]));
    host.answers(upserted(1)).answers(patched(1));
    sink.write(&mut batch, Some("A"), "B").unwrap();
    host.finished();
    let schema = host.requests().remove(0).1["schema"].take();
    assert_eq!(schema["meaning"], json!({"type": "[2]f32", "ann": true}));
}

#[test]
fn one_text_that_is_refused_costs_only_its_own_row() {
    let host = FakeHost::default();
    let mut sink = made(&host);
    host.answers(kept(&[])).answers(raw(400, "{}", &[]));
    host.answers(embedded(&[[1.0, 0.0]]))
        .answers(raw(400, "{}", &[]));
    // The document of the refused row, the other row, the checkpoint.
    host.answers(upserted(1))
        .answers(upserted(1))
        .answers(patched(1));
    let mut batch = changes(rows(&["good", "too long"], &["{}"; 2]), 2);
    sink.write(&mut batch, Some("A"), "B").unwrap();
    host.finished();
    let (row, category, _) = &batch.rejected[0];
    assert_eq!((*row, category.as_str()), (1, "embedding-refused"));
    let requests = host.requests();
    assert_eq!(requests[4].1["upsert_columns"]["deleted"], json!([true]));
    assert_eq!(requests[5].1["upsert_columns"]["id"], json!([1]));
}

#[test]
fn a_service_that_fails_is_an_error_and_commits_nothing() {
    for (response, code, text) in [
        (
            raw(429, "", &[("retry-after", "7")]),
            "embeddings-unavailable",
            "429",
        ),
        (
            raw(503, "title: canary", &[]),
            "embeddings-unavailable",
            "503",
        ),
        (
            raw(401, "", &[]),
            "embeddings-unauthorized",
            "api_key_secret",
        ),
        (raw(404, "", &[]), "embeddings-refused", "model"),
        (raw(200, "<html>", &[]), "unexpected-embeddings", "endpoint"),
        (embedded(&[]), "unexpected-embeddings", "fewer"),
        (
            answer(200, json!({"data": [{"index": 0, "embedding": [1.0]}]})),
            "embedding-dimensions",
            "1 numbers",
        ),
        (
            answer(
                200,
                json!({"data": [{"index": 9, "embedding": [1.0, 2.0]}]}),
            ),
            "unexpected-embeddings",
            "not asked",
        ),
    ] {
        let host = FakeHost::default();
        let mut sink = made(&host);
        host.answers(kept(&[])).answers(response);
        let error = sink.write(&mut changes(rows(&["one"], &["{}"]), 1), Some("A"), "B");
        let Err(Error::Retryable(failure) | Error::Permanent(failure)) = error else {
            panic!("{error:?}");
        };
        assert_eq!(failure.code, code);
        assert!(failure.message.contains(text), "{}", failure.message);
        assert!(!failure.message.contains("canary"), "{}", failure.message);
        assert_eq!(failure.retry_after_ms, (text == "429").then_some(7000));
        host.finished();
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let with = |extra: Value| {
        let mut transforms = transform();
        for (name, value) in extra.as_object().unwrap() {
            transforms["transforms"][0][name] = value.clone();
        }
        transforms
    };
    for (extra, text) in [
        (
            json!({"vectors": {"title": {"dimensions": 2}}}),
            "not an array",
        ),
        (
            json!({"vectors": {"other": {"dimensions": 2}}}),
            "no view has",
        ),
        (
            json!({"vectors": {"place": {"dimensions": 0}}}),
            "1 to 10752",
        ),
        (json!({"full_text_search": {"id": true}}), "no view has"),
        (json!({"full_text_search": {"n": true}}), "not a string"),
        (
            with(json!({"attribute": "title"})),
            "as something else does",
        ),
        (
            with(json!({"attribute": "deleted"})),
            "the sink itself writes",
        ),
        (with(json!({"attribute": "$x"})), "do not start"),
        (with(json!({"sources": ["nothing"]})), "no view has"),
        (with(json!({"sources": []})), "must name a column"),
        (with(json!({"endpoint": "embeddings.test"})), "https://"),
        (
            with(json!({"api_key_secret": "sk-{x}"})),
            "not the key itself",
        ),
        (with(json!({"batch_texts": 0})), "from 1 to 2048"),
        (with(json!({"dimensions": 20000})), "1 to 10752"),
    ] {
        let mut view = documents();
        view.columns[0].name = "k".into();
        view.columns
            .extend(support::view("v", 0, &[("n", ColumnType::Int64)]).columns);
        let host = FakeHost::default();
        let error = open(&host, extra.clone(), vec![view])
            .err()
            .expect("an error");
        let Error::Permanent(failure) = &error else {
            panic!("{error:?}")
        };
        assert!(
            failure.message.contains(text),
            "{extra}: {}",
            failure.message
        );
    }
}

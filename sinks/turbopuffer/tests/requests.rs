//! What goes over the wire when rows are written.

mod support;

use mz_sink_guest::{ColumnType, Error, Sink, Values};
use serde_json::json;
use support::*;

fn titles(rows: u32) -> Vec<mz_sink_guest::ColumnData> {
    vec![
        full(Values::Uints((0..rows).map(u64::from).collect())),
        full(Values::texts((0..rows).map(|row| format!("title {row}")))),
    ]
}

fn titled() -> mz_sink_guest::View {
    view(
        "v",
        1,
        &[("id", ColumnType::Uint64), ("title", ColumnType::Text)],
    )
}

#[test]
fn rows_and_tombstones_share_a_conditional_upsert_with_schema_then_the_checkpoint_moves() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), titled(), "A");
    host.answers(upserted(2)).answers(patched(1));
    let columns = vec![
        full(Values::Uints(vec![1, u64::MAX])),
        with_nulls(0b01, Values::texts(["a \"b\"\n\u{1}", ""])),
    ];
    let mut batch = changes(columns.clone(), 2);
    batch.chunks = [chunk(0, columns, 2, &[1])].into();

    sink.write(&mut batch, Some("A"), "B").unwrap();

    assert_eq!(
        host.requests(),
        [
            (
                "docs-g0".to_owned(),
                json!({
                    "create_namespace": false,
                    "upsert_columns": {
                        "id": [1, u64::MAX],
                        "mz_timestamp": [90, 90],
                        "deleted": [false, true],
                        "generation": [3, 3],
                        "written_at": [NOW, NOW],
                        "title": ["a \"b\"\n\u{1}", null],
                    },
                    "upsert_condition": ["Or", [
                        ["mz_timestamp", "Lt", {"$ref_new": "mz_timestamp"}],
                        ["mz_timestamp", "Eq", null],
                    ]],
                    "schema": {
                        "id": "uint", "mz_timestamp": "uint", "generation": "uint",
                        "deleted": "bool", "written_at": "uint",
                        "title": {"type": "string", "filterable": false},
                    },
                })
            ),
            (
                "docs-control".to_owned(),
                json!({
                    "create_namespace": false,
                    "patch_rows": [{
                        "id": "sink-1", "checkpoint": "B", "digest": digest("B"),
                        "written_at": NOW,
                    }],
                    "patch_condition": ["digest", "Eq", digest("A")],
                    "schema": {
                        "id": "string",
                        "checkpoint": {"type": "string", "filterable": false},
                        "digest": "string", "active": "string",
                        "retired": {"type": "[]string", "filterable": false},
                        "retired_at": { "type": "[]uint", "filterable": false },
                        "written_at": "uint",
                    },
                })
            ),
        ]
    );
    host.finished();
}

#[test]
fn rows_skipped_because_newer_ones_are_stored_are_no_error() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), titled(), "A");
    host.answers(upserted(0)).answers(patched(1));
    sink.write(&mut changes(titles(2), 2), Some("A"), "B")
        .unwrap();
}

#[test]
fn a_batch_without_rows_moves_only_the_checkpoint() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), titled(), "A");
    host.answers(patched(1));
    let mut batch = changes(Vec::new(), 0);
    batch.info.upper = batch.info.lower;
    batch.chunks.clear();
    sink.write(&mut batch, Some("A"), "B").unwrap();
    assert_eq!(host.requests().len(), 1);
}

#[test]
fn requests_are_split_by_rows_and_several_are_in_flight() {
    let host = FakeHost::default();
    let extra = json!({"max_request_rows": 10, "requests_in_flight": 3});
    let mut sink = opened(&host, extra, titled(), "A");
    for _ in 0..5 {
        host.answers(upserted(10));
    }
    host.answers(patched(1));
    sink.write(&mut changes(titles(45), 45), Some("A"), "B")
        .unwrap();
    let sizes: Vec<_> = host
        .requests()
        .iter()
        .filter_map(|(_, body)| Some(body["upsert_columns"]["id"].as_array()?.len()))
        .collect();
    assert_eq!(sizes, [10, 10, 10, 10, 5]);
    assert_eq!(host.most_in_flight(), 3);
}

#[test]
fn requests_are_split_by_bytes_and_a_row_too_large_alone_is_refused() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({"max_request_bytes": 65536}), titled(), "A");
    let columns = vec![
        full(Values::Uints((0..4).collect())),
        full(Values::texts(
            [30_000, 30_000, 70_000, 30_000].map(|len| "x".repeat(len)),
        )),
    ];
    host.answers(upserted(2))
        .answers(upserted(1))
        .answers(upserted(1))
        .answers(patched(1));
    let mut batch = changes(columns, 4);
    sink.write(&mut batch, Some("A"), "B").unwrap();
    // The refused row hides an older document of its key, and carries nothing of its own.
    let requests = host.requests();
    let hidden = &requests[1].1["upsert_columns"];
    assert_eq!(hidden["deleted"], json!([true]));
    assert!(hidden.get("title").is_none(), "{hidden}");
    let ids: Vec<_> = requests
        .iter()
        .filter_map(|(_, body)| body["upsert_columns"].get("id").cloned())
        .collect();
    assert_eq!(ids, [json!([0, 1]), json!([2]), json!([3])]);
    assert_eq!(batch.rejected[0].0, 2);
    assert_eq!(batch.rejected[0].1, "row-too-large");
}

/// Status or failure of a data write, and the class and code of the error that comes of it.
#[test]
fn each_failure_of_a_data_write_has_its_class_and_moves_no_checkpoint() {
    use mz_sink_guest::HttpError;
    let text = json!({"status": "error", "error": "because"}).to_string();
    let cases = [
        (raw(401, &text, &[]), "permanent", "unauthorized"),
        (raw(403, &text, &[]), "permanent", "forbidden"),
        (raw(404, "<html>", &[]), "permanent", "not-found"),
        (raw(413, "", &[]), "permanent", "request-too-large"),
        (raw(422, &text, &[]), "permanent", "refused"),
        (raw(302, "", &[]), "permanent", "redirected"),
        (raw(408, "", &[]), "retryable", "refused"),
        (raw(409, &text, &[]), "retryable", "refused"),
        (
            raw(429, &text, &[("Retry-After", "7")]),
            "retryable",
            "rate-limited",
        ),
        (raw(500, "", &[]), "retryable", "server-error"),
        (raw(503, "\u{0}garbage", &[]), "retryable", "server-error"),
        (raw(202, "{}", &[]), "retryable", "refused"),
        (raw(200, "garbage", &[]), "retryable", "unexpected-answer"),
        (raw(200, "[]", &[]), "retryable", "unexpected-answer"),
        (
            raw(200, "{\"status\": \"error\"}", &[]),
            "retryable",
            "unexpected-answer",
        ),
        (Err(HttpError::NotSent("x".into())), "retryable", "not-sent"),
        (
            Err(HttpError::MaybeSent("x".into())),
            "retryable",
            "no-answer",
        ),
        (Err(HttpError::Limit("x".into())), "retryable", "http-limit"),
        (
            Err(HttpError::Invalid("x".into())),
            "permanent",
            "invalid-request",
        ),
        (
            Err(HttpError::Denied("add `allow`".into())),
            "permanent",
            "http-denied",
        ),
    ];
    for (answer, class, code) in cases {
        let host = FakeHost::default();
        let mut sink = opened(&host, json!({}), titled(), "A");
        let shown = format!("{answer:?}");
        host.answers(answer);
        let error = sink.write(&mut changes(titles(1), 1), Some("A"), "B");
        let (found, failure) = match error.unwrap_err() {
            Error::Retryable(failure) => ("retryable", failure),
            Error::Permanent(failure) => ("permanent", failure),
            other => panic!("{shown}: {other:?}"),
        };
        assert_eq!((found, failure.code.as_str()), (class, code), "{shown}");
        assert_eq!(
            failure.retry_after_ms,
            (code == "rate-limited").then_some(7000),
            "{shown}"
        );
        assert!(failure.message.len() < 600 && !failure.message.contains('\0'));
        assert_eq!(host.requests().len(), 1, "{shown}");
    }
}

#[test]
fn the_servers_text_is_shown_but_not_all_of_a_long_one() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), titled(), "A");
    host.answers(answer(
        422,
        json!({"error": format!("dup {}", "x".repeat(10_000))}),
    ));
    let text = sink.checkpoint().unwrap_err().to_string();
    assert!(text.starts_with("turbopuffer answered 422 for namespace `docs-control`: dup xxx"));
    assert!(text.len() < 500);
}

#[test]
fn the_servers_text_about_rows_is_left_out_since_it_may_quote_them() {
    for body in [
        json!({"error": "invalid document: CANARY"}).to_string(),
        "CANARY".into(),
    ] {
        let host = FakeHost::default();
        let mut sink = opened(&host, json!({}), titled(), "A");
        // The schema alone fits: that was not the reason.
        host.answers(raw(400, &body, &[])).answers(created());
        let error = sink.write(&mut changes(titles(1), 1), Some("A"), "B");
        let text = error.unwrap_err().to_string();
        assert!(text.starts_with("turbopuffer answered 400 for namespace `docs-g0`: "));
        assert!(!text.contains("CANARY"), "{text}");
    }
}

/// A view that says 'new' while readers see 'old' would be a lie.
#[test]
fn a_refused_change_hides_the_document_it_would_have_replaced() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({"filterable": ["title"]}), titled(), "A");
    let columns = vec![
        full(Values::Uints(vec![7, 8])),
        full(Values::texts(["x".repeat(5000), "fits".into()])),
    ];
    host.answers(upserted(1))
        .answers(upserted(1))
        .answers(patched(1));
    let mut batch = changes(columns, 2);
    sink.write(&mut batch, Some("A"), "B").unwrap();
    assert_eq!(batch.rejected[0].0, 0);
    let requests = host.requests();
    let (written, hidden) = (&requests[0].1, &requests[1].1);
    assert_eq!(written["upsert_columns"]["id"], json!([8]));
    assert_eq!(hidden["upsert_columns"]["id"], json!([7]));
    assert_eq!(hidden["upsert_columns"]["deleted"], json!([true]));
    // From just before the row at 90, which may still come at its own time, mended.
    assert_eq!(hidden["upsert_columns"]["mz_timestamp"], json!([89]));
    assert_eq!(
        hidden["upsert_condition"],
        json!(["Or", [
            ["mz_timestamp", "Lte", {"$ref_new": "mz_timestamp"}],
            ["mz_timestamp", "Eq", null],
        ]])
    );
    assert_eq!(written["upsert_columns"]["mz_timestamp"], json!([90]));
    assert_eq!(
        written["upsert_condition"][1][0],
        json!(["mz_timestamp", "Lt", {"$ref_new": "mz_timestamp"}])
    );
}

#[test]
fn the_hosts_text_of_a_denial_arrives_as_it_is() {
    let host = FakeHost::default();
    let line = "add `allow = [\"https://aws-us-east-1.turbopuffer.com\"]`";
    host.answers(Err(mz_sink_guest::HttpError::Denied(line.into())));
    let Err(Error::Permanent(failure)) = open(&host, json!({}), vec![titled()]).map(drop) else {
        panic!("not permanent");
    };
    assert_eq!(failure.message, line);
}

#[test]
fn a_chunk_that_breaks_its_types_is_an_error_and_not_a_panic() {
    for columns in [
        vec![full(Values::Uints(vec![1]))],
        vec![full(Values::Ints(vec![1])), full(Values::texts(["a"]))],
        vec![
            full(Values::Uints(vec![1])),
            full(Values::Floats(vec![1.0])),
        ],
    ] {
        let host = FakeHost::default();
        let mut sink = opened(&host, json!({}), titled(), "A");
        let error = sink.write(&mut changes(columns, 1), Some("A"), "B");
        assert!(
            matches!(error, Err(Error::Permanent(failure)) if failure.code == "malformed-chunk")
        );
    }
}

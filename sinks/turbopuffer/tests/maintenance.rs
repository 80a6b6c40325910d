//! Housekeeping: what is deleted, and above all what is not.

mod support;

use mz_sink_guest::{ColumnType, Error, Maintain, Sink, Values, View};
use serde_json::{Value, json};
use support::*;
use turbopuffer_sink::Turbopuffer;

const HOUR_MS: u64 = 3_600_000;

fn keyed() -> View {
    view("v", 1, &[("id", ColumnType::Uint64)])
}

fn name(epoch: u64, attempt: &str) -> String {
    format!("{}3-e{epoch}-{}", prefix("docs"), &digest(attempt)[..12])
}

/// A control document with one retired namespace, which was retired just now.
fn control(checkpoint: &str) -> Value {
    json!({
        "id": "sink-1", "checkpoint": checkpoint, "digest": digest(checkpoint),
        "active": name(7, "active"), "retired": [name(6, "retired")], "retired_at": [NOW],
    })
}

/// A sink of epoch 7 that has committed `B`.
fn committed(host: &FakeHost, extra: Value) -> Turbopuffer<FakeHost> {
    host.answers(document(Some(control("A")))).answers(found());
    let (mut sink, _) = open(host, extra, vec![keyed()]).expect("open");
    host.answers(upserted(1)).answers(patched(1));
    let mut batch = changes(vec![full(Values::Uints(vec![1]))], 1);
    sink.write(&mut batch, Some("A"), "B").expect("a write");
    host.requests();
    host.answers(document(Some(control("B"))));
    sink
}

fn listing(names: &[&str], cursor: Option<&str>) -> Answer {
    let names: Vec<_> = names.iter().map(|name| json!({"id": name})).collect();
    let mut body = json!({"namespaces": names});
    if let Some(cursor) = cursor {
        body["next_cursor"] = json!(cursor);
    }
    answer(200, body)
}

fn deleted() -> Answer {
    answer(200, json!({"status": "OK"}))
}

fn places(host: &FakeHost) -> Vec<String> {
    host.requests()
        .into_iter()
        .map(|(place, _)| place)
        .collect()
}

fn delete_of(name: &str) -> String {
    format!("DELETE /v2/namespaces/{name}")
}

#[test]
fn a_retired_namespace_is_kept_for_its_grace_and_then_deleted_each_time_it_is_there() {
    let host = FakeHost::default();
    let mut sink = committed(&host, json!({"retired_grace": "1h"}));
    let (active, retired) = (name(7, "active"), name(6, "retired"));
    host.answers(listing(&[&retired, &active], None));
    host.pass(HOUR_MS - 1);
    sink.maintain(100).unwrap();
    let list = format!(
        "GET /v1/namespaces?prefix={}&page_size=1000",
        prefix("docs")
    );
    assert_eq!(places(&host), ["docs-control/query", &list]);
    host.pass(1);
    // A late write made it again after the first time.
    for _ in 0..2 {
        host.answers(document(Some(control("B"))));
        host.answers(listing(&[&retired, &active], None))
            .answers(deleted());
        sink.maintain(100).unwrap();
        assert_eq!(places(&host)[2..], [delete_of(&retired)]);
    }
    host.finished();
}

#[test]
fn what_failed_snapshots_left_is_deleted_and_nothing_else() {
    let host = FakeHost::default();
    let mut sink = committed(&host, json!({}));
    let (active, own, older, newer) = (
        name(7, "active"),
        name(7, "failed"),
        name(2, "failed"),
        name(8, "being loaded by a newer worker"),
    );
    let (copy, other) = (format!("{older}-copy"), format!("{}x", prefix("docs")));
    host.answers(listing(&[&older, &own, &active], Some("a/b")));
    host.answers(deleted());
    // Somebody else was faster.
    host.answers(no_namespace());
    host.answers(listing(&[&newer, &copy, &other], None));
    sink.maintain(100).unwrap();
    let list = format!(
        "GET /v1/namespaces?prefix={}&page_size=1000",
        prefix("docs")
    );
    assert_eq!(
        places(&host),
        [
            "docs-control/query",
            &list,
            &delete_of(&older),
            &delete_of(&own),
            &format!("{list}&cursor=a%2Fb"),
        ]
    );
    host.finished();
}

#[test]
fn a_fenced_worker_does_nothing() {
    let host = FakeHost::default();
    let mut sink = committed(&host, json!({"tombstone_grace": "48h"}));
    host.answers(listing(&[], None)).answers(created());
    sink.maintain(100).unwrap();
    host.requests();
    // Another worker has committed meanwhile.
    host.answers(document(Some(control("other"))));
    sink.maintain(100).unwrap();
    assert_eq!(places(&host), ["docs-control/query"]);
    host.finished();
}

#[test]
fn tombstones_are_swept_below_frontier_and_grace_until_none_is_left() {
    let host = FakeHost::default();
    let mut sink = committed(&host, json!({"tombstone_grace": "48h"}));
    let swept = |remaining: bool| {
        let body = json!({"status": "OK", "rows_deleted": 5, "rows_remaining": remaining});
        answer(200, body)
    };
    host.answers(listing(&[], None));
    host.answers(swept(true)).answers(swept(false));
    sink.maintain(100).unwrap();
    let requests = host.requests();
    assert_eq!(requests.len(), 4);
    for (place, body) in &requests[2..] {
        assert_eq!(*place, name(7, "active"));
        assert_eq!(
            *body,
            json!({
                "create_namespace": false,
                "delete_by_filter": ["And", [
                    ["deleted", "Eq", true],
                    ["mz_timestamp", "Lt", 100],
                    ["written_at", "NotEq", null],
                    ["written_at", "Lt", NOW - 48 * HOUR_MS],
                ]],
                "delete_by_filter_allow_partial": true,
            })
        );
    }
    host.finished();
}

#[test]
fn a_sweep_that_has_no_end_is_left_for_the_next_time() {
    let host = FakeHost::default();
    let mut sink = committed(&host, json!({"tombstone_grace": "48h"}));
    host.answers(listing(&[], None));
    for _ in 0..20 {
        host.answers(answer(
            200,
            json!({"status": "OK", "rows_deleted": 5, "rows_remaining": true}),
        ));
    }
    sink.maintain(100).unwrap();
    host.finished();
}

#[test]
fn a_failure_is_told_and_changes_nothing_for_the_next_write() {
    let host = FakeHost::default();
    let mut sink = committed(&host, json!({}));
    host.answers(raw(503, "", &[]));
    let error = sink.maintain(100);
    assert!(matches!(error, Err(Error::Retryable(_))), "{error:?}");
    host.answers(upserted(1)).answers(patched(1));
    let mut batch = changes(vec![full(Values::Uints(vec![1]))], 1);
    sink.write(&mut batch, Some("B"), "C").unwrap();
    host.finished();
}

#[test]
fn graces_are_checked() {
    for (extra, field) in [
        (json!({"retired_grace": "soon"}), "retired_grace"),
        (json!({"tombstone_grace": "10min"}), "at least 15m"),
        (json!({"tombstone_grace": "-1h"}), "tombstone_grace"),
    ] {
        let host = FakeHost::default();
        let error = open(&host, extra, vec![keyed()]).err().expect("an error");
        assert!(
            matches!(&error, Error::Permanent(f) if f.message.contains(field)),
            "{error:?}"
        );
    }
}

//! Snapshots: always a new namespace, switched together with the checkpoint.

mod support;

use mz_sink_guest::{ColumnType, Error, Sink, Values, View};
use serde_json::json;
use support::*;

fn keyed(name: &str) -> View {
    view(name, 1, &[("id", ColumnType::Uint64)])
}

fn snapshot(rows: u32) -> FakeBatch {
    let ids = (0..u64::from(rows)).collect();
    let mut batch = changes(vec![full(Values::Uints(ids))], rows);
    batch.info.snapshot_of = vec![0];
    batch
}

/// The name for generation 3, epoch 7 and the checkpoint `B`.
fn fresh() -> String {
    format!("{}3-e7-{}", prefix("docs"), &digest("B")[..12])
}

#[test]
fn a_snapshot_goes_into_a_new_namespace_and_the_checkpoint_patch_switches_to_it() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed("v"), "A");
    host.answers(created())
        .answers(upserted(2))
        .answers(patched(1));
    sink.write(&mut snapshot(2), Some("A"), "B").unwrap();

    let requests = host.requests();
    assert_eq!(
        requests[0],
        (
            fresh(),
            json!({
                "create_namespace": true,
                "schema": {
                    "id": "uint", "mz_timestamp": "uint", "generation": "uint",
                    "deleted": "bool", "written_at": "uint",
                },
            })
        )
    );
    assert_eq!(requests[1].0, fresh());
    assert_eq!(requests[1].1.get("upsert_condition"), None);
    assert_eq!(requests[1].1["create_namespace"], false);
    let row = &requests[2].1["patch_rows"][0];
    assert_eq!(row["active"], json!(fresh()));
    assert_eq!(row["retired"], json!(["docs-g0"]));
    assert_eq!(row["retired_at"], json!([NOW]));
    assert_eq!(
        requests[2].1["patch_condition"],
        json!(["digest", "Eq", digest("A")])
    );
}

#[test]
fn the_next_changes_go_to_the_new_namespace_and_only_newer_ones_win() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed("v"), "A");
    host.answers(created())
        .answers(upserted(1))
        .answers(patched(1));
    sink.write(&mut snapshot(1), Some("A"), "B").unwrap();
    host.requests();
    host.answers(upserted(1)).answers(patched(1));
    let mut batch = changes(vec![full(Values::Uints(vec![1]))], 1);
    sink.write(&mut batch, Some("B"), "C").unwrap();
    let requests = host.requests();
    assert_eq!(requests[0].0, fresh());
    assert!(requests[0].1.get("upsert_condition").is_some());
    assert_eq!(requests[1].1["patch_rows"][0].get("active"), None);
}

#[test]
fn an_empty_snapshot_still_makes_its_namespace() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed("v"), "A");
    host.answers(created()).answers(patched(1));
    let mut batch = snapshot(0);
    batch.chunks.clear();
    sink.write(&mut batch, Some("A"), "B").unwrap();
    assert_eq!(host.requests()[0].0, fresh());
}

#[test]
fn another_attempt_never_meets_the_namespace_of_the_first() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed("v"), "A");
    host.answers(created()).answers(raw(503, "", &[]));
    sink.write(&mut snapshot(1), Some("A"), "B").unwrap_err();
    let first = host.requests()[0].0.clone();
    host.answers(created())
        .answers(upserted(1))
        .answers(patched(1));
    sink.write(&mut snapshot(1), Some("A"), "B2").unwrap();
    let requests = host.requests();
    assert_ne!(requests[0].0, first);
    assert_eq!(
        requests[2].1["patch_rows"][0]["retired"],
        json!(["docs-g0"])
    );
}

#[test]
fn a_snapshot_that_was_not_written_whole_is_not_switched_to() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed("v"), "A");
    host.answers(created()).answers(upserted(1));
    let error = sink.write(&mut snapshot(2), Some("A"), "B");
    assert!(matches!(error, Err(Error::Retryable(failure)) if failure.code == "incomplete-load"));
    host.finished();
}

#[test]
fn a_snapshot_of_one_of_two_views_leaves_the_other_where_it_is() {
    let host = FakeHost::default();
    host.answers(document(Some(json!({
        "id": "sink-1", "checkpoint": "A", "digest": digest("A"),
        "active-a-x": "docs-a-x-old", "active-b": "docs-b-old", "retired": ["r"],
    }))))
    .answers(found())
    .answers(found());
    let (mut sink, _) = open(&host, json!({}), vec![keyed("a/x"), keyed("b")]).unwrap();
    host.requests();
    host.answers(upserted(1)).answers(upserted(1));
    host.answers(upserted(1)).answers(patched(1));
    let one_row = || vec![full(Values::Uints(vec![1]))];
    let mut batch = changes(one_row(), 1);
    batch.info.snapshot_of = vec![0];
    batch.chunks.push_back(chunk(1, one_row(), 1, &[]));
    sink.write(&mut batch, Some("A"), "B").unwrap();
    let requests = host.requests();
    let fresh = format!("{}3-e7-{}", prefix("docs-a-x"), &digest("B")[..12]);
    let namespaces: Vec<_> = requests.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        namespaces,
        [fresh.as_str(), &fresh, "docs-b-old", "docs-control"]
    );
    assert_eq!(requests[1].1.get("upsert_condition"), None);
    assert!(requests[2].1.get("upsert_condition").is_some());
    let row = &requests[3].1["patch_rows"][0];
    assert_eq!(row["active-a-x"], json!(fresh));
    assert_eq!(row["active-b"], json!("docs-b-old"));
    assert_eq!(row["retired"], json!(["r", "docs-a-x-old"]));
}

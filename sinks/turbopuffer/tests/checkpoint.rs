//! The checkpoint: compare-and-set, conflicts, and answers that never came.

mod support;

use mz_sink_guest::{ColumnType, Error, HttpError, Sink, View};
use serde_json::json;
use support::*;

fn keyed() -> View {
    view("v", 1, &[("id", ColumnType::Uint64)])
}

fn nothing() -> FakeBatch {
    let mut batch = changes(Vec::new(), 0);
    batch.info.upper = batch.info.lower;
    batch.chunks.clear();
    batch
}

#[test]
fn opening_reads_strongly_and_finds_nothing_where_there_is_no_namespace() {
    let host = FakeHost::default();
    host.answers(no_namespace());
    let (_, found) = open(&host, json!({}), vec![keyed()]).unwrap();
    assert_eq!(found, None);
    assert_eq!(
        host.requests(),
        [(
            "docs-control/query".to_owned(),
            json!({
                "rank_by": ["id", "asc"],
                "filters": ["id", "Eq", "sink-1"],
                "limit": 1,
                "include_attributes": true,
                "consistency": {"level": "strong"},
            })
        )]
    );
}

#[test]
fn the_first_checkpoint_is_inserted_only_where_there_is_none() {
    let host = FakeHost::default();
    host.answers(no_namespace()).answers(upserted(1));
    let (mut sink, _) = open(&host, json!({}), vec![keyed()]).unwrap();
    let mut batch = nothing();
    batch.info.committed = None;
    sink.write(&mut batch, None, "A").unwrap();
    let (namespace, body) = host.requests().pop().unwrap();
    assert_eq!(namespace, "docs-control");
    assert_eq!(body["create_namespace"], true);
    assert_eq!(body["upsert_condition"], json!(["id", "Eq", null]));
    assert_eq!(
        body["upsert_rows"],
        json!([{
            "id": "sink-1", "checkpoint": "A", "digest": digest("A"), "written_at": NOW,
            "active": null, "retired": [], "retired_at": [],
        }])
    );
}

#[test]
fn losing_the_race_for_the_first_checkpoint_is_a_conflict_with_the_winners() {
    let host = FakeHost::default();
    host.answers(no_namespace())
        .answers(upserted(0))
        .answers(stored("other", "docs-g0"));
    let (mut sink, _) = open(&host, json!({}), vec![keyed()]).unwrap();
    let error = sink.write(&mut nothing(), None, "A");
    assert_eq!(error, Err(Error::Conflict(Some("other".into()))));
}

#[test]
fn a_patch_that_met_another_checkpoint_is_a_conflict_with_what_was_found() {
    for (answer, found) in [
        (stored("other", "docs-g0"), Some("other".to_owned())),
        (document(None), None),
        (no_namespace(), None),
    ] {
        let host = FakeHost::default();
        let mut sink = opened(&host, json!({}), keyed(), "A");
        host.answers(patched(0)).answers(answer);
        let error = sink.write(&mut nothing(), Some("A"), "B");
        assert_eq!(error, Err(Error::Conflict(found)));
    }
}

#[test]
fn a_patch_that_met_our_own_checkpoint_was_sent_twice_and_is_committed() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed(), "A");
    host.answers(patched(0)).answers(stored("B", "docs-g0"));
    sink.write(&mut nothing(), Some("A"), "B").unwrap();
}

#[test]
fn a_control_namespace_that_is_gone_is_a_conflict_with_nothing() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed(), "A");
    host.answers(no_namespace());
    let error = sink.write(&mut nothing(), Some("A"), "B");
    assert_eq!(error, Err(Error::Conflict(None)));
}

#[test]
fn a_worker_whose_checkpoint_was_replaced_stops_before_it_writes_a_row() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed(), "A");
    host.answers(stored("C", "docs-g1"));
    let columns = vec![full(mz_sink_guest::Values::Uints(vec![1]))];
    let error = sink.write(&mut changes(columns, 1), Some("B"), "D");
    assert_eq!(error, Err(Error::Conflict(Some("C".into()))));
    assert_eq!(host.requests().len(), 1);
}

#[test]
fn an_answer_that_leaves_the_outcome_open_is_unknown_and_others_are_not() {
    let cases = [
        (Err(HttpError::MaybeSent("timeout".into())), "unknown"),
        (raw(500, "", &[]), "unknown"),
        (raw(504, "<html>", &[]), "unknown"),
        (raw(408, "", &[]), "unknown"),
        (raw(202, "", &[]), "unknown"),
        (raw(200, "garbage", &[]), "unknown"),
        (Err(HttpError::NotSent("refused".into())), "retryable"),
        (raw(429, "{}", &[]), "retryable"),
        (raw(409, "{}", &[]), "retryable"),
        (raw(401, "{}", &[]), "permanent"),
        (raw(400, "{}", &[]), "permanent"),
        (Err(HttpError::Denied("no".into())), "permanent"),
    ];
    for (answer, class) in cases {
        let host = FakeHost::default();
        let mut sink = opened(&host, json!({}), keyed(), "A");
        let shown = format!("{answer:?}");
        host.answers(answer);
        let found = match sink.write(&mut nothing(), Some("A"), "B").unwrap_err() {
            Error::Unknown(_) => "unknown",
            Error::Retryable(_) => "retryable",
            Error::Permanent(_) => "permanent",
            Error::Conflict(_) => "conflict",
        };
        assert_eq!(found, class, "{shown}");
    }
}

#[test]
fn a_read_back_that_fails_leaves_the_outcome_unknown() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed(), "A");
    host.answers(patched(0)).answers(raw(503, "", &[]));
    let error = sink.write(&mut nothing(), Some("A"), "B");
    assert!(matches!(error, Err(Error::Unknown(_))));
}

#[test]
fn after_an_unknown_outcome_the_checkpoint_is_read_from_the_target() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed(), "A");
    host.answers(raw(500, "", &[]))
        .answers(stored("B", "docs-g0"));
    sink.write(&mut nothing(), Some("A"), "B").unwrap_err();
    assert_eq!(sink.checkpoint().unwrap().as_deref(), Some("B"));
}

#[test]
fn a_document_with_a_digest_of_another_text_is_refused() {
    for document_found in [
        json!({"id": "sink-1", "checkpoint": "A", "digest": digest("B")}),
        json!({"id": "sink-1", "checkpoint": "A"}),
        json!({"id": "sink-1"}),
    ] {
        let host = FakeHost::default();
        host.answers(document(Some(document_found)));
        let error = open(&host, json!({}), vec![keyed()]).map(drop).unwrap_err();
        assert!(error.to_string().contains("delete it to start again"));
    }
}

#[test]
fn a_404_that_is_not_turbopuffers_is_not_taken_for_an_empty_target() {
    let host = FakeHost::default();
    host.answers(raw(404, "<html>nginx</html>", &[]));
    let error = open(&host, json!({}), vec![keyed()]).map(drop);
    assert!(matches!(error, Err(Error::Permanent(failure)) if failure.code == "not-found"));
}

#[test]
fn what_the_document_names_must_be_there_when_the_sink_is_opened() {
    let host = FakeHost::default();
    host.answers(stored("A", "docs-g0"))
        .answers(no_namespace())
        .answers(stored("A", "docs-g0"));
    let (error, _) = refused(&host);
    assert_eq!(error, "no-namespace");

    // Another worker has made a new one between the two looks.
    host.answers(stored("A", "docs-g0"))
        .answers(no_namespace())
        .answers(stored("B", "docs-g1"))
        .answers(found());
    let (_, text) = open(&host, json!({}), vec![keyed()]).expect("open");
    assert_eq!(text.as_deref(), Some("B"));
    host.finished();
}

#[test]
fn names_that_were_changed_by_hand_are_told() {
    for active in [json!(""), json!("../x"), json!(7), json!("a".repeat(129))] {
        let host = FakeHost::default();
        host.answers(document(Some(json!({
            "id": "sink-1", "checkpoint": "A", "digest": digest("A"), "active": active,
        }))));
        let (error, message) = refused(&host);
        assert_eq!(error, "damaged-checkpoint");
        assert!(message.contains("`active`"), "{message}");
    }
    // No name at all is as it is before the first commit, and an error after it.
    let host = FakeHost::default();
    host.answers(document(Some(json!({
        "id": "sink-1", "checkpoint": "A", "digest": digest("A"), "active": null,
    }))));
    let (mut sink, _) = open(&host, json!({}), vec![keyed()]).expect("open");
    let mut batch = nothing();
    batch.info.committed = Some(batch.info.lower);
    let written = sink.write(&mut batch, Some("A"), "B");
    assert!(
        matches!(&written, Err(Error::Permanent(f)) if f.code == "no-incarnation"),
        "{written:?}"
    );
}

/// Code and words with which the sink is not opened.
fn refused(host: &FakeHost) -> (String, String) {
    match open(host, json!({}), vec![keyed()]) {
        Err(Error::Permanent(failure)) => (failure.code, failure.message),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it is open"),
    }
}

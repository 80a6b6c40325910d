//! Namespaces that somebody else deleted or made: what happened, and what to do next.

mod support;

use mz_sink_guest::{ColumnType, Error, Failure, Sink, Values, View};
use serde_json::json;
use support::*;

const START_AGAIN: &str = "use a new `sink_id`, or delete document `sink-1` of namespace \
                           `docs-control`: both start again with a snapshot";

fn keyed() -> View {
    view("v", 1, &[("id", ColumnType::Uint64)])
}

fn one_row() -> FakeBatch {
    changes(vec![full(Values::Uints(vec![1]))], 1)
}

fn snapshot() -> FakeBatch {
    let mut batch = one_row();
    batch.info.snapshot_of = vec![0];
    batch
}

fn refusal(text: &str) -> Answer {
    answer(400, json!({"status": "error", "error": text}))
}

#[track_caller]
fn permanent(result: Result<(), Error>) -> Failure {
    match result {
        Err(Error::Permanent(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_namespace_that_was_deleted_is_told_with_the_two_ways_to_start_again() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed(), "A");
    host.answers(no_namespace()).answers(stored("A", "docs-g0"));
    let failure = permanent(sink.write(&mut one_row(), Some("A"), "B"));
    assert_eq!(failure.code, "no-namespace");
    for text in ["`docs-g0`", "view `v`", "deleted it", START_AGAIN] {
        assert!(failure.message.contains(text), "{}", failure.message);
    }
    host.finished();
}

/// It must not be told to start again: the worker that fenced it goes on.
#[test]
fn a_fenced_worker_whose_retired_namespace_was_deleted_learns_that_it_is_fenced() {
    for (answer, found) in [
        (stored("C", "docs-g1"), Some("C".to_owned())),
        (document(None), None),
        (no_namespace(), None),
    ] {
        let host = FakeHost::default();
        let mut sink = opened(&host, json!({}), keyed(), "A");
        host.answers(no_namespace()).answers(answer);
        let error = sink.write(&mut one_row(), Some("A"), "B");
        assert_eq!(error, Err(Error::Conflict(found)));
        host.finished();
    }
}

#[test]
fn a_namespace_deleted_before_the_checkpoint_could_be_read_is_looked_at_again() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed(), "A");
    host.answers(no_namespace()).answers(raw(503, "", &[]));
    let error = sink.write(&mut one_row(), Some("A"), "B");
    assert!(matches!(error, Err(Error::Retryable(_))), "{error:?}");
    host.answers(no_namespace()).answers(stored("A", "docs-g0"));
    let failure = permanent(sink.write(&mut one_row(), Some("A"), "B"));
    assert_eq!(failure.code, "no-namespace");
}

#[test]
fn a_namespace_deleted_while_it_is_loaded_is_made_and_loaded_again() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed(), "A");
    host.answers(created()).answers(no_namespace());
    let error = sink.write(&mut snapshot(), Some("A"), "B");
    assert!(matches!(error, Err(Error::Retryable(_))), "{error:?}");
    let first = host.requests();
    host.answers(created())
        .answers(upserted(1))
        .answers(patched(1));
    sink.write(&mut snapshot(), Some("A"), "B").unwrap();
    assert_eq!(host.requests()[..2], first);
}

#[test]
fn a_checkpoint_that_names_no_namespace_for_a_view_is_told_with_the_ways_to_start_again() {
    let host = FakeHost::default();
    host.answers(document(Some(json!({
        "id": "sink-1", "checkpoint": "A", "digest": digest("A"),
    }))));
    let (mut sink, _) = open(&host, json!({}), vec![keyed()]).unwrap();
    let failure = permanent(sink.write(&mut one_row(), Some("A"), "B"));
    assert_eq!(failure.code, "no-incarnation");
    assert!(failure.message.contains(START_AGAIN), "{}", failure.message);
}

#[test]
fn stored_documents_with_other_types_are_told_with_the_servers_words_about_the_schema() {
    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed(), "A");
    host.answers(refusal("CANARY"))
        .answers(refusal("cannot change type of attribute `x`"));
    let failure = permanent(sink.write(&mut one_row(), Some("A"), "B"));
    assert_eq!(failure.code, "schema-conflict");
    for text in ["`docs-g0`", "view `v`", "attribute `x`", START_AGAIN] {
        assert!(failure.message.contains(text), "{}", failure.message);
    }
    assert!(!failure.message.contains("CANARY"));
    let (namespace, question) = host.requests().remove(1);
    assert_eq!(namespace, "docs-g0");
    assert_eq!(question["create_namespace"], false);
    assert_eq!(question.as_object().unwrap().len(), 2, "{question}");
}

#[test]
fn rows_refused_for_another_reason_are_not_told_to_be_of_other_types() {
    for answer in [created(), raw(503, "", &[]), no_namespace()] {
        let host = FakeHost::default();
        let mut sink = opened(&host, json!({}), keyed(), "A");
        host.answers(refusal("because")).answers(answer);
        let failure = permanent(sink.write(&mut one_row(), Some("A"), "B"));
        assert_eq!(failure.code, "refused");
    }
}

#[test]
fn a_control_namespace_that_something_else_uses_is_told_with_the_setting() {
    let fix = "set `control_namespace` to another name";
    // When it is read, when the document is made, and when it is changed.
    let host = FakeHost::default();
    host.answers(refusal("expects uint"));
    let read = permanent(open(&host, json!({}), vec![keyed()]).map(drop));

    let host = FakeHost::default();
    host.answers(document(None))
        .answers(refusal("cannot change type of attribute `digest`"));
    let (mut sink, _) = open(&host, json!({}), vec![keyed()]).unwrap();
    let mut claim = changes(Vec::new(), 0);
    claim.info.upper = claim.info.lower;
    claim.chunks.clear();
    let made = permanent(sink.write(&mut claim, None, "A"));

    let host = FakeHost::default();
    let mut sink = opened(&host, json!({}), keyed(), "A");
    host.answers(refusal("cannot change type of attribute `digest`"));
    let changed = permanent(sink.write(&mut claim, Some("A"), "B"));

    for failure in [read, made, changed] {
        assert_eq!(failure.code, "schema-conflict");
        for text in ["`docs-control`", "turbopuffer answered 400", fix] {
            assert!(failure.message.contains(text), "{}", failure.message);
        }
    }
}

//! A write: done, failed, unknown, late, in conflict.

use super::*;

/// A write of `[100, 200)` is in flight, after a resume at 100.
fn writing() -> Script {
    let mut script = Script::resumed(config(), 100);
    let told = script.rows(&[put(150, 1), put(160, 2), progress(200)]);
    assert_eq!(told, ["write 100..200 with 2 rows"]);
    script
}

/// What a worker like ours would have stored, with another frontier or epoch.
fn like_ours(script: &Script, change: impl FnOnce(&mut Checkpoint)) -> Option<String> {
    let mut checkpoint = script.next_checkpoint();
    checkpoint.nonce += "0";
    change(&mut checkpoint);
    text(&checkpoint)
}

#[test]
fn a_write_that_succeeds_at_once_is_not_tried_again() {
    let mut script = writing();
    let first = script.next();
    assert_eq!(script.on(Event::Written(Ok(()))), ["committed 200"]);
    assert_eq!(script.session.committed(), Some(200));
    let told = script.rows(&[put(210, 1), progress(300)]);
    assert_eq!(told, ["write 200..300 with 1 rows"]);
    assert_eq!(script.write.as_ref().unwrap().expected, Some(first));
}

#[test]
fn an_unknown_write_that_landed_is_found_by_reading_back() {
    let mut script = writing();
    let told = script.on(Event::Written(Err(SinkError::Unknown(failure("timeout")))));
    assert_eq!(told, ["retry after sink-unknown", "read back"]);
    let landed = Some(script.next());
    let told = script.on(Event::CheckpointRead(Ok(landed)));
    assert_eq!(told, ["committed 200"]);
}

#[test]
fn an_unknown_write_that_did_not_land_is_sent_again_with_a_new_text() {
    let mut script = writing();
    let (first, expected) = (
        script.next(),
        script.write.as_ref().unwrap().expected.clone(),
    );
    script.on(Event::Written(Err(SinkError::Unknown(failure("timeout")))));
    let told = script.on(Event::CheckpointRead(Ok(expected.clone())));
    assert_eq!(told, ["retry after sink-unknown"]);
    assert_eq!(script.later(), ["write 100..200 with 2 rows"]);
    assert_ne!(script.next(), first);
    assert_eq!(script.write.as_ref().unwrap().expected, expected);
    // And when the first attempt lands after all, the conflict shows it for what it is.
    let told = script.on(Event::Written(Err(SinkError::Conflict(Some(
        first.clone(),
    )))));
    assert_eq!(told, ["committed 200"]);
    script.rows(&[put(210, 1), progress(300)]);
    assert_eq!(script.write.as_ref().unwrap().expected, Some(first));
}

#[test]
fn the_read_back_itself_is_tried_again() {
    let mut script = writing();
    script.on(Event::Written(Err(SinkError::Unknown(failure("timeout")))));
    let told = script.on(Event::CheckpointRead(Err(SinkError::Retryable(failure(
        "x",
    )))));
    assert_eq!(told, ["retry after sink-retryable"]);
    assert_eq!(script.later(), ["read back"]);
    let told = script.on(Event::CheckpointRead(Err(SinkError::Trapped(failure("x")))));
    assert_eq!(told, ["retry after sink-trapped"]);
    assert_eq!(script.later(), ["open"]);
    let landed = Some(script.next());
    assert_eq!(script.on(Event::SinkOpened(Ok(landed))), ["committed 200"]);
}

#[test]
fn a_trapped_write_is_settled_by_what_open_finds() {
    let mut script = writing();
    let expected = script.write.as_ref().unwrap().expected.clone();
    script.on(Event::Written(Err(SinkError::Trapped(failure("trap")))));
    assert_eq!(script.later(), ["open"]);
    // Not applied: sent again at once, for the wait is over.
    let told = script.on(Event::SinkOpened(Ok(expected)));
    assert_eq!(told, ["write 100..200 with 2 rows"]);
    let landed = Some(script.next());
    script.on(Event::Written(Err(SinkError::Trapped(failure("trap")))));
    script.later();
    assert_eq!(script.on(Event::SinkOpened(Ok(landed))), ["committed 200"]);
}

#[test]
fn a_trap_spends_one_attempt_of_the_budget() {
    let mut script = writing();
    let expected = script.write.as_ref().unwrap().expected.clone();
    for attempt in 0..10 {
        let told = script.on(Event::Written(Err(SinkError::Trapped(failure("trap")))));
        assert_eq!(told, ["retry after sink-trapped"], "attempt {attempt}");
        assert_eq!(script.later(), ["open"]);
        script.on(Event::SinkOpened(Ok(expected.clone())));
    }
    let told = script.on(Event::Written(Err(SinkError::Trapped(failure("trap")))));
    assert_eq!(told, ["disconnect", "stop: sink-trapped"]);
}

#[test]
fn an_unknown_outcome_keeps_the_sinks_words_when_the_budget_is_spent() {
    let mut script = writing();
    let expected = script.write.as_ref().unwrap().expected.clone();
    let mut told = Vec::new();
    for _ in 0..11 {
        script.on(Event::Written(Err(SinkError::Unknown(failure("timeout")))));
        told = script.on(Event::CheckpointRead(Ok(expected.clone())));
        if told.len() == 1 {
            script.later();
        }
    }
    assert_eq!(told, ["disconnect", "stop: sink-unknown"]);
}

#[test]
fn a_higher_epoch_fences() {
    let mut script = writing();
    let other = like_ours(&script, |c| c.epoch += 1);
    assert_eq!(
        script.on(Event::Written(Err(SinkError::Conflict(other)))),
        ["disconnect", "stop: fenced"]
    );
}

#[test]
fn an_equal_epoch_of_another_worker_fences() {
    let mut script = writing();
    let other = like_ours(&script, |c| c.nonce = "another-1".into());
    assert_eq!(
        script.on(Event::Written(Err(SinkError::Conflict(other)))),
        ["disconnect", "stop: fenced"]
    );
}

#[test]
fn a_lower_epoch_or_an_older_frontier_of_ours_is_a_target_from_the_past() {
    for change in [
        (|c: &mut Checkpoint| c.epoch = 1) as fn(&mut Checkpoint),
        |c| c.frontier = Some(50),
        |c| c.frontier = None,
    ] {
        let mut script = writing();
        let other = like_ours(&script, change);
        assert_eq!(
            script.on(Event::Written(Err(SinkError::Conflict(other)))),
            ["disconnect", "stop: checkpoint-went-back"]
        );
    }
}

#[test]
fn a_missing_checkpoint_stops() {
    let mut script = writing();
    assert_eq!(
        script.on(Event::Written(Err(SinkError::Conflict(None)))),
        ["disconnect", "stop: checkpoint-lost"]
    );
}

#[test]
fn an_unreadable_checkpoint_stops() {
    let mut script = writing();
    let conflict = SinkError::Conflict(Some("by hand".into()));
    assert_eq!(
        script.on(Event::Written(Err(conflict))),
        ["disconnect", "stop: checkpoint-unusable"]
    );
}

#[test]
fn an_attempt_of_ours_with_a_frontier_in_between_rewinds_to_it() {
    let mut script = writing();
    let earlier = like_ours(&script, |c| c.frontier = Some(155));
    let told = script.on(Event::Written(Err(SinkError::Conflict(earlier.clone()))));
    assert_eq!(told, ["disconnect", "connect"]);
    assert_eq!(script.session.committed(), Some(155));
    script.on(connected(Ok(())));
    assert_eq!(script.source(), ["declare AS OF 154", "fetch"]);
    let told = script.rows(&[progress(154), put(160, 2), progress(200)]);
    assert_eq!(told, ["write 155..200 with 1 rows"]);
    assert_eq!(script.write.as_ref().unwrap().expected, earlier);
}

#[test]
fn an_attempt_of_ours_with_the_same_frontier_is_built_upon_at_once() {
    let mut script = writing();
    let earlier = like_ours(&script, |c| c.frontier = Some(100));
    let told = script.on(Event::Written(Err(SinkError::Conflict(earlier.clone()))));
    assert_eq!(told, ["write 100..200 with 2 rows"]);
    assert_eq!(script.write.as_ref().unwrap().expected, earlier);
}

#[test]
fn forty_times_429_with_retry_after_and_then_a_success_commits() {
    let mut script = writing();
    for _ in 0..40 {
        let before = script.now;
        let told = script.on(Event::Written(Err(SinkError::Retryable(throttled(2500)))));
        assert_eq!(told, ["retry after sink-retryable"]);
        assert_eq!(script.later(), ["write 100..200 with 2 rows"]);
        assert_eq!(script.now - before, Duration::from_millis(2500));
    }
    assert_eq!(script.on(Event::Written(Ok(()))), ["committed 200"]);
}

#[test]
fn a_success_gives_the_whole_budget_back() {
    let mut script = writing();
    for round in 0..5 {
        for _ in 0..9 {
            script.on(Event::Written(Err(SinkError::Retryable(failure("503")))));
            script.later();
        }
        script.on(Event::Written(Ok(())));
        let time = 210 + round * 10;
        script.rows(&[put(time, 1), progress(time + 1)]);
    }
}

#[test]
fn a_spent_budget_stops_with_the_last_failure() {
    let mut script = writing();
    for _ in 0..10 {
        script.on(Event::Written(Err(SinkError::Retryable(failure("503")))));
        script.later();
    }
    let told = script.on(Event::Written(Err(SinkError::Retryable(failure("503")))));
    assert_eq!(told, ["disconnect", "stop: sink-retryable"]);
}

#[test]
fn permanent_failures_and_limits_stop_at_once() {
    for (error, code) in [
        (SinkError::Permanent(failure("schema")), "sink-permanent"),
        (SinkError::Limit(failure("memory")), "sink-limit"),
    ] {
        let mut script = writing();
        let told = script.on(Event::Written(Err(error)));
        assert_eq!(told, ["disconnect".to_string(), format!("stop: {code}")]);
    }
}

#[test]
fn a_conflict_with_exactly_what_was_expected_does_not_loop_for_ever() {
    let mut script = writing();
    for _ in 0..10 {
        let expected = script.write.as_ref().unwrap().expected.clone();
        script.on(Event::Written(Err(SinkError::Conflict(expected))));
        script.later();
    }
    let expected = script.write.as_ref().unwrap().expected.clone();
    let told = script.on(Event::Written(Err(SinkError::Conflict(expected))));
    assert_eq!(told, ["disconnect", "stop: sink-retryable"]);
}

#[test]
fn only_an_upsert_batch_over_several_timestamps_is_netted() {
    let netted = SessionConfig {
        netted: true,
        ..config()
    };
    let mut script = Script::resumed(netted.clone(), 100);
    script.rows(&[put(150, 1), put(160, 1), progress(200)]);
    assert!(script.write.as_ref().unwrap().net);
    script.on(Event::Written(Ok(())));
    script.rows(&[put(210, 1), put(210, 2), progress(300)]);
    assert!(!script.write.as_ref().unwrap().net);
}

#[test]
fn an_answer_to_a_question_that_was_not_asked_is_an_internal_error() {
    let mut script = Script::resumed(config(), 100);
    assert_eq!(
        script.on(Event::Written(Ok(()))),
        ["disconnect", "stop: internal"]
    );
}

//! Opening the sink and taking an epoch.

use super::*;

#[test]
fn a_first_start_claims_epoch_one_before_it_reads_anything() {
    let mut script = Script::opening(config());
    assert_eq!(script.on(Event::SinkOpened(Ok(None))), ["claim 1"]);
    let write = script.write.as_ref().unwrap();
    assert_eq!(write.expected, None);
    assert_eq!((write.info.lower, write.info.upper), (0, 0));
    assert_eq!(script.next_checkpoint().frontier, None);
    script.on(Event::Written(Ok(())));
    assert_eq!(script.source(), ["declare snapshot", "fetch"]);
}

#[test]
fn a_restart_takes_the_next_epoch_and_keeps_frontier_and_generation() {
    let mut script = Script::opening(config());
    let stored = text(&checkpoint(4, Some(100)));
    assert_eq!(
        script.on(Event::SinkOpened(Ok(stored.clone()))),
        ["claim 5"]
    );
    assert_eq!(script.write.as_ref().unwrap().expected, stored);
    let next = script.next_checkpoint();
    assert_eq!((next.frontier, next.generation), (Some(100), 1));
    script.on(Event::Written(Ok(())));
    assert_eq!(script.source(), ["declare AS OF 99", "fetch"]);
}

#[test]
fn the_generation_of_a_snapshot_is_stored_before_its_first_row() {
    let mut script = Script::opening(config());
    script.on(Event::SinkOpened(Ok(None)));
    assert_eq!(script.next_checkpoint().generation, 1);
    script.on(Event::Written(Ok(())));
    script.source();
    script.rows(&[progress(10), put(10, 1), progress(11)]);
    assert_eq!(script.write.as_ref().unwrap().info.generation, 1);
    // A crash in the middle of that write leaves the claim in the target: the next worker's rows
    // must be told from those that are left.
    let left = Checkpoint {
        generation: 1,
        ..checkpoint(1, None)
    };
    let mut script = Script::opening(config());
    script.on(Event::SinkOpened(Ok(text(&left))));
    assert_eq!(script.next_checkpoint().generation, 2);
}

#[test]
fn losing_the_race_to_another_claim_looks_again_and_takes_the_next_epoch() {
    let mut script = Script::opening(config());
    script.on(Event::SinkOpened(Ok(None)));
    let other = text(&checkpoint(1, None));
    let told = script.on(Event::Written(Err(SinkError::Conflict(other.clone()))));
    assert_eq!(told, ["claim lost to 1"]);
    assert_eq!(script.later(), ["open"]);
    assert_eq!(script.on(Event::SinkOpened(Ok(other))), ["claim 2"]);
}

#[test]
fn a_commit_of_the_worker_before_between_open_and_claim_is_taken_over() {
    let mut script = Script::opening(config());
    script.on(Event::SinkOpened(Ok(text(&checkpoint(3, Some(100))))));
    let moved = text(&checkpoint(3, Some(200)));
    let told = script.on(Event::Written(Err(SinkError::Conflict(moved.clone()))));
    assert_eq!(told, ["claim lost to 3"]);
    assert_eq!(script.later(), ["open"]);
    assert_eq!(script.on(Event::SinkOpened(Ok(moved))), ["claim 4"]);
    script.on(Event::Written(Ok(())));
    assert_eq!(script.source(), ["declare AS OF 199", "fetch"]);
}

#[test]
fn a_race_for_the_epoch_that_is_lost_for_good_ends_fenced() {
    let mut script = Script::opening(config());
    let mut told = Vec::new();
    for epoch in 1..20 {
        script.on(Event::SinkOpened(Ok(text(&checkpoint(epoch, None)))));
        let other = text(&checkpoint(epoch + 1, None));
        told = script.on(Event::Written(Err(SinkError::Conflict(other))));
        if told.len() > 1 {
            break;
        }
        assert_eq!(script.later(), ["open"]);
    }
    assert_eq!(told[1..], ["disconnect", "stop: fenced"]);
}

#[test]
fn a_target_that_is_emptied_between_two_claims_starts_from_nothing() {
    let mut script = Script::opening(config());
    script.on(Event::SinkOpened(Ok(text(&checkpoint(3, Some(100))))));
    let other = text(&checkpoint(4, Some(100)));
    script.on(Event::Written(Err(SinkError::Conflict(other))));
    script.later();
    assert_eq!(script.on(Event::SinkOpened(Ok(None))), ["claim 1"]);
    assert_eq!(script.next_checkpoint().frontier, None);
    script.on(Event::Written(Ok(())));
    assert_eq!(script.source(), ["declare snapshot", "fetch"]);
}

#[test]
fn a_trap_during_the_claim_opens_again_and_claims_the_same_epoch() {
    let mut script = Script::opening(config());
    script.on(Event::SinkOpened(Ok(None)));
    let first = script.next();
    let trapped = SinkError::Trapped(failure("trap"));
    let told = script.on(Event::Written(Err(trapped)));
    assert_eq!(told, ["retry after sink-trapped"]);
    assert_eq!(script.later(), ["open"]);
    assert_eq!(script.on(Event::SinkOpened(Ok(None))), ["claim 1"]);
    assert_ne!(script.next(), first, "every attempt has its own text");
}

#[test]
fn a_claim_that_landed_before_its_trap_counts() {
    let mut script = Script::opening(config());
    script.on(Event::SinkOpened(Ok(None)));
    let landed = Some(script.next());
    script.on(Event::Written(Err(SinkError::Trapped(failure("trap")))));
    script.later();
    script.on(Event::SinkOpened(Ok(landed)));
    assert_eq!(script.source(), ["declare snapshot", "fetch"]);
}

#[test]
fn a_late_claim_of_ours_is_recognised_by_the_next_attempt() {
    let mut script = Script::opening(config());
    script.on(Event::SinkOpened(Ok(None)));
    let first = Some(script.next());
    script.on(Event::Written(Err(SinkError::Unknown(failure("timeout")))));
    assert_eq!(
        script.on(Event::CheckpointRead(Ok(None))),
        ["retry after sink-unknown"]
    );
    assert_eq!(script.later(), ["claim 1"]);
    script.on(Event::Written(Err(SinkError::Conflict(first.clone()))));
    assert_eq!(script.source(), ["declare snapshot", "fetch"]);
    script.rows(&[progress(10), put(10, 1), progress(11)]);
    assert_eq!(script.write.as_ref().unwrap().expected, first);
}

#[test]
fn what_cannot_be_a_checkpoint_of_ours_stops_the_start() {
    let foreign = Checkpoint {
        sink_id: "other".into(),
        ..checkpoint(1, None)
    };
    let good = checkpoint(1, Some(100)).encode().unwrap();
    for stored in [
        String::new(),
        "{}".into(),
        "null".into(),
        good[..good.len() / 2].into(),
        good.replace("\"format\":1", "\"format\":2"),
        good.replace("\"format\":1", "\"format\":0"),
        // Edited by hand.
        good.replace("\"epoch\":1", "\"epoch\":-1"),
        good.replace("\"epoch\":1", "\"epoch\":9007199254740992"),
        good.replace("\"frontier\":\"100\"", "\"frontier\":\"soon\""),
        good.replace("\"frontier\"", "\"fronteer\""),
        format!("{good}{}", " ".repeat(70 << 10)),
        text(&foreign).unwrap(),
    ] {
        assert_ne!(stored, good);
        let mut script = Script::opening(config());
        assert_eq!(
            script.on(Event::SinkOpened(Ok(Some(stored.clone())))),
            ["disconnect", "stop: checkpoint-unusable"],
            "{stored}"
        );
    }
}

#[test]
fn a_checkpoint_of_another_object_stops_the_start() {
    let mut stored = checkpoint(1, Some(100));
    stored.views[0].shard = Some("another".into());
    let mut script = Script::opening(config());
    assert_eq!(
        script.on(Event::SinkOpened(Ok(text(&stored)))),
        ["disconnect", "stop: object-replaced"]
    );
}

#[test]
fn a_replacement_and_a_new_component_are_told_and_taken_up() {
    let mut stored = checkpoint(1, Some(100));
    stored.views[0].id = "u3".into();
    stored.component = "d0".into();
    let mut script = Script::opening(config());
    assert_eq!(
        script.on(Event::SinkOpened(Ok(text(&stored)))),
        ["replaced u3 by u7", "component d0 now d1", "claim 2"]
    );
    assert_eq!(script.next_checkpoint().views[0].id, "u7");
}

#[test]
fn open_is_tried_again_within_the_budget_and_then_fails_with_the_sinks_words() {
    let mut script = Script::opening(config());
    for _ in 0..10 {
        let refused = SinkError::Retryable(failure("unavailable"));
        let told = script.on(Event::SinkOpened(Err(refused)));
        assert_eq!(told, ["retry after sink-retryable"]);
        assert_eq!(script.later(), ["open"]);
    }
    let refused = SinkError::Retryable(failure("unavailable"));
    assert_eq!(
        script.on(Event::SinkOpened(Err(refused))),
        ["disconnect", "stop: sink-retryable"]
    );
}

#[test]
fn a_conflict_from_open_is_a_broken_contract() {
    let mut script = Script::opening(config());
    assert_eq!(
        script.on(Event::SinkOpened(Err(SinkError::Conflict(None)))),
        ["disconnect", "stop: sink-contract"]
    );
}

#[test]
fn a_checkpoint_ahead_of_the_object_is_looked_at_again_and_refused_without_an_epoch() {
    let mut script = Script::new(config());
    script.catalog.frontiers = Some(["10", "100"]);
    let stored = || text(&checkpoint(1, Some(1_000_000)));
    assert_eq!(script.source(), ["open"]);
    let told = script.on(Event::SinkOpened(Ok(stored())));
    assert_eq!(told, ["disconnect", "connect"]);
    script.on(connected(Ok(())));
    assert_eq!(script.source(), ["open"]);
    let told = script.on(Event::SinkOpened(Ok(stored())));
    assert_eq!(told, ["disconnect", "stop: checkpoint-ahead"]);
}

#[test]
fn a_target_that_holds_all_that_is_wanted_is_left_alone() {
    for frontier in [200, 300] {
        let mut script = Script::opening(SessionConfig {
            up_to: Some(200),
            ..config()
        });
        let stored = text(&checkpoint(1, Some(frontier)));
        let told = script.on(Event::SinkOpened(Ok(stored)));
        assert_eq!(told, ["disconnect", "stop: finished"]);
        assert_eq!(script.session.committed(), Some(frontier));
    }
}

#[test]
fn an_end_before_the_beginning_is_refused_without_an_epoch() {
    let mut script = Script::new(SessionConfig {
        up_to: Some(50),
        ..config()
    });
    script.catalog.frontiers = Some(["10", "100"]);
    assert_eq!(script.source(), ["open"]);
    let told = script.on(Event::SinkOpened(Ok(None)));
    assert_eq!(told, ["disconnect", "stop: up-to-passed"]);
}

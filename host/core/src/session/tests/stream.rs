//! Reading: snapshot, release, pace, splits, spilling, reconnects.

use super::*;

/// The script's server closes the connection.
fn lost(script: &mut Script) {
    let told = script.on(fetched(Err(broken())));
    assert_eq!(told, ["disconnect", "retry after connection"]);
    assert_eq!(script.later(), ["connect"]);
    script.on(connected(Ok(())));
}

#[test]
fn the_first_progress_row_commits_nothing() {
    let mut script = Script::snapshot(config());
    assert!(script.rows(&[progress(10), put(10, 1)]).is_empty());
    assert_eq!(script.session.read_frontier(), None);
    let told = script.rows(&[progress(11)]);
    assert_eq!(told, ["write 10..11 with 1 rows as snapshot"]);
}

#[test]
fn an_empty_snapshot_is_committed_at_once() {
    let mut script = Script::snapshot(config());
    let told = script.rows(&[progress(10), progress(11)]);
    assert_eq!(told, ["write 10..11 as snapshot"]);
}

#[test]
fn what_follows_the_snapshot_is_a_batch_of_its_own() {
    let mut script = Script::snapshot(config());
    let told = script.rows(&[progress(10), put(10, 1), put(12, 2), progress(20)]);
    assert_eq!(told, ["write 10..11 with 1 rows as snapshot"]);
    let told = script.on(Event::Written(Ok(())));
    assert_eq!(told, ["committed 11", "write 11..20 with 1 rows"]);
}

#[test]
fn a_snapshot_that_is_cut_off_starts_again_from_nothing() {
    let mut script = Script::snapshot(config());
    script.rows(&[progress(10), put(10, 1)]);
    lost(&mut script);
    assert_eq!(script.source(), ["declare snapshot", "fetch"]);
    let told = script.rows(&[progress(20), put(20, 2), progress(21)]);
    assert_eq!(told, ["write 20..21 with 1 rows as snapshot"]);
    // Nothing of the first attempt was written, so the claimed generation is still good.
    assert_eq!(script.write.as_ref().unwrap().info.generation, 1);
}

#[test]
fn a_stream_that_breaks_a_rule_ends_it_and_nothing_of_it_is_committed() {
    let row = |values: [Option<&str>; 5]| Row(values.map(|value| value.map(Into::into)));
    let change = |time, state, key| row([Some(time), Some("f"), Some(state), key, Some("v")]);
    for bad in [
        put(99, 1),
        progress(98),
        change("110", "unheard-of", Some("1")),
        change("soon", "upsert", Some("1")),
        change("110", "upsert", None),
        change("110", "upsert", Some("one")),
        row([None, Some("f"), Some("upsert"), Some("1"), Some("v")]),
        row([Some("110"), None, Some("upsert"), Some("1"), Some("v")]),
        row([Some("110"), Some("f"), None, Some("1"), Some("v")]),
    ] {
        let mut script = Script::resumed(config(), 100);
        script.rows(&[put(110, 1)]);
        let told = script.rows(&[bad.clone(), progress(120)]);
        assert_eq!(told, ["disconnect", "stop: stream-broken"], "{bad:?}");
        assert_eq!(script.session.committed(), Some(100));
    }
    // Without a column that every SUBSCRIBE has.
    let mut script = Script::resumed(config(), 100);
    let names = ["mz_timestamp", "mz_progressed", "other", "id", "name"].map(String::from);
    let rows = [put(110, 1)];
    let now = script.now;
    script.session.handle_rows(now, 0, &names, rows);
    assert_eq!(script.drain(), ["disconnect", "stop: stream-broken"]);
}

#[test]
fn rows_after_the_last_progress_row_are_not_committed_when_the_fetch_fails() {
    let mut script = Script::resumed(config(), 100);
    let told = script.rows(&[put(110, 1), progress(120), put(130, 2)]);
    assert_eq!(told, ["write 100..120 with 1 rows"]);
    script.on(Event::Written(Ok(())));
    lost(&mut script);
    assert_eq!(script.source(), ["declare AS OF 119", "fetch"]);
    let told = script.rows(&[progress(119), put(130, 2), progress(140)]);
    assert_eq!(told, ["write 120..140 with 1 rows"]);
}

#[test]
fn a_reconnect_during_a_write_goes_on_after_what_is_being_written() {
    let mut script = Script::resumed(config(), 100);
    script.rows(&[put(110, 1), progress(120)]);
    lost(&mut script);
    assert_eq!(script.source(), ["declare AS OF 119", "fetch"]);
    assert!(
        script
            .rows(&[progress(119), put(125, 2), progress(130)])
            .is_empty()
    );
    let told = script.on(Event::Written(Ok(())));
    assert_eq!(told, ["committed 120", "write 120..130 with 1 rows"]);
}

#[test]
fn a_reconnect_during_the_snapshots_write_does_not_read_it_again() {
    let mut script = Script::snapshot(config());
    script.rows(&[progress(10), put(10, 1), progress(11)]);
    lost(&mut script);
    assert_eq!(script.source(), ["declare AS OF 10", "fetch"]);
    script.on(Event::Written(Err(SinkError::Retryable(failure("503")))));
    assert_eq!(script.later(), ["write 10..11 with 1 rows as snapshot"]);
}

#[test]
fn quiet_hours_move_the_checkpoint_at_the_idle_interval() {
    let mut script = Script::resumed(config(), 100);
    assert!(script.rows(&[progress(200)]).is_empty());
    assert_eq!(script.session.poll_timeout(), Some(Duration::from_secs(10)));
    assert_eq!(script.later(), ["write 100..200"]);
    assert_eq!(script.on(Event::Written(Ok(()))), ["committed 200"]);
    let look_at_the_history = Some(Duration::from_secs(60));
    assert_eq!(script.session.poll_timeout(), look_at_the_history);
    assert!(script.rows(&[progress(300)]).is_empty());
    assert_eq!(script.session.poll_timeout(), Some(Duration::from_secs(20)));
}

#[test]
fn a_change_in_a_quiet_hour_does_not_wait_for_the_idle_interval() {
    let mut script = Script::resumed(config(), 100);
    script.rows(&[progress(200)]);
    let told = script.rows(&[put(210, 1), progress(220)]);
    assert_eq!(told, ["write 100..220 with 1 rows"]);
}

#[test]
fn commits_keep_their_distance() {
    let config = SessionConfig {
        commit_interval: Duration::from_secs(60),
        ..config()
    };
    let mut script = Script::resumed(config, 100);
    assert!(script.rows(&[put(110, 1), progress(120)]).is_empty());
    script.now = Duration::from_secs(30);
    assert!(script.rows(&[put(125, 1), progress(130)]).is_empty());
    assert_eq!(script.session.poll_timeout(), Some(Duration::from_secs(60)));
    assert_eq!(script.later(), ["write 100..130 with 2 rows"]);
    script.on(Event::Written(Ok(())));
    // An idle commit is a commit too.
    script.rows(&[progress(140)]);
    assert_eq!(
        script.session.poll_timeout(),
        Some(Duration::from_secs(120))
    );
}

#[test]
fn a_large_range_is_split_between_timestamps_and_each_part_committed() {
    let config = SessionConfig {
        max_commit_bytes: 2 << 20,
        ..config()
    };
    let mut script = Script::resumed(config, 100);
    let large = "x".repeat(1 << 20);
    let large = |time| change(time, "upsert", 1, Some(&large));
    let rows = [
        large(101),
        large(102),
        large(102),
        large(102),
        large(103),
        progress(110),
    ];
    let told = script.rows(&rows);
    assert_eq!(told, ["write 100..102 with 1 rows"]);
    let told = script.on(Event::Written(Ok(())));
    assert_eq!(told, ["committed 102", "write 102..103 with 3 rows"]);
    let told = script.on(Event::Written(Ok(())));
    assert_eq!(told, ["committed 103", "write 103..110 with 1 rows"]);
}

#[test]
fn what_exceeds_memory_is_spilled_and_forgotten_once_committed() {
    let config = SessionConfig {
        memory_bytes: 2 << 20,
        ..config()
    };
    let mut script = Script::resumed(config, 100);
    let large = "x".repeat(1 << 20);
    for time in 101..105 {
        script.rows(&[change(time, "upsert", 1, Some(&large))]);
    }
    assert!(script.session.spilled_bytes() > 1 << 20);
    assert!(script.session.memory_bytes() < 3 << 20);
    let told = script.rows(&[progress(110)]);
    assert_eq!(told.last().unwrap(), "write 100..110 with 4 rows");
    let told = script.on(Event::Written(Ok(())));
    assert_eq!(told, ["committed 110", "forget 3"]);
    assert_eq!(script.session.spilled_bytes(), 0);
}

#[test]
fn reading_pauses_at_the_spill_limit_while_a_write_is_in_flight() {
    let config = SessionConfig {
        memory_bytes: 0,
        spill_bytes: 3 << 20,
        ..config()
    };
    let mut script = Script::resumed(config, 100);
    script.rows(&[put(101, 1), progress(102)]);
    let large = "x".repeat(1 << 20);
    for time in 103..106 {
        assert!(script.session.wants_rows(0));
        script.rows(&[change(time, "upsert", 1, Some(&large)), progress(time + 1)]);
    }
    assert!(!script.session.wants_rows(0));
    let told = script.on(Event::Written(Ok(())));
    assert_eq!(told[0], "committed 102");
    assert!(told.contains(&"write 102..106 with 3 rows".to_string()));
    script.on(Event::Written(Ok(())));
    assert!(script.session.wants_rows(0));
}

#[test]
fn what_belongs_together_and_exceeds_the_spill_limit_is_an_error_that_names_the_setting() {
    let config = SessionConfig {
        memory_bytes: 0,
        spill_bytes: 3 << 20,
        ..config()
    };
    let mut script = Script::resumed(config, 100);
    let large = "x".repeat(1 << 20);
    let mut told = Vec::new();
    for _ in 0..3 {
        told = script.rows(&[change(103, "upsert", 1, Some(&large))]);
    }
    assert_eq!(told[1..], ["disconnect", "stop: timestamp-too-large"]);
    let error = SessionError::TimestampTooLarge { limit: 1 };
    assert!(error.to_string().contains("buffer.spill"));
}

#[test]
fn a_key_violation_is_told_and_deletes_what_may_be_there() {
    let mut script = Script::resumed(config(), 100);
    let told = script.rows(&[
        put(110, 1),
        change(110, "key_violation", 2, None),
        put(110, 3),
        progress(120),
    ]);
    assert_eq!(
        told,
        [
            "dead letter key-violation: 1 rows from 110",
            "write 100..120 with 3 rows"
        ]
    );

    let mut script = Script::snapshot(config());
    script.rows(&[progress(10)]);
    let told = script.rows(&[
        put(10, 1),
        change(10, "key_violation", 2, None),
        put(10, 3),
        progress(20),
    ]);
    assert_eq!(told[0], "dead letter key-violation: 1 rows from 10");
    assert_eq!(told[1], "write 10..11 with 2 rows as snapshot");
}

#[test]
fn an_early_empty_fetch_is_proved_before_it_ends_anything() {
    let mut script = Script::snapshot(config());
    script.rows(&[progress(10), put(10, 1)]);
    assert_eq!(script.on(fetched(Ok(()))), ["fetch"]);
    assert_eq!(script.on(fetched(Ok(()))), ["fetch to the end"]);
    let told = script.on(fetched(Ok(())));
    assert_eq!(told, ["disconnect", "write 10..11 with 1 rows as snapshot"]);
    let told = script.on(Event::Written(Ok(())));
    assert_eq!(
        told,
        ["committed 11", format!("write 11..{}", u64::MAX).as_str()]
    );
    let told = script.on(Event::Written(Ok(())));
    assert_eq!(
        told,
        [format!("committed {}", u64::MAX).as_str(), "stop: finished"]
    );
}

#[test]
fn a_quiet_stream_is_not_taken_for_an_ended_one() {
    let mut script = Script::resumed(config(), 100);
    script.now = Duration::from_secs(1);
    script.on(fetched(Ok(())));
    script.now = Duration::from_secs(6);
    assert_eq!(script.on(fetched(Ok(()))), ["fetch"]);
    // Early, but then rows come.
    assert_eq!(script.on(fetched(Ok(()))), ["fetch to the end"]);
    script.rows(&[progress(200)]);
    assert_eq!(script.on(fetched(Ok(()))), ["fetch"]);
}

#[test]
fn a_stream_that_ends_before_it_started_is_an_error_and_not_silence() {
    let mut script = Script::snapshot(config());
    script.on(fetched(Ok(())));
    assert_eq!(
        script.on(fetched(Ok(()))),
        ["disconnect", "stop: stream-broken"],
        "and one Disconnect is enough"
    );
}

#[test]
fn a_finished_checkpoint_has_nothing_to_do() {
    let mut script = Script::opening(config());
    let done = text(&checkpoint(1, Some(u64::MAX)));
    let told = script.on(Event::SinkOpened(Ok(done)));
    assert_eq!(told, ["disconnect", "stop: finished"]);
}

#[test]
fn broken_rules_stop_the_stream() {
    for rows in [
        vec![put(99, 1)],
        vec![progress(200), put(150, 1)],
        vec![progress(200), progress(150)],
        vec![put(120, 1), put(110, 1)],
        vec![change(120, "insert", 1, Some("x"))],
    ] {
        let mut script = Script::resumed(config(), 100);
        let told = script.rows(&rows);
        assert_eq!(told, ["disconnect", "stop: stream-broken"], "{rows:?}");
    }
}

#[test]
fn a_resume_that_starts_elsewhere_stops() {
    let mut script = Script::resumed(config(), 100);
    lost(&mut script);
    script.source();
    let told = script.rows(&[progress(100)]);
    assert_eq!(told, ["disconnect", "stop: stream-broken"]);
}

#[test]
fn a_reconnect_has_a_budget_that_only_progress_gives_back() {
    let mut script = Script::resumed(config(), 100);
    for _ in 0..10 {
        lost(&mut script);
        script.source();
        script.rows(&[progress(99)]);
    }
    let told = script.on(fetched(Err(broken())));
    assert_eq!(told, ["disconnect", "stop: connection"]);

    let config = SessionConfig {
        idle_commit_interval: Duration::from_secs(3600),
        allow_short_retention: true,
        ..config()
    };
    let mut script = Script::resumed(config, 100);
    for time in 0..30 {
        lost(&mut script);
        script.source();
        script.rows(&[progress(99), progress(101 + time)]);
    }
}

#[test]
fn before_the_first_connection_a_failure_is_told_at_once() {
    let mut script = Script::new(config());
    script.drain();
    let told = script.on(connected(Err(broken())));
    assert_eq!(told, ["disconnect", "stop: connection"]);
}

#[test]
fn credentials_are_renewed_once() {
    let expired = || server_error("28000", "authentication expired");
    let mut script = Script::resumed(config(), 100);
    let told = script.on(fetched(Err(expired())));
    assert_eq!(told, ["disconnect", "retry after credentials-expired"]);
    script.later();
    let told = script.on(connected(Err(expired())));
    assert_eq!(told, ["disconnect", "stop: credentials-expired"]);
}

#[test]
fn lost_history_is_looked_into_once_and_then_stops() {
    let gone = || server_error("22000", "could not find a valid timestamp for the query");
    let mut script = Script::resumed(config(), 100);
    let told = script.on(fetched(Err(gone())));
    assert_eq!(told, ["disconnect", "retry after history-lost"]);
    script.later();
    script.on(connected(Ok(())));
    assert_eq!(script.source(), ["declare AS OF 99", "fetch"]);
    let told = script.on(fetched(Err(gone())));
    assert_eq!(told, ["disconnect", "stop: history-lost"]);
}

#[test]
fn an_index_made_meanwhile_is_named_rather_than_lost_history() {
    let mut script = Script::resumed(config(), 100);
    let gone = server_error("22000", "could not find a valid timestamp for the query");
    script.on(fetched(Err(gone)));
    script.later();
    script.catalog.index = Some("t_idx");
    script.on(connected(Ok(())));
    assert_eq!(script.source(), ["disconnect", "stop: indexed-target"]);
}

#[test]
fn a_failed_declare_goes_back_to_the_look_up_once() {
    let unknown = || server_error("XX000", "unknown catalog item 'u7'");
    let mut script = Script::opening(config());
    script.on(Event::SinkOpened(Ok(None)));
    script.on(Event::Written(Ok(())));
    script.sql = None;
    script.on(ran(Ok(Table::default())));
    let told = script.on(ran(Err(unknown())));
    assert_eq!(told, ["disconnect", "retry after server-error"]);
    assert_eq!(script.later(), ["connect"]);
    script.catalog.exists = false;
    script.on(connected(Ok(())));
    assert_eq!(script.source(), ["disconnect", "stop: object-dropped"]);
}

#[test]
fn errors_that_a_retry_repeats_stop_at_once() {
    for (code, message, name) in [
        (
            "57014",
            "canceling statement due to user request",
            "canceled",
        ),
        (
            "XX000",
            "result exceeds max size of 1.0 MiB",
            "result-too-large",
        ),
        (
            "XX000",
            "Evaluation error: division by zero",
            "stream-poisoned",
        ),
        ("99999", "an error nobody has seen before", "server-error"),
    ] {
        let mut script = Script::resumed(config(), 100);
        let told = script.on(fetched(Err(server_error(code, message))));
        assert_eq!(told, ["disconnect".to_string(), format!("stop: {name}")]);
    }
}

#[test]
fn a_reconnect_notices_a_swap_and_takes_a_replacement_up() {
    let mut script = Script::resumed(config(), 100);
    lost(&mut script);
    script.catalog.id = "u9";
    assert_eq!(
        script.source(),
        ["replaced u7 by u9", "declare AS OF 99", "fetch"]
    );
    lost(&mut script);
    script.catalog.shard = "s9";
    assert_eq!(script.source(), ["disconnect", "stop: object-replaced"]);
}

#[test]
fn a_swap_under_a_running_stream_is_noticed_at_the_next_look() {
    let mut script = Script::resumed(config(), 100);
    (script.catalog.id, script.catalog.shard) = ("u9", "s9");
    script.now = script.session.poll_timeout().unwrap();
    assert_eq!(script.on(Event::Timeout), ["disconnect", "connect"]);
    script.on(connected(Ok(())));
    assert_eq!(script.source(), ["disconnect", "stop: object-replaced"]);
}

#[test]
fn a_running_stream_goes_over_to_another_object_when_that_is_allowed() {
    let refollow = SessionConfig {
        identity: IdentityPolicy {
            refollow: true,
            ..IdentityPolicy::default()
        },
        ..config()
    };
    let mut script = Script::resumed(refollow, 100);
    (script.catalog.id, script.catalog.shard) = ("u9", "s9");
    let dropped = server_error("42704", "relation 'materialize.public.t' was dropped");
    let told = script.on(fetched(Err(dropped)));
    assert_eq!(told, ["disconnect", "retry after object-dropped"]);
    assert_eq!(script.later(), ["connect"]);
    script.on(connected(Ok(())));
    assert_eq!(
        script.source(),
        ["refollowed u7 to u9", "raise generation to 2"]
    );
}

#[test]
fn an_object_that_is_dropped_under_a_running_stream_ends_it_once_it_is_looked_for() {
    let mut script = Script::resumed(config(), 100);
    script.catalog.exists = false;
    let dropped = server_error("42704", "relation 'materialize.public.t' was dropped");
    script.on(fetched(Err(dropped)));
    script.later();
    script.on(connected(Ok(())));
    assert_eq!(script.source(), ["disconnect", "stop: object-dropped"]);
}

#[test]
fn an_object_that_was_never_there_is_unknown_rather_than_dropped() {
    let mut script = Script::new(config());
    script.catalog.exists = false;
    assert_eq!(script.source(), ["disconnect", "stop: unknown-object"]);
}

#[test]
fn an_object_with_short_history_is_refused_unless_allowed() {
    let mut script = Script::new(config());
    script.catalog.retention = "1000";
    assert_eq!(script.source(), ["disconnect", "stop: short-retention"]);
    let mut script = Script::new(SessionConfig {
        allow_short_retention: true,
        ..config()
    });
    script.catalog.retention = "1000";
    assert_eq!(script.source(), ["open"]);
}

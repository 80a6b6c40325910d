//! Housekeeping of the sink: when it runs, and that nothing depends on it.

use super::*;

const INTERVAL: Duration = Duration::from_secs(600);

/// A sink with housekeeping, which has just committed its first batch.
fn committed() -> (Script, Vec<String>) {
    let mut script = Script::resumed(
        SessionConfig {
            maintenance_interval: Some(INTERVAL),
            ..config()
        },
        100,
    );
    script.rows(&[put(150, 1), progress(200)]);
    let told = script.on(Event::Written(Ok(())));
    (script, told)
}

#[test]
fn it_follows_the_first_commit_and_then_comes_once_an_interval() {
    let (mut script, told) = committed();
    assert_eq!(told, ["committed 200", "maintain 200"]);
    // Rows that come meanwhile wait for it.
    assert!(script.rows(&[put(250, 1), progress(300)]).is_empty());
    let told = script.on(Event::Maintained(Ok(())));
    assert_eq!(told, ["write 200..300 with 1 rows"]);
    assert_eq!(script.on(Event::Written(Ok(()))), ["committed 300"]);
    script.now += INTERVAL;
    let told = script.on(Event::Timeout);
    assert!(told.contains(&"maintain 300".into()), "{told:?}");
}

#[test]
fn it_is_not_asked_of_a_sink_that_has_none_nor_before_a_commit() {
    let mut script = Script::resumed(config(), 100);
    script.rows(&[put(150, 1), progress(200)]);
    assert_eq!(script.on(Event::Written(Ok(()))), ["committed 200"]);
    let maintained = SessionConfig {
        maintenance_interval: Some(INTERVAL),
        ..config()
    };
    let mut script = Script::resumed(maintained, 100);
    script.now += INTERVAL;
    let told = script.on(Event::Timeout);
    assert!(!told.iter().any(|t| t.starts_with("maintain")), "{told:?}");
}

#[test]
fn a_failure_is_told_and_the_next_write_goes_on() {
    for error in [
        SinkError::Retryable(failure("busy")),
        SinkError::Permanent(failure("broken")),
        SinkError::Unknown(failure("timeout")),
        SinkError::Trapped(failure("trap")),
        SinkError::Conflict(None),
    ] {
        let (mut script, _) = committed();
        let told = script.on(Event::Maintained(Err(error)));
        assert_eq!(told, ["maintenance failed"]);
        let told = script.rows(&[put(250, 1), progress(300)]);
        assert_eq!(told, ["write 200..300 with 1 rows"]);
    }
}

#[test]
fn after_a_trap_the_next_write_opens_the_sink_again() {
    let (mut script, _) = committed();
    script.on(Event::Maintained(Err(SinkError::Trapped(failure("trap")))));
    script.rows(&[put(250, 1), progress(300)]);
    let expected = script.write.as_ref().unwrap().expected.clone();
    let closed = SinkError::Trapped(failure("not-open"));
    let told = script.on(Event::Written(Err(closed)));
    assert_eq!(told, ["retry after sink-trapped"]);
    assert_eq!(script.later(), ["open"]);
    let told = script.on(Event::SinkOpened(Ok(expected)));
    assert_eq!(told, ["write 200..300 with 1 rows"]);
}

#[test]
fn a_shutdown_waits_for_it() {
    let (mut script, _) = committed();
    let told = script.on(Event::Shutdown);
    assert!(!told.iter().any(|t| t.starts_with("stop")), "{told:?}");
    let told = script.on(Event::Maintained(Ok(())));
    assert_eq!(told, ["stop: shut down"]);
}

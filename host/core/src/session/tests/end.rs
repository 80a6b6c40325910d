//! A request to stop, and a failure, in each state.

use super::*;

#[test]
fn a_request_to_stop_waits_for_the_write_in_flight() {
    let mut script = Script::resumed(config(), 100);
    script.rows(&[put(110, 1), progress(120)]);
    assert_eq!(script.on(Event::Shutdown), ["disconnect"]);
    assert!(script.rows(&[put(125, 1), progress(130)]).is_empty());
    let told = script.on(Event::Written(Ok(())));
    assert_eq!(told, ["committed 120", "stop: shut down"]);
    assert_eq!(script.session.poll_timeout(), None);
    assert!(script.on(Event::Shutdown).is_empty());
}

#[test]
fn with_nothing_in_flight_the_end_is_at_once() {
    let mut script = Script::resumed(config(), 100);
    script.rows(&[progress(120)]);
    assert_eq!(
        script.on(Event::Shutdown),
        ["disconnect", "stop: shut down"]
    );
}

#[test]
fn an_unknown_write_is_read_back_before_the_end() {
    let mut script = Script::resumed(config(), 100);
    script.rows(&[put(110, 1), progress(120)]);
    script.on(Event::Shutdown);
    let told = script.on(Event::Written(Err(SinkError::Unknown(failure("timeout")))));
    assert_eq!(told, ["retry after sink-unknown", "read back"]);
    let landed = Some(script.next());
    let told = script.on(Event::CheckpointRead(Ok(landed)));
    assert_eq!(told, ["committed 120", "stop: shut down"]);
}

#[test]
fn a_write_that_waits_to_be_tried_again_is_given_up() {
    let mut script = Script::resumed(config(), 100);
    script.rows(&[put(110, 1), progress(120)]);
    script.on(Event::Written(Err(SinkError::Retryable(failure("503")))));
    assert_eq!(
        script.on(Event::Shutdown),
        ["disconnect", "stop: shut down"]
    );
}

#[test]
fn a_write_that_fails_after_the_request_is_not_tried_again() {
    let mut script = Script::resumed(config(), 100);
    script.rows(&[put(110, 1), progress(120)]);
    script.on(Event::Shutdown);
    let told = script.on(Event::Written(Err(SinkError::Retryable(failure("503")))));
    assert_eq!(told, ["retry after sink-retryable", "stop: shut down"]);
}

#[test]
fn a_rewind_after_the_request_does_not_connect_again() {
    let mut script = Script::resumed(config(), 100);
    script.rows(&[put(110, 1), progress(120)]);
    script.on(Event::Shutdown);
    let earlier = Checkpoint {
        nonce: script.next_checkpoint().nonce + "0",
        frontier: Some(115),
        ..script.next_checkpoint()
    };
    let told = script.on(Event::Written(Err(SinkError::Conflict(text(&earlier)))));
    assert_eq!(told, ["stop: shut down"]);
}

#[test]
fn while_connecting_looking_up_or_waiting_the_end_is_at_once() {
    let mut script = Script::new(config());
    script.drain();
    assert_eq!(
        script.on(Event::Shutdown),
        ["disconnect", "stop: shut down"]
    );
    assert!(script.on(connected(Ok(()))).is_empty());

    let mut script = Script::new(config());
    script.drain();
    script.on(connected(Ok(())));
    assert_eq!(
        script.on(Event::Shutdown),
        ["disconnect", "stop: shut down"]
    );
    assert!(script.on(ran(Ok(Table::default()))).is_empty());

    let mut script = Script::resumed(config(), 100);
    script.on(fetched(Err(broken())));
    assert_eq!(script.on(Event::Shutdown), ["stop: shut down"]);
    assert_eq!(script.session.poll_timeout(), None);
}

#[test]
fn while_the_sink_opens_no_epoch_is_taken_any_more() {
    let mut script = Script::opening(config());
    assert_eq!(script.on(Event::Shutdown), ["disconnect"]);
    assert_eq!(script.on(Event::SinkOpened(Ok(None))), ["stop: shut down"]);
}

#[test]
fn a_claim_in_flight_is_waited_for() {
    let mut script = Script::opening(config());
    script.on(Event::SinkOpened(Ok(None)));
    assert_eq!(script.on(Event::Shutdown), ["disconnect"]);
    assert_eq!(script.on(Event::Written(Ok(()))), ["stop: shut down"]);
}

#[test]
fn a_failure_of_the_stream_lets_the_write_in_flight_end() {
    let mut script = Script::resumed(config(), 100);
    script.rows(&[put(110, 1), progress(120)]);
    let poisoned = server_error("XX000", "Evaluation error: division by zero");
    assert_eq!(script.on(fetched(Err(poisoned))), ["disconnect"]);
    let told = script.on(Event::Written(Ok(())));
    assert_eq!(told, ["committed 120", "stop: stream-poisoned"]);
}

#[test]
fn the_first_failure_is_the_one_that_is_told() {
    let mut script = Script::resumed(config(), 100);
    script.rows(&[put(110, 1), progress(120)]);
    let poisoned = server_error("XX000", "Evaluation error: division by zero");
    script.on(fetched(Err(poisoned)));
    let told = script.on(Event::Written(Err(SinkError::Permanent(failure("schema")))));
    assert_eq!(told, ["stop: stream-poisoned"]);
}

#[test]
fn being_fenced_outweighs_a_request_to_stop() {
    let mut script = Script::resumed(config(), 100);
    script.rows(&[put(110, 1), progress(120)]);
    script.on(Event::Shutdown);
    let other = text(&checkpoint(9, Some(500)));
    let told = script.on(Event::Written(Err(SinkError::Conflict(other))));
    assert_eq!(told, ["stop: fenced"]);
}

#[test]
fn a_full_disk_stops_after_the_write_in_flight() {
    let mut script = Script::resumed(config(), 100);
    script.rows(&[put(110, 1), progress(120)]);
    assert_eq!(
        script.on(Event::SpillFailed("no space".into())),
        ["disconnect"]
    );
    let told = script.on(Event::Written(Ok(())));
    assert_eq!(told, ["committed 120", "stop: spill"]);
}

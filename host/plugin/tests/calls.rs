//! What a sink's calls come to, however it behaves.

mod support;

use std::time::Duration;

use mz_sink_core::batch::{Failure, SinkError};
use mz_sink_plugin::{Limits, PluginSink};
use support::{Guest, OK, Rows, view};

const FOR_EVER: &str = "(loop $again (br $again)) (unreachable)";

async fn write(sink: &mut PluginSink, ids: &[i64]) -> Result<(), SinkError> {
    sink.write(Rows::of(ids), None, "next".to_owned()).await
}

fn trapped(error: SinkError) -> Failure {
    match error {
        SinkError::Trapped(failure) => failure,
        other => panic!("not a trap: {other:?}"),
    }
}

fn echoed(result: Result<(), SinkError>) -> String {
    match result {
        Err(SinkError::Permanent(failure)) if failure.code == "echo" => failure.message,
        other => panic!("no echo: {other:?}"),
    }
}

#[tokio::test]
async fn a_sink_that_agrees_to_everything_opens_writes_and_closes() {
    let mut sink = Guest::default().sink(Limits::default());
    assert_eq!(sink.open(&[view()]).await, Ok(None));
    assert_eq!(sink.checkpoint().await, Ok(None));
    assert_eq!(write(&mut sink, &[1]).await, Ok(()));
    sink.close().await;
    assert_eq!(
        trapped(sink.checkpoint().await.expect_err("closed")).code,
        "not-open"
    );
}

#[tokio::test]
async fn a_write_before_open_is_refused() {
    let mut sink = Guest::default().sink(Limits::default());
    let failure = trapped(write(&mut sink, &[1]).await.expect_err("not open"));
    assert_eq!(failure.code, "not-open");
}

#[tokio::test]
async fn a_guest_gets_its_rows_as_json_from_the_first_row_at_every_write() {
    let guest = Guest {
        write: "(call $echo_rows (local.get $batch))",
        ..Guest::default()
    };
    let mut sink = guest.sink(Limits::default());
    sink.open(&[view()]).await.expect("open");
    for id in [7, 8] {
        assert_eq!(
            echoed(write(&mut sink, &[id, 9]).await),
            format!(r#"[{{"i":0,"view":0,"ts":1,"ord":0,"op":"put","n":1,"row":{{"id":{id}}}}}]"#)
        );
    }
}

#[tokio::test]
async fn columns_and_json_share_one_position_and_rewind_goes_back() {
    let guest = Guest {
        write: "(call $next (local.get $batch) (i32.const 100) (i32.const 768))
                (call $echo_rows (local.get $batch))",
        ..Guest::default()
    };
    let mut sink = guest.sink(Limits::default());
    sink.open(&[view()]).await.expect("open");
    assert!(echoed(write(&mut sink, &[1, 2]).await).contains(r#"{"id":2}"#));

    let guest = Guest {
        write: "(call $next (local.get $batch) (i32.const 100) (i32.const 768))
                (call $rewind (local.get $batch))
                (call $echo_rows (local.get $batch))",
        ..Guest::default()
    };
    let mut sink = guest.sink(Limits::default());
    sink.open(&[view()]).await.expect("open");
    assert!(echoed(write(&mut sink, &[1, 2]).await).contains(r#"{"id":1}"#));
}

#[tokio::test]
async fn a_guest_gets_its_rows_as_columns() {
    let guest = Guest {
        // The first value of the first column, whose lowest byte is a letter.
        write: "(call $next (local.get $batch) (i32.const 100) (i32.const 768))
                (call $echo (i32.load offset=16 (i32.load (i32.const 832))) (i32.const 1))",
        ..Guest::default()
    };
    let mut sink = guest.sink(Limits::default());
    sink.open(&[view()]).await.expect("open");
    assert_eq!(echoed(write(&mut sink, &[i64::from(b'A')]).await), "A");
}

#[tokio::test]
async fn a_rejection_and_its_answer_pass_through() {
    let guest = Guest {
        write: "(call $reject (local.get $batch) (i64.const 5)
                  (i32.const 96) (i32.const 4) (i32.const 32) (i32.const 5) (i32.const 768))
                (call $echo (i32.load (i32.const 776)) (i32.load (i32.const 780)))",
        ..Guest::default()
    };
    let mut sink = guest.sink(Limits::default());
    sink.open(&[view()]).await.expect("open");
    assert_eq!(echoed(write(&mut sink, &[1]).await), "5 echo 1.2.3");
}

#[tokio::test]
async fn a_batch_kept_after_its_write_has_lost_its_source() {
    let guest = Guest {
        // The first write keeps its batch; the second asks the old one for rows.
        write: "(if (global.get $kept)
                  (then (return (call $echo_rows (global.get $kept)))))
                (global.set $kept (local.get $batch)) (i32.const 512)",
        ..Guest::default()
    };
    let mut sink = guest.sink(Limits::default());
    sink.open(&[view()]).await.expect("open");
    assert_eq!(write(&mut sink, &[1]).await, Ok(()));
    let text = echoed(write(&mut sink, &[2]).await);
    assert!(text.contains("the batch is over"), "{text}");
}

#[tokio::test]
async fn after_a_trap_the_instance_is_gone_and_open_makes_a_new_one() {
    let guest = Guest {
        write: "(unreachable)",
        ..Guest::default()
    };
    let mut sink = guest.sink(Limits::default());
    for _ in 0..2 {
        sink.open(&[view()]).await.expect("open");
        let failure = trapped(write(&mut sink, &[1]).await.expect_err("a trap"));
        assert_eq!(failure.code, "trap");
        assert!(failure.message.contains("unreachable"), "{failure:?}");
        let failure = trapped(sink.checkpoint().await.expect_err("gone"));
        assert_eq!(failure.code, "not-open");
    }
}

#[tokio::test]
async fn a_guest_that_loops_gives_way_to_others_and_is_stopped() {
    let guest = Guest {
        write: FOR_EVER,
        ..Guest::default()
    };
    let limits = Limits {
        idle_timeout: Duration::from_millis(100),
        ..Limits::default()
    };
    let mut sink = guest.sink(limits);
    sink.open(&[view()]).await.expect("open");
    // On this runtime of one thread the other task only runs when the guest yields.
    let other = tokio::spawn(async {});
    let failure = trapped(write(&mut sink, &[1]).await.expect_err("stopped"));
    assert!(other.is_finished());
    assert_eq!(failure.code, "no-progress");
    assert!(failure.message.contains("limits.idle_timeout"));
}

#[tokio::test]
async fn a_call_given_up_half_way_leaves_no_instance_behind() {
    let guest = Guest {
        write: FOR_EVER,
        ..Guest::default()
    };
    let mut sink = guest.sink(Limits::default());
    sink.open(&[view()]).await.expect("open");
    {
        let call = std::pin::pin!(write(&mut sink, &[1]));
        assert!(futures::poll!(call).is_pending(), "it loops");
    }
    let failure = trapped(sink.checkpoint().await.expect_err("gone"));
    assert_eq!(failure.code, "not-open");
}

#[tokio::test]
async fn a_guest_that_wants_too_much_memory_meets_its_limit_by_name() {
    let guest = Guest {
        write: "(drop (memory.grow (i32.const 100))) (i32.const 512)",
        ..Guest::default()
    };
    let limits = Limits {
        memory: 50 << 16,
        ..Limits::default()
    };
    let mut sink = guest.sink(limits);
    sink.open(&[view()]).await.expect("open");
    let Err(SinkError::Limit(failure)) = write(&mut sink, &[1]).await else {
        panic!("more than the limit")
    };
    assert_eq!(failure.code, "memory");
    assert!(failure.message.contains("limits.memory"));
    sink.open(&[view()]).await.expect("a new instance");
}

#[tokio::test]
async fn an_instance_that_does_not_even_fit_is_refused_at_open() {
    let limits = Limits {
        memory: 1000,
        ..Limits::default()
    };
    let mut sink = Guest::default().sink(limits);
    assert!(matches!(sink.open(&[view()]).await, Err(SinkError::Limit(f)) if f.code == "memory"));
}

#[tokio::test]
async fn an_absurd_request_for_random_bytes_breaks_the_contract() {
    let guest = Guest {
        checkpoint: "(call $random (i32.const -1) (i32.const 768)) (i32.const 512)",
        ..Guest::default()
    };
    let mut sink = guest.sink(Limits::default());
    sink.open(&[view()]).await.expect("open");
    let failure = trapped(sink.checkpoint().await.expect_err("too many"));
    assert_eq!(failure.code, "contract");
}

#[tokio::test]
async fn a_guest_that_answers_outside_its_memory_is_a_trap() {
    let guest = Guest {
        open: "(i32.const 0x7ffffff0)",
        checkpoint: OK,
        ..Guest::default()
    };
    let mut sink = guest.sink(Limits::default());
    trapped(sink.open(&[view()]).await.expect_err("no such address"));
}

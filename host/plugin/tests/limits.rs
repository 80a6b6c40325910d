//! What a guest cannot do, however it goes about it.

mod support;

use std::time::Duration;

use mz_sink_core::batch::SinkError;
use mz_sink_plugin::Limits;
use support::{Guest, Rows, view};

/// What comes of a write with a short idle time; panics when the guest is not stopped.
async fn write(body: &'static str) -> SinkError {
    stopped(Guest {
        write: body,
        ..Guest::default()
    })
    .await
}

async fn stopped(guest: Guest) -> SinkError {
    let mut sink = guest.sink(Limits {
        idle_timeout: Duration::from_millis(100),
        ..Limits::default()
    });
    sink.open(&[view()]).await.expect("open");
    let write = sink.write(Rows::of(&[1]), None, "next".to_owned());
    tokio::time::timeout(Duration::from_secs(20), write)
        .await
        .expect("the guest runs for ever")
        .expect_err("the guest was not stopped")
}

fn is_without_progress(error: SinkError) {
    match error {
        SinkError::Trapped(failure) => assert_eq!(failure.code, "no-progress"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn asking_again_at_the_end_of_the_rows_is_no_progress() {
    is_without_progress(
        write(
            "(loop $a (call $next (local.get $batch) (i32.const 100) (i32.const 768)) (br $a))
             (unreachable)",
        )
        .await,
    );
}

#[tokio::test]
async fn reading_the_same_rows_for_ever_is_no_progress() {
    is_without_progress(
        write(
            "(loop $a
               (call $next_json (local.get $batch) (i32.const 100) (i32.const 768))
               (call $rewind (local.get $batch))
               (global.set $heap (i32.const 4096))
               (br $a))
             (unreachable)",
        )
        .await,
    );
}

#[tokio::test]
async fn refusing_one_row_for_ever_is_no_progress() {
    is_without_progress(
        write(
            "(loop $a
               (call $reject (local.get $batch) (i64.const 0)
                 (i32.const 96) (i32.const 4) (i32.const 32) (i32.const 5) (i32.const 768))
               (br $a))
             (unreachable)",
        )
        .await,
    );
}

#[tokio::test]
async fn refusing_rows_that_are_not_there_is_no_progress() {
    is_without_progress(
        write(
            "(local $row i64)
             (loop $a
               (local.set $row (i64.add (local.get $row) (i64.const 1)))
               (call $reject (local.get $batch) (local.get $row)
                 (i32.const 96) (i32.const 4) (i32.const 32) (i32.const 5) (i32.const 768))
               (global.set $heap (i32.const 4096))
               (br $a))
             (unreachable)",
        )
        .await,
    );
}

#[tokio::test]
async fn asking_what_the_batch_is_again_is_no_progress() {
    is_without_progress(
        write(
            "(loop $a
               (call $info (local.get $batch) (i32.const 768))
               (global.set $heap (i32.const 4096))
               (br $a))
             (unreachable)",
        )
        .await,
    );
}

#[tokio::test]
async fn log_lines_clocks_and_random_bytes_are_no_progress() {
    for body in [
        "(loop $a
           (call $emit (i32.const 0) (i32.const 96) (i32.const 4) (i32.const 0) (i32.const 0))
           (br $a))
         (unreachable)",
        "(loop $a (drop (call $now)) (drop (call $monotonic)) (br $a)) (unreachable)",
        "(loop $a
           (call $random (i32.const 65536) (i32.const 768))
           (global.set $heap (i32.const 4096))
           (br $a))
         (unreachable)",
    ] {
        is_without_progress(write(body).await);
    }
}

#[tokio::test]
async fn requests_that_are_not_granted_are_no_progress() {
    let guest = Guest {
        imports: r#"(import "materialize:sink/http@0.1.0" "send" (func $send
          (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
        (data (i32.const 128) "GET")
        (data (i32.const 144) "http://localhost/")"#,
        write: "(loop $a
               (call $send (i32.const 128) (i32.const 3) (i32.const 144) (i32.const 17)
                 (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                 (i32.const 0) (i32.const 0) (i32.const 768))
               (global.set $heap (i32.const 4096))
               (br $a))
             (unreachable)",
        ..Guest::default()
    };
    is_without_progress(stopped(guest).await);
}

/// Leaves 640 as the address of `Ok(some(text))` with a text of 70,000 bytes.
const LARGE: &str = "(drop (memory.grow (i32.const 2)))
    (i32.store8 (i32.const 640) (i32.const 0)) (i32.store8 (i32.const 644) (i32.const 1))
    (i32.store (i32.const 648) (i32.const 4096)) (i32.store (i32.const 652) (i32.const 70000))
    (i32.const 640)";

fn breaks_the_contract<T: std::fmt::Debug>(result: Result<T, SinkError>) {
    match result {
        Err(SinkError::Permanent(failure)) => {
            assert_eq!(failure.code, "contract");
            assert!(failure.message.contains("65536"), "{}", failure.message);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_checkpoint_larger_than_the_contract_allows_is_not_handed_on() {
    let guest = Guest {
        checkpoint: LARGE,
        ..Guest::default()
    };
    let mut sink = guest.sink(Limits::default());
    sink.open(&[view()]).await.expect("open");
    breaks_the_contract(sink.checkpoint().await);
}

#[tokio::test]
async fn nor_is_one_found_at_open() {
    let guest = Guest {
        open: LARGE,
        ..Guest::default()
    };
    breaks_the_contract(guest.sink(Limits::default()).open(&[view()]).await);
}

#[tokio::test]
async fn nor_is_one_found_in_a_conflict() {
    let guest = Guest {
        // Err(conflict(some(text))) with a text of 70,000 bytes.
        write: "(drop (memory.grow (i32.const 2)))
          (i32.store8 (i32.const 640) (i32.const 1)) (i32.store8 (i32.const 644) (i32.const 3))
          (i32.store8 (i32.const 648) (i32.const 1))
          (i32.store (i32.const 652) (i32.const 4096)) (i32.store (i32.const 656) (i32.const 70000))
          (i32.const 640)",
        ..Guest::default()
    };
    let mut sink = guest.sink(Limits::default());
    sink.open(&[view()]).await.expect("open");
    breaks_the_contract(sink.write(Rows::of(&[1]), None, "next".to_owned()).await);
}

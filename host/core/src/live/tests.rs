use super::*;
use crate::decode::tests::{Row, change, deletion, progress, violation};
use proptest::prelude::*;

const NAMES: [&str; 5] = ["mz_timestamp", "mz_progressed", "mz_state", "id", "name"];

fn names() -> Vec<String> {
    NAMES.map(String::from).to_vec()
}

fn config() -> LiveConfig {
    LiveConfig {
        of: "(SELECT 1\n)".into(),
        columns: None,
        key: vec!["id".into()],
        with_snapshot: true,
        as_of: None,
        up_to: None,
        idle_interval: Duration::from_secs(10),
        memory_bytes: 1 << 20,
        spill_bytes: 1 << 20,
    }
}

fn feed(live: &mut Live, rows: impl IntoIterator<Item = Row>) {
    for row in rows {
        live.handle_row(&names(), &row).unwrap();
    }
}

/// Everything that can be shown now, as lines.
fn lines(live: &mut Live, now: u64) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(batch) = live.take(Duration::from_secs(now)) {
        let view = live.view().unwrap();
        let chunks: Vec<_> = batch.segments.iter().flat_map(|s| &s.chunk).collect();
        if chunks.is_empty() {
            lines.push(line(&batch, &view, None, true));
        }
        for (at, chunk) in chunks.iter().enumerate() {
            lines.push(line(
                &batch,
                &view,
                Some((chunk, 0)),
                at + 1 == chunks.len(),
            ));
        }
        live.shown(&batch);
    }
    lines
        .into_iter()
        .map(|line| String::from_utf8(line).unwrap())
        .collect()
}

#[test]
fn nothing_is_shown_before_its_time_is_closed() {
    let mut live = Live::new(config());
    feed(&mut live, [progress(10), change(10, 1, "a")]);
    assert_eq!(lines(&mut live, 0), [""; 0]);
    feed(&mut live, [progress(11), change(12, 2, "b")]);
    let snapshot = r#"{"format":1,"lower":null,"upper":11,"snapshot":true,"last":true,"rows":[{"i":0,"view":0,"ts":10,"ord":0,"op":"put","n":1,"row":{"id":"1","name":"a"}}]}"#;
    assert_eq!(lines(&mut live, 0), [format!("{snapshot}\n")]);
    feed(&mut live, [deletion(12, 1)]);
    assert_eq!(lines(&mut live, 0), [""; 0]);
    feed(&mut live, [progress(13)]);
    let [line] = &lines(&mut live, 0)[..] else {
        panic!("one batch")
    };
    let told: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((&told["lower"], &told["upper"]), (&11.into(), &13.into()));
    assert_eq!(told["snapshot"], false);
    assert_eq!(told["rows"][1]["op"], "delete");
}

#[test]
fn a_frontier_without_changes_is_told_now_and_then() {
    let mut live = Live::new(config());
    feed(&mut live, [progress(10), progress(11)]);
    assert_eq!(lines(&mut live, 0).len(), 1);
    assert_eq!(live.idle_until(), None);
    feed(&mut live, [progress(12)]);
    assert_eq!(live.idle_until(), Some(Duration::from_secs(10)));
    assert_eq!(lines(&mut live, 9).len(), 0);
    let told = lines(&mut live, 10);
    assert!(
        told[0].contains(r#""lower":11,"upper":12,"snapshot":false"#),
        "{told:?}"
    );
}

#[test]
fn without_the_snapshot_there_is_none() {
    for as_of in [None, Some(10)] {
        let config = LiveConfig {
            with_snapshot: false,
            as_of,
            ..config()
        };
        let mut live = Live::new(config);
        feed(&mut live, [progress(10), change(11, 1, "a"), progress(12)]);
        let told = lines(&mut live, 0);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(r#""snapshot":false"#) && told[0].contains(r#""ts":11"#));
    }
}

#[test]
fn the_end_is_proven_before_it_is_told() {
    let quick = Some((0, Duration::ZERO));
    let slow = Some((0, FETCH_TIMEOUT));
    let mut live = Live::new(LiveConfig {
        up_to: Some(20),
        ..config()
    });
    let with_timeout = live.next(None).unwrap();
    feed(
        &mut live,
        [progress(10), change(10, 1, "a"), change(15, 2, "b")],
    );
    assert_eq!(live.next(slow).unwrap(), with_timeout);
    let Next::Fetch { sql, .. } = live.next(quick).unwrap() else {
        panic!("not proven yet")
    };
    assert!(!sql.contains("timeout"), "{sql}");
    assert_eq!(live.next(quick).unwrap(), Next::End);
    let told = lines(&mut live, 0);
    assert!(
        told[1].contains(r#""upper":20"#) && told[1].contains("\"b\""),
        "{told:?}"
    );
}

#[test]
fn what_waits_too_long_goes_to_disk_and_then_is_the_end() {
    let mut live = Live::new(LiveConfig {
        memory_bytes: 0,
        spill_bytes: 3 << 20,
        ..config()
    });
    let large = "x".repeat(1 << 20);
    feed(
        &mut live,
        [progress(10), change(10, 1, &large), change(10, 2, &large)],
    );
    let spilled = live.spill().unwrap();
    assert_eq!(spilled.len(), 2);
    feed(&mut live, [change(10, 3, &large), progress(11)]);
    assert_eq!(
        live.spill().unwrap_err(),
        LiveError::TooSlow { limit: 3 << 20 }
    );
    let batch = live.take(Duration::ZERO).unwrap();
    assert_eq!(live.shown(&batch).len(), 3);
    assert!(live.spill().unwrap().is_empty());
}

#[test]
fn keys_that_several_rows_have_are_told_once_their_time_is_closed() {
    let mut live = Live::new(config());
    feed(&mut live, [progress(10), change(10, 1, "a"), progress(11)]);
    lines(&mut live, 0);
    feed(
        &mut live,
        [violation(11, 1), violation(12, 2), progress(12)],
    );
    let told: serde_json::Value = serde_json::from_str(&lines(&mut live, 0)[0]).unwrap();
    let violations = told["key_violations"].as_array().unwrap();
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0]["row"]["id"], "1");
}

#[test]
fn a_key_that_is_not_there_is_told() {
    let mut live = Live::new(LiveConfig {
        key: vec!["nope".into()],
        ..config()
    });
    let error = live.handle_row(&names(), &progress(10)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the result has no column \"nope\"; it has id, name"
    );
}

#[test]
fn a_comment_at_the_end_of_a_query_hides_nothing() {
    let live = Live::new(LiveConfig {
        of: statements::by_query(" SELECT 1 -- one; "),
        key: Vec::new(),
        as_of: Some(5),
        up_to: Some(9),
        ..config()
    });
    let sql = live.statements()[1].clone();
    assert!(
        sql.ends_with("(SELECT 1 -- one\n) WITH (PROGRESS) AS OF 5 UP TO 9"),
        "{sql}"
    );
}

proptest! {
    /// Whenever a look is taken, what was shown is closed, and nothing is shown twice or left out.
    #[test]
    fn what_is_shown_does_not_depend_on_when_one_looks(
        steps in prop::collection::vec((0u64..3, 0i64..5, any::<bool>()), 1..60)
    ) {
        let mut rows = vec![progress(10)];
        let (mut time, mut closed, mut expected) = (10, 10, 0);
        for (later, key, _) in &steps {
            time += later;
            rows.push(change(time, *key, "v"));
            expected += 1;
            if time > closed && key % 2 == 0 {
                closed = time + 1;
                time = closed;
                rows.push(progress(closed));
            }
        }
        rows.push(progress(time + 1));
        let mut live = Live::new(LiveConfig {
            idle_interval: Duration::ZERO,
            ..config()
        });
        let mut shown = 0;
        let mut upper = 0;
        for (at, row) in rows.into_iter().enumerate() {
            live.handle_row(&names(), &row).unwrap();
            if steps.get(at).is_none_or(|(_, _, look)| *look) {
                while let Some(batch) = live.take(Duration::ZERO) {
                    prop_assert!(batch.upper > upper);
                    upper = batch.upper;
                    for chunk in batch.segments.iter().flat_map(|s| &s.chunk) {
                        shown += chunk.rows();
                        let lower = batch.lower.unwrap_or(0);
                        prop_assert!(chunk.timestamps.iter().all(|t| lower <= *t && *t < upper));
                    }
                    live.shown(&batch);
                }
            }
        }
        prop_assert_eq!(shown, expected);
        prop_assert_eq!(upper, time + 1);
    }
}

use std::time::Duration;

use super::*;
use crate::catalog::{Frontiers, IdentityPolicy};
use crate::checkpoint::FORMAT;
use crate::types::{Column, ColumnType, Envelope};

fn object() -> Object {
    let column = |name: &str, ty, nullable| Column {
        name: name.into(),
        ty,
        nullable,
    };
    Object {
        id: "u1".into(),
        full_name: ["db", "s", "t"].map(String::from),
        shard: Some("shard".into()),
        retention: Duration::from_secs(3600),
        index: None,
        frontiers: Some(Frontiers {
            read: 1_000_000,
            write: 2_000_000,
        }),
        has_own_timeline: false,
        columns: vec![
            (column("k", ColumnType::Int32, false), "integer".into()),
            (column("v", ColumnType::Text, true), "text".into()),
        ],
    }
}

fn config() -> SessionConfig {
    let view = ViewConfig {
        object: "t".into(),
        name: None,
        key: vec!["k".into()],
    };
    SessionConfig::new("s".into(), "sha256:0".into(), vec![view], Envelope::Upsert)
}

fn seen(object: Object) -> Seen {
    let (view, _) = view(&object, &config().views[0], &config()).unwrap();
    Seen {
        view,
        kind: "TABLE".into(),
        object,
    }
}

fn stored(frontier: Option<Frontier>) -> String {
    let seen = seen(object());
    let checkpoint = Checkpoint {
        format: FORMAT,
        sink_id: "s".into(),
        epoch: 3,
        nonce: "n".into(),
        generation: 1,
        frontier,
        component: "sha256:0".into(),
        views: vec![seen.object.identity(&seen.view, Envelope::Upsert)],
    };
    checkpoint.encode().unwrap()
}

/// The worst of the findings, and where a run resumes.
fn worst(stored: Option<&str>, config: &SessionConfig) -> (Finding, Option<Frontier>) {
    let (findings, resumes) = checkpoint(stored, config, &[seen(object())]);
    let worst = findings.into_iter().max_by_key(|finding| finding.level);
    (worst.unwrap(), resumes)
}

#[test]
fn a_run_resumes_only_from_what_can_still_be_read() {
    for (frontier, level, resumes) in [
        (None, Level::Ok, None),
        (Some(1_500_000), Level::Ok, Some(1_500_000)),
        (Some(1_000_001), Level::Ok, Some(1_000_001)),
        (Some(1_000_000), Level::Error, None),
        // The catalog lags by a second or two.
        (Some(2_001_000), Level::Ok, Some(2_001_000)),
        (Some(9_000_000), Level::Error, None),
        (Some(CLOSED), Level::Error, None),
    ] {
        let (worst, found) = worst(Some(&stored(frontier)), &config());
        assert_eq!(
            (worst.level, found),
            (level, resumes),
            "{frontier:?}: {worst:?}"
        );
    }
    assert_eq!(worst(None, &config()).0.level, Level::Ok);
}

#[test]
fn a_policy_makes_a_warning_of_an_error() {
    let lost = stored(Some(500));
    for policy in [OnHistoryLoss::Resnapshot, OnHistoryLoss::SkipToNow] {
        let config = SessionConfig {
            on_history_loss: policy,
            ..config()
        };
        let (worst, resumes) = worst(Some(&lost), &config);
        assert_eq!((worst.level, resumes), (Level::Warning, None), "{worst:?}");
    }
    let other = stored(Some(1_500_000)).replace("shard\":\"shard", "shard\":\"other");
    assert_eq!(worst(Some(&other), &config()).0.level, Level::Error);
    let follows = SessionConfig {
        identity: IdentityPolicy {
            refollow: true,
            ignore_new_columns: false,
        },
        ..config()
    };
    let (worst, resumes) = worst(Some(&other), &follows);
    assert_eq!((worst.level, resumes), (Level::Warning, None));
}

#[test]
fn a_checkpoint_that_cannot_be_used_is_an_error_with_a_remedy() {
    let good = stored(Some(1_500_000));
    for bad in [
        "",
        "{",
        &good[..good.len() / 2],
        &good.replace("\"format\":1", "\"format\":2"),
        &good.replace("\"sink_id\":\"s\"", "\"sink_id\":\"t\""),
        &format!("{good}{}", " ".repeat(70_000)),
        &good.replace("\"k\",\"integer\"", "\"k\",\"bigint\""),
        &good.replace("\"key\":[\"k\"]", "\"key\":[\"v\"]"),
        &good.replace("\"upsert\"", "\"diff\""),
    ] {
        let (worst, resumes) = worst(Some(bad), &config());
        assert_eq!((worst.level, resumes), (Level::Error, None), "{bad}");
    }
    let other = good.replace("sha256:0", "sha256:1");
    let (worst, resumes) = worst(Some(&other), &config());
    assert_eq!((worst.level, resumes), (Level::Warning, Some(1_500_000)));
}

#[test]
fn an_object_that_cannot_be_read_is_an_error_with_a_remedy() {
    let found = |object: &Object, check: &str| {
        let several = SessionConfig {
            views: vec![config().views[0].clone(); 2],
            ..config()
        };
        let mut findings = fitness(object, "TABLE", &several).into_iter();
        findings.find(|finding| finding.check == check).unwrap()
    };
    let bad = Object {
        index: Some("i".into()),
        retention: Duration::from_secs(1),
        has_own_timeline: true,
        ..object()
    };
    for check in ["index", "retention", "timeline"] {
        assert_eq!(found(&object(), check).level, Level::Ok);
        let finding = found(&bad, check);
        assert_eq!(finding.level, Level::Error);
        assert!(finding.remedy.is_some(), "{finding:?}");
    }
}

#[test]
fn names_in_the_query_for_doubled_keys_are_quoted() {
    let mut odd = object();
    odd.full_name[2] = "T \"1\"".into();
    let sql = doubled_key(&odd, &["a\"b".into(), "c".into()]);
    assert!(sql.contains(r#"GROUP BY "a""b", "c""#), "{sql}");
    assert!(sql.contains(r#""T ""1""""#), "{sql}");
}

#[test]
fn the_margin_of_a_young_object_is_that_of_its_retention() {
    let hour = 3_600_000;
    let needed = Duration::from_secs(600);
    let low = |read, write, committed| {
        object().is_margin_low(Frontiers { read, write }, committed, needed)
    };
    // As old as its history may be.
    assert!(!low(hour, 2 * hour, 2 * hour));
    assert!(low(hour, 2 * hour, hour + 599_000));
    // Made a minute ago.
    assert!(!low(hour, hour + 60_000, hour + 30_000));
    // The history behind the commit is gone already.
    assert!(low(hour, hour + 60_000, hour - 1));
}

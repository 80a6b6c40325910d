//! Faults happen to the requests they are meant for, as often as asked.

use std::time::Duration;

use serde_json::{Value, json};
use turbopuffer_sim::{Fault, FaultRule, Match};

use crate::http::Sim;

const WRITE: &str = "/v2/namespaces/ns";

fn upsert(id: u64) -> Value {
    json!({ "upsert_rows": [{ "id": id }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_skips_then_happens_then_is_over() {
    let sim = Sim::start().await;
    let rules = json!([{
        "match": { "method": "POST", "path_prefix": WRITE },
        "skip": 1,
        "times": 2,
        "fault": { "status": 429, "retry_after_s": 3 },
    }]);
    let added = sim
        .send("POST", "/_sim/faults", &rules.to_string())
        .expect("answers");
    assert_eq!(added.status, 200);
    sim.send("POST", "/v2/namespaces/other", &upsert(1).to_string())
        .expect("answers");
    let statuses: Vec<u16> = (1..=4)
        .map(|id| {
            let answer = sim
                .send("POST", WRITE, &upsert(id).to_string())
                .expect("answers");
            assert_eq!(answer.status == 429, answer.head.contains("retry-after: 3"));
            answer.status
        })
        .collect();
    assert_eq!(statuses, [200, 429, 429, 200]);
    assert_eq!(sim.matching(Value::Null).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_apply_the_write_or_do_not() {
    let cases = [
        // fault, status seen by the client, whether the write is applied
        (
            Fault {
                status: Some(500),
                ..Fault::default()
            },
            Some(500),
            false,
        ),
        (
            Fault {
                status: Some(500),
                after_apply: true,
                ..Fault::default()
            },
            Some(500),
            true,
        ),
        (
            Fault {
                garbage: true,
                ..Fault::default()
            },
            Some(200),
            false,
        ),
        (
            Fault {
                drop_after_apply: true,
                ..Fault::default()
            },
            None,
            true,
        ),
        (
            Fault {
                reset: true,
                ..Fault::default()
            },
            None,
            false,
        ),
        (
            Fault {
                delay_ms: 1,
                ..Fault::default()
            },
            Some(200),
            true,
        ),
    ];
    for (fault, status, applied) in cases {
        let sim = Sim::start().await;
        sim.write(200, upsert(1));
        sim.server.add_faults([FaultRule::next(fault.clone())]);
        let answer = sim.send("POST", WRITE, &upsert(2).to_string());
        assert_eq!(answer.ok().map(|answer| answer.status), status, "{fault:?}");
        assert_eq!(sim.matching(Value::Null).len() == 2, applied, "{fault:?}");
        let summary = sim.server.requests()[1].clone();
        assert!(summary.faulted);
        assert_eq!(
            (summary.route, summary.status),
            ("POST /v2/namespaces/{ns}", status)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_is_seen_as_a_reset() {
    let sim = Sim::start().await;
    sim.server.add_faults([FaultRule::next(Fault {
        reset: true,
        ..Fault::default()
    })]);
    let error = sim
        .send("GET", "/v1/namespaces", "")
        .err()
        .map(|error| error.kind());
    assert_eq!(error, Some(std::io::ErrorKind::ConnectionReset));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_request_ends_with_the_server() {
    let sim = Sim::start().await;
    let matches = Match {
        path_prefix: Some("/v1".to_owned()),
        ..Match::default()
    };
    let fault = Fault {
        hang: true,
        ..Fault::default()
    };
    sim.server.add_faults([FaultRule {
        matches,
        ..FaultRule::next(fault)
    }]);
    let url = sim.server.url();
    let hanging = tokio::task::spawn_blocking(move || {
        crate::http::send(&url, "GET", "/v1/namespaces", "").is_err()
    });
    while sim.server.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    sim.write(200, upsert(1));
    assert!(!hanging.is_finished());
    sim.server.shutdown().await;
    assert!(hanging.await.expect("does not panic"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_can_be_removed_and_requests_counted() {
    let sim = Sim::start().await;
    sim.server.add_faults([FaultRule::next(Fault {
        status: Some(500),
        ..Fault::default()
    })]);
    sim.send("DELETE", "/_sim/faults", "").expect("answers");
    sim.write(200, upsert(1));
    sim.write(200, upsert(1));
    sim.write(422, json!({ "nope": 1 }));
    let log = sim
        .send("GET", "/_sim/requests", "")
        .expect("answers")
        .json();
    let route = "POST /v2/namespaces/{ns}";
    assert_eq!(
        log["counts"],
        json!([{ "route": route, "status": 200, "count": 2 }, { "route": route, "status": 422, "count": 1 }])
    );
    assert_eq!(log["last"][2]["path"], WRITE);
    assert_eq!(log["last"][2]["body_bytes"], r#"{"nope":1}"#.len());
    let refused = sim
        .send("POST", "/_sim/faults", r#"[{"fault":{"explode":true}}]"#)
        .expect("answers");
    assert_eq!(refused.status, 422);
}

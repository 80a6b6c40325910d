//! Whatever turbopuffer answers, the run goes on or ends with the reason; it never hangs.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use e2e::{CANARY, edited, refused, small_world};
use turbopuffer_sim::{Fault, FaultRule, Match};

/// So many requests of the sink meet the fault: of the first ones after `skip`.
fn rule(fault: &Fault, skip: u64, times: u64) -> FaultRule {
    FaultRule {
        matches: Match::default(),
        skip,
        times,
        fault: fault.clone(),
    }
}

fn status(status: u16) -> Fault {
    Fault {
        status: Some(status),
        ..Fault::default()
    }
}

#[tokio::test]
async fn an_answer_that_will_not_change_ends_the_run_at_once() {
    for skip in 0..5 {
        // The server's words about rows are left out: it may quote what it refuses.
        let words = match skip {
            3 => "they may hold row values",
            _ => "fault injected",
        };
        for (fault, says) in [
            (status(401), ["401", "Check the secret with the API key"]),
            (status(403), ["403", "The API key may not do this"]),
            (status(422), ["422", words]),
        ] {
            let (world, _, config) = small_world().await.unwrap();
            world.turbopuffer.add_faults([rule(&fault, skip, u64::MAX)]);
            let says = ["error[sink-permanent]", says[0], says[1]];
            refused(&world, &config, 1, &says).await;
            let faulted = world
                .turbopuffer
                .requests()
                .iter()
                .filter(|r| r.faulted)
                .count();
            assert_eq!(faulted, 1, "a request was tried again");
        }
    }
}

#[tokio::test]
async fn a_wrong_api_key_is_told_without_showing_it() {
    let (world, _, config) = small_world().await.unwrap();
    let file = world.file("key");
    std::fs::write(&file, CANARY).unwrap();
    let from = "env = \"TURBOPUFFER_API_KEY\"";
    let wrong = edited(&config, from, &format!("file = \"{}\"", file.display()));
    refused(
        &world,
        &wrong,
        1,
        &["401", "Check the secret with the API key"],
    )
    .await;
}

/// Answers that are none, and what is said of them.
fn no_answers() -> [(Fault, &'static str); 3] {
    let fault = Fault::default;
    [
        (
            Fault {
                garbage: true,
                ..fault()
            },
            "the answer is not what turbopuffer sends",
        ),
        (
            Fault {
                hang: true,
                ..fault()
            },
            "was not answered",
        ),
        (
            Fault {
                reset: true,
                ..fault()
            },
            "was not answered",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_that_passes_is_waited_out() {
    let throttled = Fault {
        retry_after_s: Some(1),
        ..status(429)
    };
    let faults = [throttled, status(500), status(503)];
    let faults = faults
        .into_iter()
        .chain(no_answers().map(|(fault, _)| fault));
    let mut running = Vec::new();
    for fault in faults {
        for skip in [0, 2, 3, 4] {
            let fault = fault.clone();
            running.push(tokio::spawn(async move {
                let (world, table, config) = small_world().await.unwrap();
                let config = edited(&config, "http_timeout = \"10s\"", "http_timeout = \"1s\"");
                world.turbopuffer.add_faults([rule(&fault, skip, 2)]);
                let mut host = world.host_with(&config).unwrap();
                world.faulted(2, &mut host).await.unwrap();
                world.caught_up(&table, &mut host).await.unwrap();
            }));
        }
    }
    for case in running {
        case.await.unwrap();
    }
}

#[tokio::test]
async fn a_target_that_nobody_listens_for_is_named() {
    let (world, _, config) = small_world().await.unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let config = config.replace(&world.turbopuffer.url(), &closed);
    refused(
        &world,
        &config,
        3,
        &["error[sink-retryable]", "could not be sent"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_that_stays_ends_the_run_when_the_retries_are_spent() {
    let statuses = [(status(500), "500"), (status(429), "429")];
    let cases: Vec<_> = statuses.into_iter().chain(no_answers()).collect();
    // When the control document is read, when it is created, when the namespace is, when rows
    // are loaded, and when readers are switched to them.
    let mut running = Vec::new();
    for skip in 0..5 {
        for (fault, says) in cases.clone() {
            running.push(tokio::spawn(async move {
                let (world, _, config) = small_world().await.unwrap();
                let config = edited(&config, "http_timeout = \"10s\"", "http_timeout = \"1s\"");
                world.turbopuffer.add_faults([rule(&fault, skip, u64::MAX)]);
                refused(&world, &config, 3, &["error[sink-", says]).await;
            }));
        }
    }
    for case in running {
        case.await.unwrap();
    }
}

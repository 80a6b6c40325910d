//! Rows that never reached the target: looked at, given up, written after all.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::ffi::OsStr;
use std::time::Duration;

use e2e::{Ended, Host, PATIENCE, Random, Table, World, component, edited};
use turbopuffer_sim::{Fault, FaultRule, Match};

const COLUMNS: [(&str, &str); 2] = [("k", "int"), ("v", "text")];

/// Runs `dlq` with these arguments; `COMPONENT` and `CONFIG` stand for the files.
fn start(world: &World, arguments: &str) -> Host {
    let component = component().unwrap();
    let config = world.file("mz-wasm-sink.toml");
    let words: Vec<&OsStr> = ["dlq"]
        .into_iter()
        .chain(arguments.split(' '))
        .map(|word| match word {
            "COMPONENT" => component.as_os_str(),
            "CONFIG" => config.as_os_str(),
            word => word.as_ref(),
        })
        .collect();
    Host::start_with(&words, config.parent().unwrap()).unwrap()
}

async fn dlq(world: &World, arguments: &str) -> Ended {
    start(world, arguments).end(PATIENCE).await.unwrap()
}

#[track_caller]
fn says(ended: &Ended, code: i32, text: &str) {
    let output = &ended.output;
    assert_eq!(ended.code, Some(code), "{output}");
    assert!(output.contains(text), "{text:?} is not in:\n{output}");
    assert!(!output.contains("panicked"), "{output}");
}

fn letters(world: &World) -> usize {
    let text = std::fs::read_to_string(world.file("dead-letters.jsonl")).unwrap();
    text.lines().count()
}

/// A table of five rows, and a sink that has given up the insert of a row, the update of another
/// and the delete of a third. It has stopped.
async fn given_up() -> (World, Table, String) {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let config = edited(
        &world.config(&table).unwrap(),
        "attempts = 10\n",
        "attempts = 2\non_failure = \"skip\"\n",
    );
    let insert = format!("INSERT INTO {t} VALUES (1,'a'), (2,'b'), (3,'c'), (4,'d'), (5,'e')");
    world.sql(&[&insert]).await.unwrap();
    let mut host = world.host_with(&config).unwrap();
    let committed = world.caught_up(&table, &mut host).await.unwrap();
    world.turbopuffer.add_faults([FaultRule {
        matches: Match {
            method: Some("POST".into()),
            path: Some(format!("/v2/namespaces/{}", committed.namespace)),
            ..Match::default()
        },
        skip: 0,
        times: 1000,
        fault: Fault {
            status: Some(503),
            ..Fault::default()
        },
    }]);
    for change in [
        format!("INSERT INTO {t} VALUES (6, 'given-up')"),
        format!("UPDATE {t} SET v = 'given-up' WHERE k = 2"),
        format!("DELETE FROM {t} WHERE k = 3"),
    ] {
        world.sql(&[&change]).await.unwrap();
    }
    let now = world.now(&table).await.unwrap();
    world.committed(now, &mut host).await.unwrap();
    world.turbopuffer.clear_faults();
    // What is written later must be newer than what was given up.
    let now = world.now(&table).await.unwrap();
    world.committed(now + 50, &mut host).await.unwrap();
    stop(host).await;
    assert_eq!(letters(&world), 3);
    world.proof(&table, None).await.unwrap_err();
    (world, table, config)
}

async fn stop(host: Host) {
    host.terminate().unwrap();
    let ended = host.end(PATIENCE).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.output);
}

#[tokio::test]
async fn what_was_given_up_is_written_after_all_as_it_is_now() {
    let (world, table, config) = given_up().await;
    let t = &table.name;
    let ended = dlq(&world, "list --config CONFIG").await;
    says(&ended, 0, "3 dead letters: 3 sink-retryable");
    assert!(!ended.output.contains("given-up"), "{}", ended.output);

    let before = world.target.committed().await.unwrap().unwrap();
    let rehearsal = "replay COMPONENT --config CONFIG --all --dry-run";
    let ended = dlq(&world, rehearsal).await;
    says(&ended, 0, "3 dead letters would be replayed with 3 rows");
    assert_eq!(world.target.committed().await.unwrap().unwrap(), before);
    assert_eq!(letters(&world), 3);

    let ended = dlq(&world, "replay COMPONENT --config CONFIG --all --yes").await;
    says(&ended, 0, "3 dead letters replayed with 3 rows");
    assert_eq!(letters(&world), 0);
    let after = world.proof(&table, None).await.unwrap();
    assert_eq!(after.frontier, before.frontier);
    assert_eq!(after.epoch, before.epoch + 1);

    // A worker goes on from there, without a snapshot.
    for key in [2, 6] {
        let update = format!("UPDATE {t} SET v = 'later' WHERE k = {key}");
        world.sql(&[&update]).await.unwrap();
    }
    let mut host = world.host_with(&config).unwrap();
    let last = world.caught_up(&table, &mut host).await.unwrap();
    assert_eq!(last.namespace, after.namespace);
}

#[tokio::test]
async fn newer_rows_are_not_overwritten_by_older_ones() {
    let (world, table, config) = given_up().await;
    let t = &table.name;
    let mut host = world.host_with(&config).unwrap();
    for change in [
        format!("DELETE FROM {t} WHERE k = 2"),
        format!("INSERT INTO {t} VALUES (3, 'back')"),
        format!("UPDATE {t} SET v = 'newer' WHERE k = 6"),
    ] {
        world.sql(&[&change]).await.unwrap();
    }
    let now = world.now(&table).await.unwrap();
    world.committed(now + 50, &mut host).await.unwrap();
    stop(host).await;
    let ended = dlq(&world, "replay COMPONENT --config CONFIG --all --yes").await;
    says(&ended, 0, "3 dead letters replayed");
    world.proof(&table, None).await.unwrap();
}

#[tokio::test]
async fn a_file_in_use_is_left_alone() {
    let (world, table, config) = given_up().await;
    let mut host = world.host_with(&config).unwrap();
    let now = world.now(&table).await.unwrap();
    let committed = world.committed(now, &mut host).await.unwrap();
    for command in [
        "replay COMPONENT --config CONFIG --all --yes",
        "discard --config CONFIG --all --yes",
    ] {
        let ended = dlq(&world, command).await;
        says(&ended, 1, "a sink that runs appends to it");
    }
    says(
        &dlq(&world, "list --config CONFIG").await,
        0,
        "3 dead letters",
    );
    // Two workers can share it: the second is about to fence the first.
    let mut second = world.host_with(&config).unwrap();
    let ended = host.end(PATIENCE).await.unwrap();
    assert_eq!(ended.code, Some(3), "{}", ended.output);
    let now = world.now(&table).await.unwrap();
    let last = world.committed(now, &mut second).await.unwrap();
    assert!(last.epoch > committed.epoch);
    assert_eq!(letters(&world), 3);
}

/// The answers to the writes of a replay are lost, one after the other.
#[tokio::test]
async fn a_lost_answer_is_found_out_about() {
    for (namespace, skip) in [("data", 0), ("checkpoints", 1), ("checkpoints", 2)] {
        let (world, table, _) = given_up().await;
        let committed = world.target.committed().await.unwrap().unwrap();
        let namespace = match namespace {
            "data" => &committed.namespace,
            other => other,
        };
        world.turbopuffer.add_faults([FaultRule {
            matches: Match {
                method: Some("POST".into()),
                path: Some(format!("/v2/namespaces/{namespace}")),
                ..Match::default()
            },
            skip,
            times: 1,
            fault: Fault {
                drop_after_apply: true,
                ..Fault::default()
            },
        }]);
        let mut left = 3;
        for _ in 0..3 {
            let ended = dlq(&world, "replay COMPONENT --config CONFIG --all --yes").await;
            left = letters(&world);
            if ended.code == Some(0) {
                break;
            }
            // What is not known to be written stays.
            assert_eq!(left, 3, "{}", ended.output);
        }
        assert_eq!(left, 0);
        world.proof(&table, None).await.unwrap();
    }
}

#[tokio::test]
async fn a_replay_that_is_killed_can_be_repeated() {
    let (world, table, config) = given_up().await;
    let mut random = Random::new();
    for _ in 0..12 {
        let host = start(&world, "replay COMPONENT --config CONFIG --all --yes");
        tokio::time::sleep(Duration::from_millis(random.below(250))).await;
        host.kill_9().unwrap();
        // All are there or none is.
        let left = letters(&world);
        assert!(left == 0 || left == 3, "{left}");
    }
    let ended = dlq(&world, "replay COMPONENT --config CONFIG --all --yes").await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    assert_eq!(letters(&world), 0);
    world.proof(&table, None).await.unwrap();
    let mut host = world.host_with(&config).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
}

#[tokio::test]
async fn what_is_still_wrong_stays_until_it_is_given_up() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let config = world.config(&table).unwrap();
    let mut host = world.host_with(&config).unwrap();
    let insert = format!("INSERT INTO {t} VALUES (1,'one'), (1,'other'), (NULL,'no key'), (2,'b')");
    world.sql(&[&insert]).await.unwrap();
    let now = world.now(&table).await.unwrap();
    world.committed(now + 50, &mut host).await.unwrap();
    stop(host).await;
    let kept = letters(&world);
    let ended = dlq(&world, "replay COMPONENT --config CONFIG --all --yes").await;
    says(&ended, 1, "error[dead-letter]");
    says(&ended, 1, "kept: several rows still have its key");
    says(&ended, 1, "kept: the sink refused it again");
    assert_eq!(letters(&world), kept);

    let mut host = world.host_with(&config).unwrap();
    let delete = format!("DELETE FROM {t} WHERE v = 'other'");
    world.sql(&[&delete]).await.unwrap();
    let now = world.now(&table).await.unwrap();
    world.committed(now + 50, &mut host).await.unwrap();
    stop(host).await;
    let violations = "replay COMPONENT --config CONFIG --category key-violation --yes";
    says(&dlq(&world, violations).await, 0, "replayed with 1 row");

    let list = dlq(&world, "list --config CONFIG --json").await;
    let left: serde_json::Value = serde_json::from_str(list.output.trim()).unwrap();
    assert_eq!(left["category"], "null-key");
    let id = &left["id"].as_str().unwrap()[..8];
    let shown = dlq(&world, &format!("show {id} --config CONFIG")).await;
    says(&shown, 0, "no key");
    let asked = dlq(&world, &format!("discard {id} --config CONFIG")).await;
    says(&asked, 2, "give --yes");
    let discarded = dlq(&world, &format!("discard {id} --config CONFIG --yes")).await;
    says(&discarded, 0, "1 dead letter taken out");
    says(
        &dlq(&world, "list --config CONFIG").await,
        0,
        "no dead letters",
    );
}

/// Two replays at one frontier: what the first has left behind must not be newer than the second.
#[tokio::test]
async fn what_was_refused_again_is_written_once_its_cause_is_mended() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let mended = world.config(&table).unwrap();
    let namespace = mended.lines().find(|line| line.starts_with("namespace"));
    let namespace = format!("{}\n", namespace.unwrap());
    let filterable = format!("{namespace}filterable = [\"v\"]\n");
    let config = edited(&mended, &namespace, &filterable);
    world
        .sql(&[&format!("INSERT INTO {t} VALUES (1, 'short'), (2, 'b')")])
        .await
        .unwrap();
    let mut host = world.host_with(&config).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
    let long = "x".repeat(5000);
    world
        .sql(&[&format!("UPDATE {t} SET v = '{long}' WHERE k = 1")])
        .await
        .unwrap();
    let now = world.now(&table).await.unwrap();
    world.committed(now + 50, &mut host).await.unwrap();
    stop(host).await;
    assert_eq!(letters(&world), 1);
    let replay = "replay COMPONENT --config CONFIG --all --yes";
    for _ in 0..2 {
        says(&dlq(&world, replay).await, 1, "refused it again");
    }
    assert_eq!(letters(&world), 1);
    world.proof(&table, None).await.unwrap_err();

    std::fs::write(world.file("mz-wasm-sink.toml"), &mended).unwrap();
    // The column is no longer one to filter on.
    says(&dlq(&world, replay).await, 0, "replayed with 1 rows");
    assert_eq!(letters(&world), 0);
    world.proof(&table, None).await.unwrap();
}

#[tokio::test]
async fn a_line_that_a_crash_cut_off_is_told_and_taken_off() {
    let (world, table, config) = given_up().await;
    let path = world.file("dead-letters.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{whole}{{\"format\":2,\"id\":\"cu")).unwrap();
    let list = dlq(&world, "list --config CONFIG").await;
    says(&list, 0, "3 dead letters");
    says(&list, 0, "cut off");
    let mut host = world.host_with(&config).unwrap();
    let now = world.now(&table).await.unwrap();
    world.committed(now, &mut host).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    let twice = format!("INSERT INTO {} VALUES (9, 'x'), (9, 'y')", table.name);
    world.sql(&[&twice]).await.unwrap();
    let now = world.now(&table).await.unwrap();
    world.committed(now, &mut host).await.unwrap();
    says(
        &dlq(&world, "list --config CONFIG").await,
        0,
        "4 dead letters",
    );
}

#[tokio::test]
async fn files_that_cannot_be_used_are_told() {
    let (world, _, _) = given_up().await;
    let path = world.file("dead-letters.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    let newer = whole.replacen("\"format\":2", "\"format\":3", 1);
    for (content, text) in [
        ("secret\n", "line 1 is not a dead letter"),
        (&newer, "format 3, and this version reads up to 2"),
    ] {
        std::fs::write(&path, content).unwrap();
        for command in [
            "list",
            "show x",
            "discard --all --yes",
            "replay COMPONENT --all --yes",
        ] {
            let ended = dlq(&world, &format!("{command} --config CONFIG")).await;
            says(&ended, 1, text);
            assert!(!ended.output.contains("secret"), "{}", ended.output);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    }
    std::fs::remove_file(&path).unwrap();
    says(
        &dlq(&world, "list --config CONFIG").await,
        1,
        "cannot be read",
    );
    std::fs::create_dir(&path).unwrap();
    says(
        &dlq(&world, "list --config CONFIG").await,
        1,
        "not a regular file",
    );
    says(
        &dlq(&world, "list --file no-such-file").await,
        1,
        "no-such-file cannot be read",
    );
}

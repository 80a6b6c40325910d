//! What can be known before a run.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use e2e::{API_KEY, Ended, Host, PATIENCE, Table, World, component, edited};
use serde_json::Value;
use turbopuffer_sim::{Fault, FaultRule, Match};

const COLUMNS: [(&str, &str); 2] = [("k", "int NOT NULL"), ("v", "text")];

const WHY: &str = "a real one is not broken on purpose";

async fn check_with(world: &World, config: &str, more: &[&str]) -> Ended {
    let config = world.config_file(config).unwrap();
    let component = component().unwrap();
    let mut words = vec![
        "check".as_ref(),
        component.as_os_str(),
        "--config".as_ref(),
        config.as_ref(),
    ];
    words.extend(more.iter().map(|word| std::ffi::OsStr::new(*word)));
    let host = Host::start_with(&words, config.parent().unwrap()).unwrap();
    let ended = host.end(PATIENCE).await.unwrap();
    assert!(!ended.output.contains(API_KEY), "{}", ended.output);
    assert!(!ended.output.contains("panicked"), "{}", ended.output);
    ended
}

/// Level and text of each finding, by check.
async fn findings(world: &World, config: &str) -> Vec<(String, String, String)> {
    let ended = check_with(world, config, &["--json"]).await;
    let line = ended.output.lines().find(|line| line.starts_with('{'));
    let told: Value = serde_json::from_str(line.expect(&ended.output)).unwrap();
    assert_eq!(told["format"], 1);
    assert_eq!(
        ended.code,
        Some(i32::from(told["ok"] == false)),
        "{}",
        ended.output
    );
    let text =
        |finding: &Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    let findings = told["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|f| {
            let said = format!("{} -> {}", text(f, "message"), text(f, "remedy"));
            (text(f, "check"), text(f, "level"), said)
        })
        .collect()
}

#[track_caller]
fn has(findings: &[(String, String, String)], check: &str, level: &str, said: &str) {
    let found = findings
        .iter()
        .any(|(c, l, s)| c == check && l == level && s.contains(said));
    assert!(
        found,
        "no {level} of {check} with {said:?} in {findings:#?}"
    );
}

async fn small() -> (World, Table, String) {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let insert = format!(
        "INSERT INTO {} VALUES (1, 'a'), (2, 'canary-value')",
        table.name
    );
    world.sql(&[&insert]).await.unwrap();
    let config = world.config(&table).unwrap();
    (world, table, config)
}

#[tokio::test]
async fn when_all_is_well_nothing_else_is_said_and_nothing_is_changed() {
    let (world, table, config) = small().await;
    let ended = check_with(&world, &config, &[]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    assert!(
        ended.output.ends_with("\n0 errors, 0 warnings\n"),
        "{}",
        ended.output
    );
    let all = findings(&world, &config).await;
    for check in [
        "component",
        "grants",
        "secrets",
        "dead-letters",
        "buffer",
        "connection",
        "object",
        "index",
        "retention",
        "timeline",
        "key",
        "target",
        "checkpoint",
        "subscribe",
    ] {
        has(&all, check, "ok", "");
    }
    has(&all, "checkpoint", "ok", "begins with a snapshot");
    assert!(world.target.committed().await.unwrap().is_none());
    assert!(!world.file("dead-letters.jsonl").exists());

    let mut host = world.host_with(&config).unwrap();
    let committed = world.caught_up(&table, &mut host).await.unwrap();
    let all = findings(&world, &config).await;
    has(&all, "checkpoint", "ok", "committed up to");
    has(&all, "resume", "ok", "goes on after the last commit");
    has(&all, "subscribe", "ok", "from the last commit on");
    // A worker that runs meanwhile is not fenced.
    let now = world.now(&table).await.unwrap();
    let later = world.committed(now, &mut host).await.unwrap();
    assert_eq!(later.epoch, committed.epoch);
}

#[tokio::test]
async fn what_is_wrong_with_an_object_is_found() {
    let (world, table, config) = small().await;
    let t = &table.name;
    let of = |from: &str, to: &str| edited(&config, from, to);
    let object = format!("object = \"{t}\"");
    world
        .sql(&[
            &format!("CREATE VIEW {t}_view AS SELECT k, v FROM {t}"),
            &format!("CREATE TABLE {t}_short (k int, v text)"),
            &format!("CREATE TABLE {t}_twice (k int, v text) WITH (RETAIN HISTORY FOR '1h')"),
            &format!("INSERT INTO {t}_twice VALUES (1, 'canary-value'), (1, 'b')"),
            &format!("CREATE TABLE {t}_index (k int, v text) WITH (RETAIN HISTORY FOR '1h')"),
            &format!("CREATE DEFAULT INDEX ON {t}_index"),
        ])
        .await
        .unwrap();
    let named = |name: &str| of(&object, &format!("object = \"{name}\""));
    for (config, check, level, said) in [
        (named("no_such"), "object", "error", "no_such"),
        (
            named(&format!("{t}_view")),
            "object",
            "error",
            "materialized view",
        ),
        (
            named(&format!("{t}_short")),
            "retention",
            "error",
            "ALTER TABLE",
        ),
        (
            named(&format!("{t}_twice")),
            "key",
            "error",
            "several rows have one key",
        ),
        (
            named(&format!("{t}_twice")),
            "key-nulls",
            "warning",
            "k can be NULL",
        ),
        (
            named(&format!("{t}_index")),
            "index",
            "error",
            "-> drop the index",
        ),
        (
            of("key = [\"k\"]", "key = [\"nope\"]"),
            "key",
            "error",
            "nope",
        ),
        (
            of("key = [\"k\"]", "key = []"),
            "key",
            "error",
            "source.key",
        ),
    ] {
        let all = findings(&world, &config).await;
        has(&all, check, level, said);
        assert!(
            all.iter()
                .all(|(_, _, said)| !said.contains("canary-value"))
        );
    }
    // What depends on something else is not silently left out.
    let all = findings(&world, &named("no_such")).await;
    for check in ["target", "checkpoint", "subscribe"] {
        has(&all, check, "skipped", "");
    }
    let allowed = named(&format!("{t}_short"));
    let allowed = edited(
        &allowed,
        "[source]",
        "[source]\nallow_short_retention = true",
    );
    has(
        &findings(&world, &allowed).await,
        "retention",
        "warning",
        "",
    );
    let ended = check_with(&world, &config, &["--no-data", "--no-target"]).await;
    assert_eq!(ended.code, Some(0));
    assert_eq!(
        ended.output.matches("skipped").count(),
        3,
        "{}",
        ended.output
    );
}

#[tokio::test]
async fn what_is_wrong_around_it_is_found() {
    let (world, _, config) = small().await;
    let none = format!("http = [\"{}\"]", world.turbopuffer.url());
    let other = "http = [\"https://example.com\"]";
    std::fs::create_dir(world.file("folder")).unwrap();
    for (from, to, check, level, said) in [
        (
            none.as_str(),
            "http = []",
            "grants",
            "error",
            "-> add [grants]",
        ),
        (&none, other, "target", "error", "grants"),
        (
            "env = \"TURBOPUFFER_API_KEY\"",
            "env = \"NO_SUCH_VARIABLE\"",
            "secrets",
            "error",
            "NO_SUCH_VARIABLE",
        ),
        (
            "[dead_letter]\npath = \"dead-letters.jsonl\"",
            "",
            "dead-letters",
            "warning",
            "dead_letter.path",
        ),
        (
            "path = \"dead-letters.jsonl\"",
            "path = \"no/such/folder/x\"",
            "dead-letters",
            "error",
            "cannot be written",
        ),
        (
            "path = \"dead-letters.jsonl\"",
            "path = \"folder\"",
            "dead-letters",
            "error",
            "not a regular file",
        ),
        (
            "[retry]",
            "[buffer]\ndir = \"/no/such/folder\"\n\n[retry]",
            "buffer",
            "error",
            "cannot be written",
        ),
        (
            "postgres://materialize@127.0.0.1:",
            "postgres://materialize@127.0.0.1:1/x?",
            "connection",
            "error",
            "",
        ),
    ] {
        let config = if check == "connection" {
            let url = config
                .lines()
                .find(|line| line.starts_with("url = "))
                .unwrap();
            edited(
                &config,
                url,
                "url = \"postgres://u@127.0.0.1:1/db?sslmode=disable\"",
            )
        } else {
            edited(&config, from, to)
        };
        has(&findings(&world, &config).await, check, level, said);
    }
    let ended = check_with(
        &world,
        &edited(&config, "[retry]", "[retry]\nnope = 1"),
        &[],
    )
    .await;
    assert_eq!(ended.code, Some(2), "{}", ended.output);

    world.turbopuffer.add_faults([FaultRule {
        matches: Match::default(),
        skip: 0,
        times: 100,
        fault: Fault {
            status: Some(401),
            ..Fault::default()
        },
    }]);
    has(&findings(&world, &config).await, "target", "error", "401");
}

#[tokio::test]
async fn what_a_checkpoint_means_for_a_run_is_told() {
    let Some((world, control)) = World::controlled(WHY).await.unwrap() else {
        return;
    };
    let table = world.table(&COLUMNS).await.unwrap();
    let config = world.config(&table).unwrap();
    let mut host = world.host_with(&config).unwrap();
    world.caught_up(&table, &mut host).await.unwrap();
    host.kill_9().unwrap();
    let other_key = edited(&config, "key = [\"k\"]", "key = [\"v\"]");
    has(
        &findings(&world, &other_key).await,
        "resume",
        "error",
        "source.key",
    );

    let ended = edited(&config, "[source]", "[source]\nup_to = 5");
    has(
        &findings(&world, &ended).await,
        "checkpoint",
        "warning",
        "a run ends at once",
    );

    let now = world.now(&table).await.unwrap();
    control.compact(&table.name, now).unwrap();
    let lost = findings(&world, &config).await;
    has(&lost, "resume", "error", "on_history_loss");
    let policy = edited(
        &config,
        "[source]",
        "[source]\non_history_loss = \"resnapshot\"",
    );
    has(
        &findings(&world, &policy).await,
        "resume",
        "warning",
        "a run reads it anew",
    );

    control.drop_object(&table.name).unwrap();
    let create = format!(
        "CREATE TABLE {} (k int NOT NULL, v text) WITH (RETAIN HISTORY FOR '1h')",
        table.name
    );
    world.sql(&[&create]).await.unwrap();
    has(
        &findings(&world, &config).await,
        "resume",
        "error",
        "swapped or recreated",
    );
    let follow = edited(&config, "[source]", "[source]\nrefollow = true");
    has(
        &findings(&world, &follow).await,
        "resume",
        "warning",
        "is read anew",
    );
}

#[tokio::test]
async fn a_target_that_somebody_changed_is_found_without_a_change_to_write() {
    for (method, path, body, said) in [
        ("DELETE", "", "{}", "somebody deleted it"),
        (
            "POST",
            "checkpoints",
            r#"{"patch_rows":[{"id":"e2e","active":"../x"}]}"#,
            "`active`",
        ),
    ] {
        let (world, table, config) = small().await;
        let mut host = world.host_with(&config).unwrap();
        let committed = world.caught_up(&table, &mut host).await.unwrap();
        host.kill_9().unwrap();
        let path = if path.is_empty() {
            &committed.namespace
        } else {
            path
        };
        let url = format!("{}/v2/namespaces/{path}", world.turbopuffer.url());
        let request = reqwest::Client::new().request(method.parse().unwrap(), url);
        let request = request.bearer_auth(API_KEY).body(body);
        request.send().await.unwrap().error_for_status().unwrap();
        has(&findings(&world, &config).await, "target", "error", said);
        let ended = world
            .host_with(&config)
            .unwrap()
            .end(PATIENCE)
            .await
            .unwrap();
        ended.assert(1, &["error[sink-permanent]", said]);
    }
}

#[tokio::test]
async fn missing_privileges_are_found() {
    let Some((world, _)) = World::controlled(WHY).await.unwrap() else {
        return;
    };
    let table = world.table(&COLUMNS).await.unwrap();
    world
        .sql(&[
            "ALTER SYSTEM SET enable_rbac_checks = true",
            "CREATE ROLE nobody",
        ])
        .await
        .unwrap();
    let config = world.config(&table).unwrap();
    let config = edited(&config, "postgres://materialize@", "postgres://nobody@");
    let all = findings(&world, &config).await;
    assert!(
        all.iter()
            .any(|(_, level, said)| level != "ok" && said.contains("permission denied")),
        "{all:#?}"
    );
}

//! What cannot work ends soon, says what to do next, shows no secret, and commits nothing.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::io::{Read as _, Write as _};
use std::path::Path;

use e2e::{
    CANARY, Host, SOON, Table, World, component, edited, folder, program, refused, small_world,
};

#[tokio::test]
async fn a_file_that_is_no_sink_is_told_from_one() {
    let folder = folder().unwrap();
    let real = std::fs::read(component().unwrap()).unwrap();
    let other_version =
        "(component (instance $i) (export \"materialize:sink/sink@9.9.0\" (instance $i)))";
    let wat = |text: &str| wat::parse_str(text).unwrap();
    let cases: [(&str, Vec<u8>, &str); 6] = [
        (
            "text.wasm",
            b"#!/bin/sh\n".to_vec(),
            "is not a WebAssembly component",
        ),
        ("empty.wasm", Vec::new(), "is not a WebAssembly component"),
        ("module.wasm", wat("(module)"), "wasm-tools component new"),
        (
            "cut.wasm",
            real[..real.len() / 2].to_vec(),
            "was it copied completely?",
        ),
        ("other.wasm", wat("(component)"), "it does not export"),
        (
            "version.wasm",
            wat(other_version),
            "this host supports versions",
        ),
    ];
    let config = folder.path().join("config.toml");
    let text = "sink_id = \"e2e\"\n[materialize]\nurl = \"postgres://u@127.0.0.1:1/db\"\n\
                [source]\nobject = \"t\"\n[component]\ncache_dir = \"cache\"\n";
    std::fs::write(&config, text).unwrap();
    for (name, bytes, says) in cases {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let host = Host::start_component(&file, &config).unwrap();
        let ended = host.end(SOON).await.unwrap();
        ended.assert(2, &["error[component]", name, says]);
    }
    let missing = Path::new("missing.wasm");
    let host = Host::start_component(missing, &config).unwrap();
    let says = ["error[component]", "cannot read missing.wasm"];
    host.end(SOON).await.unwrap().assert(2, &says);
}

#[tokio::test]
async fn a_configuration_that_cannot_be_used_names_the_field() {
    let (world, _, config) = small_world().await.unwrap();
    let command = format!("command = [\"sh\", \"-c\", \"echo {CANARY} >&2; exit 3\"]");
    let cases: [(&str, &str, &[&str]); 13] = [
        ("sink_id = \"e2e\"\n", "", &["sink_id", "example-config"]),
        ("sink_id", "sink_idd", &["sink_idd"]),
        (
            "idle_interval = \"50ms\"",
            "idle_interval = 50",
            &["commit.idle_interval"],
        ),
        (
            "min_backoff = \"10ms\"",
            "min_backof = \"10ms\"",
            &["min_backof"],
        ),
        (
            "namespace = \"e2e\"",
            "namespaces = \"e2e\"",
            &["namespace"],
        ),
        ("namespace = \"e2e\"", "namespace = 7", &["namespace"]),
        (
            "[grants]\nhttp = [",
            "[grants]\nhttp = [\"*.example.com\", ",
            &["grants.http", "*.example.com"],
        ),
        (
            "\"TURBOPUFFER_API_KEY\"",
            "\"E2E_NOT_SET\"",
            &["E2E_NOT_SET is not set"],
        ),
        (
            "env = \"TURBOPUFFER_API_KEY\"",
            &command,
            &[
                "secrets.turbopuffer_api_key.command: sh failed (exit status: 3)",
                "by hand",
            ],
        ),
        (
            "\"dead-letters.jsonl\"",
            "\"no/such/folder\"",
            &["dead_letter.path: "],
        ),
        (
            "url = \"postgres://",
            "url = \"http://",
            &["materialize.url"],
        ),
        (
            "[limits]",
            "hosts = [\"*\"]\n[limits]",
            &["secrets.turbopuffer_api_key.hosts"],
        ),
        (
            "[component]",
            "[component",
            &["mz-wasm-sink.toml:", "not valid TOML"],
        ),
    ];
    for (from, to, says) in cases {
        let named = ["error[config]", "/mz-wasm-sink.toml:"];
        let says: Vec<_> = named.iter().chain(says).copied().collect();
        refused(&world, &edited(&config, from, to), 2, &says).await;
    }
}

#[tokio::test]
async fn a_component_that_is_not_the_pinned_one_does_not_run() {
    let (world, _, config) = small_world().await.unwrap();
    let pin = format!("[component]\ndigest = \"sha256:{}\"", "0".repeat(64));
    let config = edited(&config, "[component]", &pin);
    refused(
        &world,
        &config,
        2,
        &["error[component]", "mz-wasm-sink.toml: component.digest"],
    )
    .await;
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_named_with_the_remedy() {
    let (world, table, config) = small_world().await.unwrap();
    let t = &table.name;
    let object = format!("object = \"{t}\"");
    let named = |name: &str| edited(&config, &object, &format!("object = \"{name}\""));

    refused(
        &world,
        &named("nowhere"),
        1,
        &["error[unknown-object]", "nowhere", "check the name"],
    )
    .await;

    let view = format!("{t}_view");
    world
        .sql(&[&format!("CREATE VIEW {view} AS SELECT * FROM {t}")])
        .await
        .unwrap();
    let says = ["error[not-durable]", &view, "materialized view"];
    refused(&world, &named(&view), 1, &says).await;

    let elsewhere = edited(&config, "[source]", "cluster = \"nope\"\n\n[source]");
    let says = ["error[unknown-cluster]", "\"nope\"", "quickstart"];
    refused(&world, &elsewhere, 1, &says).await;

    let keyless = edited(&config, "key = [\"k\"]", "key = []");
    refused(
        &world,
        &keyless,
        1,
        &["error[no-key]", "source.key is missing", "k, v"],
    )
    .await;
    let wrong = edited(&config, "key = [\"k\"]", "key = [\"kk\"]");
    refused(
        &world,
        &wrong,
        1,
        &["error[no-key]", "has no column \"kk\""],
    )
    .await;

    let short = format!("{t}_short");
    world
        .sql(&[&format!("CREATE TABLE {short} (k int, v text)")])
        .await
        .unwrap();
    let says = [
        "error[short-retention]",
        "RETAIN HISTORY FOR",
        "allow_short_retention = true",
    ];
    refused(&world, &named(&short), 1, &says).await;

    world
        .sql(&[&format!("CREATE DEFAULT INDEX ON {t}")])
        .await
        .unwrap();
    let says = [
        "error[indexed-target]",
        "drop the index",
        "materialize.cluster",
    ];
    refused(&world, &config, 1, &says).await;
}

#[tokio::test]
async fn a_materialize_that_cannot_be_reached_is_told_without_the_password() {
    let options = materialize_sim::Options {
        password: Some("right".into()),
        ..materialize_sim::Options::default()
    };
    let world = World::simulated(options).await.unwrap();
    let table = Table {
        name: "t".into(),
        columns: vec!["k".into()],
    };
    let config = world.config(&table).unwrap();
    let config = edited(&config, "attempts = 10", "attempts = 2");
    let url = config
        .lines()
        .find(|line| line.starts_with("url = "))
        .unwrap();
    let with = |new: &str| edited(&config, url, &format!("url = \"{new}\""));
    let server = url.split(['@', '/']).nth(3).unwrap();

    let wrong = with(&format!(
        "postgres://materialize:{CANARY}@{server}/materialize"
    ));
    refused(
        &world,
        &wrong,
        1,
        &["error[", "password", "materialize.url and its password"],
    )
    .await;

    let missing = with(&format!("postgres://materialize@{server}/materialize"));
    let says = [
        "error[server-error]",
        "asks for a password and there is none",
        "materialize.password_env",
    ];
    refused(&world, &missing, 1, &says).await;

    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    let closed = with(&format!("postgres://u:{CANARY}@{address}/db"));
    let says = [
        "error[connection]",
        "cannot connect to",
        &address,
        "check materialize.url",
    ];
    refused(&world, &closed, 1, &says).await;

    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let hanging = with(&format!(
        "postgres://u:{CANARY}@{address}/db?connect_timeout=1"
    ));
    refused(
        &world,
        &hanging,
        1,
        &["error[connection]", "no answer within 1s"],
    )
    .await;

    let unparsable = with(&format!("postgres://u:{CANARY}/x@h:z/db"));
    refused(
        &world,
        &unparsable,
        2,
        &["error[config]", "materialize.url", "password_env"],
    )
    .await;
}

#[tokio::test]
async fn a_host_that_is_not_granted_is_told_with_the_line_to_add() {
    let (world, _, config) = small_world().await.unwrap();
    let url = world.turbopuffer.url();
    let grants = format!("[grants]\nhttp = [\"{url}\"]");
    let line = format!("[grants] http = [\"{url}\"]");
    for granted in ["", "\"https://api.example.com\""] {
        let missing = edited(&config, &grants, &format!("[grants]\nhttp = [{granted}]"));
        refused(&world, &missing, 1, &["error[sink-permanent]", &line]).await;
    }
    assert!(
        world
            .turbopuffer
            .requests()
            .iter()
            .all(|r| r.path.contains("/query"))
    );
}

#[tokio::test]
async fn inspect_shows_what_a_sink_is_and_what_it_may_do() {
    let (world, _, config) = small_world().await.unwrap();
    let config = world.config_file(&config).unwrap();
    let (component, folder) = (component().unwrap(), folder().unwrap());
    let run = |more: &[&std::ffi::OsStr]| {
        let mut arguments = vec![
            "inspect".as_ref(),
            component.as_os_str(),
            "--config".as_ref(),
            config.as_os_str(),
        ];
        arguments.extend(more);
        Host::start_with(&arguments, folder.path()).unwrap()
    };
    let text = run(&[]).end(SOON).await.unwrap();
    assert_eq!(text.code, Some(0), "{}", text.output);
    let granted = format!("granted: {}", world.turbopuffer.url());
    for part in [
        "turbopuffer ",
        "sha256:",
        "materialize:sink@0.1",
        "/http@",
        &granted,
        "  namespace           text; required\n",
        "  requests_in_flight  integer from 1 to 64; default 4\n",
    ] {
        assert!(
            text.output.contains(part),
            "{part:?} is not in:\n{}",
            text.output
        );
    }
    let json = run(&["--json".as_ref()]).end(SOON).await.unwrap();
    assert_eq!(json.code, Some(0), "{}", json.output);
    let json: serde_json::Value = serde_json::from_str(&json.output).unwrap();
    assert_eq!(json["name"], "turbopuffer");
    assert_eq!(json["envelope"], "upsert");
    assert_eq!(json["netted"], true);
    let bytes = std::fs::metadata(&component).unwrap().len();
    assert_eq!(json["size"], bytes);
    assert!(json["digest"].as_str().unwrap().starts_with("sha256:"));
    assert!(json["config_schema"]["properties"]["namespace"].is_object());
    let permissions = json["permissions"].as_array().unwrap();
    let http = permissions
        .iter()
        .find(|p| p["import"].as_str().unwrap().contains("/http@"));
    assert_eq!(http.unwrap()["granted"][0], world.turbopuffer.url());
}

#[tokio::test]
async fn inspect_ends_quietly_when_its_reader_has_seen_enough() {
    let (world, _, config) = small_world().await.unwrap();
    let config = world.config_file(&config).unwrap();
    for form in [None, Some("--json")] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = std::process::Command::new(program().unwrap());
        command.arg("inspect").arg(component().unwrap());
        command.arg("--config").arg(&config).args(form);
        let output = command.stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

#[tokio::test]
async fn what_a_server_says_is_one_line_and_controls_no_terminal() {
    let (world, _, config) = small_world().await.unwrap();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut socket, _) = server.accept().unwrap();
        let fields = b"SFATAL\0CXX000\0Mfirst\n  second\x1b[2J\0Dthird\r\nerror[fake]: x\0\0";
        let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
        let said = [b"E".as_slice(), &length, fields].concat();
        assert!(socket.read(&mut [0; 1024]).unwrap() > 0);
        socket.write_all(&said).unwrap();
    });
    let url = config.lines().find(|line| line.starts_with("url = "));
    let new = format!("url = \"postgres://u@{address}/db?sslmode=disable\"");
    let config = edited(&config, url.unwrap(), &new);
    let says = r"Materialize: first second\u{1b}[2J; third error[fake]: x";
    refused(&world, &config, 1, &["error[server-error]", says]).await;
}

#![allow(clippy::unwrap_used)]

use super::*;

const VIEWS: &str = "sink_id = 's'\nmaterialize.url = 'postgres://h'\nsource.views = [{ object = 't', key = ['a'] }]\n";

const LEAST: &str = "sink_id = 's'\nmaterialize.url = 'postgres://h'\nsource.object = 'a.b.T'\n";

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("dir/my.toml"), |_| None)
}

fn error(text: &str) -> String {
    let error = parse(text).unwrap_err();
    format!("{error}")
}

#[test]
fn the_example_shows_the_defaults() {
    let example = parse(EXAMPLE).unwrap();
    let least = parse(LEAST).unwrap();
    let settings = |config: &Config| {
        format!(
            "{:?}",
            (
                &config.commit,
                &config.buffer,
                &config.retry,
                &config.dead_letter,
                &config.grants,
                &config.secret_sources,
                &config.limits,
                &config.component,
                &config.sink,
                Source {
                    object: None,
                    ..config.source.clone()
                },
            )
        )
    };
    assert_eq!(settings(&example), settings(&least));
}

/// Each setting of the example, also those that are commented out.
#[test]
fn what_the_example_leaves_out_can_be_put_in() {
    let all = EXAMPLE.lines().map(|line| match line.strip_prefix("# ") {
        Some(setting) if setting.contains(" = ") || setting.starts_with('[') => setting,
        _ => line,
    });
    // Of the two ways to name what is read, the first.
    let all = all.filter(|line| !line.starts_with("views = "));
    let all: Vec<_> = all
        .filter(|line| !line.starts_with("password_file") && !line.starts_with("command"))
        .filter(|line| !line.starts_with("file ="))
        .collect();
    // What those ask for.
    let all = all.join("\n").replace("key = []", "key = ['id']");
    let all = all.replace("http = []", "http = ['https://api.example.com']");
    let config = parse(&all).unwrap();
    assert_eq!(config.materialize.cluster.as_deref(), Some("sinks"));
    assert_eq!(
        config.secret_sources["api_key"].env.as_deref(),
        Some("API_KEY")
    );
    assert_eq!(
        config.dead_letter.path.unwrap(),
        Path::new("dir/dead-letters.jsonl")
    );
}

#[test]
fn an_error_names_the_file_the_line_the_field_and_the_fix() {
    for (text, says) in [
        ("sink_id = ", "my.toml:1: not valid TOML"),
        ("", "my.toml:1: sink_id: is missing; add it"),
        ("sink_id = 's'", "source: is missing"),
        (
            "sink_id = 's'\nmaterialize.url = 'postgres://h'\n[source]",
            "source.object: is missing",
        ),
        (
            &format!("{LEAST}source.views = [{{ object = 't' }}]"),
            "source.views: are given as well as source.object",
        ),
        (
            &VIEWS.replace("key = ['a']", "key = ['a', 'a']"),
            "source.views[0].key[1]: names a column again",
        ),
        (
            &format!("{VIEWS}source.key = ['a']"),
            "source.key: is of source.object; write it into each",
        ),
        (
            &VIEWS.replace("object = 't'", "object = ''"),
            "source.views[0].object: is empty",
        ),
        (
            &format!("{LEAST}source.on_history_loss = 'now'"),
            "source.on_history_loss: unknown variant",
        ),
        ("version = 2\nnew = 1", "version: the file is of version 2"),
        ("version = 0", "version: must be 1"),
        ("sink_id = 'a b'\nsource.object = 't'", "sink_id: must be"),
        ("sink_id = 's'\nsource.object = 't'", "set MATERIALIZE_URL"),
        (
            &format!("{LEAST}source.keys = ['a']"),
            "my.toml:4: source.keys: unknown field",
        ),
        (
            &format!("{LEAST}source.key = 'a'"),
            "my.toml:4: source.key: invalid type",
        ),
        (
            &format!("{LEAST}source.envelope = 'x'"),
            "source.envelope: unknown variant",
        ),
        (
            &format!("{LEAST}commit.interval = '5'"),
            "commit.interval: not a duration",
        ),
        (
            &format!("{LEAST}commit.maintenance_interval = '0s'"),
            "commit.maintenance_interval: must be at least 1s",
        ),
        (
            &format!("{LEAST}commit.max_bytes = 'x'"),
            "commit.max_bytes: not a size",
        ),
        (
            &format!("{LEAST}buffer.memory = '0B'"),
            "buffer.memory: must be more than 0",
        ),
        (
            &format!("{LEAST}retry.max_backoff = '1ms'"),
            "retry.max_backoff: must not be less",
        ),
        (
            &format!("{LEAST}source.envelope = 'upsert'"),
            "source.key: is empty; the upsert envelope needs",
        ),
        (
            &format!("{LEAST}source.key = ['a', 'b', 'a']"),
            "source.key[2]: names a column again",
        ),
        (
            &format!("{LEAST}retry.attempts = 0"),
            "retry.attempts: must be 1 to 1000",
        ),
        (
            &format!("{LEAST}limits.http_in_flight = 9223372036854775807"),
            "limits.http_in_flight: must be 1 to 1000",
        ),
        (
            &format!("{LEAST}commit.interval = '400days'"),
            "my.toml:4: commit.interval: must be at most a year",
        ),
        (
            &format!("{LEAST}buffer.spill = '15EiB'"),
            "my.toml:4: buffer.spill: must be at most 1PiB",
        ),
        (
            &format!("{LEAST}commit.max_bytes = '2GiB'\nbuffer.spill = '1GiB'"),
            "commit.max_bytes: is more than buffer.memory and buffer.spill",
        ),
        (
            &format!(
                "{LEAST}grants.http = ['https://a']\nsecrets.s = {{ env = 'E', hosts = ['https://a/v2/', 'https://b'] }}"
            ),
            "secrets.s.hosts[1]: is not at a host of grants.http",
        ),
        (
            &format!("{LEAST}component.digest = 'x'"),
            "component.digest: must be sha256:",
        ),
        (
            &format!("{LEAST}[secrets.a]"),
            "secrets.a: where it comes from is missing",
        ),
        (
            &format!("{LEAST}[secrets.a]\nenv='x'\nfile='y'"),
            "secrets.a: it comes from several",
        ),
        (&format!("{LEAST}sink.a = [1.0, nan]"), "sink.a[1]: nan"),
        (
            &format!("{LEAST}materialize.password_env = 'x'\nmaterialize.password_file = 'y'"),
            "materialize.password_file: is given as well",
        ),
    ] {
        let error = error(text);
        assert!(
            error.contains(says) && error.starts_with("dir/my.toml"),
            "{error}"
        );
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::load(Path::new("/no/such.toml"), |_| None).unwrap_err();
    assert!(error.to_string().contains("/no/such.toml") && error.to_string().contains("--config"));
}

#[test]
fn no_value_is_shown_in_an_error_or_a_dump() {
    let url = "postgres://u:hunter2@h/db";
    for text in [
        format!("sink_id = 's'\nmaterialize = \"{url}\""),
        format!("sink_id = 's'\nmaterialize = '{url}\", x'"),
        format!("sink_id = 's'\nsource = '{url}'"),
        format!("sink_id = 's'\nmaterialize.url = ['{url}']"),
        format!("sink_id = 's'\nmaterialize.url = \"{url}"),
        format!("{LEAST}commit.interval = '{url}'"),
        format!("{LEAST}grants.http = '{url}'"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(!format!("{error}{error:?}").contains("hunter2"), "{error}");
    }
    let env = |_: &str| Some("hunter2".to_owned());
    let text = format!("{LEAST}secrets.a.env = 'A'\nmaterialize.password_env = 'B'");
    let text = text.replace("postgres://h", url);
    let config = Config::parse(&text, Path::new("f"), env).unwrap();
    assert_eq!(
        config.materialize_password().unwrap().as_deref(),
        Some("hunter2")
    );
    let secrets = config.secrets().unwrap();
    assert_eq!(
        (secrets[0].name.as_str(), secrets[0].value.as_str()),
        ("a", "hunter2")
    );
    assert!(!format!("{config:?}{secrets:?}").contains("hunter2"));
}

#[test]
fn a_missing_variable_is_named_when_it_is_needed() {
    let config = parse(&format!("{LEAST}secrets.a.env = 'A_KEY'")).unwrap();
    let error = config.secrets().unwrap_err().to_string();
    assert!(
        error.contains("secrets.a.env: the environment variable A_KEY is not set"),
        "{error}"
    );
}

#[test]
fn the_url_may_come_from_the_environment() {
    let text = "sink_id = 's'\nsource.object = 't'";
    let env = |name: &str| (name == "MATERIALIZE_URL").then(|| "postgres://e".to_owned());
    let config = Config::parse(text, Path::new("f"), env).unwrap();
    assert_eq!(config.materialize.url, "postgres://e");
    let config = Config::parse(LEAST, Path::new("f"), env).unwrap();
    assert_eq!(config.materialize.url, "postgres://h");
}

#[test]
fn a_url_of_the_environment_is_told_from_one_of_the_file() {
    let text = "sink_id = 's'\nsource.object = 't'";
    let env = |_: &str| Some("postgres://e".to_owned());
    let config = Config::parse(text, Path::new("my.toml"), env).unwrap();
    let error = config.refused_url("why").to_string();
    assert!(error.contains("my.toml: ") && error.contains("MATERIALIZE_URL"));
    let config = Config::parse(LEAST, Path::new("my.toml"), env).unwrap();
    assert_eq!(config.refused_url("why").to_string(), "my.toml: why");
}

#[test]
fn the_sinks_settings_become_json() {
    let config = parse(&format!(
        "{LEAST}sink = {{ a = 1, b = [2.5, true], c = 2026-01-02 }}"
    ));
    let expected = serde_json::json!({ "a": 1, "b": [2.5, true], "c": "2026-01-02" });
    assert_eq!(config.unwrap().sink, expected);
}

mod any_text {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_configuration_or_an_error_on_one_line(text in ".{0,300}") {
            if let Err(error) = parse(&text) {
                let shown = error.to_string();
                prop_assert!(shown.contains("my.toml"), "{shown}");
                prop_assert!(!shown.contains('\n'), "{shown}");
            }
        }

        /// The example with one value replaced.
        #[test]
        fn in_the_place_of_a_value_is_told_by_its_field(
            line in 0..EXAMPLE.lines().count(),
            value in prop_oneof![
                Just("-1"), Just("1e400"), Just("'x'"), Just("[]"), Just("{}"), Just("true"),
                Just("99999999999999999999"), Just("\"\\u0000\""), Just("[[1]]"), Just("''"),
            ],
        ) {
            let mut lines: Vec<String> = EXAMPLE.lines().map(Into::into).collect();
            let given = lines[line].trim_start_matches("# ").split_once(" = ");
            let Some((field, _)) = given.filter(|(name, _)| !name.contains(' ')) else {
                return Ok(());
            };
            lines[line] = format!("{field} = {value}");
            if let Err(error) = parse(&lines.join("\n")) {
                let shown = error.to_string();
                prop_assert!(!shown.contains('\n'), "{shown}");
            }
        }
    }
}

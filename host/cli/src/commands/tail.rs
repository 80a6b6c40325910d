//! `mz-wasm-sink tail`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;
use mz_sink_core::catalog::{CatalogError, LookUp, Object};
use mz_sink_core::classify::ErrorClass;
use mz_sink_core::live::{Live, LiveConfig};
use mz_sink_core::session::SessionError;
use mz_sink_core::statements::{by_id, by_query};
use mz_sink_core::types::Column;
use mz_sink_driver::{LiveFailure, look_up};
use mz_sink_source::ConnectOptions;

use crate::commands::deployment::connect_options;
use crate::commands::run::watch_signals;
use crate::config::Config;
use crate::exit::Failure;
use crate::materialize::Materialize;
use crate::output;
use crate::telemetry::{self, LogFormat};

/// Words that a query begins with.
const OF_QUERIES: [&str; 5] = ["select", "with", "values", "table", "show"];

/// Arguments of `tail`.
#[derive(Args)]
pub struct Arguments {
    /// A query, such as "SELECT * FROM orders WHERE total > 100", or the name of a table, source,
    /// view or materialized view. The values of a query are texts, as Materialize writes them;
    /// those of an object have their types.
    #[arg(value_name = "QUERY | OBJECT")]
    of: String,
    /// Where Materialize is: postgres://user@host:6875/database.
    #[arg(long, env = "MATERIALIZE_URL", hide_env_values = true)]
    url: Option<String>,
    /// Take the connection from the configuration of a sink.
    #[arg(long, short, conflicts_with = "url")]
    config: Option<PathBuf>,
    /// The environment variable that holds the password.
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    password_env: Option<String>,
    /// The cluster that runs the subscription; the user's default otherwise.
    #[arg(long)]
    cluster: Option<String>,
    /// Columns that identify a row, with commas between: show the last row per key ("put" and
    /// "delete") instead of rows that come and go.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    key: Vec<String>,
    /// Leave out what is there already.
    #[arg(long)]
    no_snapshot: bool,
    /// Begin at this time, in milliseconds since the epoch.
    #[arg(long, value_name = "TIME")]
    as_of: Option<u64>,
    /// End before this time, in milliseconds since the epoch.
    #[arg(long, value_name = "TIME")]
    up_to: Option<u64>,
    /// Without changes, tell the frontier this often.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    idle_interval: Duration,
    /// Bytes of changes in memory while standard output is not read.
    #[arg(long, value_name = "BYTES", default_value = "64MiB")]
    memory: ByteSize,
    /// Bytes of changes on disk, after that.
    #[arg(long, value_name = "BYTES", default_value = "4GiB")]
    spill: ByteSize,
    /// Where those go; the system's temporary directory unless given.
    #[arg(long, value_name = "DIR")]
    spill_dir: Option<PathBuf>,
}

/// Shows changes until the stream ends or somebody stops it.
///
/// # Errors
/// With the exit code that fits.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    telemetry::start(LogFormat::Text);
    let runtime = tokio::runtime::Runtime::new().map_err(|e| Failure::failed("runtime", e))?;
    let outcome = runtime.block_on(tail(arguments));
    // A reader that never comes back must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn tail(arguments: &Arguments) -> Result<(), Failure> {
    let shutdown = watch_signals()?;
    let (mut source, cluster) = connection(arguments)?;
    let cluster = look_up::connect(&mut source, cluster.as_deref())
        .await
        .map_err(failure)?;
    let (of, columns) = match is_query(&arguments.of) {
        true => (by_query(&arguments.of), None),
        false => {
            let object = look_up_live(&mut source, &arguments.of, &cluster).await?;
            let columns = object.columns.iter().map(|(column, _)| column.clone());
            let of = by_id(&object.id, &object.full_name);
            (of, Some(columns.collect::<Vec<Column>>()))
        }
    };
    let live = Live::new(LiveConfig {
        of,
        columns,
        key: arguments.key.clone(),
        with_snapshot: !arguments.no_snapshot,
        as_of: arguments.as_of,
        up_to: arguments.up_to,
        idle_interval: arguments.idle_interval,
        memory_bytes: arguments.memory.as_u64() as usize,
        spill_bytes: arguments.spill.as_u64(),
    });
    let folder = arguments.spill_dir.clone();
    let folder = folder.unwrap_or_else(std::env::temp_dir);
    let shown = mz_sink_driver::tail(source, live, folder, show, shutdown).await;
    shown.map_err(|error| match error {
        LiveFailure::Server(error) => failure(error),
        LiveFailure::Live(error) => Failure::failed("live", error),
        LiveFailure::Output(error) => Failure::failed(
            "output",
            format!("cannot write to standard output: {error}"),
        ),
        other => Failure::failed("spill", other),
    })
}

/// Where Materialize is, and the cluster.
fn connection(arguments: &Arguments) -> Result<(Materialize, Option<String>), Failure> {
    if let Some(path) = &arguments.config {
        let config = Config::load(path, |name| std::env::var(name).ok())
            .map_err(|e| Failure::usage("config", e))?;
        let cluster = arguments
            .cluster
            .clone()
            .or(config.materialize.cluster.clone());
        let password_file = config.materialize.password_file.clone();
        let source = Materialize::new(connect_options(&config)?, password_file);
        return Ok((source, cluster));
    }
    let url = arguments.url.as_deref().ok_or_else(|| {
        let missing = "where is Materialize? Give --url, --config, or set MATERIALIZE_URL";
        Failure::usage("arguments", missing)
    })?;
    let password = arguments.password_env.as_ref().map(|name| {
        std::env::var(name).map_err(|_| {
            Failure::usage(
                "arguments",
                format!("the environment variable {name} is not set"),
            )
        })
    });
    let options = ConnectOptions::parse(url, password.transpose()?).map_err(|error| {
        // The text speaks of the configuration, where the URL usually is.
        let text = error.to_string().replace("materialize.url", "the URL");
        let text = text.replace("materialize.password_env", "--password-env");
        Failure::usage("arguments", text)
    })?;
    Ok((Materialize::new(options, None), arguments.cluster.clone()))
}

fn is_query(text: &str) -> bool {
    let text = text.trim_start();
    let word = text.split(|c: char| !c.is_ascii_alphabetic()).next();
    let word = word.unwrap_or_default().to_ascii_lowercase();
    // An object can have such a name, but then nothing follows.
    let is_alone = text.len() == word.len();
    text.starts_with('(') || (!is_alone && OF_QUERIES.contains(&word.as_str()))
}

async fn look_up_live(
    source: &mut Materialize,
    name: &str,
    cluster: &str,
) -> Result<Object, Failure> {
    let catalog = |error: CatalogError| failure(error.into());
    let mut look_up = LookUp::live(name).map_err(catalog)?;
    loop {
        let answer = look_up::run(source, &look_up.query())
            .await
            .map_err(failure)?;
        if let Some(object) = look_up.answer(&answer, cluster).map_err(catalog)? {
            return Ok(object);
        }
    }
}

fn show(line: &[u8]) -> io::Result<()> {
    // Rows may hold what controls a terminal.
    let text = String::from_utf8_lossy(line);
    let mut out = io::stdout().lock();
    out.write_all(output::json(&text).as_bytes())?;
    out.flush()
}

/// A tail is never resumed, so that the advice is another one than for a sink.
fn failure(error: SessionError) -> Failure {
    let code = error.code();
    let SessionError::Server { class, error } = error else {
        // The texts speak of the configuration of a sink.
        let text = error.to_string().replace("source.object: ", "");
        return Failure::failed(code, text.replace("materialize.url", "the URL"));
    };
    let advice = match class {
        ErrorClass::HistoryLost => {
            "; a later --as-of can be read, or none at all. RETAIN HISTORY on the object keeps more"
        }
        ErrorClass::Transient | ErrorClass::FellBehind => "; start again: a tail is never resumed",
        ErrorClass::ResultTooLarge => "; ask for less, or raise max_result_size in Materialize",
        ErrorClass::StreamPoisoned => {
            "; what is asked for computes an error, which repeats until the data or the query changes"
        }
        _ => "",
    };
    let text = error
        .to_string()
        .replace("materialize.password_env", "--password-env");
    let text = text.replace("materialize.url", "the URL");
    Failure::failed(code, format!("Materialize: {text}{advice}"))
}

#[cfg(test)]
mod tests {
    use super::is_query;

    #[test]
    fn a_query_is_told_from_a_name() {
        for query in [
            "SELECT 1",
            " select *\nfrom t",
            "(SELECT 1)",
            "VALUES (1)",
            "with a as (select 1) select 2",
            "TABLE t",
        ] {
            assert!(is_query(query), "{query}");
        }
        for name in [
            "t",
            "public.t",
            "selected",
            "\"select\"",
            "values",
            "db.schema.\"T 1\"",
        ] {
            assert!(!is_query(name), "{name}");
        }
    }
}

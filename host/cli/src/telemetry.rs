//! Logs: to standard error, as text or as one JSON object a line.

use std::fmt::Debug;
use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{self, FormatFields, Writer};

use crate::output::{Log, one_line};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For log collectors.
    Json,
}

/// Starts logging. `RUST_LOG` chooses what; `info` is the default.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("info,tokio_postgres=warn"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Log {
            json: format == LogFormat::Json,
        })
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    match format {
        LogFormat::Text => builder.fmt_fields(fields()).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}

/// The message and `name=value` pairs, each on the same line whatever a server or a component
/// has put into it.
fn fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    format::debug_fn(
        |writer: &mut Writer<'_>, field: &tracing::field::Field, value: &dyn Debug| {
            let value = one_line(&format!("{value:?}"));
            match field.name() {
                "message" => write!(writer, "{value}"),
                name => write!(writer, "{name}={value}"),
            }
        },
    )
    .delimited(" ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_log_line_is_one_line_whatever_is_in_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = std::sync::Mutex::new(file.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(fields())
            .with_writer(writer)
            .with_ansi(false)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let said = "one\ntwo\u{1b}[2J";
            tracing::info!(name = %said, quoted = said, absent = None::<u64>, "said: {said}");
        });
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let safe = "one two\\u{1b}[2J";
        assert!(
            text.contains(&format!("said: {safe} name={safe}")),
            "{text}"
        );
        assert!(!text.contains("absent"), "{text}");
    }
}

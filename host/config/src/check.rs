//! What serde cannot see: values that are no use, alone or together.

use std::collections::BTreeSet;
use std::time::Duration;

use mz_sink_core::types::Envelope;
use url::Url;

use super::file::{Commit, File, Source, SourceView};

/// Longest `sink_id`, in characters.
const SINK_ID_LENGTH: usize = 128;

/// Shortest time between two calls of a sink's housekeeping.
const LEAST_MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);
/// Most retries in a row.
const MOST_ATTEMPTS: u32 = 1000;

/// Most HTTP exchanges at one time.
const MOST_IN_FLIGHT: usize = 1000;

/// Most objects in one sink: each has a connection of its own.
const MOST_VIEWS: usize = 64;

/// The field, and what is wrong with it.
type Wrong = (String, String);

fn wrong(field: &str, message: impl Into<String>) -> Result<(), Wrong> {
    Err((field.to_owned(), message.into()))
}

/// Checks everything, in the order of the file.
pub(super) fn check(file: &File) -> Result<(), Wrong> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if !(1..=SINK_ID_LENGTH).contains(&file.sink_id.len()) || !file.sink_id.chars().all(allowed) {
        return wrong("sink_id", "must be 1 to 128 of A-Z a-z 0-9 _ . -");
    }
    if file.materialize.url.is_empty() {
        return wrong(
            "materialize.url",
            "is missing; add it or set MATERIALIZE_URL",
        );
    }
    if file.materialize.password_env.is_some() && file.materialize.password_file.is_some() {
        let message = "is given as well as password_env; keep one of them";
        return wrong("materialize.password_file", message);
    }
    check_source(&file.source)?;
    check_amounts(file)?;
    check_commit(file)?;
    check_digest(file)?;
    for (name, secret) in &file.secrets {
        secret
            .check()
            .map_err(|message| (format!("secrets.{name}"), message))?;
        let mut hosts = secret.hosts.iter().flatten();
        if let Some(at) = hosts.position(|host| !is_granted(host, file)) {
            let message = "is not at a host of grants.http; the sink gets no further than those, \
                           so add it there or take it out here";
            return wrong(&format!("secrets.{name}.hosts[{at}]"), message);
        }
    }
    Ok(())
}

fn check_source(source: &Source) -> Result<(), Wrong> {
    if source.object.is_some() && !source.views.is_empty() {
        let message = "are given as well as source.object; keep one of them";
        return wrong("source.views", message);
    }
    if source.object.is_none() && source.views.is_empty() {
        let message = "is missing; name a table, source or materialized view, or several in \
                       [[source.views]]";
        return wrong("source.object", message);
    }
    if source.object.is_none() && !(source.key.is_empty() && source.name.is_none()) {
        let field = if source.key.is_empty() { "name" } else { "key" };
        let message = "is of source.object; write it into each of [[source.views]]";
        return wrong(&format!("source.{field}"), message);
    }
    if source.views.len() > MOST_VIEWS {
        return wrong("source.views", format!("are more than {MOST_VIEWS}"));
    }
    for (at, view) in source.views().iter().enumerate() {
        let place = match source.object {
            Some(_) => "source".to_owned(),
            None => format!("source.views[{at}]"),
        };
        check_view(&place, view, source.envelope)?;
    }
    Ok(())
}

fn check_view(place: &str, view: &SourceView, envelope: Option<Envelope>) -> Result<(), Wrong> {
    if view.object.is_empty() {
        let message = "is empty; name a table, source or materialized view";
        return wrong(&format!("{place}.object"), message);
    }
    if envelope == Some(Envelope::Upsert) && view.key.is_empty() {
        let message = "is empty; the upsert envelope needs the columns that identify a row";
        return wrong(&format!("{place}.key"), message);
    }
    let mut seen = BTreeSet::new();
    match view.key.iter().position(|name| !seen.insert(name)) {
        Some(at) => wrong(
            &format!("{place}.key[{at}]"),
            "names a column again; take it out",
        ),
        None => Ok(()),
    }
}

fn check_amounts(file: &File) -> Result<(), Wrong> {
    for (field, value) in [
        ("commit.max_bytes", file.commit.max_bytes),
        ("buffer.memory", file.buffer.memory),
        ("limits.memory", file.limits.memory),
        ("limits.http_request", file.limits.http_request),
        ("limits.http_response", file.limits.http_response),
    ] {
        if value == 0 {
            return wrong(field, "must be more than 0");
        }
    }
    for (field, value) in [
        ("commit.idle_interval", file.commit.idle_interval),
        ("retry.min_backoff", file.retry.min_backoff),
        ("limits.idle_timeout", file.limits.idle_timeout),
        ("limits.http_timeout", file.limits.http_timeout),
    ] {
        if value == Duration::ZERO {
            return wrong(field, "must be more than 0s");
        }
    }
    // Right after one another they would leave no time for commits.
    if file.commit.maintenance_interval < LEAST_MAINTENANCE_INTERVAL {
        return wrong("commit.maintenance_interval", "must be at least 1s");
    }
    if !(1..=MOST_ATTEMPTS).contains(&file.retry.attempts) {
        return wrong("retry.attempts", format!("must be 1 to {MOST_ATTEMPTS}"));
    }
    if !(1..=MOST_IN_FLIGHT).contains(&file.limits.http_in_flight) {
        let message = format!("must be 1 to {MOST_IN_FLIGHT}");
        return wrong("limits.http_in_flight", message);
    }
    if file.retry.max_backoff < file.retry.min_backoff {
        return wrong(
            "retry.max_backoff",
            "must not be less than retry.min_backoff",
        );
    }
    Ok(())
}

/// A commit of several timestamps is held in the buffer until it is written.
fn check_commit(file: &File) -> Result<(), Wrong> {
    let Commit { max_bytes, .. } = file.commit;
    if max_bytes > file.buffer.memory.saturating_add(file.buffer.spill) {
        let message = "is more than buffer.memory and buffer.spill hold together; lower it or \
                       raise one of them";
        return wrong("commit.max_bytes", message);
    }
    Ok(())
}

fn check_digest(file: &File) -> Result<(), Wrong> {
    let Some(digest) = &file.component.digest else {
        return Ok(());
    };
    let digits = digest.strip_prefix("sha256:").unwrap_or_default();
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if digits.len() != 64 || !digits.chars().all(hex) {
        let message = "must be sha256: and 64 hex digits in lower case, as `mz-wasm-sink \
                       inspect` shows it";
        return wrong("component.digest", message);
    }
    Ok(())
}

/// Whether requests to this place can be granted at all. Entries that are no URLs are refused,
/// with the reason, by what reads them.
fn is_granted(host: &str, file: &File) -> bool {
    let Ok(host) = Url::parse(host) else {
        return true;
    };
    let mut grants = file.grants.http.iter();
    grants.any(|grant| Url::parse(grant).map_or(true, |grant| grant.origin() == host.origin()))
}

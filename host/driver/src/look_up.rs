//! Looking objects up outside of a run.

use mz_sink_core::catalog::{LookUp, Object, Table};
use mz_sink_core::classify::{ErrorClass, Phase, classify};
use mz_sink_core::server_error::ServerError;
use mz_sink_core::session::SessionError;
use mz_sink_core::statements;

use crate::source::Source;

/// What an error means that came while something of this phase was going on.
pub fn server_error(phase: Phase, error: ServerError) -> SessionError {
    let class = classify(phase, error.code.as_deref(), &error.message);
    SessionError::Server { class, error }
}

/// Runs a statement before any SUBSCRIBE.
///
/// # Errors
/// [`SessionError::Server`].
pub async fn run(source: &mut impl Source, sql: &str) -> Result<Table, SessionError> {
    let answer = source.run(sql).await;
    answer.map_err(|error| server_error(Phase::SetUp, error))
}

/// Connects, makes the settings of every session, and gives the cluster that it is in.
///
/// # Errors
/// [`SessionError::Server`].
pub async fn connect(
    source: &mut impl Source,
    cluster: Option<&str>,
) -> Result<String, SessionError> {
    let connected = source.connect().await;
    connected.map_err(|error| match server_error(Phase::SetUp, error) {
        SessionError::Server {
            class: ErrorClass::Transient,
            error,
        } => SessionError::Unreachable(error),
        other => other,
    })?;
    for statement in statements::session_settings(cluster) {
        run(source, &statement).await?;
    }
    let shown = run(source, "SHOW cluster").await?;
    let name = shown.rows.first().and_then(|row| row.first().cloned());
    Ok(name.flatten().unwrap_or_default())
}

/// Looks one object up; gives its kind in SQL with it.
///
/// # Errors
/// When it cannot be subscribed to, or the server does not answer.
pub async fn look_up(
    source: &mut impl Source,
    object: &str,
    cluster: &str,
) -> Result<(Object, String), SessionError> {
    let mut look_up = LookUp::new(object)?;
    loop {
        let answer = run(source, &look_up.query()).await?;
        if let Some(object) = look_up.answer(&answer, cluster)? {
            return Ok((object, look_up.sql_kind()));
        }
    }
}

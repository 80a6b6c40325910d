//! What Materialize says: the connection, the objects, their keys, and whether they can be read.

use std::time::Duration;

use mz_sink_core::check::{self, Finding, Level, Seen};
use mz_sink_core::classify::Phase;
use mz_sink_core::release::Start;
use mz_sink_core::session::{SessionConfig, SessionError};
use mz_sink_core::statements::{self, LiveSubscribe, by_id};
use mz_sink_core::types::{Envelope, Frontier};
use mz_sink_driver::{Source, look_up};

use super::report::Report;
use crate::exit::Failure;
use crate::materialize::Materialize;

/// Looking for a doubled key reads the whole object; this is enough for most.
const KEY_LIMIT: &str = "30s";

/// A subscription says where it begins within this, if its cluster works.
const FIRST_ROW: Duration = Duration::from_secs(10);

/// Looks at the objects; `None` when not all are as a run needs them.
pub(super) async fn look(
    source: &mut Materialize,
    session: &SessionConfig,
    no_data: bool,
    report: &mut Report,
) -> Result<Option<Vec<Seen>>, Failure> {
    let cluster = match look_up::connect(source, session.cluster.as_deref()).await {
        Ok(cluster) => cluster,
        Err(error) => {
            report.add(check::failed("connection", "", &error))?;
            let later = ["object", "index", "retention", "timeline", "key"];
            report.skipped(&later, "there is no connection")?;
            return Ok(None);
        }
    };
    report.add(match source.version() {
        Some(version) => {
            let text = format!("Materialize {version}, cluster {cluster}");
            Finding::ok("connection", "", text)
        }
        None => Finding::bad(
            "connection",
            "",
            Level::Error,
            "the server is not Materialize; check materialize.url",
        ),
    })?;
    let mut seen = Vec::new();
    for configured in &session.views {
        let (object, kind) = match look_up::look_up(source, &configured.object, &cluster).await {
            Ok(found) => found,
            Err(error) => {
                report.add(check::failed("object", &configured.object, &error))?;
                continue;
            }
        };
        let text = format!("{}, {} columns", kind.to_lowercase(), object.columns.len());
        report.add(Finding::ok("object", &object.name(), text))?;
        for finding in check::fitness(&object, &kind, session) {
            report.add(finding)?;
        }
        match check::view(&object, configured, session) {
            Err(finding) => report.add(finding)?,
            Ok((view, finding)) => {
                if session.envelope == Envelope::Upsert {
                    let key = match no_data {
                        true => Finding::skipped("key", &object.name(), "not asked for"),
                        false => key(source, &object, &configured.key).await,
                    };
                    report.add(key)?;
                }
                if let Some(finding) = finding {
                    report.add(finding)?;
                }
                seen.push(Seen { object, kind, view });
            }
        }
    }
    Ok((seen.len() == session.views.len()).then_some(seen))
}

/// Whether a key is unique now.
async fn key(
    source: &mut Materialize,
    object: &mz_sink_core::catalog::Object,
    key: &[String],
) -> Finding {
    let limit = format!("SET statement_timeout = '{KEY_LIMIT}'");
    let answer = match look_up::run(source, &limit).await {
        Ok(_) => look_up::run(source, &check::doubled_key(object, key)).await,
        Err(error) => Err(error),
    };
    // The statements that follow may take longer; if this one fails, so do they.
    let _ = look_up::run(source, "SET statement_timeout = 0").await;
    match answer {
        Ok(answer) => check::key(object, &answer),
        Err(error) => Finding {
            level: Level::Warning,
            message: format!("whether it is unique could not be seen: {error}"),
            remedy: Some(format!("look by hand: {}", check::doubled_key(object, key))),
            ..Finding::ok("key", &object.name(), "")
        },
    }
}

/// Begins each subscription as a run does, without its snapshot: privileges, the cluster and the
/// history are only looked at by the server when rows are asked for.
pub(super) async fn try_out(
    source: &mut Materialize,
    session: &SessionConfig,
    seen: &[Seen],
    resumes: Option<Frontier>,
    report: &mut Report,
) -> Result<(), Failure> {
    for (seen, configured) in seen.iter().zip(&session.views) {
        let object = &seen.object;
        let key: &[String] = match session.envelope {
            Envelope::Upsert => &configured.key,
            Envelope::Diff => &[],
        };
        let statements = match resumes {
            Some(frontier) => statements::subscribe(
                &object.id,
                &object.full_name,
                session.envelope,
                key,
                Start::Resume(frontier),
                None,
            ),
            None => statements::subscribe_live(&LiveSubscribe {
                of: by_id(&object.id, &object.full_name),
                key,
                with_snapshot: false,
                as_of: None,
                up_to: None,
            }),
        };
        let tried = first_row(source, &statements).await;
        // After an error there is nothing else to do in the transaction.
        let _ = look_up::run(source, "ROLLBACK").await;
        let name = object.name();
        report.add(match tried {
            Ok(true) => {
                let text = match resumes {
                    Some(_) => "can be read from the last commit on",
                    None => "can be read",
                };
                Finding::ok("subscribe", &name, text)
            }
            Ok(false) => Finding::bad(
                "subscribe",
                &name,
                Level::Error,
                format!(
                    "nothing came within {FIRST_ROW:?}; check that the cluster has replicas and \
                     is not overloaded"
                ),
            ),
            Err(error) => check::failed("subscribe", &name, &error),
        })?;
    }
    source.disconnect().await;
    Ok(())
}

/// Whether a subscription says where it begins.
async fn first_row(
    source: &mut Materialize,
    [begin, declare]: &[String; 2],
) -> Result<bool, SessionError> {
    look_up::run(source, begin).await?;
    let declared = source.run(declare).await;
    declared.map_err(|error| look_up::server_error(Phase::Declare, error))?;
    let fetched = source.run(&statements::fetch_one(FIRST_ROW)).await;
    let rows = fetched.map_err(|error| look_up::server_error(Phase::Fetch, error))?;
    Ok(!rows.rows.is_empty())
}

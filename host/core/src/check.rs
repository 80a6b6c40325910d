//! What can be known before a run: findings, each with what to do about it.
//!
//! Everything here is decided from answers that somebody else has fetched. What could not be
//! looked at is never found to be in order.

use serde::Serialize;

use crate::catalog::{Change, Object, Table};
use crate::checkpoint::Checkpoint;
use crate::release::resume_as_of;
use crate::session::{OnHistoryLoss, SessionConfig, SessionError, ViewConfig};
use crate::statements::identifier;
use crate::types::{CLOSED, Frontier, View};

#[cfg(test)]
mod tests;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It was not looked at, because of another finding or on request.
    Skipped,
    /// A run starts, but somebody should know this.
    Warning,
    /// A run would not start, or would stop.
    Error,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, in a word.
    pub check: &'static str,
    /// Of which object, place or secret; empty if there is only one.
    pub subject: String,
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Finding {
    /// As it should be.
    pub fn ok(check: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self {
            check,
            subject: subject.into(),
            level: Level::Ok,
            message: message.into(),
            remedy: None,
        }
    }

    /// Was not looked at.
    pub fn skipped(check: &'static str, subject: &str, why: impl Into<String>) -> Self {
        Self {
            level: Level::Skipped,
            ..Self::ok(check, subject, why)
        }
    }

    /// Not as it should be. The texts of this program say first what is wrong and, after a
    /// semicolon, what to do.
    pub fn bad(check: &'static str, subject: &str, level: Level, text: impl ToString) -> Self {
        let text = text.to_string();
        let (message, remedy) = match text.split_once("; ") {
            Some((message, remedy)) => (message.to_owned(), Some(remedy.to_owned())),
            None => (text, None),
        };
        Self {
            level,
            message,
            remedy,
            ..Self::ok(check, subject, "")
        }
    }
}

/// What is known of one configured view.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The object.
    pub object: Object,
    /// Its kind in SQL.
    pub kind: String,
    /// As the sink sees it.
    pub view: View,
}

/// Whether an object can be read as it is: index, retention, timeline.
pub fn fitness(object: &Object, kind: &str, config: &SessionConfig) -> Vec<Finding> {
    let name = object.name();
    let mut findings = Vec::new();
    findings.push(match object.check_index() {
        Ok(()) => Finding::ok("index", &name, "none in this cluster"),
        Err(error) => Finding::bad("index", &name, Level::Error, error),
    });
    let needed = config.commit_lag();
    findings.push(match object.check_retention(kind, needed) {
        Ok(()) => {
            let kept = object.retention;
            Finding::ok(
                "retention",
                &name,
                format!("keeps {kept:?}, {needed:?} are needed"),
            )
        }
        Err(error) if config.allow_short_retention => {
            Finding::bad("retention", &name, Level::Warning, error)
        }
        Err(error) => Finding::bad("retention", &name, Level::Error, error),
    });
    findings.push(match object.check_timeline(config.views.len()) {
        Ok(()) if config.views.len() == 1 => Finding::ok(
            "timeline",
            &name,
            "there is no other object to compare with",
        ),
        Ok(()) => Finding::ok("timeline", &name, "milliseconds since the epoch"),
        Err(error) => Finding::bad("timeline", &name, Level::Error, error),
    });
    findings
}

/// The view of an object, and what is to be said about its key.
///
/// # Errors
/// With the finding, when there is no such view.
pub fn view(
    object: &Object,
    configured: &ViewConfig,
    config: &SessionConfig,
) -> Result<(View, Option<Finding>), Finding> {
    let name = object.name();
    let called = configured.name.as_ref().unwrap_or(&object.full_name[2]);
    let view = object
        .view(called, &configured.key, config.envelope)
        .map_err(|error| Finding::bad("key", &name, Level::Error, error))?;
    let nullable = view.key.iter().map(|i| &view.columns[*i]);
    let nullable: Vec<_> = nullable
        .filter(|column| column.nullable)
        .map(|column| column.name.as_str())
        .collect();
    let finding = (!nullable.is_empty()).then(|| {
        let text = format!(
            "{} can be NULL; a sink may refuse such rows: choose columns that are never NULL, or \
             filter them out in a view",
            nullable.join(", ")
        );
        Finding::bad("key-nulls", &name, Level::Warning, text)
    });
    Ok((view, finding))
}

/// Asks for one key that several rows have.
pub fn doubled_key(object: &Object, key: &[String]) -> String {
    let key: Vec<_> = key.iter().map(|column| identifier(column)).collect();
    format!(
        "SELECT 1 FROM {} GROUP BY {} HAVING count(*) > 1 LIMIT 1",
        object.sql_name(),
        key.join(", ")
    )
}

/// What the answer to [`doubled_key`] means.
pub fn key(object: &Object, answer: &Table) -> Finding {
    let name = object.name();
    match answer.rows.is_empty() {
        true => Finding::ok("key", &name, "no two rows have one key now"),
        false => Finding::bad(
            "key",
            &name,
            Level::Error,
            "several rows have one key, and would replace and delete each other in the target; \
             choose other columns in source.key, or make it unique",
        ),
    }
}

/// What the target's checkpoint means for a run, and the frontier from which it would resume.
pub fn checkpoint(
    stored: Option<&str>,
    config: &SessionConfig,
    seen: &[Seen],
) -> (Vec<Finding>, Option<Frontier>) {
    let bad = |level, text: &dyn ToString| Finding::bad("checkpoint", "", level, text.to_string());
    let Some(stored) = stored else {
        let text = "there is none: a run begins with a snapshot";
        let mut findings = vec![Finding::ok("checkpoint", "", text)];
        findings.extend(over(config, seen));
        return (findings, None);
    };
    let found = match Checkpoint::parse(stored, &config.sink_id) {
        Ok(found) => found,
        Err(error) => return (vec![bad(Level::Error, &error)], None),
    };
    let mut findings = Vec::new();
    if found.component != config.component_digest {
        let text = format!(
            "the component is not the one that wrote the checkpoint ({} then); pin \
             component.digest if that is not on purpose",
            found.component
        );
        findings.push(bad(Level::Warning, &text));
    }
    let names = |all: &mut dyn Iterator<Item = &str>| all.collect::<Vec<_>>().join(", ");
    if found.views.len() != seen.len() {
        let error = crate::catalog::CatalogError::OtherViews {
            then: names(&mut found.views.iter().map(|v| v.name.as_str())),
            now: names(&mut seen.iter().map(|s| s.view.name.as_str())),
        };
        findings.push(bad(Level::Error, &error));
        return (findings, None);
    }
    let mut resumes = found.frontier;
    for (seen, then) in seen.iter().zip(&found.views) {
        let then = found
            .views
            .iter()
            .find(|v| v.name == seen.view.name)
            .unwrap_or(then);
        let (finding, can_resume) = one_view(seen, then, found.frontier, config);
        findings.push(finding);
        if !can_resume {
            resumes = None;
        }
    }
    if found.frontier.is_none() {
        findings.extend(over(config, seen));
    }
    findings.push(match found.frontier {
        None => Finding::ok(
            "checkpoint",
            "",
            "nothing is committed yet: a run begins with a snapshot",
        ),
        Some(CLOSED) => Finding::ok(
            "checkpoint",
            "",
            "everything is committed: a run ends at once",
        ),
        Some(frontier) if config.up_to.is_some_and(|up_to| up_to <= frontier) => {
            let text = format!(
                "committed up to {frontier}, and source.up_to is before that: a run ends at once; \
                 choose a later time, or leave it out"
            );
            bad(Level::Warning, &text)
        }
        Some(frontier) => {
            let text = format!("committed up to {frontier}, epoch {}", found.epoch);
            Finding::ok("checkpoint", "", text)
        }
    });
    (findings, resumes.filter(|frontier| *frontier != CLOSED))
}

/// Where the end lies before the beginning.
fn over(config: &SessionConfig, seen: &[Seen]) -> Vec<Finding> {
    let Some(up_to) = config.up_to else {
        return Vec::new();
    };
    let errors = seen.iter().filter_map(|seen| {
        let error = seen.object.check_not_over(up_to).err()?;
        Some(Finding::bad(
            "up-to",
            &seen.object.name(),
            Level::Error,
            error,
        ))
    });
    errors.collect()
}

/// Whether one view can go on from the checkpoint, and what else happens to it.
fn one_view(
    seen: &Seen,
    then: &crate::checkpoint::ViewIdentity,
    frontier: Option<Frontier>,
    config: &SessionConfig,
) -> (Finding, bool) {
    let name = seen.object.name();
    let told = |level, text: &dyn ToString| Finding::bad("resume", &name, level, text.to_string());
    let view = seen.view.clone();
    let reconciled = seen
        .object
        .reconcile(then, view, config.envelope, config.identity);
    let reconciled = match reconciled {
        Ok(reconciled) => reconciled,
        Err(error) => return (told(Level::Error, &error), false),
    };
    if reconciled.needs_snapshot() {
        let text = "it is another object than the checkpoint was written for, and is read anew";
        return (told(Level::Warning, &text), false);
    }
    let Some(frontier) = frontier else {
        return (
            Finding::ok("resume", &name, "begins with a snapshot"),
            false,
        );
    };
    if let Err(error) = seen.object.check_reached(frontier) {
        return (told(Level::Error, &error), false);
    }
    let read = seen.object.frontiers.map(|frontiers| frontiers.read);
    let as_of = resume_as_of(frontier);
    match read {
        Some(read) if as_of < read && frontier != CLOSED => {
            let (level, then) = match config.on_history_loss {
                OnHistoryLoss::Stall => (
                    Level::Error,
                    "; set source.on_history_loss, or use a new sink_id to start again with a snapshot",
                ),
                OnHistoryLoss::Resnapshot => (Level::Warning, "; a run reads it anew"),
                OnHistoryLoss::SkipToNow => (
                    Level::Warning,
                    "; a run goes on from now, and the target misses what was in between",
                ),
            };
            let text = format!(
                "its history reaches back to {read}, and the last commit is before that ({frontier}){then}"
            );
            (told(level, &text), false)
        }
        Some(read) => {
            let margin = as_of.saturating_sub(read) / 1000;
            let mut text =
                format!("goes on after the last commit; history reaches {margin} s further back");
            for change in &reconciled.changes {
                text += match change {
                    Change::Replaced { .. } => "; a replacement was applied to it",
                    Change::NewColumns { .. } => "; added columns are left out",
                    Change::Refollowed { .. } => "",
                };
            }
            (Finding::ok("resume", &name, text), true)
        }
        None => (
            told(
                Level::Warning,
                &"how far its history reaches could not be found out",
            ),
            true,
        ),
    }
}

/// An error of a server or a sink, as a finding.
pub fn failed(check: &'static str, subject: &str, error: &SessionError) -> Finding {
    Finding::bad(check, subject, Level::Error, error)
}

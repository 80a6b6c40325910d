//! What can be looked at without asking anybody: component, grants, secrets, files.

use std::fs::OpenOptions;
use std::path::Path;

use mz_sink_core::check::{Finding, Level};

use super::report::Report;
use crate::commands::deployment::Deployment;
use crate::exit::Failure;

pub(super) fn look(deployment: &Deployment, report: &mut Report) -> Result<(), Failure> {
    let inspection = &deployment.inspection;
    let text = format!(
        "{} {}, contract materialize:sink@{}, {}",
        inspection.name, inspection.version, inspection.wit_version, inspection.digest
    );
    report.add(Finding::ok("component", "", text))?;
    report.add(grants(deployment))?;
    report.add(match deployment.config.secrets() {
        Ok(secrets) if secrets.is_empty() => Finding::ok("secrets", "", "none are configured"),
        Ok(secrets) => {
            let names: Vec<_> = secrets.iter().map(|secret| secret.name.as_str()).collect();
            Finding::ok("secrets", "", format!("can be read: {}", names.join(", ")))
        }
        Err(error) => Finding::bad("secrets", "", Level::Error, error),
    })?;
    let letters = &deployment.config.dead_letter.path;
    report.add(match letters {
        None => Finding::bad(
            "dead-letters",
            "",
            Level::Warning,
            "rows that the sink refuses are only named in the log; set dead_letter.path to keep \
             them",
        ),
        Some(path) => writable("dead-letters", path),
    })?;
    let spill = deployment.config.buffer.dir.clone();
    let spill = spill.unwrap_or_else(std::env::temp_dir);
    report.add(folder("buffer", &spill))
}

fn grants(deployment: &Deployment) -> Finding {
    let imports = &deployment.inspection.imports;
    let wants_http = imports
        .iter()
        .any(|i| i.starts_with("materialize:sink/http@"));
    let granted = &deployment.config.grants.http;
    match (wants_http, granted.is_empty()) {
        (true, true) => Finding::bad(
            "grants",
            "",
            Level::Error,
            "the component wants HTTP and nothing is granted; add [grants] http = [\"https://...\"]",
        ),
        (true, false) => Finding::ok("grants", "", format!("http: {}", granted.join(", "))),
        (false, true) => Finding::ok("grants", "", "the component wants none"),
        (false, false) => Finding::bad(
            "grants",
            "",
            Level::Warning,
            "HTTP is granted, and the component does not use it; take grants.http out",
        ),
    }
}

/// A file that is there is opened, and not changed; one that is not, would be made in its folder.
fn writable(check: &'static str, path: &Path) -> Finding {
    let shown = path.display().to_string();
    if path.exists() && !path.is_file() {
        let text = "is not a regular file; name a file of its own";
        return Finding::bad(check, &shown, Level::Error, text);
    }
    if path.exists() {
        return match OpenOptions::new().append(true).open(path) {
            Ok(_) => Finding::ok(check, &shown, "can be written"),
            Err(error) => Finding::bad(check, &shown, Level::Error, unwritable(&error)),
        };
    }
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let found = folder(check, parent.unwrap_or(Path::new(".")));
    match found.level {
        Level::Ok => Finding::ok(check, &shown, "can be made"),
        _ => found,
    }
}

fn folder(check: &'static str, folder: &Path) -> Finding {
    let shown = folder.display().to_string();
    match mz_sink_driver::check_spill_folder(folder) {
        Ok(()) => Finding::ok(check, &shown, "can be written"),
        Err(error) => Finding::bad(check, &shown, Level::Error, unwritable(&error)),
    }
}

fn unwritable(error: &std::io::Error) -> String {
    format!("cannot be written: {error}; check the path and who may write there")
}

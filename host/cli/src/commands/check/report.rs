//! How findings are told: as they come, or as one JSON object.

use std::io::IsTerminal;

use mz_sink_core::check::{Finding, Level};
use serde_json::json;

use crate::exit::Failure;
use crate::output::{self, one_line};

/// The format of the JSON object, raised when its meaning changes.
const FORMAT: u32 = 1;

/// All findings so far.
pub struct Report {
    is_json: bool,
    has_colours: bool,
    findings: Vec<Finding>,
}

impl Report {
    /// No findings yet.
    pub fn new(is_json: bool) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self {
            is_json,
            has_colours: is_terminal && std::env::var_os("NO_COLOR").is_none(),
            findings: Vec::new(),
        }
    }

    /// Tells one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, finding: Finding) -> Result<(), Failure> {
        if !self.is_json {
            output::print(&self.line(&finding))?;
        }
        self.findings.push(finding);
        Ok(())
    }

    /// Tells what was not looked at.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn skipped(&mut self, checks: &[&'static str], why: &str) -> Result<(), Failure> {
        for check in checks {
            self.add(Finding::skipped(check, "", why))?;
        }
        Ok(())
    }

    fn line(&self, finding: &Finding) -> String {
        let (word, colour) = match finding.level {
            Level::Ok => ("ok", "32"),
            Level::Skipped => ("skipped", "2"),
            Level::Warning => ("warning", "33"),
            Level::Error => ("error", "31"),
        };
        let word = match self.has_colours {
            true => format!("\u{1b}[{colour}m{word:<8}\u{1b}[0m"),
            false => format!("{word:<8}"),
        };
        let subject = match finding.subject.is_empty() {
            true => String::new(),
            false => format!("{}: ", one_line(&finding.subject)),
        };
        let mut line = format!(
            "{word} {:<12} {subject}{}\n",
            finding.check,
            one_line(&finding.message)
        );
        if let Some(remedy) = &finding.remedy {
            line += &format!("{:22}-> {}\n", "", one_line(remedy));
        }
        line
    }

    /// Tells the sum.
    ///
    /// # Errors
    /// When there is an error among the findings.
    pub fn finish(self) -> Result<(), Failure> {
        let count = |level| self.findings.iter().filter(|f| f.level == level).count();
        let (errors, warnings) = (count(Level::Error), count(Level::Warning));
        let words = |n: usize, word: &str| match n {
            1 => format!("1 {word}"),
            _ => format!("{n} {word}s"),
        };
        let sum = format!("{}, {}", words(errors, "error"), words(warnings, "warning"));
        if self.is_json {
            let told = json!({
                "format": FORMAT,
                "ok": errors == 0,
                "errors": errors,
                "warnings": warnings,
                "findings": self.findings,
            });
            output::print(&output::json(&format!("{told}\n")))?;
        } else {
            output::print(&format!("\n{sum}\n"))?;
        }
        match errors {
            0 => Ok(()),
            _ => Err(Failure::failed("check", format!("{sum} found"))),
        }
    }
}

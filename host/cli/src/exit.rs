//! How the program ends: 0 cleanly, 1 failed, 2 bad usage or configuration, 3 an operator is
//! needed, 128 + n on a second signal.

use std::process::ExitCode;

use crate::output::{self, one_line};
use crate::telemetry::LogFormat;

/// A failure that ends the program.
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    code: String,
    message: String,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Failed = 1,
    Usage = 2,
    NeedsOperator = 3,
}

impl Failure {
    /// Something went wrong that starting again may or may not mend.
    pub fn failed(code: &str, message: impl ToString) -> Self {
        Self::new(Kind::Failed, code, message)
    }

    /// The arguments, the configuration or the component must be changed.
    pub fn usage(code: &str, message: impl ToString) -> Self {
        Self::new(Kind::Usage, code, message)
    }

    /// Fenced, or out of retries: somebody has to look.
    pub fn needs_operator(code: &str, message: impl ToString) -> Self {
        Self::new(Kind::NeedsOperator, code, message)
    }

    fn new(kind: Kind, code: &str, message: impl ToString) -> Self {
        Self {
            kind,
            code: code.into(),
            message: message.to_string(),
        }
    }

    /// What to tell the user.
    pub fn text(&self) -> &str {
        &self.message
    }

    /// Tells the user, in a form that fits the log, and gives the exit code.
    pub fn report(&self, format: LogFormat) -> ExitCode {
        match format {
            // Without a reader only the exit code is left.
            LogFormat::Text => drop(output::tell(&format!(
                "error[{}]: {}",
                self.code, self.message
            ))),
            LogFormat::Json => tracing::error!(code = %self.code, "{}", one_line(&self.message)),
        }
        ExitCode::from(self.kind as u8)
    }
}

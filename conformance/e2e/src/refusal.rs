//! Runs that are to end by themselves.

use std::time::Duration;

use crate::{API_KEY, Ended, Table, World, edited};

/// How long a run may take that cannot work.
pub const SOON: Duration = Duration::from_secs(20);

/// A password; no output of the program may hold it.
pub const CANARY: &str = "canary-password-93ab";

impl Ended {
    /// Checks the exit code, that the output says all this, and that it shows no secret.
    ///
    /// # Panics
    /// With the output, when something of it is not so.
    #[track_caller]
    pub fn assert(&self, code: i32, says: &[&str]) {
        let output = &self.output;
        assert_eq!(self.code, Some(code), "{output}");
        for text in says {
            assert!(output.contains(text), "{text:?} is not in:\n{output}");
        }
        for secret in [API_KEY, CANARY] {
            assert!(!output.contains(secret), "a secret is shown:\n{output}");
        }
        assert!(!output.contains("panicked"), "{output}");
        let errors = output.lines().filter(|line| line.starts_with("error"));
        assert_eq!(errors.count(), 1, "{output}");
        // Whatever a server or a component says, the error is one line, and the last one.
        let last = output.lines().last().unwrap_or_default();
        assert!(last.starts_with("error"), "{output}");
        let controls = |c: char| c.is_control() && c != '\n';
        assert!(!output.contains(controls), "{output:?}");
    }
}

/// A world with a table `(k int, v text)` of one row, and its configuration with two retries.
///
/// # Errors
/// When a server cannot be started.
pub async fn small_world() -> anyhow::Result<(World, Table, String)> {
    let world = World::start().await?;
    let table = world.table(&[("k", "int"), ("v", "text")]).await?;
    let insert = format!("INSERT INTO {} VALUES (1, 'a')", table.name);
    world.sql(&[&insert]).await?;
    let config = edited(&world.config(&table)?, "attempts = 10", "attempts = 2");
    Ok((world, table, config))
}

/// Checks that a run ends by itself, like this, and commits nothing.
///
/// # Panics
/// When it does not.
pub async fn refused(world: &World, config: &str, code: i32, says: &[&str]) {
    let host = world.host_with(config).expect("a process");
    let ended = host.end(SOON).await.expect("an end");
    // They are for the program, not for this look at what it did.
    world.turbopuffer.clear_faults();
    ended.assert(code, says);
    let committed = world.target.committed().await.expect("an answer");
    assert_eq!(committed, None);
}

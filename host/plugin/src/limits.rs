//! What one sink may use.

use std::time::Duration;

/// How often a guest may go back to the first row of a batch with the rows that it then reads
/// again counting as progress, per `write`. A guest may need some passes over its rows, and each
/// may take its time; one that reads the same rows for ever is stopped by `idle_timeout`. Rows
/// further on than the guest ever was in this `write` always count.
pub(crate) const REWINDS: u32 = 16;

/// What one sink may use. Set by the operator under `limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of the guest in bytes: all its linear memories and tables together.
    pub memory: usize,
    /// How long the guest may run without progress, which is: rows pulled, a row refused that was
    /// not before in this `write`, or an answer to an HTTP request, whatever its status. Rows read
    /// again count for the first 16 times that the guest goes back, per `write`. Nothing else does:
    /// not the end of the rows, requests without an answer, log lines, clocks or random bytes.
    /// Counted in ticks of [`crate::engine::TICK`] while the guest runs; waiting does not count.
    pub idle_timeout: Duration,
    /// Lines per second that reach the log; the rest is counted and dropped.
    pub log_lines_per_second: u32,
    /// The largest chunk handed to the guest at once, in bytes (about).
    pub pull_bytes: usize,
    /// HTTP exchanges open at one time.
    pub resources: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 512 << 20,
            idle_timeout: Duration::from_secs(60),
            log_lines_per_second: 100,
            pull_bytes: 16 << 20,
            resources: 256,
        }
    }
}

//! The small capabilities: log, clock, random. [`Http`](crate::Http) has its own file.

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every step.
    Trace,
    /// For someone looking for a fault.
    Debug,
    /// What an operator may want to know.
    Info,
    /// What an operator should look at.
    Warn,
    /// What an operator must act on.
    Error,
}

/// Log lines, which the host limits in rate and size.
pub trait Log {
    /// Writes one line. Never put row values or secrets into it.
    fn log(&self, level: Level, message: &str, fields: &[(&str, &str)]);
}

/// Time.
pub trait Clock {
    /// Wall clock, in milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// Monotonic clock, in nanoseconds since some start.
    fn monotonic_ns(&self) -> u64;
}

/// Randomness, good enough for keys.
pub trait Random {
    /// `len` random bytes.
    fn random_bytes(&self, len: u32) -> Vec<u8>;
}

//! A guest's log lines, made safe and counted.

use std::time::{Duration, Instant};

use crate::bindings::materialize::sink::log::Level;
use crate::text::clean;

/// The longest message, and the longest list of fields, in bytes.
const TEXT: usize = 2 << 10;

/// Writes a guest's lines to the log under the target `sink`.
pub(crate) struct GuestLog {
    sink: String,
    per_second: u32,
    second: Option<Instant>,
    lines: u32,
    dropped: u64,
}

impl GuestLog {
    pub(crate) fn new(sink: &str, per_second: u32) -> Self {
        Self {
            sink: sink.to_owned(),
            per_second,
            second: None,
            lines: 0,
            dropped: 0,
        }
    }

    pub(crate) fn emit(
        &mut self,
        now: Instant,
        level: Level,
        message: &str,
        fields: &[(String, String)],
    ) {
        if !self.admit(now) {
            return;
        }
        self.tell_dropped();
        let sink = self.sink.as_str();
        let message = clean(message, TEXT);
        let fields = join(fields);
        match level {
            Level::Trace => tracing::trace!(target: "sink", sink, fields, "{message}"),
            Level::Debug => tracing::debug!(target: "sink", sink, fields, "{message}"),
            Level::Info => tracing::info!(target: "sink", sink, fields, "{message}"),
            Level::Warn => tracing::warn!(target: "sink", sink, fields, "{message}"),
            Level::Error => tracing::error!(target: "sink", sink, fields, "{message}"),
        }
    }

    /// Says how many lines are missing, if any: before the next line, and when a call ends.
    pub(crate) fn tell_dropped(&mut self) {
        if self.dropped > 0 {
            tracing::warn!(
                target: "sink",
                sink = self.sink,
                dropped = self.dropped,
                "lines of the sink were dropped: `limits.log_lines_per_second`"
            );
            self.dropped = 0;
        }
    }

    /// Whether one more line fits into the second that `now` is in.
    fn admit(&mut self, now: Instant) -> bool {
        let over = self
            .second
            .is_none_or(|start| now.duration_since(start) >= Duration::from_secs(1));
        if over {
            self.second = Some(now);
            self.lines = 0;
        }
        if self.lines >= self.per_second {
            self.dropped += 1;
            return false;
        }
        self.lines += 1;
        true
    }
}

/// A call that trapped or was given up takes the instance with it.
impl Drop for GuestLog {
    fn drop(&mut self) {
        self.tell_dropped();
    }
}

/// `name=value` pairs in one text; `None` when there are none.
fn join(fields: &[(String, String)]) -> Option<String> {
    let mut out = String::new();
    for (name, value) in fields {
        if out.len() >= TEXT {
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&clean(name, TEXT));
        out.push('=');
        out.push_str(&clean(value, TEXT));
    }
    (!out.is_empty()).then(|| clean(&out, TEXT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_rate_are_dropped_and_counted_until_the_next_second() {
        let start = Instant::now();
        let mut log = GuestLog::new("s", 2);
        let admitted = (0..5).filter(|_| log.admit(start)).count();
        assert_eq!((admitted, log.dropped), (2, 3));
        assert!(!log.admit(start + Duration::from_millis(999)));
        assert!(log.admit(start + Duration::from_secs(1)));
    }

    #[test]
    fn a_log_that_ends_with_its_instance_says_what_is_missing() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let writer = file.reopen().expect("the file");
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_writer(std::sync::Mutex::new(writer))
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let mut log = GuestLog::new("s", 0);
            for _ in 0..3 {
                log.emit(Instant::now(), Level::Info, "line", &[]);
            }
        });
        let text = std::fs::read_to_string(file.path()).expect("the lines");
        assert!(text.contains("\"dropped\":3"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn fields_are_one_bounded_text() {
        assert_eq!(join(&[]), None);
        let pair = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        assert_eq!(
            join(&[pair("a", "1\n"), pair("b", "2")]).as_deref(),
            Some("a=1 b=2")
        );
        let long = join(&vec![pair("name", &"v".repeat(300)); 100]);
        assert!(long.is_some_and(|text| text.len() <= TEXT));
    }
}

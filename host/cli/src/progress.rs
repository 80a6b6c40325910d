//! Live progress: a line that changes in place on a terminal; elsewhere plain lines, one a second
//! while something happens and one every ten seconds while nothing does.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use mz_sink_core::types::CLOSED;
use mz_sink_driver::{Progress, Snapshot};

use crate::output;

/// How often the counters are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Shortest time between two plain lines.
const BUSY: Duration = Duration::from_secs(1);

/// Time between two plain lines while nothing happens.
const IDLE: Duration = Duration::from_secs(10);

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Style {
    /// A live line on a terminal, plain lines elsewhere, nothing in a JSON log.
    #[default]
    Auto,
    /// One line every second while anything happens, otherwise one every ten seconds.
    Plain,
    /// Nothing.
    None,
}

/// Shows progress until the task is aborted, or nobody reads it any more.
pub async fn show(progress: Arc<Progress>, style: Style) {
    if style == Style::None {
        return;
    }
    let live = style == Style::Auto && std::io::stderr().is_terminal();
    let bar = live.then(spinner);
    let mut shown = Shown {
        snapshot: progress.snapshot(),
        at: Instant::now(),
    };
    loop {
        tokio::time::sleep(LOOK).await;
        let (snapshot, at) = (progress.snapshot(), Instant::now());
        if bar.is_none() && !shown.is_over(snapshot, at) {
            continue;
        }
        let line = line(snapshot, rate(shown.snapshot, snapshot, at - shown.at));
        shown = Shown { snapshot, at };
        match &bar {
            Some(bar) => bar.set_message(line),
            None if output::tell(&line).is_err() => return,
            None => {}
        }
    }
}

/// What the last line said, and when.
struct Shown {
    snapshot: Snapshot,
    at: Instant,
}

impl Shown {
    /// Whether it is time for another line. The clock of an object that does not change is no
    /// news: frontiers move, and the server sends a row for each.
    fn is_over(&self, now: Snapshot, at: Instant) -> bool {
        let news = |s: Snapshot| {
            (
                (s.rows_committed, s.batches, s.retries),
                (s.memory, s.spilled),
                (s.committed == 0, s.committed == CLOSED),
            )
        };
        let wait = if news(self.snapshot) == news(now) {
            IDLE
        } else {
            BUSY
        };
        at.duration_since(self.at) >= wait
    }
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(LOOK);
    bar
}

fn rate(before: Snapshot, now: Snapshot, elapsed: Duration) -> u64 {
    let rows = now.rows_committed.saturating_sub(before.rows_committed);
    (rows as f64 / elapsed.as_secs_f64().max(0.001)) as u64
}

fn line(now: Snapshot, rate: u64) -> String {
    let lag = match now.committed {
        0 => "nothing committed yet".to_string(),
        CLOSED => "complete".to_string(),
        committed => {
            let clock = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_millis() as u64;
            format!(
                "frontier {committed}, lag {:.1} s",
                clock.saturating_sub(committed) as f64 / 1000.0
            )
        }
    };
    format!(
        "{} rows committed, {}/s, {} batches, {lag}{}; {} read, {} held{}",
        HumanCount(now.rows_committed),
        HumanCount(rate),
        HumanCount(now.batches),
        match now.margin_ms {
            Some(margin) => format!(", history {} s further back", margin / 1000),
            None => String::new(),
        },
        HumanCount(now.rows_read),
        HumanBytes(now.memory),
        match now.spilled {
            0 => String::new(),
            spilled => format!(", {} spilled", HumanBytes(spilled)),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether there is a line after so many milliseconds in which this changed.
    fn line_after(millis: u64, change: impl FnOnce(&mut Snapshot)) -> bool {
        let at = Instant::now();
        let snapshot = Snapshot {
            committed: 1,
            ..Snapshot::default()
        };
        let mut now = snapshot;
        change(&mut now);
        Shown { snapshot, at }.is_over(now, at + Duration::from_millis(millis))
    }

    #[test]
    fn work_is_shown_every_second() {
        let changes: [fn(&mut Snapshot); 6] = [
            |s| s.rows_committed += 1,
            |s| s.batches += 1,
            |s| s.retries += 1,
            |s| s.memory += 1,
            |s| s.spilled += 1,
            |s| s.committed = CLOSED,
        ];
        for change in changes {
            assert!(line_after(1000, change) && !line_after(999, change));
        }
    }

    #[test]
    fn a_quiet_object_is_shown_every_ten_seconds() {
        let clock = |s: &mut Snapshot| {
            s.rows_read += 1;
            s.read += 1000;
            s.committed += 1000;
        };
        assert!(line_after(10_000, clock) && !line_after(9_999, clock));
    }
}

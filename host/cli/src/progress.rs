//! Live progress: a line that changes in place on a terminal, a plain line every second
//! elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use mz_sink_driver::{Progress, Snapshot};

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Style {
    /// A live line on a terminal, plain lines elsewhere, nothing in a JSON log.
    #[default]
    Auto,
    /// One line every second while anything happens.
    Plain,
    /// Nothing.
    None,
}

/// Shows progress until the task is aborted.
pub async fn show(progress: Arc<Progress>, style: Style) {
    if style == Style::None {
        return;
    }
    let live = style == Style::Auto && std::io::stderr().is_terminal();
    let bar = live.then(spinner);
    let mut before = progress.snapshot();
    let mut at = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(if live { 200 } else { 1000 })).await;
        let now = progress.snapshot();
        let rate = rate(before, now, at.elapsed());
        (before, at) = (now, Instant::now());
        match &bar {
            Some(bar) => bar.set_message(line(now, rate)),
            None => eprintln!("{}", line(now, rate)),
        }
    }
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn rate(before: Snapshot, now: Snapshot, elapsed: Duration) -> u64 {
    let rows = now.rows_committed.saturating_sub(before.rows_committed);
    (rows as f64 / elapsed.as_secs_f64().max(0.001)) as u64
}

fn line(now: Snapshot, rate: u64) -> String {
    let lag = match now.committed {
        0 => "nothing committed yet".to_string(),
        u64::MAX => "complete".to_string(),
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
        "{} rows committed, {}/s, {} batches, {lag}; {} read, {} held{}",
        HumanCount(now.rows_committed),
        HumanCount(rate),
        HumanCount(now.batches),
        HumanCount(now.rows_read),
        HumanBytes(now.memory),
        match now.spilled {
            0 => String::new(),
            spilled => format!(", {} spilled", HumanBytes(spilled)),
        },
    )
}

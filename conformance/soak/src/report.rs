//! What happened, as it happens and in the end.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::plan::Moment;

/// As much of a failure is shown.
const LINES: usize = 25;

/// Counts.
pub struct Report {
    seed: u64,
    cycles: u64,
    done: u64,
    kills: BTreeMap<Moment, u64>,
    /// Ended by SIGTERM.
    pub terminated: u64,
    /// Ended because its first connection failed.
    pub ended_by_itself: u64,
    /// Fenced by another worker.
    pub fenced: u64,
    /// Resumed without a snapshot.
    pub resumes: usize,
    /// Comparisons of the whole target.
    pub proofs: u64,
    /// Rows compared in them.
    pub rows: usize,
    /// Changes of the source meanwhile.
    pub changes: u64,
    started: Instant,
    told: Instant,
    bar: Option<ProgressBar>,
}

impl Report {
    /// Nothing yet.
    pub fn new(seed: u64, cycles: u32) -> Self {
        println!("seed {seed}: `--seed {seed}` repeats the plan");
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} cycles, {msg} {eta}");
            ProgressBar::new(cycles.into())
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self {
            seed,
            cycles: cycles.into(),
            done: 0,
            kills: BTreeMap::new(),
            terminated: 0,
            ended_by_itself: 0,
            fenced: 0,
            resumes: 0,
            proofs: 0,
            rows: 0,
            changes: 0,
            started: Instant::now(),
            told: Instant::now(),
            bar,
        }
    }

    /// A worker was killed.
    pub fn killed(&mut self, moment: Moment) {
        *self.kills.entry(moment).or_insert(0) += 1;
    }

    /// A cycle is over, and all is well.
    pub fn cycle_done(&mut self) {
        self.done += 1;
        let text = format!("{} proofs over {} rows", self.proofs, self.rows);
        match &self.bar {
            Some(bar) => {
                bar.set_message(text);
                bar.inc(1);
            }
            None if self.told.elapsed() > Duration::from_secs(1) => {
                self.told = Instant::now();
                println!("{}/{} cycles, {text}", self.done, self.cycles);
            }
            None => {}
        }
    }

    /// Tells the end; whether all is well.
    pub fn finish(&self, is_json: bool, error: Option<&anyhow::Error>) -> bool {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let kills: u64 = self.kills.values().sum();
        let is_well = error.is_none();
        let rows = [
            ("cycles", self.done),
            ("kill -9", kills),
            ("  while it started", self.kills_at(Moment::Start)),
            ("  early", self.kills_at(Moment::Early)),
            ("  amid writes", self.kills_at(Moment::Writes)),
            ("  after a commit", self.kills_at(Moment::Commit)),
            ("SIGTERM", self.terminated),
            ("fenced", self.fenced),
            ("ended at its first connection", self.ended_by_itself),
            ("resumed without a snapshot", self.resumes as u64),
            ("changes meanwhile", self.changes),
            ("proofs", self.proofs),
            ("rows compared", self.rows as u64),
            ("differences", u64::from(!is_well)),
        ];
        for (what, count) in rows {
            println!("{what:30} {count:>10}");
        }
        println!(
            "{:30} {:>9.1}s",
            "time",
            self.started.elapsed().as_secs_f64()
        );
        if let Some(error) = error {
            let text = format!("{error:#}");
            let lines: Vec<_> = text.lines().collect();
            println!("\nnot as it should be, with seed {}:", self.seed);
            for line in lines.iter().take(LINES) {
                println!("{line}");
            }
            if lines.len() > LINES {
                println!("and {} lines more", lines.len() - LINES);
            }
        }
        if is_json {
            let told = json!({
                "seed": self.seed, "cycles": self.done, "kills": kills,
                "terminated": self.terminated, "fenced": self.fenced, "resumes": self.resumes,
                "changes": self.changes, "proofs": self.proofs, "rows": self.rows,
                "ok": is_well, "error": error.map(|e| format!("{e:#}")),
            });
            println!("{told}");
        }
        is_well
    }

    fn kills_at(&self, moment: Moment) -> u64 {
        self.kills.get(&moment).copied().unwrap_or(0)
    }
}

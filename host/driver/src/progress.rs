//! How far a run has come, readable at any time from anywhere.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mz_sink_core::session::Notice;

/// Categories of refused rows that are told apart.
const CATEGORIES: usize = 64;

/// Counters of a run.
#[derive(Debug, Default)]
pub struct Progress {
    rows_read: AtomicU64,
    rows_committed: AtomicU64,
    batches: AtomicU64,
    bytes_committed: AtomicU64,
    committed: AtomicU64,
    read: AtomicU64,
    memory: AtomicU64,
    spilled: AtomicU64,
    retries: AtomicU64,
    dead_letters: Mutex<BTreeMap<String, u64>>,
    fell_behind: AtomicU64,
    margins: Mutex<BTreeMap<String, i64>>,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Changes received, progress rows left out.
    pub rows_read: u64,
    /// Changes committed.
    pub rows_committed: u64,
    /// Commits, also of empty batches.
    pub batches: u64,
    /// Bytes committed, by their size in memory.
    pub bytes_committed: u64,
    /// The committed frontier; 0 before the first commit.
    pub committed: u64,
    /// The frontier up to which everything has been read; 0 before.
    pub read: u64,
    /// Bytes of changes in memory.
    pub memory: u64,
    /// Bytes of changes on disk.
    pub spilled: u64,
    /// Things that were tried again.
    pub retries: u64,
    /// Rows that were refused, each as often as that happened.
    pub dead_letters: u64,
    /// How often Materialize ended a stream because this program read too slowly.
    pub fell_behind: u64,
    /// How far the history reaches back behind the last commit, in milliseconds: the least of
    /// all objects, when it was last looked at. A resume fails once it is negative.
    pub margin_ms: Option<i64>,
}

impl Progress {
    /// The counters now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            rows_read: self.rows_read.load(Relaxed),
            rows_committed: self.rows_committed.load(Relaxed),
            batches: self.batches.load(Relaxed),
            bytes_committed: self.bytes_committed.load(Relaxed),
            committed: self.committed.load(Relaxed),
            read: self.read.load(Relaxed),
            memory: self.memory.load(Relaxed),
            spilled: self.spilled.load(Relaxed),
            retries: self.retries.load(Relaxed),
            dead_letters: self.dead_letters().values().sum(),
            fell_behind: self.fell_behind.load(Relaxed),
            margin_ms: lock(&self.margins).values().min().copied(),
        }
    }

    pub(crate) fn read_changes(&self, rows: u64) {
        self.rows_read.fetch_add(rows, Relaxed);
    }

    fn committed(&self, rows: u64, bytes: u64) {
        self.rows_committed.fetch_add(rows, Relaxed);
        self.bytes_committed.fetch_add(bytes, Relaxed);
        self.batches.fetch_add(1, Relaxed);
    }

    /// The refused rows by category. A sink makes the categories up, so that those beyond the
    /// first 64 are counted together, as `other`.
    pub fn dead_letters(&self) -> BTreeMap<String, u64> {
        lock(&self.dead_letters).clone()
    }

    pub(crate) fn dead_lettered(&self, category: &str) {
        let mut counts = lock(&self.dead_letters);
        let category = match counts.len() < CATEGORIES || counts.contains_key(category) {
            true => category,
            false => "other",
        };
        *counts.entry(category.into()).or_insert(0) += 1;
    }

    /// Counts what a notice tells.
    pub(crate) fn told(&self, notice: &Notice) {
        match notice {
            Notice::Committed { rows, bytes, .. } => self.committed(*rows, *bytes),
            Notice::Retrying { error, .. } => {
                self.retries.fetch_add(1, Relaxed);
                if error.code() == "fell-behind" {
                    self.fell_behind.fetch_add(1, Relaxed);
                }
            }
            Notice::Margin {
                object, margin_ms, ..
            } => {
                lock(&self.margins).insert(object.clone(), *margin_ms);
            }
            _ => {}
        }
    }

    pub(crate) fn set(&self, committed: Option<u64>, read: Option<u64>, memory: u64, spilled: u64) {
        self.committed.store(committed.unwrap_or(0), Relaxed);
        self.read.store(read.unwrap_or(0), Relaxed);
        self.memory.store(memory, Relaxed);
        self.spilled.store(spilled, Relaxed);
    }
}

/// No step under such a lock leaves its content half changed.
fn lock<T>(content: &Mutex<T>) -> MutexGuard<'_, T> {
    content.lock().unwrap_or_else(PoisonError::into_inner)
}

//! How far a run has come, readable at any time from anywhere.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
    dead_letters: AtomicU64,
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
    /// Rows that the host put into the dead-letter log.
    pub dead_letters: u64,
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
            dead_letters: self.dead_letters.load(Relaxed),
        }
    }

    pub(crate) fn read_changes(&self, rows: u64) {
        self.rows_read.fetch_add(rows, Relaxed);
    }

    pub(crate) fn committed(&self, rows: u64, bytes: u64) {
        self.rows_committed.fetch_add(rows, Relaxed);
        self.bytes_committed.fetch_add(bytes, Relaxed);
        self.batches.fetch_add(1, Relaxed);
    }

    pub(crate) fn dead_lettered(&self, rows: u64) {
        self.dead_letters.fetch_add(rows, Relaxed);
    }

    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    pub(crate) fn set(&self, committed: Option<u64>, read: Option<u64>, memory: u64, spilled: u64) {
        self.committed.store(committed.unwrap_or(0), Relaxed);
        self.read.store(read.unwrap_or(0), Relaxed);
        self.memory.store(memory, Relaxed);
        self.spilled.store(spilled, Relaxed);
    }
}

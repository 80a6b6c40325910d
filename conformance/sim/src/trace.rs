//! What happened, in order: hashed to compare two runs, and the last of it kept to be shown.

use std::collections::VecDeque;
use std::fmt::{Arguments, Write};
use std::time::Duration;

/// All events so far.
#[derive(Debug)]
pub(crate) struct Trace {
    /// How many of the last are kept.
    kept: usize,
    hash: u64,
    events: u64,
    last: VecDeque<String>,
}

impl Trace {
    pub(crate) fn new(kept: usize) -> Self {
        Self {
            kept,
            hash: 0,
            events: 0,
            last: VecDeque::new(),
        }
    }

    pub(crate) fn note(&mut self, at: Duration, what: Arguments<'_>) {
        let mut line = if self.last.len() >= self.kept {
            self.last.pop_front().unwrap_or_default()
        } else {
            String::new()
        };
        line.clear();
        // Writing to a string cannot fail.
        let _ = write!(line, "{:>9.3} s  {what}", at.as_secs_f64());
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.events += 1;
        self.last.push_back(line);
    }

    /// Two runs with equal hashes did the same.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn last(&self) -> Vec<String> {
        self.last.iter().cloned().collect()
    }
}

//! Shows that the simulator bites: plants each mistake and counts the seeds until it is found.

use crate::bug::Bug;
use crate::search::Search;

/// A mistake must be found within so many seeds.
pub const WITHIN: u64 = 2000;

/// Where searches begin, far apart.
const BEGINNINGS: [u64; 3] = [0, 100_000, 200_000];

/// How soon a planted mistake was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bite {
    /// The mistake.
    pub bug: Bug,
    /// Seeds until it was found, from several beginnings, in order; `None` for not found.
    pub seeds: Vec<Option<u64>>,
}

impl Bite {
    /// Whether it was found from everywhere.
    pub fn found(&self) -> bool {
        self.seeds.iter().all(Option::is_some)
    }

    /// The middle of the searches.
    pub fn typical(&self) -> Option<u64> {
        let mut seeds = self.seeds.clone();
        // What was not found sorts first, and would hide itself.
        seeds.sort_by_key(|seeds| seeds.unwrap_or(u64::MAX));
        seeds[seeds.len() / 2]
    }
}

/// Plants one mistake, and searches for it.
pub fn bite(bug: Bug, threads: usize) -> Bite {
    let seeds = BEGINNINGS.map(|first| {
        let search = Search {
            first,
            seeds: WITHIN,
            bug: Some(bug),
            threads,
        };
        let (_, failed) = search.find(|_| {});
        failed.map(|seed| seed - first + 1)
    });
    Bite {
        bug,
        seeds: seeds.to_vec(),
    }
}

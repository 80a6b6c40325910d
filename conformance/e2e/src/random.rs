//! Random numbers that a seed repeats.

use std::hash::{BuildHasher, RandomState};

/// A small generator (xorshift64*); good enough to choose keys and moments.
pub struct Random(u64);

impl Random {
    /// Seeded with `E2E_SEED` if it is set, else at random. Prints the seed.
    ///
    /// # Panics
    /// When `E2E_SEED` is no number.
    #[must_use]
    pub fn new() -> Self {
        let seed = match std::env::var("E2E_SEED") {
            Ok(text) => text.parse().unwrap_or_else(|_| {
                panic!("E2E_SEED is {text:?}: it must be a number from 1 to 2^64 - 1")
            }),
            Err(_) => RandomState::new().hash_one(std::process::id()),
        };
        println!("repeat with E2E_SEED={seed}");
        Self(seed.max(1))
    }

    /// Seeded with this number.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// Another generator that the same seed repeats.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.below(1 << 40) + 1)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % end
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::new()
    }
}

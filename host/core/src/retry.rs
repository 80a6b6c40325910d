//! One backoff for everything that is tried again.

use std::time::Duration;

/// When and how often to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often in a row, not counting the first try. Waits that the other side asked for do
    /// not count, up to ten times as many.
    pub attempts: u32,
    /// The first wait at most.
    pub min_backoff: Duration,
    /// Every wait at most, also one that the other side asked for.
    pub max_backoff: Duration,
}

/// The least part of a backoff that is waited.
const FLOOR: f64 = 0.05;

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 10,
            min_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// The longest time that a failure can be waited out, in all.
    pub fn budget(&self) -> Duration {
        (0..self.attempts)
            .map(|n| self.cap(n))
            .fold(Duration::ZERO, Duration::saturating_add)
    }

    fn cap(&self, failures: u32) -> Duration {
        self.min_backoff
            .saturating_mul(1u32.checked_shl(failures).unwrap_or(u32::MAX))
            .min(self.max_backoff)
    }
}

/// Failures in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retries {
    failures: u32,
    throttled: u32,
}

impl Retries {
    /// After a success.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Failures counted so far.
    pub fn failures(&self) -> u32 {
        self.failures + self.throttled
    }

    /// How long to wait after one more failure; `None` when the budget is spent. `jitter` is
    /// uniform in `[0, 1)`; `asked` is what the other side asked for.
    pub fn next_wait(
        &mut self,
        policy: &RetryPolicy,
        asked: Option<Duration>,
        jitter: f64,
    ) -> Option<Duration> {
        if let Some(asked) = asked {
            self.throttled += 1;
            // With a floor too: `Retry-After: 0` is no invitation to a busy loop.
            let wait = asked
                .max(policy.min_backoff.mul_f64(FLOOR))
                .min(policy.max_backoff);
            return (self.throttled <= policy.attempts.saturating_mul(10)).then_some(wait);
        }
        let cap = policy.cap(self.failures);
        self.failures += 1;
        // Full jitter, with a floor so that a lucky draw is not a busy loop.
        (self.failures <= policy.attempts).then(|| cap.mul_f64(jitter.clamp(FLOOR, 1.0)))
    }
}

/// A small generator (SplitMix64) for jitter and nonces; seeded by the caller, since this crate
/// has no randomness of its own.
#[derive(Clone, Debug)]
pub(crate) struct Entropy(u64);

impl Entropy {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

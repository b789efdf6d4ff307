//! How long to wait before trying again: exponential, with jitter.

use std::time::Duration;

/// A source of numbers that spread retries; given in, so that decisions can be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Jitter(u64);

impl Jitter {
    /// A source that gives the same numbers for the same seed.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, evenly spread (SplitMix64).
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Waits that double from `initial` up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Backoff {
    /// The first wait.
    pub initial: Duration,
    /// The longest wait.
    pub max: Duration,
}

impl Backoff {
    /// The wait after `failures` failures in a row (1 for the first): between half and the whole of the
    /// doubled time, so that many who failed together do not return together.
    #[must_use]
    pub fn wait(&self, failures: u32, jitter: &mut Jitter) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        let whole = self.initial.saturating_mul(factor).min(self.max);
        let half = whole / 2;
        let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
        half + Duration::from_nanos(jitter.next_number() % nanos.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_keep_at_least_half() {
        let backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(10) };
        let mut jitter = Jitter::seeded(1);
        for (failures, whole) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (40, 10), (u32::MAX, 10)] {
            let wait = backoff.wait(failures, &mut jitter);
            let whole = Duration::from_secs(whole);
            assert!(wait >= whole / 2 && wait <= whole, "{failures}: {wait:?}");
        }
    }
}

//! What a controller can be set to.

use std::time::Duration;

use crate::{
    engine::Backoff,
    model::{Buckets, Bus, PodName},
};

/// How a controller works. The limits across fields are checked where it is read from files.
#[derive(Debug, Clone)]
pub struct Config {
    /// The bus.
    pub bus: Bus,
    /// How many buckets it has.
    pub buckets: Buckets,
    /// This controller's name, for people.
    pub name: PodName,
    /// After how long without a heartbeat the group gives this member's buckets to others.
    pub session_timeout: Duration,
    /// How often a heartbeat is sent.
    pub heartbeat: Duration,
    /// After how long without polling this member leaves the group.
    pub max_poll_interval: Duration,
    /// How long a handler may take; longer is a retry.
    pub handler_timeout: Duration,
    /// The most records of one bucket that are handled at the same time.
    pub handler_concurrency: usize,
    /// Attempts and their distances.
    pub retry: RetryConfig,
    /// How much of a bucket may be read and not finished.
    pub window: WindowConfig,
    /// How often progress is committed when nothing is staged.
    pub commit_interval: Duration,
    /// How long handlers in flight may go on when a bucket is given up.
    pub drain: Duration,
    /// How large a dead letter may be, in bytes on the wire: the topic's own limit.
    pub dead_letter_limit: usize,
}

impl Config {
    /// Waits while a handler is unavailable: as between attempts, but never longer than half a minute, since
    /// the whole bucket waits.
    pub(super) fn unavailable_backoff(&self) -> Backoff {
        let max = self.retry.max.min(Duration::from_secs(30));
        Backoff { initial: self.retry.initial.min(max), max }
    }
}

/// Attempts and their distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryConfig {
    /// How many attempts a record has, over all owners; at least 1.
    pub attempts: u32,
    /// The wait after the first failed attempt; each further one doubles it.
    pub initial: Duration,
    /// The longest wait.
    pub max: Duration,
}

/// How much of a bucket may be read and not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowConfig {
    /// Records; at least 1.
    pub max_records: usize,
    /// Bytes of them in memory. One record is always admitted, however large.
    pub max_bytes: usize,
}

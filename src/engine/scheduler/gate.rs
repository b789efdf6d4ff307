//! Why nothing starts for a while.

use std::time::Duration;

use crate::model::RecordOffset;

/// The handler, or the dead letters, are unavailable.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    /// When it is tried whether they are back.
    pub(super) until: Duration,
    /// How often in a row they were not.
    pub(super) failures: u32,
    /// The one record that tries whether the handler is back.
    pub(super) probe: Option<RecordOffset>,
    /// Whether dead letters, not the handler, are what is refused.
    pub(super) dead_letters: bool,
    /// In words, for people.
    pub(super) reason: String,
}

impl Gate {
    /// Whether one record may start now, to see whether the handler is back.
    pub(super) fn lets_through(&self, now: Duration) -> bool {
        !self.dead_letters && self.probe.is_none() && now >= self.until
    }

    /// When that will be, unless something else must happen first.
    pub(super) fn opens_at(&self) -> Option<Duration> {
        (!self.dead_letters && self.probe.is_none()).then_some(self.until)
    }
}

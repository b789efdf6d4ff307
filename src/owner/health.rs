//! What makes a controller ready, and what only a restart would help.

use std::{sync::Arc, time::Duration};

use super::shared::{Doing, Shared};

/// After how long without polling the controller is not ready.
const SILENCE: Duration = Duration::from_secs(10);

/// After how long without polling only a restart would help.
const DEADLOCK: Duration = Duration::from_secs(120);

/// A view of a controller's health. Cheap to clone.
#[derive(Clone)]
pub struct Health {
    shared: Arc<Shared>,
}

impl Health {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Why the controller is not ready; empty when it is.
    #[must_use]
    pub fn unready(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.shared.is_shutting_down() {
            reasons.push("shutting down".to_owned());
        }
        if !self.shared.was_assigned() {
            reasons.push("no assignment received yet".to_owned());
        }
        let silence = self.shared.poll_silence();
        if silence >= SILENCE {
            reasons.push(format!("the poll loop has been silent for {} s", silence.as_secs()));
        }
        for (bucket, doing) in self.shared.doing() {
            match doing {
                Doing::TakingOver(since) => reasons
                    .push(format!("bucket {bucket} is being taken over for {} s", since.elapsed().as_secs())),
                Doing::Unavailable(why) => reasons.push(format!("bucket {bucket} waits: {why}")),
                Doing::Delivering => {}
            }
        }
        reasons
    }

    /// Why a restart is called for, if it is.
    #[must_use]
    pub fn dead(&self) -> Option<String> {
        let silence = self.shared.poll_silence();
        (silence >= DEADLOCK).then(|| format!("the poll loop has been silent for {} s", silence.as_secs()))
    }
}

//! What the probes are answered, from the start of a process to its end.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{owner::Health, publisher::Publisher};

/// What a process is doing.
enum Stage {
    Starting(String),
    Controller(Health),
    DataPlane(Publisher),
    Stopping,
}

/// A process's health.
pub struct Status {
    stage: Mutex<Stage>,
}

impl Default for Status {
    fn default() -> Self {
        Self { stage: Mutex::new(Stage::Starting("starting".to_owned())) }
    }
}

impl Status {
    pub(super) fn starting(&self, reason: &str) {
        *self.stage() = Stage::Starting(reason.to_owned());
    }

    pub(super) fn controller(&self, health: Health) {
        *self.stage() = Stage::Controller(health);
    }

    pub(super) fn data_plane(&self, publisher: Publisher) {
        *self.stage() = Stage::DataPlane(publisher);
    }

    pub(super) fn stopping(&self) {
        *self.stage() = Stage::Stopping;
    }

    /// Why the process is not ready; empty when it is.
    #[must_use]
    pub fn unready(&self) -> Vec<String> {
        match &*self.stage() {
            Stage::Starting(reason) => vec![reason.clone()],
            Stage::Controller(health) => health.unready(),
            Stage::DataPlane(publisher) => publishing(publisher),
            Stage::Stopping => vec!["shutting down".to_owned()],
        }
    }

    /// Why a restart is called for, if it is. Never because Kafka is away.
    #[must_use]
    pub fn dead(&self) -> Option<String> {
        match &*self.stage() {
            Stage::Controller(health) => health.dead(),
            Stage::DataPlane(publisher) => publisher.fatal_error(),
            Stage::Starting(_) | Stage::Stopping => None,
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn publishing(publisher: &Publisher) -> Vec<String> {
    let fatal = publisher.fatal_error().map(|error| format!("the producer failed for good: {error}"));
    let half = publisher.config().delivery_timeout / 2;
    let oldest = publisher.oldest_unanswered().filter(|age| *age > half);
    let stuck = oldest.map(|age: Duration| {
        format!("the oldest message has been waiting for Kafka for {} s", age.as_secs())
    });
    fatal.into_iter().chain(stuck).collect()
}

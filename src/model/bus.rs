//! The names that one bus has in Kafka.

use std::fmt;

use super::Bucket;

/// Kafka's limit for a topic's name, less our longest suffix (`.notifications`).
const LIMIT: usize = 249 - ".notifications".len();

/// A bus, by its name; everything it has in Kafka is named after it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bus(String);

/// Text that cannot name a bus.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "bus name {found:?} is not 1 to {LIMIT} of the characters A-Z a-z 0-9 . _ - (Kafka's rule for topics)"
)]
pub struct InvalidBusName {
    found: String,
}

impl Bus {
    /// Checks `name`.
    ///
    /// # Errors
    /// [`InvalidBusName`] when a topic could not be named after it.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidBusName> {
        let name = name.into();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.len() > LIMIT || !name.chars().all(legal) {
            return Err(InvalidBusName { found: name.chars().take(80).collect() });
        }
        Ok(Self(name))
    }

    /// The bus's own name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The topic that pods write to: one partition per bucket.
    #[must_use]
    pub fn notifications(&self) -> String {
        format!("{}.notifications", self.0)
    }

    /// The topic of claims and open commands: one partition per bucket.
    #[must_use]
    pub fn ownership(&self) -> String {
        format!("{}.ownership", self.0)
    }

    /// The topic that owners command pods through: one partition per slot.
    #[must_use]
    pub fn commands(&self) -> String {
        format!("{}.commands", self.0)
    }

    /// The topic of answers to single notifications: one partition per slot.
    #[must_use]
    pub fn replies(&self) -> String {
        format!("{}.replies", self.0)
    }

    /// The topic of what could not be handled: one partition per bucket.
    #[must_use]
    pub fn dead_letters(&self) -> String {
        format!("{}.dead-letters", self.0)
    }

    /// The consumer group of the controllers.
    #[must_use]
    pub fn group(&self) -> String {
        format!("{}.controllers", self.0)
    }

    /// The transactional id of a bucket's producer: initialising it shuts out the former owner.
    #[must_use]
    pub fn transactional_id(&self, bucket: Bucket) -> String {
        format!("{}.bucket-{bucket}", self.0)
    }
}

impl fmt::Display for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

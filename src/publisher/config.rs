//! What a publisher can be set to.

use std::time::Duration;

use crate::model::{Buckets, Bus, PodName};

/// How a publisher works.
#[derive(Debug, Clone)]
pub struct Config {
    /// The bus.
    pub bus: Bus,
    /// How many buckets it has.
    pub buckets: Buckets,
    /// This pod's name.
    pub name: PodName,
    /// How long a message may wait for Kafka before it is given back with a retryable error.
    pub delivery_timeout: Duration,
    /// How long a message may wait for others to share its batch.
    pub linger: Duration,
    /// The most messages accepted and not yet answered.
    pub max_records: usize,
    /// The most bytes of them.
    pub max_bytes: usize,
    /// The topic's own limit for a record batch, in bytes; a larger message is refused at once.
    pub max_message_bytes: usize,
}

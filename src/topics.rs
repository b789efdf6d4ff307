//! What must exist in Kafka for a bus, and whether what is there is right.
//!
//! Deciding is pure ([`expected`], [`judge`], [`judge_limits`]); [`ensure`] and [`verify`] ask Kafka and carry
//! it out. What would break a promise of the bus is an error, and nothing may be consumed then; what only
//! costs time, space or safety margin is a [`Warning`]. A topic that exists is never changed.

mod error;
mod judge;
mod provision;
mod spec;

pub use error::{Action, Error};
pub use judge::{Found, Mismatch, Warning, judge, judge_limits};
pub use provision::{check_buckets, ensure, inspect, verify};
pub use spec::{Cleanup, Defaults, TopicSpec, expected};

use crate::model::{Buckets, Bus};

/// By how many bytes a dead letter may be larger than the notification it copies: headers are added.
pub const DEAD_LETTER_MARGIN: usize = 65_536;

/// Kafka's own default for `max.message.bytes`, in bytes.
pub const DEFAULT_MESSAGE_LIMIT: usize = 1_048_588;

/// What a bus asks of its topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The bus.
    pub bus: Bus,
    /// How many buckets it has.
    pub buckets: Buckets,
    /// How many partitions the topics towards pods have.
    pub slots: u32,
    /// Whether [`ensure`] creates what is missing.
    pub create: bool,
    /// How many replicas a new topic's partitions get; `None` leaves that to the broker's default.
    pub replication_factor: Option<i32>,
}

/// What was found right.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// The most bytes that a record batch of the notifications topic may have, as the topic itself says.
    pub notification_limit: usize,
    /// The same for dead letters; at least [`DEAD_LETTER_MARGIN`] more.
    pub dead_letter_limit: usize,
    /// The topics that were created for this.
    pub created: Vec<String>,
    /// What differs from the design without breaking a promise; the caller logs them.
    pub warnings: Vec<Warning>,
}

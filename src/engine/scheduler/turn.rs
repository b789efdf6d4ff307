//! What a scheduler takes and gives.

use std::sync::Arc;

use super::Dead;
use crate::{
    engine::{Backoff, Marks},
    model::{NextOffset, RecordOffset},
};

/// What bounds a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most records handled at the same time.
    pub concurrency: usize,
    /// How many attempts a record has.
    pub attempts: u32,
    /// Waits between a record's attempts.
    pub retry: Backoff,
    /// Waits while the handler is unavailable.
    pub unavailable: Backoff,
}

/// A record to schedule.
#[derive(Debug, Clone)]
pub struct Incoming<T> {
    /// Where it stands.
    pub offset: RecordOffset,
    /// What it takes in memory.
    pub bytes: usize,
    /// How it is to be treated.
    pub order: Order,
    /// The record itself.
    pub item: T,
}

/// How a record is treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Handled, after all earlier ones of its resource. A state also has its record key.
    Handle {
        /// The resource.
        resource: Arc<str>,
        /// The key, if it is a state.
        state: Option<Box<[u8]>>,
    },
    /// Finished at once: there is nothing to handle.
    Skip,
    /// Dead-lettered: it cannot be handled.
    Undecodable,
}

/// What became of a received record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// It waits for its turn; a queued state that it supersedes was skipped.
    Queued {
        /// Whether there was one.
        superseded: bool,
    },
    /// A predecessor finished it.
    Finished,
    /// It had been received before.
    Repeated,
}

/// A record to handle now.
#[derive(Debug, Clone)]
pub struct Start<T> {
    /// Where it stands.
    pub offset: RecordOffset,
    /// The record.
    pub item: T,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// Whether it may have been started before, here or by a predecessor.
    pub redelivered: bool,
}

/// What to write in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The offset to commit.
    pub offset: NextOffset,
    /// What to write beside it.
    pub marks: Marks,
    /// The log's end as a predecessor left it that did not release the bucket, while records below it are left:
    /// the next owner must be as cautious with those, so the last claim says it, however orderly it is.
    pub cautious_until: Option<NextOffset>,
    /// The dead letters to write with it.
    pub dead: Vec<Dead>,
}

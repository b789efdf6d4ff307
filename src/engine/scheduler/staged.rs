//! Dead letters that wait for their transaction.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::model::RecordOffset;

/// The most dead letters in one transaction, so that it stays small.
const PER_TRANSACTION: usize = 200;

/// Why a record ends in the dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ending {
    /// A handler refused it, with this reason.
    Rejected(String),
    /// Its attempts are used up; the last one's reason.
    Exhausted(String),
    /// It is no notification that could be delivered.
    Undecodable,
}

/// A dead letter to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// The record.
    pub offset: RecordOffset,
    /// How many attempts were begun.
    pub attempts: u32,
    /// Why.
    pub ending: Ending,
    /// Whether its data did not fit and stays out.
    pub without_data: bool,
}

/// What is staged, in order of offsets.
#[derive(Debug, Default)]
pub(super) struct Staged {
    dead: BTreeMap<RecordOffset, Dead>,
    /// Undecodable records that wait for room in the metadata.
    waiting: BTreeSet<RecordOffset>,
    /// Nothing is written before.
    held: Option<Duration>,
}

impl Staged {
    pub(super) fn push(&mut self, offset: RecordOffset, attempts: u32, ending: Ending) {
        self.dead.insert(offset, Dead { offset, attempts, ending, without_data: false });
    }

    /// An undecodable record that is not admitted yet.
    pub(super) fn undecodable(&mut self, offset: RecordOffset) {
        self.waiting.insert(offset);
    }

    /// The record is admitted; `false` when it was not an undecodable one.
    pub(super) fn release(&mut self, offset: RecordOffset) -> bool {
        let waited = self.waiting.remove(&offset);
        if waited {
            self.push(offset, 0, Ending::Undecodable);
        }
        waited
    }

    /// What goes into a transaction now.
    pub(super) fn due(&mut self, now: Duration) -> Vec<Dead> {
        if self.held.is_some_and(|until| now < until) {
            return Vec::new();
        }
        self.held = None;
        self.dead.values().take(PER_TRANSACTION).cloned().collect()
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        !self.dead.is_empty() && self.held.is_none_or(|until| now >= until)
    }

    pub(super) fn hold(&mut self, until: Duration) {
        self.held = Some(until);
    }

    pub(super) fn held_until(&self) -> Option<Duration> {
        self.held.filter(|_| !self.dead.is_empty())
    }

    /// Writes it without its data from now on; `false` when it already was.
    pub(super) fn drop_data(&mut self, offset: RecordOffset) -> bool {
        let dead = self.dead.get_mut(&offset).filter(|dead| !dead.without_data);
        dead.is_some_and(|dead| {
            dead.without_data = true;
            true
        })
    }

    pub(super) fn remove(&mut self, offset: RecordOffset) {
        self.dead.remove(&offset);
    }

    pub(super) fn len(&self) -> usize {
        self.dead.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.dead.is_empty()
    }
}

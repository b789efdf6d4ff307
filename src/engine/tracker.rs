//! Which records of a bucket are finished, and what may be committed.
//!
//! Everything below the committable offset is finished. Offsets for which no record was delivered between two
//! that were (compaction removed them, or they are markers) count as finished, since they cannot come any more.
//!
//! What is committed always fits: beside what is started and not finished there is always room for the record
//! at the head, so that it can start whatever else has ended.

use std::collections::{BTreeMap, BTreeSet};

use super::{Attempts, LIMIT, Marks, OffsetRanges, metadata::worst_case};
use crate::model::{NextOffset, RecordOffset};

/// What a received record is to the tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// Not seen in this tenure; a predecessor may have tried it.
    New,
    /// A predecessor finished it, out of order.
    Finished,
    /// Seen already, or below where this tenure began.
    Repeated,
}

/// The state of one bucket's records.
#[derive(Debug, Clone)]
pub struct Tracker {
    /// Where the next record is expected.
    position: NextOffset,
    /// Received and not finished; for each the offset up to which no other record stands, as far as is known.
    unfinished: BTreeMap<RecordOffset, NextOffset>,
    /// Those of them that were started and so may end at any time.
    started: BTreeSet<RecordOffset>,
    /// Finished beyond the committable offset, with the gaps behind them.
    finished: OffsetRanges,
    /// Tried and not finished.
    attempts: BTreeMap<RecordOffset, Attempts>,
    /// The record that was received last.
    last: Option<RecordOffset>,
    /// The offset after the furthest record that was started or has ended. The gap behind it is not written
    /// before a record beyond the gap is started: nobody has made room for it.
    reach: NextOffset,
}

impl Tracker {
    /// A tracker that goes on from a committed offset and what was committed beside it.
    #[must_use]
    pub fn resume(committed: NextOffset, marks: Marks) -> Self {
        let reach = marks.finished.end().unwrap_or(committed).max(committed);
        let tried = marks.attempts.keys().next_back().map_or(committed, |offset| offset.next());
        Self {
            position: committed,
            unfinished: BTreeMap::new(),
            started: BTreeSet::new(),
            finished: marks.finished,
            attempts: marks.attempts,
            last: None,
            reach: reach.max(tried),
        }
    }

    /// Takes note of a record. Records of a partition arrive in order.
    pub fn receive(&mut self, offset: RecordOffset) -> Receipt {
        if self.position.is_past(offset) {
            return Receipt::Repeated;
        }
        self.close_gap(offset);
        self.position = offset.next();
        self.last = Some(offset);
        let finished = self.finished.contains(offset);
        if !finished {
            self.unfinished.insert(offset, offset.next());
        }
        self.forget_passed();
        if finished { Receipt::Finished } else { Receipt::New }
    }

    /// Offsets between the last record and `offset` hold nothing: they belong to the record before them.
    fn close_gap(&mut self, offset: RecordOffset) {
        let Some(last) = self.last else { return };
        match self.unfinished.get_mut(&last) {
            Some(end) => *end = offset.position(),
            None if self.finished.contains(last) => self.finished.insert(last.next(), offset.position()),
            None => {}
        }
    }

    /// Whether a record may be started: whether the metadata would still fit, in whatever order things end,
    /// and with room left for the record at the head. That one may always start.
    #[must_use]
    pub fn admits(&self, offset: RecordOffset) -> bool {
        let head = self.head();
        if self.started.contains(&offset) || head == Some(offset) {
            return true;
        }
        let waiting = head.filter(|head| !self.started.contains(head));
        let ending = self.started.len() + 1 + usize::from(waiting.is_some());
        let counted = |tried: &RecordOffset| {
            self.started.contains(tried) || *tried == offset || waiting == Some(*tried)
        };
        let tried = self.attempts.keys().filter(|tried| !counted(tried)).count();
        let span = self.committable().distance_to(self.reach.max(offset.next()));
        worst_case(ending, tried, self.finished.len(), span) <= LIMIT
    }

    /// The record may end at any time from now on.
    pub fn start(&mut self, offset: RecordOffset) {
        if self.unfinished.contains_key(&offset) {
            self.reach = self.reach.max(offset.next());
            self.started.insert(offset);
        }
    }

    /// The record is finished and will not be delivered again.
    pub fn finish(&mut self, offset: RecordOffset) {
        let Some(end) = self.unfinished.remove(&offset) else { return };
        self.started.remove(&offset);
        self.attempts.remove(&offset);
        self.reach = self.reach.max(offset.next());
        self.finished.insert(offset.position(), end);
        self.forget_passed();
    }

    /// Sets what is known of a record's attempts; `None` for none.
    pub fn set_attempts(&mut self, offset: RecordOffset, attempts: Option<Attempts>) {
        match attempts {
            Some(attempts) => self.attempts.insert(offset, attempts),
            None => self.attempts.remove(&offset),
        };
    }

    /// What is known of a record's attempts.
    #[must_use]
    pub fn attempts(&self, offset: RecordOffset) -> Option<Attempts> {
        self.attempts.get(&offset).copied()
    }

    /// The offset after the unbroken finished run that starts at the last committed one.
    #[must_use]
    pub fn committable(&self) -> NextOffset {
        self.unfinished.first_key_value().map_or(self.position, |(offset, _)| offset.position())
    }

    /// The first record that was received and is not finished.
    #[must_use]
    pub(super) fn head(&self) -> Option<RecordOffset> {
        self.unfinished.first_key_value().map(|(offset, _)| *offset)
    }

    /// What to commit when, besides what is finished, `also` were: the offset, and what to write beside it.
    #[must_use]
    pub fn commit(&self, also: &BTreeSet<RecordOffset>) -> (NextOffset, Marks) {
        let first = self.unfinished.keys().find(|offset| !also.contains(offset));
        let committable = first.map_or(self.position, |offset| offset.position());
        let mut finished = self.finished.clone();
        for offset in also {
            if let Some(end) = self.unfinished.get(offset) {
                finished.insert(offset.position(), *end);
            }
        }
        finished.remove_below(committable);
        finished.remove_from(self.reach);
        let attempts = self
            .attempts
            .iter()
            .filter(|(offset, _)| !committable.is_past(**offset) && !also.contains(offset));
        (
            committable,
            Marks { finished, attempts: attempts.map(|(offset, tried)| (*offset, *tried)).collect() },
        )
    }

    /// Forgets what lies below the committable offset, also marks of records that compaction has removed.
    fn forget_passed(&mut self) {
        let committable = self.committable();
        self.finished.remove_below(committable);
        while let Some(first) = self.attempts.first_entry().filter(|first| committable.is_past(*first.key()))
        {
            first.remove();
        }
    }

    /// The records that were started and are not finished.
    #[cfg(test)]
    pub(super) fn started(&self) -> impl Iterator<Item = RecordOffset> {
        self.started.iter().copied()
    }

    /// How many records were received and are not finished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.unfinished.len()
    }

    /// Where the next record is expected.
    #[must_use]
    pub fn position(&self) -> NextOffset {
        self.position
    }
}

#[cfg(test)]
mod tests;

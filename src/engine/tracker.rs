//! Which records of a bucket are finished, and what may be committed.
//!
//! Everything below the committable offset is finished. Offsets for which no record was delivered between two
//! that were (compaction removed them, or they are markers) count as finished, since they cannot come any more.

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
    /// The end of the furthest started record.
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
        if self.finished.contains(offset) {
            return Receipt::Finished;
        }
        self.unfinished.insert(offset, offset.next());
        Receipt::New
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

    /// Whether a record may be started: whether the metadata would still fit, in whatever order things end.
    #[must_use]
    pub fn admits(&self, offset: RecordOffset) -> bool {
        if self.started.contains(&offset) {
            return true; // it was admitted when it was started first
        }
        let end = self.unfinished.get(&offset).copied().unwrap_or_else(|| offset.next());
        let span = self.committable().distance_to(self.reach.max(end));
        let tried = self.attempts.keys().filter(|tried| !self.started.contains(tried)).count();
        worst_case(self.started.len() + 1, tried, self.finished.len(), span) <= LIMIT
    }

    /// The record may end at any time from now on.
    pub fn start(&mut self, offset: RecordOffset) {
        if let Some(end) = self.unfinished.get(&offset) {
            self.reach = self.reach.max(*end);
            self.started.insert(offset);
        }
    }

    /// The record is finished and will not be delivered again.
    pub fn finish(&mut self, offset: RecordOffset) {
        let Some(end) = self.unfinished.remove(&offset) else { return };
        self.started.remove(&offset);
        self.attempts.remove(&offset);
        self.reach = self.reach.max(end);
        self.finished.insert(offset.position(), end);
        self.finished.remove_below(self.committable());
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
        let attempts = self
            .attempts
            .iter()
            .filter(|(offset, _)| !committable.is_past(**offset) && !also.contains(offset));
        (
            committable,
            Marks { finished, attempts: attempts.map(|(offset, tried)| (*offset, *tried)).collect() },
        )
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        engine::{CommitMetadata, ParsedMetadata},
        model::{Epoch, TransactionSequence},
    };

    fn at(offset: i64) -> RecordOffset {
        RecordOffset::new(offset).unwrap()
    }

    fn next(offset: i64) -> NextOffset {
        NextOffset::new(offset).unwrap()
    }

    #[test]
    fn commit_never_passes_an_unfinished_record() {
        let mut tracker = Tracker::resume(next(10), Marks::default());
        for offset in [10, 12, 13] {
            assert_eq!(tracker.receive(at(offset)), Receipt::New);
            tracker.start(at(offset));
        }
        tracker.finish(at(13));
        assert_eq!(tracker.committable(), next(10));
        tracker.finish(at(10));
        assert_eq!(tracker.committable(), next(12));
        tracker.finish(at(12));
        assert_eq!(tracker.committable(), next(14));
        assert!(tracker.commit(&BTreeSet::new()).1.finished.is_empty());
    }

    #[test]
    fn marks_of_records_not_yet_read_again_are_kept() {
        let mut marks = Marks::default();
        marks.finished.insert(next(15), next(17));
        marks.attempts.insert(at(12), Attempts { count: 2, open: true });
        let mut tracker = Tracker::resume(next(10), marks.clone());
        tracker.receive(at(10));
        tracker.start(at(10));
        tracker.finish(at(10));
        assert_eq!(tracker.commit(&BTreeSet::new()), (next(11), marks));
        tracker.receive(at(12));
        assert_eq!(tracker.receive(at(15)), Receipt::Finished);
        assert_eq!(tracker.receive(at(12)), Receipt::Repeated);
    }

    #[test]
    fn a_sparse_log_makes_one_range_of_neighbours() {
        let mut tracker = Tracker::resume(next(0), Marks::default());
        for offset in (0..1000).map(|index| index * 1000) {
            tracker.receive(at(offset));
            assert!(tracker.admits(at(offset)), "{offset}");
            tracker.start(at(offset));
            if offset > 0 {
                tracker.finish(at(offset));
            }
        }
        assert_eq!(tracker.commit(&BTreeSet::new()).1.finished.len(), 1);
    }

    proptest! {
        /// Against a naive model: sets of offsets.
        #[test]
        fn the_tracker_says_what_a_naive_one_says(
            gaps in proptest::collection::vec(1_i64..5, 1..120),
            steps in proptest::collection::vec((0_usize..120, 0_u8..4), 0..300),
        ) {
            let offsets: Vec<i64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
            let mut tracker = Tracker::resume(next(0), Marks::default());
            let (mut received, mut started, mut finished) = (0, BTreeSet::new(), BTreeSet::new());
            for (pick, step) in steps {
                match step {
                    0 if received < offsets.len() => {
                        prop_assert_eq!(tracker.receive(at(offsets[received])), Receipt::New);
                        received += 1;
                    }
                    1 if pick < received && !finished.contains(&offsets[pick]) && tracker.admits(at(offsets[pick])) => {
                        tracker.start(at(offsets[pick]));
                        started.insert(offsets[pick]);
                    }
                    2 if pick < received && started.remove(&offsets[pick]) => {
                        tracker.finish(at(offsets[pick]));
                        finished.insert(offsets[pick]);
                    }
                    3 if pick < received && started.contains(&offsets[pick]) => {
                        tracker.set_attempts(at(offsets[pick]), Some(Attempts { count: 8191, open: true }));
                    }
                    _ => {}
                }
                let expected = offsets[..received].iter().find(|offset| !finished.contains(offset)).copied()
                    .unwrap_or_else(|| received.checked_sub(1).map_or(0, |last| offsets[last] + 1));
                let (committable, marks) = tracker.commit(&BTreeSet::new());
                prop_assert_eq!(committable, next(expected));
                for offset in &offsets[..received] {
                    let marked = *offset < expected || marks.finished.contains(at(*offset));
                    prop_assert_eq!(marked, finished.contains(offset), "{}", offset);
                }
                let metadata = CommitMetadata { epoch: Epoch::new(u64::MAX), sequence: TransactionSequence::new(u64::MAX), marks };
                let text = metadata.encode(committable);
                prop_assert!(text.len() <= LIMIT);
                prop_assert_eq!(CommitMetadata::decode(&text, committable), ParsedMetadata::Ours(metadata));
            }
        }
    }
}

//! A set of offsets, kept as disjoint ranges that never touch.

use std::collections::BTreeMap;

use crate::model::{NextOffset, RecordOffset};

/// A set of record offsets. Memory follows the number of ranges, not of offsets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct OffsetRanges {
    /// Start to end (exclusive).
    ranges: BTreeMap<NextOffset, NextOffset>,
}

impl OffsetRanges {
    /// Adds every offset from `start` up to but not including `end`, joining what touches.
    pub fn insert(&mut self, start: NextOffset, end: NextOffset) {
        if start >= end {
            return;
        }
        let (mut start, mut end) = (start, end);
        while let Some((&earlier, &reach)) = self.ranges.range(..=end).next_back() {
            if reach < start {
                break;
            }
            start = start.min(earlier);
            end = end.max(reach);
            self.ranges.remove(&earlier);
        }
        self.ranges.insert(start, end);
    }

    /// Whether the set has `offset`.
    #[must_use]
    pub fn contains(&self, offset: RecordOffset) -> bool {
        let found = self.ranges.range(..=offset.position()).next_back();
        found.is_some_and(|(_, end)| end.is_past(offset))
    }

    /// Removes every offset below `bound`.
    pub fn remove_below(&mut self, bound: NextOffset) {
        while let Some((&start, &end)) = self.ranges.first_key_value() {
            if start >= bound {
                break;
            }
            self.ranges.remove(&start);
            if end > bound {
                self.ranges.insert(bound, end);
                break;
            }
        }
    }

    /// Removes every offset from `bound` on.
    pub fn remove_from(&mut self, bound: NextOffset) {
        let _beyond = self.ranges.split_off(&bound);
        if let Some(mut last) = self.ranges.last_entry() {
            let end = last.get_mut();
            *end = bound.min(*end);
        }
    }

    /// The ranges in order, each from its start up to but not including its end.
    pub fn iter(&self) -> impl Iterator<Item = (NextOffset, NextOffset)> {
        self.ranges.iter().map(|(start, end)| (*start, *end))
    }

    /// The number of ranges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The offset after the last one in the set.
    #[must_use]
    pub fn end(&self) -> Option<NextOffset> {
        self.ranges.last_key_value().map(|(_, end)| *end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn next(offset: i64) -> NextOffset {
        NextOffset::new(offset).unwrap()
    }

    proptest! {
        #[test]
        fn ranges_are_a_set(steps in proptest::collection::vec((0_u8..6, 0_i64..60, 0_i64..6), 0..40)) {
            let (mut ranges, mut naive) = (OffsetRanges::default(), BTreeSet::new());
            for (step, at, length) in steps {
                match step {
                    0 => {
                        ranges.remove_below(next(at));
                        naive.retain(|offset| *offset >= at);
                    }
                    1 => {
                        ranges.remove_from(next(at));
                        naive.retain(|offset| *offset < at);
                    }
                    _ => {
                        ranges.insert(next(at), next(at + length));
                        naive.extend(at..at + length);
                    }
                }
                for offset in 0..70 {
                    prop_assert_eq!(ranges.contains(RecordOffset::new(offset).unwrap()), naive.contains(&offset));
                }
                let listed: Vec<_> = ranges.iter().collect();
                prop_assert!(listed.windows(2).all(|pair| pair[0].1 < pair[1].0), "{listed:?}");
                prop_assert_eq!(ranges.end().map(NextOffset::get), naive.last().map(|last| last + 1));
            }
        }
    }
}

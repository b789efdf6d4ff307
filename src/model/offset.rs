//! Two kinds of offset that arithmetic must never mix up: where a record *is*, and where reading goes on.

use std::fmt;

/// The offset of one record in its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordOffset(i64);

/// The offset at which reading continues: what Kafka calls a committed offset, or a consumer's position.
///
/// Everything below it is finished (when committed) or seen (when a position).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextOffset(i64);

impl RecordOffset {
    /// A record's offset as Kafka reports it; `None` for the negative numbers that Kafka uses as signals.
    #[must_use]
    pub const fn new(offset: i64) -> Option<Self> {
        if offset < 0 { None } else { Some(Self(offset)) }
    }

    /// The position just after this record: the only way from one kind of offset to the other.
    #[must_use]
    pub const fn next(self) -> NextOffset {
        NextOffset(self.0.saturating_add(1))
    }

    /// The number, as Kafka writes it.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// This record's own place, as the position from which it would be read next.
    #[must_use]
    pub const fn position(self) -> NextOffset {
        NextOffset(self.0)
    }
}

impl NextOffset {
    /// The beginning of every log that was never truncated.
    pub const ZERO: Self = Self(0);

    /// A position as Kafka reports it; `None` for the negative numbers that Kafka uses as signals.
    #[must_use]
    pub const fn new(offset: i64) -> Option<Self> {
        if offset < 0 { None } else { Some(Self(offset)) }
    }

    /// The number, as Kafka writes it.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Whether `record` lies before this position, that is, has been passed.
    #[must_use]
    pub const fn is_past(self, record: RecordOffset) -> bool {
        record.0 < self.0
    }

    /// How many offsets lie from this position to `end`; 0 when `end` is not further on.
    #[must_use]
    pub fn distance_to(self, end: Self) -> u64 {
        u64::try_from(end.0.saturating_sub(self.0)).unwrap_or(0)
    }

    /// The position `count` offsets further on.
    #[must_use]
    pub fn advanced(self, count: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(count).unwrap_or(i64::MAX)))
    }

    /// The record that would stand at this position, if there is one.
    #[must_use]
    pub const fn record(self) -> RecordOffset {
        RecordOffset(self.0)
    }
}

impl fmt::Display for RecordOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for NextOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

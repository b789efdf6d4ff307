//! The fencing token of a tenure, and the number of a transaction within it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a bucket's tenure: 1, 2, 3 … strictly growing per bucket, over all controllers.
///
/// [`Epoch::NONE`] (0) stands for "nobody has owned this bucket yet".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(u64);

/// The number of a durable transaction within one epoch: 0 is the claim itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TransactionSequence(u64);

impl Epoch {
    /// No tenure yet.
    pub const NONE: Self = Self(0);

    /// The epoch with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The epoch of the next tenure.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl TransactionSequence {
    /// The claim's own number.
    pub const CLAIM: Self = Self(0);

    /// The sequence with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of the transaction after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for TransactionSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

//! How an attempt to handle a record ended.

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Done; it will not be delivered again once that is durable.
    Handled,
    /// It failed; try again later, for as long as there are attempts left. The reason is for people.
    Retry(String),
    /// It can never be handled; it goes to the dead letters with this reason.
    Reject(String),
    /// The handler itself cannot be reached, is misconfigured or overloaded: no attempt is counted, and the
    /// whole bucket waits.
    Unavailable(String),
}

impl Outcome {
    /// The word in metrics.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Handled => "handled",
            Self::Retry(_) => "retry",
            Self::Reject(_) => "reject",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

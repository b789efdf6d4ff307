//! What the owner decides: deterministic, without I/O, time and randomness as arguments.
//!
//! - [`Tracker`]: which records of a bucket are finished, and what may be committed;
//! - [`CommitMetadata`]: how that is written beside a committed offset;
//! - [`Scheduler`]: which record starts next, and what its outcome means;
//! - [`Tenure`]: takeover, transactions, and the end of owning a bucket;
//! - [`Snapshot`]: which tenure may write, as of the last rebalance callback.

mod metadata;
mod outcome;
mod ranges;
mod retry;
mod scheduler;
#[cfg(test)]
mod simulation;
mod snapshot;
mod tenure;
mod tracker;

pub use metadata::{Attempts, CommitMetadata, LIMIT, Marks, ParsedMetadata};
pub use outcome::Outcome;
pub use ranges::OffsetRanges;
pub use retry::{Backoff, Jitter};
pub use scheduler::{Checkpoint, Dead, Ending, Incoming, Limits, Order, Received, Scheduler, Start};
pub use snapshot::{Snapshot, Ticket, Token};
pub use tenure::{Action, End, Event, OffsetsLost, Plan, Reading, Resume, Setback, Tenure, Timing};
pub use tracker::{Receipt, Tracker};

//! Why a command failed, and the exit code that says so.

use std::io;

use crate::{
    kafka,
    model::{Bucket, InvalidClaim},
    topics,
};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command is carried out by somebody else.
    #[error("`run` and `demo` are not commands that look at a bus")]
    NotHere,
    /// A bucket that the bus does not have.
    #[error("there is no bucket {found}: `bus.buckets` is {buckets}, so expected 0 to {}", .buckets.saturating_sub(1))]
    NoBucket {
        /// As given.
        found: u16,
        /// How many buckets there are.
        buckets: u16,
    },
    /// An offset that no record has.
    #[error("offset {found} is none: expected 0 or more, as in the list of dead letters")]
    NoOffset {
        /// As given.
        found: i64,
    },
    /// No dead letter is the one that was asked for.
    #[error(
        "no dead letter {what} was found in {topic:?}; `control-bus dead-letters list` shows those that are there"
    )]
    NoLetter {
        /// How it was asked for.
        what: String,
        /// Where was looked.
        topic: String,
    },
    /// The topics are not what they must be.
    #[error(transparent)]
    Topics(#[from] topics::Error),
    /// Kafka refused, or did not answer.
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
    /// The claim of a bucket cannot be read.
    #[error("the claim of bucket {bucket} in {topic:?} cannot be read")]
    Claim {
        /// The bucket.
        bucket: Bucket,
        /// Where it stands.
        topic: String,
        /// Why.
        #[source]
        source: InvalidClaim,
    },
    /// The result cannot be written.
    #[error("the result cannot be written")]
    Output(#[source] io::Error),
    /// A thread of the program was ended, which only its own end does.
    #[error("the command was interrupted")]
    Interrupted,
}

impl Error {
    /// The exit code: 64 for what the caller must change in the arguments or the configuration, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotHere | Self::NoBucket { .. } | Self::NoOffset { .. } => 64,
            _ => 1,
        }
    }
}

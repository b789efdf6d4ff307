//! Why a command failed, and the exit code that says so.

use std::io;

use crate::{
    kafka,
    model::{Bucket, ErrorKind, InvalidClaim, InvalidMessage},
    publisher, topics,
};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command is carried out by somebody else.
    #[error("the command is not one that only looks at a bus")]
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
    /// An offset without the bucket that it is in.
    #[error(
        "`--from {found}` is an offset, and each bucket has its own: say which with --bucket or --resource"
    )]
    NoBucketForOffset {
        /// As given.
        found: i64,
    },
    /// A message that cannot be one.
    #[error("the message cannot be sent")]
    Message(#[source] InvalidMessage),
    /// The data of a message cannot be read.
    #[error("the message's data cannot be read from {from}")]
    Data {
        /// Where it was to come from.
        from: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A message was not published.
    #[error(transparent)]
    Publish(Box<publisher::PublishError>),
    /// The publisher could not be started.
    #[error(transparent)]
    Publisher(#[from] publisher::Error),
    /// There is no such command to write a manual page about.
    #[error("there is no command {found:?}; `control-bus --help` lists them")]
    NoCommand {
        /// As given.
        found: String,
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
    /// The same, about its administration.
    #[error(transparent)]
    Admin(#[from] kafka::AdminError),
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
            Self::NotHere
            | Self::NoBucket { .. }
            | Self::NoOffset { .. }
            | Self::NoBucketForOffset { .. }
            | Self::Message(_)
            | Self::NoCommand { .. } => 64,
            _ => 1,
        }
    }

    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Topics(error) => error.kind(),
            Self::Kafka(error) => error.kind(),
            Self::Admin(error) => error.kind(),
            Self::Publish(error) => error.kind(),
            _ => ErrorKind::Invalid,
        }
    }

    /// Where more can be learnt.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Kafka(error) if error.is_authorization() => {
                Some("`control-bus check --transactions` says which permissions are lacking")
            }
            Self::Kafka(error) if error.kind() == ErrorKind::Retryable => {
                Some("`control-bus check` says what is wrong with the brokers")
            }
            _ => None,
        }
    }

    /// Whether nobody reads the result any more, as when it is piped into `head`: no reason to complain.
    #[must_use]
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

//! Why a bus cannot use its topics.

use std::{fmt, time::Duration};

use super::Mismatch;
use crate::{
    kafka::{self, AdminError},
    model::ErrorKind,
};

/// Why a bus cannot use its topics.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A topic is there, and is not what it must be.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// A topic is not there, and was not to be created.
    #[error(
        "topic {topic:?} does not exist, expected one with {partitions} partitions: create it with \
         `control-bus topics ensure`, or set `topics.create = true` (where it does exist, this user lacks the \
         permission to see it)"
    )]
    Missing {
        /// The topic.
        topic: String,
        /// How many partitions it should have.
        partitions: u32,
    },
    /// The client's user lacks a permission.
    #[error("topic {topic:?}: not allowed to {action}; {}", .action.remedy())]
    NotAuthorized {
        /// The topic.
        topic: String,
        /// What was refused.
        action: Action,
        /// The refusal.
        #[source]
        source: Box<AdminError>,
    },
    /// No broker answered.
    #[error("the topics of the bus cannot be verified, beginning with {topic:?}")]
    Unreachable {
        /// The topic that was asked for.
        topic: String,
        /// Which brokers, for how long, and what to check.
        #[source]
        source: Box<AdminError>,
    },
    /// A new topic is not known to every broker in time.
    #[error(
        "topic {topic:?} was created, but broker {broker} does not know it after {} s: try again, and look at \
         that broker when this repeats",
        .timeout.as_secs_f64()
    )]
    NotYetKnown {
        /// The topic.
        topic: String,
        /// The first broker that does not know it.
        broker: i32,
        /// How long was waited.
        timeout: Duration,
    },
    /// The cluster refused for another reason.
    #[error("topic {topic:?}: the cluster refused to {action}")]
    Refused {
        /// The topic.
        topic: String,
        /// What was refused.
        action: Action,
        /// The refusal.
        #[source]
        source: Box<AdminError>,
    },
    /// librdkafka does not take the client's settings.
    #[error(transparent)]
    Client(kafka::Error),
}

/// Something that was asked of Kafka about a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// See that it is there.
    Describe,
    /// See how it is set.
    DescribeSettings,
    /// Create it.
    Create,
}

impl Action {
    const fn remedy(self) -> &'static str {
        match self {
            Self::Describe => "grant the operation Describe on it to the client's user",
            Self::DescribeSettings => "grant the operation DescribeConfigs on it to the client's user",
            Self::Create => {
                "grant the operation Create on it to the client's user, or let another user create it with \
                 `control-bus topics ensure`"
            }
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Describe => "describe it",
            Self::DescribeSettings => "describe its settings",
            Self::Create => "create it",
        })
    }
}

impl Error {
    /// An administrative call's error about one topic.
    pub(super) fn of(topic: &str, partitions: u32, action: Action, source: AdminError) -> Self {
        let (topic, source) = (topic.to_owned(), Box::new(source));
        match &*source {
            AdminError::Missing { .. } => Self::Missing { topic, partitions },
            AdminError::NotAuthorized(_) => Self::NotAuthorized { topic, action, source },
            AdminError::Unreachable { .. } => Self::Unreachable { topic, source },
            _ => Self::Refused { topic, action, source },
        }
    }

    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Mismatch(_) | Self::Missing { .. } => ErrorKind::Invalid,
            Self::NotYetKnown { .. } => ErrorKind::Retryable,
            Self::NotAuthorized { source, .. }
            | Self::Unreachable { source, .. }
            | Self::Refused { source, .. } => source.kind(),
            Self::Client(error) => error.kind(),
        }
    }
}

//! Why an administrative call failed, sorted by what a person would do about it.

use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;

use crate::{kafka::Error, model::ErrorKind};

/// An administrative call that failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The topic does not exist, or Kafka hides it for want of permission.
    #[error("topic {topic:?} does not exist")]
    Missing {
        /// The topic.
        topic: String,
    },
    /// The client's user may not do this.
    #[error("{} was refused for want of permission: grant it to the client's user with an ACL", .0.operation())]
    NotAuthorized(#[source] Error),
    /// No broker answered.
    #[error(
        "no broker of {brokers} answered within {} s{}: check `kafka.brokers`, the network, and the security settings",
        .timeout.as_secs_f64(),
        .last.as_deref().map(|reason| format!(" (last seen: {reason})")).unwrap_or_default()
    )]
    Unreachable {
        /// The brokers as configured.
        brokers: String,
        /// How long was waited.
        timeout: Duration,
        /// What the client last reported about its connections, in librdkafka's words.
        last: Option<String>,
        /// The call that failed.
        #[source]
        source: Box<Error>,
    },
    /// The embedded broker has no administration.
    #[error(
        "{operation} is impossible with the embedded broker: it has no administration; use a real cluster"
    )]
    Unsupported {
        /// The call.
        operation: String,
    },
    /// Anything else.
    #[error(transparent)]
    Failed(Error),
}

impl AdminError {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Missing { .. } | Self::NotAuthorized(_) | Self::Unsupported { .. } => ErrorKind::Invalid,
            Self::Unreachable { .. } => ErrorKind::Retryable,
            Self::Failed(error) => error.kind(),
        }
    }
}

/// Whether an error's code says that no broker could be asked.
pub(super) fn is_unreachable(code: Code) -> bool {
    matches!(
        code,
        Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::OperationTimedOut
            | Code::Resolve
            | Code::Authentication
            | Code::BrokerDestroy
    )
}

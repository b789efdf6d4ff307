//! Kafka's errors, with the operation that failed, sorted by what can be done about them.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use crate::model::ErrorKind;

/// An operation that Kafka, or its client, refused or could not finish.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{operation} failed")]
pub struct Error {
    operation: String,
    #[source]
    source: KafkaError,
}

impl Error {
    /// `operation` as in "`operation` failed", with the topic, group or bucket it was about.
    pub(super) fn new(operation: impl Into<String>, source: KafkaError) -> Self {
        Self { operation: operation.into(), source }
    }

    /// The operation that failed.
    #[must_use]
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// Kafka's own name for what went wrong, for instance `TopicAuthorizationFailed`.
    #[must_use]
    pub fn code(&self) -> String {
        self.source.rdkafka_error_code().map_or_else(|| "Client".to_owned(), |code| format!("{code:?}"))
    }

    /// librdkafka's error code, where there is one.
    pub(super) fn rdkafka_code(&self) -> Option<Code> {
        self.source.rdkafka_error_code()
    }

    /// Whether the broker refused for want of permission.
    #[must_use]
    pub fn is_authorization(&self) -> bool {
        self.rdkafka_code().is_some_and(is_authorization)
    }

    /// Whether the client's own queue had no room; nothing was sent.
    #[must_use]
    pub fn is_queue_full(&self) -> bool {
        self.rdkafka_code() == Some(Code::QueueFull)
    }

    /// Whether a record was given up because its delivery time-out passed.
    #[must_use]
    pub fn is_delivery_timeout(&self) -> bool {
        self.rdkafka_code() == Some(Code::MessageTimedOut)
    }

    /// Whether the coordinator does not know this member of the group any more.
    #[must_use]
    pub fn is_unknown_member(&self) -> bool {
        self.rdkafka_code() == Some(Code::UnknownMemberId)
    }

    /// Whether the group is rebalancing, or has just done so.
    #[must_use]
    pub fn is_rebalance(&self) -> bool {
        matches!(self.rdkafka_code(), Some(Code::IllegalGeneration | Code::RebalanceInProgress))
    }

    /// Whether it is the record itself that was refused, by its size or contents.
    #[must_use]
    pub fn blames_record(&self) -> bool {
        matches!(
            self.rdkafka_code(),
            Some(
                Code::MessageSizeTooLarge
                    | Code::InvalidMessageSize
                    | Code::InvalidMessage
                    | Code::InvalidRecord
                    | Code::PolicyViolation
            )
        )
    }

    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match (&self.source, self.rdkafka_code()) {
            (KafkaError::Transaction(error), _) if error.is_fatal() => ErrorKind::Fatal,
            (_, Some(code)) => kind_of(code),
            (KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_), None) => ErrorKind::Invalid,
            _ => ErrorKind::Retryable,
        }
    }
}

/// Whether polling on cannot help: the client is broken, or the broker refuses.
pub(super) fn is_lasting(error: &KafkaError) -> bool {
    match error {
        KafkaError::MessageConsumptionFatal(_) => true,
        other => other.rdkafka_error_code().is_some_and(|code| {
            is_authorization(code) || matches!(code, Code::UnknownTopicOrPartition | Code::UnknownPartition)
        }),
    }
}

/// Whether asking again finds the group's coordinator.
pub(super) fn coordinator_moves(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(Code::NotCoordinator | Code::CoordinatorNotAvailable | Code::CoordinatorLoadInProgress)
    )
}

pub(super) fn is_authorization(code: Code) -> bool {
    matches!(
        code,
        Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
    )
}

/// What can be done about an error code.
pub(super) fn kind_of(code: Code) -> ErrorKind {
    match code {
        Code::Fatal
        | Code::CriticalSystemResource
        | Code::UnsupportedVersion
        | Code::SaslAuthenticationFailed => ErrorKind::Fatal,
        Code::InvalidProducerEpoch | Code::ProducerFenced | Code::Fenced | Code::FencedInstanceId => {
            ErrorKind::Fenced
        }
        Code::MessageSizeTooLarge
        | Code::InvalidMessageSize
        | Code::InvalidArgument
        | Code::InvalidRecord
        | Code::UnknownTopicOrPartition
        | Code::UnknownTopic
        | Code::UnknownPartition => ErrorKind::Invalid,
        code if is_authorization(code) => ErrorKind::Invalid,
        _ => ErrorKind::Retryable,
    }
}

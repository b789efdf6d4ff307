//! How publishing fails. Every error gives its message back.

use std::time::Duration;

use super::Receipt;
use crate::{
    kafka,
    model::{Bucket, ErrorKind, Message},
};

/// Why a publisher could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client to Kafka could not be created.
    #[error("the publisher could not be started; check `kafka.properties` and `publisher`")]
    Start(#[source] Box<kafka::Error>),
}

/// Why a message was not published, with the message.
///
/// It always has an id, its own or one that the publisher gave it: publish it again as it is, and it keeps
/// that id. Unless it was refused at once ([`TooLarge`](Self::TooLarge), [`NoRoom`](Self::NoRoom),
/// [`Superseded`](Self::Superseded), [`Closed`](Self::Closed)), Kafka may have it all the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// It is larger than the topic takes. Nothing was sent.
    #[error(
        "message {} takes up to {size} bytes as a record, and the topic takes {limit}; send less data, or raise \
         the topic's max.message.bytes",
        id_of(.message)
    )]
    TooLarge {
        /// The message.
        message: Box<Message>,
        /// Its size as a record alone in its batch, uncompressed, in bytes: an upper bound.
        size: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// There was no room for it for as long as the delivery time-out. Nothing was sent.
    #[error(
        "message {} was not accepted: {} s went by without room for it, since Kafka does not take the earlier ones",
        id_of(.message),
        .waited.as_secs_f64()
    )]
    NoRoom {
        /// The message.
        message: Box<Message>,
        /// How long it waited.
        waited: Duration,
    },
    /// Kafka did not acknowledge it within the delivery time-out.
    #[error("message {} was not acknowledged by Kafka within {} s", id_of(.message), .timeout.as_secs_f64())]
    TimedOut {
        /// The message.
        message: Box<Message>,
        /// The delivery time-out.
        timeout: Duration,
        /// In Kafka's words.
        #[source]
        source: Box<kafka::Error>,
    },
    /// Kafka, or its client, refused it.
    #[error("message {} was refused by Kafka", id_of(.message))]
    Kafka {
        /// The message.
        message: Box<Message>,
        /// In Kafka's words.
        #[source]
        source: Box<kafka::Error>,
    },
    /// An earlier message of the same resource failed; to keep their order, this one is given back too.
    #[error(
        "message {} is given back because the earlier message {failed} of its resource {} failed; publish \
         that one again first",
        id_of(.message),
        .message.resource()
    )]
    AfterFailed {
        /// The message.
        message: Box<Message>,
        /// The id of the earlier message.
        failed: String,
    },
    /// A message to all buckets did not reach some of them.
    #[error("message {} did not reach {}", id_of(.message), buckets_of(.failures))]
    PartlyFailed {
        /// The message.
        message: Box<Message>,
        /// The buckets that it did not reach, and why; at least one, by bucket.
        failures: Vec<(Bucket, kafka::Error)>,
        /// Where it was written, by bucket.
        receipts: Vec<Receipt>,
    },
    /// It is a state that was given back before, and a newer one of its key has been accepted since. Nothing
    /// was sent: it would have replaced the newer value. There is nothing left to do about it.
    ///
    /// A state is known again by its key and its id; the publisher remembers the latest 10,000 that it gave
    /// back. One that it has forgotten is sent.
    #[error("state {} is superseded: a newer one of its key was accepted meanwhile", id_of(.message))]
    Superseded {
        /// The message.
        message: Box<Message>,
    },
    /// The publisher was closed.
    #[error("message {} was not published: the publisher is closed", id_of(.message))]
    Closed {
        /// The message.
        message: Box<Message>,
    },
}

impl PublishError {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooLarge { .. } | Self::Superseded { .. } => ErrorKind::Invalid,
            Self::NoRoom { .. } | Self::TimedOut { .. } | Self::AfterFailed { .. } => ErrorKind::Retryable,
            Self::Kafka { source, .. } => kind_of(source),
            Self::PartlyFailed { failures, .. } => failures
                .iter()
                .map(|(_, error)| kind_of(error))
                .max_by_key(|kind| match kind {
                    ErrorKind::Fatal => 2,
                    ErrorKind::Retryable => 1,
                    _ => 0,
                })
                .unwrap_or(ErrorKind::Retryable),
            Self::Closed { .. } => ErrorKind::Fatal,
        }
    }

    /// The message's id.
    #[must_use]
    pub fn id(&self) -> &str {
        id_of(self.message())
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &Message {
        match self {
            Self::TooLarge { message, .. }
            | Self::NoRoom { message, .. }
            | Self::TimedOut { message, .. }
            | Self::Kafka { message, .. }
            | Self::AfterFailed { message, .. }
            | Self::PartlyFailed { message, .. }
            | Self::Superseded { message }
            | Self::Closed { message } => message,
        }
    }

    /// Gives the message back, to be published again as it is.
    #[must_use]
    pub fn into_message(self) -> Message {
        match self {
            Self::TooLarge { message, .. }
            | Self::NoRoom { message, .. }
            | Self::TimedOut { message, .. }
            | Self::Kafka { message, .. }
            | Self::AfterFailed { message, .. }
            | Self::PartlyFailed { message, .. }
            | Self::Superseded { message }
            | Self::Closed { message } => *message,
        }
    }
}

/// Why [`Publisher::try_publish`](super::Publisher::try_publish) did not take a message, with the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// There is no room for it now. Nothing was sent.
    #[error("there is no room for message {} now; try again when others are answered", id_of(.0))]
    Full(Box<Message>),
    /// It would not have been taken with room either.
    #[error(transparent)]
    Failed(PublishError),
}

impl Refused {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Full(_) => ErrorKind::Retryable,
            Self::Failed(error) => error.kind(),
        }
    }

    /// Gives the message back, to be published again as it is.
    #[must_use]
    pub fn into_message(self) -> Message {
        match self {
            Self::Full(message) => *message,
            Self::Failed(error) => error.into_message(),
        }
    }
}

/// What can be done about a record's failure.
///
/// Kafka's "invalid" means here that the message itself is wrong only where Kafka says so; a topic that is
/// missing or may not be written has to be repaired, and the message is good.
fn kind_of(error: &kafka::Error) -> ErrorKind {
    match error.kind() {
        ErrorKind::Invalid if !error.blames_record() => ErrorKind::Fatal,
        ErrorKind::Fenced => ErrorKind::Fatal,
        kind => kind,
    }
}

fn id_of(message: &Message) -> &str {
    message.id().unwrap_or_default()
}

fn buckets_of(failures: &[(Bucket, kafka::Error)]) -> String {
    let buckets: Vec<String> = failures.iter().map(|(bucket, _)| bucket.to_string()).collect();
    let reason = failures.first().map_or_else(String::new, |(_, error)| error.code());
    format!("bucket {} ({reason})", buckets.join(", "))
}

//! Pods' writes: messages to the buckets of their resources, each answered when Kafka has it.
//!
//! Invariants: nothing is dropped in silence, every accepted message is answered exactly once; messages of
//! one resource are written in the order of acceptance, and when one fails, those accepted after it fail too;
//! a retry of a state never goes over a newer one; what is accepted and not answered is bounded, in records
//! and in bytes.
//!
//! It never publishes again by itself beyond the delivery time-out: whether to, is the caller's to say. Since
//! Kafka may have a message whose publishing failed, publishing it again may repeat it.

mod config;
mod error;
mod ledger;
mod order;
mod receipt;
mod room;
mod shared;
mod superseded;
#[cfg(test)]
mod tests;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

pub use config::Config;
pub use error::{Error, PublishError, Refused};
pub use receipt::{Pending, Receipt};

use self::{
    ledger::Reply,
    room::NoRoom,
    shared::{NotSent, Prepared, Shared},
};
use crate::{kafka, model::Message, telemetry::Metrics};

/// How long a message waits before it is tried again when the client's own queue is full.
const QUEUE_FULL_WAIT: Duration = Duration::from_millis(10);

/// Publishes messages. Clones share one producer, its room and its order.
///
/// When the last clone is dropped without [`Publisher::close`], what was accepted still goes out in the
/// background, for as long as the process lives and the delivery time-out allows.
#[derive(Debug, Clone)]
pub struct Publisher {
    shared: Arc<Shared>,
}

impl Publisher {
    /// Starts a publisher. No broker is asked for anything yet.
    ///
    /// # Errors
    /// [`Error::Start`] when the client to Kafka cannot be created, for instance because the linger is longer
    /// than the delivery time-out.
    pub fn start(config: Config, kafka: &kafka::Settings, metrics: Arc<Metrics>) -> Result<Self, Error> {
        let shared = Shared::start(config, kafka, metrics).map_err(|error| Error::Start(Box::new(error)))?;
        Ok(Self { shared })
    }

    /// What it was started with.
    #[must_use]
    pub fn config(&self) -> &Config {
        self.shared.config()
    }

    /// Publishes one message to its resource's bucket, and waits until all in-sync replicas have it.
    ///
    /// It takes at most twice the delivery time-out, once for room and once for Kafka, and about a second.
    /// Cancel safety: see [`Publisher::enqueue`]; once accepted, the message goes out all the same.
    ///
    /// # Errors
    /// [`PublishError`], which gives the message back.
    pub async fn publish(&self, message: Message) -> Result<Receipt, PublishError> {
        self.enqueue(message).await?.await
    }

    /// Waits for room and accepts one message. The returned [`Pending`] is its answer.
    ///
    /// Messages are accepted, and those of one resource written, in the order in which their calls began to
    /// wait. Cancel safety: a call that is dropped before it returns has accepted nothing, and drops the
    /// message.
    ///
    /// # Errors
    /// [`PublishError::TooLarge`] at once, [`PublishError::NoRoom`] after the delivery time-out,
    /// [`PublishError::Superseded`] and [`PublishError::Closed`].
    pub async fn enqueue(&self, message: Message) -> Result<Pending, PublishError> {
        let prepared = self.prepare(message, false)?;
        let (sender, answer) = tokio::sync::oneshot::channel();
        self.accept(prepared, Reply::One(sender)).await?;
        Ok(Pending::new(answer))
    }

    /// Accepts one message if there is room for it now, and no other is being accepted before it. It never
    /// waits.
    ///
    /// # Errors
    /// [`Refused::Full`] gives the message back; [`Refused::Failed`] as for [`Publisher::enqueue`].
    pub fn try_publish(&self, message: Message) -> Result<Pending, Refused> {
        let prepared = self.prepare(message, false).map_err(Refused::Failed)?;
        let (sender, answer) = tokio::sync::oneshot::channel();
        let (_turn, held) = match self.shared.room().take(prepared.records(), prepared.bytes()) {
            Ok(taken) => taken,
            Err(NoRoom::Full) => return Err(Refused::Full(self.shared.refused(prepared))),
            Err(NoRoom::Closed) => return Err(Refused::Failed(self.closed(prepared))),
        };
        match self.shared.send(prepared, held, Reply::One(sender)) {
            Ok(()) => Ok(Pending::new(answer)),
            Err(NotSent::QueueFull(prepared, ..)) => Err(Refused::Full(self.shared.refused(prepared))),
            Err(NotSent::Failed(error)) => Err(Refused::Failed(error)),
        }
    }

    /// Publishes one message to every bucket, and waits until all of them have it: one record each, of the
    /// same id, marked as a broadcast. It counts as one message for the order of its resource, and as one
    /// record per bucket for the room. Receipts come by bucket.
    ///
    /// Time and cancel safety are as for [`Publisher::publish`].
    ///
    /// # Errors
    /// [`PublishError::PartlyFailed`] says which buckets it did not reach and carries the receipts of the
    /// others; the rest are as for [`Publisher::publish`].
    pub async fn publish_to_all_buckets(&self, message: Message) -> Result<Vec<Receipt>, PublishError> {
        self.enqueue_to_all_buckets(message).await?.await
    }

    /// Waits for room and accepts one message to every bucket; its answer is one receipt per bucket.
    ///
    /// Cancel safety is as for [`Publisher::enqueue`].
    ///
    /// # Errors
    /// As for [`Publisher::enqueue`].
    pub async fn enqueue_to_all_buckets(
        &self,
        message: Message,
    ) -> Result<Pending<Vec<Receipt>>, PublishError> {
        let prepared = self.prepare(message, true)?;
        let (sender, answer) = tokio::sync::oneshot::channel();
        self.accept(prepared, Reply::All(sender)).await?;
        Ok(Pending::new(answer))
    }

    /// The age of the oldest message that was accepted and is not yet answered.
    #[must_use]
    pub fn oldest_unanswered(&self) -> Option<Duration> {
        self.shared.oldest().map(|(_, since)| since.elapsed())
    }

    /// What broke the client for good, in its own words. Everything fails from then on: start anew.
    #[must_use]
    pub fn fatal_error(&self) -> Option<String> {
        self.shared.fatal_error()
    }

    /// Waits until every message accepted so far is answered, which takes at most the delivery time-out and
    /// about a second. Cancel safe.
    pub async fn flush(&self) {
        self.shared.flush().await;
    }

    /// Accepts nothing more, waits until everything accepted is answered, and ends the client.
    ///
    /// Those who wait for room get [`PublishError::Closed`] at once, as does every later call. It takes at most
    /// the delivery time-out and about a second. Cancel safety: dropped on its way, it accepts nothing more,
    /// and can be called again.
    pub async fn close(&self) {
        self.shared.close().await;
    }

    fn prepare(&self, message: Message, to_all: bool) -> Result<Prepared, PublishError> {
        Prepared::new(message, to_all, self.config()).map_err(|error| self.shared.counted(error))
    }

    fn closed(&self, prepared: Prepared) -> PublishError {
        self.shared.counted(PublishError::Closed { message: prepared.into_message() })
    }

    /// Waits for room and sends.
    async fn accept(&self, mut prepared: Prepared, mut reply: Reply) -> Result<(), PublishError> {
        let began = Instant::now();
        let patience = self.config().delivery_timeout;
        let waiting = self.shared.room().wait(prepared.records(), prepared.bytes());
        let (_turn, mut held) = match tokio::time::timeout(patience, waiting).await {
            Ok(Ok(taken)) => taken,
            Ok(Err(_)) => return Err(self.closed(prepared)),
            Err(_) => return Err(self.no_room(prepared, began.elapsed())),
        };
        loop {
            match self.shared.send(prepared, held, reply) {
                Ok(()) => return Ok(()),
                Err(NotSent::Failed(error)) => return Err(error),
                // It cannot happen with the limits that the client was given; if it does, turn and room are kept.
                Err(NotSent::QueueFull(back, room, sender)) => (prepared, held, reply) = (back, room, sender),
            }
            if began.elapsed() >= patience {
                return Err(self.no_room(prepared, began.elapsed()));
            }
            tokio::time::sleep(QUEUE_FULL_WAIT).await;
        }
    }

    fn no_room(&self, prepared: Prepared, waited: Duration) -> PublishError {
        let message = self.shared.refused(prepared);
        self.shared.counted(PublishError::NoRoom { message, waited })
    }
}

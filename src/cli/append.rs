//! Writing single records for `dead-letters replay`.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{Append, Error, Target};
use crate::{
    kafka::{self, Completion, Producer, ProducerSettings},
    model::{Outgoing, RecordOffset},
    telemetry::Metrics,
    topics,
};

/// The most bytes that are outstanding: one record at a time is written.
const OUTSTANDING: usize = 128 * 1024 * 1024;

/// A producer that answers each record.
pub(super) struct Appender {
    producer: Producer<Reply>,
}

struct Reply(oneshot::Sender<Result<RecordOffset, kafka::Error>>);

impl Completion for Reply {
    fn complete(self, result: Result<RecordOffset, kafka::Error>) {
        if self.0.send(result).is_err() {
            tracing::debug!("a record was written after its command had ended");
        }
    }
}

impl Appender {
    /// Connects, after verifying the topics.
    pub(super) async fn new(target: &Target) -> Result<Self, Error> {
        let config = topics::Config {
            bus: target.bus.clone(),
            buckets: target.buckets,
            slots: target.slots,
            create: false,
            replication_factor: target.replication_factor,
        };
        let verified = topics::verify(&config, &target.kafka, target.timeout).await?;
        let settings = ProducerSettings {
            delivery_timeout: target.timeout.max(Duration::from_secs(1)),
            linger: Duration::ZERO,
            max_message_bytes: verified.notification_limit,
            max_records: 16,
            max_bytes: OUTSTANDING,
        };
        let metrics = Arc::new(Metrics::new().map_err(|_| Error::Interrupted)?);
        Ok(Self { producer: Producer::new(&target.kafka, &settings, metrics, || {})? })
    }
}

impl Append for Appender {
    async fn append(&self, topic: &str, outgoing: Outgoing) -> Result<RecordOffset, kafka::Error> {
        let (reply, answer) = oneshot::channel();
        self.producer.send(topic, &outgoing, Reply(reply)).map_err(|unsent| unsent.error)?;
        match answer.await {
            Ok(result) => result,
            // The producer answers every record, also when it is dropped; this one is alive.
            Err(_) => std::future::pending().await,
        }
    }
}

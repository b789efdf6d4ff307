//! The idempotent producer: records to explicit partitions, each with a completion that is told how it ended.
//!
//! Invariants: a completion of an accepted record is called exactly once, also when the producer is dropped
//! or its delivery time-out passes; calls of one partition come in the order of sending, as far as the
//! records were written; an empty payload stays an empty value.
//!
//! It does not bound what is sent to it, nor keep records of one resource in order beyond a failure: both
//! are `publisher`'s part.

#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientContext, Message as _,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode as Code},
    message::{BorrowedMessage, DeliveryResult},
    producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext, PurgeConfig},
};

use super::{
    Error, Settings,
    client::{self, Context},
    record,
};
use crate::{
    model::{Outgoing, RecordOffset},
    telemetry::Metrics,
};

/// How long one call to librdkafka waits for reports; also how late a dropped producer is noticed.
const POLL: Duration = Duration::from_millis(100);

/// How long a dropped producer waits for the reports of what it withdrew: librdkafka gives them at once.
const LAST_REPORTS: Duration = Duration::from_secs(10);

/// What librdkafka's own estimate of a record's size may add to ours, in bytes.
const SIZE_SLACK: usize = 4096;

/// librdkafka's default for `batch.size`.
const BATCH_SIZE: usize = 1_000_000;

/// How a producer works.
#[derive(Debug, Clone, Copy)]
pub struct ProducerSettings {
    /// How long a record may wait for its acknowledgement before it fails; whole milliseconds.
    pub delivery_timeout: Duration,
    /// How long a record may wait for others to share its batch.
    pub linger: Duration,
    /// The topic's own limit for a batch, in bytes; no batch of several records is larger.
    pub max_message_bytes: usize,
    /// How many records the caller will have outstanding at most.
    pub max_records: usize,
    /// How many bytes of them, keys and headers included.
    pub max_bytes: usize,
}

/// Told how one record ended.
///
/// It is called on the producer's own thread, so it must neither block nor panic.
pub trait Completion: Send + Sync + 'static {
    /// Called once: with the record's offset when all in-sync replicas have it, else with what went wrong; in
    /// that case Kafka may have the record all the same.
    fn complete(self, result: Result<RecordOffset, Error>);
}

/// A record that was not taken, with its completion, which was not called.
#[derive(Debug)]
pub struct Unsent<C> {
    /// Why.
    pub error: Error,
    /// As it was given.
    pub completion: C,
}

/// An idempotent producer with acknowledgement by all in-sync replicas.
///
/// Dropping it does not block: what is outstanding is withdrawn and told so, on the producer's thread.
pub struct Producer<C: Completion> {
    // In this order: the thread is to hold the last reference, since dropping that one blocks.
    client: Arc<BaseProducer<Reports<C>>>,
    _stop: StopOnDrop,
}

/// Ends the producer's thread.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl<C: Completion> Producer<C> {
    /// Creates the client and its thread; no broker is asked for anything.
    ///
    /// `on_end` is called on that thread when the producer was dropped, after the last completion. Client
    /// errors are counted in `metrics`.
    ///
    /// # Errors
    /// When librdkafka does not take its settings, or the thread cannot be started.
    pub fn new(
        settings: &Settings,
        producer: &ProducerSettings,
        metrics: Arc<Metrics>,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Error> {
        let failed = |error| Error::new("creating the producer", error);
        let context = Reports { client: Context::new(Some(metrics)), completions: std::marker::PhantomData };
        let client: BaseProducer<Reports<C>> =
            configured(settings, producer).create_with_context(context).map_err(failed)?;
        let (client, stop) = (Arc::new(client), Arc::new(AtomicBool::new(false)));
        let (polled, stopped) = (Arc::clone(&client), Arc::clone(&stop));
        thread::Builder::new()
            .name("producer".to_owned())
            .spawn(move || {
                while !stopped.load(Ordering::Acquire) {
                    polled.poll(POLL);
                }
                withdraw(&polled);
                drop(polled);
                on_end();
            })
            .map_err(|error| failed(KafkaError::ClientCreation(format!("no thread for it: {error}"))))?;
        Ok(Self { client, _stop: StopOnDrop(stop) })
    }

    /// Queues one record for its bucket's partition of `topic`. It never blocks.
    ///
    /// # Errors
    /// [`Unsent`], with the completion, when the client's queue is full ([`Error::is_queue_full`]), the client
    /// is broken, or the record is larger than the client takes.
    pub fn send(&self, topic: &str, outgoing: &Outgoing, completion: C) -> Result<(), Unsent<C>> {
        let mut message: BaseRecord<'_, [u8], [u8], Box<C>> =
            BaseRecord::with_opaque_to(topic, Box::new(completion))
                .partition(outgoing.bucket.partition())
                .headers(record::headers(&outgoing.headers));
        message.key = outgoing.key.as_deref();
        // A slice's address is never null, so an empty payload is not a null one.
        message.payload = outgoing.payload.as_deref();
        self.client.send(message).map_err(|(error, message)| Unsent {
            error: Error::new(format!("sending to {topic}-{}", outgoing.bucket), error),
            completion: *message.delivery_opaque,
        })
    }

    /// What broke the client for good, in librdkafka's words; every record fails from then on.
    #[must_use]
    pub fn fatal_error(&self) -> Option<String> {
        self.client.client().fatal_error().map(|(code, reason)| format!("{code:?}: {reason}"))
    }
}

impl<C: Completion> std::fmt::Debug for Producer<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("in_flight", &self.client.in_flight_count()).finish_non_exhaustive()
    }
}

fn configured(settings: &Settings, producer: &ProducerSettings) -> rdkafka::ClientConfig {
    let mut config = settings.client();
    // A batch as large as the topic's limit is refused whole, so small records must not add up to more.
    let wanted = config.get("batch.size").and_then(|size| size.parse().ok()).unwrap_or(BATCH_SIZE);
    let limit = |size: usize| size.min(1_000_000_000).to_string();
    // librdkafka's queue must not be full before the caller's own bounds are reached; it counts in KiB.
    let records = producer.max_records.saturating_mul(2).saturating_add(8192);
    let kbytes = producer.max_bytes.saturating_mul(2).saturating_add(producer.max_message_bytes) / 1024;
    config
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("message.timeout.ms", producer.delivery_timeout.as_millis().to_string())
        .set("linger.ms", format!("{:.3}", producer.linger.as_secs_f64() * 1000.0))
        .set("message.max.bytes", limit(producer.max_message_bytes.saturating_add(SIZE_SLACK)))
        .set("batch.size", limit(wanted.min(producer.max_message_bytes).max(1)))
        .set("queue.buffering.max.messages", records.min(2_000_000_000).to_string())
        .set("queue.buffering.max.kbytes", kbytes.saturating_add(65_536).min(2_000_000_000).to_string());
    config
}

/// Takes back what is queued or on its way, and serves the reports about it.
fn withdraw<C: Completion>(client: &BaseProducer<Reports<C>>) {
    client.purge(PurgeConfig::default().queue().inflight());
    let deadline = Instant::now() + LAST_REPORTS;
    while client.in_flight_count() > 0 {
        client.poll(Duration::from_millis(1));
        if Instant::now() >= deadline {
            tracing::warn!(records = client.in_flight_count(), "producer ended without their reports");
            return;
        }
    }
}

/// Hands delivery reports to the completions.
struct Reports<C> {
    client: Context,
    completions: std::marker::PhantomData<fn(C)>,
}

impl<C: Completion> ClientContext for Reports<C> {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        client::log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.client.report(&error, reason);
    }

    fn stats_raw(&self, _: &[u8]) {}
}

impl<C: Completion> ProducerContext for Reports<C> {
    type DeliveryOpaque = Box<C>;

    fn delivery(&self, result: &DeliveryResult<'_>, completion: Box<C>) {
        let result = match result {
            // A retry of what the broker had already written and forgotten succeeds without an offset.
            Ok(message) => RecordOffset::new(message.offset())
                .ok_or_else(|| failed(message, KafkaError::MessageProduction(Code::NoOffset))),
            Err((error, message)) => Err(failed(message, error.clone())),
        };
        completion.complete(result);
    }
}

fn failed(message: &BorrowedMessage<'_>, error: KafkaError) -> Error {
    Error::new(format!("writing to {}-{}", message.topic(), message.partition()), error)
}

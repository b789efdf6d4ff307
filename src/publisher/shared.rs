//! What all clones of a publisher share, and what the producer's thread answers to.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Instant,
};

use prometheus::IntCounter;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    Config, PublishError,
    ledger::{Accepted, Finished, Ledger, Reply},
    room::{Held, Room},
};
use crate::{
    kafka::{self, Completion, Producer, ProducerSettings},
    model::{Bucket, ErrorKind, Kind, Message, Outgoing, RecordOffset},
    telemetry::Metrics,
};

/// The state of a publisher.
#[derive(Debug)]
pub(super) struct Shared {
    config: Config,
    topic: String,
    room: Room,
    metrics: Arc<Metrics>,
    failed: Failed,
    /// Held while records are handed to the producer, so that they go out in the order of their numbers.
    state: Mutex<State>,
    /// Told after every answer.
    answered: Notify,
    /// Set when the client has ended.
    ended: CancellationToken,
}

#[derive(Debug)]
struct State {
    ledger: Ledger,
    /// `None` before the start and after the close. Outstanding messages keep it alive, through their
    /// completions.
    producer: Option<Producer<Delivery>>,
    closing: bool,
}

/// Counters of failures, resolved.
#[derive(Debug)]
struct Failed {
    retryable: IntCounter,
    fatal: IntCounter,
    fenced: IntCounter,
    invalid: IntCounter,
}

/// A message with its records, encoded.
#[derive(Debug)]
pub(super) struct Prepared {
    message: Box<Message>,
    state_key: Option<Arc<str>>,
    records: Vec<Outgoing>,
    bytes: usize,
}

/// Why a message was not sent.
#[derive(Debug)]
pub(super) enum NotSent {
    /// The client's own queue is full; everything is given back.
    QueueFull(Prepared, Held, Reply),
    /// It must not be sent.
    Failed(PublishError),
}

impl Prepared {
    /// Encodes a message, and gives it an id if it has none.
    pub(super) fn new(message: Message, to_all: bool, config: &Config) -> Result<Self, PublishError> {
        let mut message = Box::new(message);
        message.id_or_insert(|| uuid::Uuid::now_v7().to_string());
        let time = format!("{:.3}", jiff::Timestamp::now());
        let records: Vec<Outgoing> = if to_all {
            message.encode_broadcast(&config.name, config.buckets, &time).collect()
        } else {
            vec![message.encode(&config.name, config.buckets, &time)]
        };
        let size = records.iter().map(Outgoing::wire_size).max().unwrap_or(0);
        if size > config.max_message_bytes {
            return Err(PublishError::TooLarge { message, size, limit: config.max_message_bytes });
        }
        let bytes = records.iter().map(Outgoing::wire_size).sum();
        let state_key = (message.kind() == Kind::State).then(|| message.key(&config.name).into());
        Ok(Self { message, state_key, records, bytes })
    }

    pub(super) fn records(&self) -> usize {
        self.records.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn into_message(self) -> Box<Message> {
        self.message
    }
}

impl Shared {
    pub(super) fn start(
        config: Config,
        kafka: &kafka::Settings,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<Self>, kafka::Error> {
        let settings = ProducerSettings {
            delivery_timeout: config.delivery_timeout,
            linger: config.linger,
            max_message_bytes: config.max_message_bytes,
            // A broadcast that is larger than the room is let in alone, but all of it is sent.
            max_records: config.max_records.saturating_add(usize::from(config.buckets.count())),
            max_bytes: config
                .max_bytes
                .saturating_add(config.max_message_bytes.saturating_mul(config.buckets.count().into())),
        };
        let shared = Arc::new(Self {
            topic: config.bus.notifications(),
            room: Room::new(config.max_records, config.max_bytes),
            failed: Failed::new(&metrics),
            metrics: Arc::clone(&metrics),
            state: Mutex::new(State { ledger: Ledger::new(), producer: None, closing: false }),
            answered: Notify::new(),
            ended: CancellationToken::new(),
            config,
        });
        let (weak, ended) = (Arc::downgrade(&shared), shared.ended.clone());
        let producer = Producer::new(kafka, &settings, metrics, move || {
            Self::client_ended(&weak);
            ended.cancel();
        })?;
        shared.state().producer = Some(producer);
        Ok(shared)
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    pub(super) fn oldest(&self) -> Option<(u64, Instant)> {
        self.state().ledger.oldest()
    }

    pub(super) fn fatal_error(&self) -> Option<String> {
        self.state().producer.as_ref().and_then(Producer::fatal_error)
    }

    /// Accepts a message and hands its records to the producer, or does neither.
    pub(super) fn send(
        self: &Arc<Self>,
        prepared: Prepared,
        room: Held,
        reply: Reply,
    ) -> Result<(), NotSent> {
        let mut state = self.state();
        if state.ledger.is_superseded(prepared.state_key.as_ref(), &prepared.message) {
            let message = prepared.message;
            return Err(NotSent::Failed(self.counted(PublishError::Superseded { message })));
        }
        let Some(producer) = state.producer.as_ref().filter(|_| !state.closing) else {
            let message = prepared.message;
            return Err(NotSent::Failed(self.counted(PublishError::Closed { message })));
        };
        let number = state.ledger.next();
        let mut refused = Vec::new();
        for (index, record) in prepared.records.iter().enumerate() {
            let bucket = record.bucket;
            let delivery = Delivery { shared: Arc::clone(self), number, bucket };
            match producer.send(&self.topic, record, delivery) {
                Ok(()) => {}
                Err(unsent) if index == 0 && unsent.error.is_queue_full() => {
                    return Err(NotSent::QueueFull(prepared, room, reply));
                }
                Err(unsent) => refused.push((bucket, unsent.error)),
            }
        }
        let Prepared { message, state_key, records, bytes } = prepared;
        let records = records.len();
        self.metrics.publish_outstanding_records.add(gauge(records));
        self.metrics.publish_outstanding_bytes.add(gauge(bytes));
        // No answer can have come before this: answers need the lock.
        let accepted = Accepted { message, state_key, records, bytes, reply, room };
        state.ledger.accept(accepted, Instant::now());
        for (bucket, error) in refused {
            self.answer(&mut state, number, bucket, Err(error));
        }
        Ok(())
    }

    /// A message is given back because there is no room for it.
    pub(super) fn refused(&self, prepared: Prepared) -> Box<Message> {
        self.state().ledger.refuse(prepared.state_key.as_ref(), &prepared.message);
        prepared.message
    }

    /// Counts an error that is about to be returned.
    pub(super) fn counted(&self, error: PublishError) -> PublishError {
        self.failed.of(error.kind()).inc();
        error
    }

    pub(super) async fn flush(&self) {
        let target = self.state().ledger.next();
        loop {
            let mut answered = std::pin::pin!(self.answered.notified());
            answered.as_mut().enable(); // before looking, so that no answer is missed
            if self.oldest().is_none_or(|(number, _)| number >= target) {
                return;
            }
            answered.await;
        }
    }

    pub(super) async fn close(&self) {
        self.state().closing = true;
        self.room.close();
        self.flush().await;
        drop(self.state().producer.take());
        self.ended.cancelled().await;
    }

    fn answer(
        &self,
        state: &mut State,
        number: u64,
        bucket: Bucket,
        result: Result<RecordOffset, kafka::Error>,
    ) {
        let now = Instant::now();
        let finished = state.ledger.answer(number, bucket, result, self.config.delivery_timeout, now);
        if let Some(finished) = finished {
            self.count(&finished); // first: whoever is told finds the metrics right
            finished.tell();
            self.answered.notify_waiters();
        }
    }

    fn count(&self, finished: &Finished) {
        let metrics = &self.metrics;
        metrics.publish_outstanding_records.sub(gauge(finished.records));
        metrics.publish_outstanding_bytes.sub(gauge(finished.bytes));
        metrics.published.inc_by(u64::try_from(finished.written).unwrap_or(u64::MAX));
        match finished.failed {
            None => metrics.publish_seconds.observe(finished.took.as_secs_f64()),
            Some(kind) => self.failed.of(kind).inc(),
        }
    }

    /// Whatever the client never reported is answered now. There is no such thing, as far as is known.
    fn client_ended(shared: &Weak<Self>) {
        if let Some(shared) = shared.upgrade() {
            let left = shared.state().ledger.abandon();
            drop(left);
            shared.answered.notify_waiters();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failed {
    fn new(metrics: &Metrics) -> Self {
        let of = |kind: ErrorKind| metrics.publish_failed.with_label_values(&[kind.as_str()]);
        Self {
            retryable: of(ErrorKind::Retryable),
            fatal: of(ErrorKind::Fatal),
            fenced: of(ErrorKind::Fenced),
            invalid: of(ErrorKind::Invalid),
        }
    }

    fn of(&self, kind: ErrorKind) -> &IntCounter {
        match kind {
            ErrorKind::Retryable => &self.retryable,
            ErrorKind::Fatal => &self.fatal,
            ErrorKind::Fenced => &self.fenced,
            ErrorKind::Invalid => &self.invalid,
        }
    }
}

fn gauge(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// One record's way back.
#[derive(Debug)]
struct Delivery {
    shared: Arc<Shared>,
    number: u64,
    bucket: Bucket,
}

impl Completion for Delivery {
    fn complete(self, result: Result<RecordOffset, kafka::Error>) {
        let mut state = self.shared.state();
        self.shared.answer(&mut state, self.number, self.bucket, result);
    }
}

//! A bucket's transactional producer: one offset with its metadata, and records, all or nothing.
//!
//! Every call blocks; it belongs on a thread of its own. Whether a transaction that failed took effect is
//! said as exactly as Kafka allows: aborted for certain, or unknown, and then only the committed offset tells.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode as Code},
    message::DeliveryResult,
    producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext, PurgeConfig},
};

use super::{Committed, Error, GroupMetadata, Settings, client, client::Context, record};
use crate::{
    model::{Bucket, NextOffset, Outgoing},
    telemetry::Metrics,
};

/// After how long the broker ends a transaction by itself. Takeovers behind a stopped owner rest on it.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a commit or an abort is asked for, again and again, before its outcome counts as unknown.
const PATIENCE: Duration = Duration::from_secs(12);

/// How long one blocking call may take.
const CALL: Duration = Duration::from_secs(3);

/// What goes out together.
#[derive(Debug)]
pub struct Transaction<'a> {
    /// The topic and bucket whose offset is committed.
    pub topic: &'a str,
    /// The bucket.
    pub bucket: Bucket,
    /// The offset and its metadata: always sent, moved or not, since it is what fences.
    pub committed: Committed,
    /// What the coordinator knows the owner by, from a callback.
    pub group: &'a GroupMetadata,
    /// Records, each with its topic.
    pub records: &'a [(String, Outgoing)],
}

/// Why one record cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It is larger than its topic takes.
    TooLarge,
    /// Its topic does not exist, or may not be written by this client.
    NotAllowed,
    /// Kafka refuses its contents.
    Invalid,
}

/// How a transaction failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransactionError {
    /// The group is rebalancing. Nothing took effect.
    #[error("the group is rebalancing")]
    Rebalancing(#[source] Error),
    /// The coordinator does not know this member any more. Nothing took effect.
    #[error("the coordinator does not know this member")]
    UnknownMember(#[source] Error),
    /// One record cannot be written. Nothing took effect.
    #[error("record {index} of the transaction was refused")]
    Refused {
        /// Which record.
        index: usize,
        /// Why.
        refusal: Refusal,
        /// In Kafka's words.
        #[source]
        error: Error,
    },
    /// Nothing took effect; the same producer can try again.
    #[error("the transaction was aborted")]
    Aborted(#[source] Error),
    /// Nobody knows whether it took effect, and the producer is of no more use.
    #[error("the outcome of the transaction is unknown")]
    Unknown {
        /// Whether another producer has taken the transactional id.
        fenced: bool,
        /// In Kafka's words.
        #[source]
        error: Error,
    },
}

impl TransactionError {
    /// What Kafka, or its client, said.
    #[must_use]
    pub fn cause(&self) -> &Error {
        match self {
            Self::Rebalancing(error) | Self::UnknownMember(error) | Self::Aborted(error) => error,
            Self::Refused { error, .. } | Self::Unknown { error, .. } => error,
        }
    }
}

/// A producer with a bucket's transactional id.
pub struct TransactionalProducer {
    producer: BaseProducer<ReportContext>,
    id: String,
}

impl TransactionalProducer {
    /// Creates the client; nothing is fenced before [`TransactionalProducer::init`].
    ///
    /// `batch_limit` is the smallest `max.message.bytes` of the topics that are written, in bytes: no batch
    /// is larger, so that small records are never refused for their neighbours' sake.
    ///
    /// # Errors
    /// When librdkafka does not take its settings.
    pub fn new(
        settings: &Settings,
        id: &str,
        batch_limit: usize,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Error> {
        let mut config = settings.client();
        config
            .set("transactional.id", id)
            .set("transaction.timeout.ms", TRANSACTION_TIMEOUT.as_millis().to_string())
            .set("acks", "all")
            .set("linger.ms", "0")
            .set("batch.size", batch_limit.clamp(1024, 1_000_000).to_string())
            // The broker judges the size of a record by its topic; this only must not be smaller.
            .set("message.max.bytes", "1000000000")
            // Between transactions of one id the coordinator answers CONCURRENT_TRANSACTIONS for some
            // milliseconds; the default of 100 ms would make every transaction that long.
            .set("retry.backoff.ms", "5")
            .set("retry.backoff.max.ms", "500");
        let context = ReportContext { client: Context::new(Some(metrics)), refused: Mutex::new(None) };
        let producer = config
            .create_with_context(context)
            .map_err(|error| Error::new(format!("creating producer {id}"), error))?;
        Ok(Self { producer, id: id.to_owned() })
    }

    /// Shuts out every former producer of this id, and ends what it had open. Returns when that has ended.
    /// `topic` is any topic that exists.
    ///
    /// # Errors
    /// [`TransactionError::Aborted`] when it can be tried again, [`TransactionError::Unknown`] when the
    /// producer is of no more use.
    pub fn init(&self, topic: &str, timeout: Duration) -> Result<(), TransactionError> {
        let deadline = Instant::now() + timeout;
        self.connect(topic);
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).min(CALL);
            match self.producer.init_transactions(left) {
                Ok(()) => return Ok(()),
                Err(error) if is_retriable(&error) && Instant::now() < deadline => self.serve(),
                Err(error) if is_fatal(&error) => {
                    return Err(self.unknown("initialising", error));
                }
                Err(error) => return Err(TransactionError::Aborted(self.failed("initialising", error))),
            }
        }
    }

    /// Waits until the client has a lasting connection.
    ///
    /// librdkafka drops its bootstrap connection as soon as it knows the brokers by number, and a question for
    /// the coordinator that falls in between is asked again 500 ms later: in two of five initialisations. The
    /// first answer brings the numbers, the second one comes over the lasting connection.
    fn connect(&self, topic: &str) {
        for _ in 0..2 {
            if let Err(error) = self.producer.client().fetch_metadata(Some(topic), CALL) {
                tracing::debug!(%error, "no metadata yet"); // initialising says what is wrong
            }
            self.serve();
        }
    }

    /// Writes everything of `transaction`, or nothing.
    ///
    /// # Errors
    /// See [`TransactionError`]. After `Unknown` this producer must be dropped.
    pub fn run(&self, transaction: &Transaction<'_>) -> Result<(), TransactionError> {
        self.context().refused().take();
        self.producer.begin_transaction().map_err(|error| self.unknown("beginning", error))?;
        match self.fill(transaction) {
            Ok(()) => self.commit(),
            Err(failure) => self.abort(failure),
        }
    }

    /// Begins a transaction with an offset, as a stranger to `group`, and aborts it: what fails is what this user may
    /// not do. Until the abort the offset of `topic` and `bucket` is pending, so they must be ones that nobody reads.
    ///
    /// It may block for longer than its time-outs: librdkafka looks for the group's coordinator without one.
    ///
    /// # Errors
    /// As [`TransactionalProducer::run`], but for the rebalances of a group that was joined.
    pub fn rehearse(
        &self,
        settings: &Settings,
        group: &str,
        (topic, bucket): (&str, Bucket),
    ) -> Result<(), TransactionError> {
        let stranger: BaseConsumer = settings
            .client()
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .create()
            .map_err(|error| TransactionError::Aborted(self.failed("creating a consumer", error)))?;
        let group = stranger.group_metadata().ok_or_else(|| {
            let error = KafkaError::ClientCreation("it has no group".to_owned());
            TransactionError::Aborted(self.failed("naming the group", error))
        })?;
        let committed = Committed { offset: NextOffset::ZERO, metadata: String::new() };
        let offsets = offset_list(topic, bucket, &committed)
            .map_err(|error| TransactionError::Aborted(self.failed("writing the offset", error)))?;
        self.producer.begin_transaction().map_err(|error| self.unknown("beginning", error))?;
        let sent = self.producer.send_offsets_to_transaction(&offsets, &group, CALL);
        let aborted = self.producer.abort_transaction(CALL);
        sent.map_err(|error| self.classified("sending an offset", error))?;
        aborted.map_err(|error| self.unknown("aborting", error))
    }

    /// Sends the records and the offset.
    fn fill(&self, transaction: &Transaction<'_>) -> Result<(), TransactionError> {
        for (index, (topic, outgoing)) in transaction.records.iter().enumerate() {
            self.send(index, topic, outgoing)?;
        }
        let offsets = offset_list(transaction.topic, transaction.bucket, &transaction.committed)
            .map_err(|error| TransactionError::Aborted(self.failed("writing the offset", error)))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.producer.send_offsets_to_transaction(&offsets, transaction.group.get(), CALL) {
                Ok(()) => break,
                Err(error) if is_retriable(&error) && Instant::now() < deadline => self.serve(),
                Err(error) => return Err(self.classified("sending the offset", error)),
            }
        }
        let deadline = Instant::now() + PATIENCE;
        while self.producer.in_flight_count() > 0 {
            // Not `flush`: rdkafka's waits in steps of 100 ms.
            self.producer.poll(Duration::from_millis(1));
            if Instant::now() >= deadline {
                let error = KafkaError::Flush(Code::OperationTimedOut);
                return Err(TransactionError::Aborted(self.failed("writing records", error)));
            }
        }
        match self.context().refused().take() {
            Some((index, error)) => Err(self.blamed(index, error)),
            None => Ok(()),
        }
    }

    fn send(&self, index: usize, topic: &str, outgoing: &Outgoing) -> Result<(), TransactionError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut message: BaseRecord<'_, [u8], [u8], usize> = BaseRecord::with_opaque_to(topic, index)
                .partition(outgoing.bucket.partition())
                .headers(record::headers(&outgoing.headers));
            message.key = outgoing.key.as_deref();
            message.payload = outgoing.payload.as_deref();
            match self.producer.send(message) {
                Ok(()) => return Ok(()),
                Err((error, _)) if error.rdkafka_error_code() == Some(Code::QueueFull) => {
                    self.serve();
                    if Instant::now() >= deadline {
                        return Err(TransactionError::Aborted(self.failed("queueing a record", error)));
                    }
                }
                Err((error, _)) => return Err(self.blamed(index, error)),
            }
        }
    }

    fn commit(&self) -> Result<(), TransactionError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.producer.commit_transaction(CALL) {
                Ok(()) => return Ok(()),
                // Asked again, librdkafka goes on waiting for the same commit.
                Err(error) if is_retriable(&error) && Instant::now() < deadline => self.serve(),
                Err(error) if requires_abort(&error) => {
                    let refused = self.context().refused().take();
                    let failure = match refused {
                        Some((index, error)) => self.blamed(index, error),
                        None => self.classified("committing", error),
                    };
                    return self.abort(failure);
                }
                Err(error) => return Err(self.unknown("committing", error)),
            }
        }
    }

    /// Ends the transaction without effect, and returns `failure`; what cannot be ended is unknown.
    fn abort(&self, failure: TransactionError) -> Result<(), TransactionError> {
        if let TransactionError::Unknown { .. } = failure {
            return Err(failure);
        }
        self.producer.purge(PurgeConfig::default().queue().inflight());
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.serve();
            match self.producer.abort_transaction(CALL) {
                Ok(()) => return Err(failure),
                Err(error) if is_retriable(&error) && Instant::now() < deadline => {}
                Err(error) => return Err(self.unknown("aborting", error)),
            }
        }
    }

    /// Serves delivery reports and errors that wait.
    fn serve(&self) {
        self.producer.poll(Duration::from_millis(1));
    }

    fn context(&self) -> &ReportContext {
        self.producer.client().context()
    }

    fn failed(&self, doing: &str, error: KafkaError) -> Error {
        Error::new(format!("{doing} ({})", self.id), error)
    }

    fn unknown(&self, doing: &str, error: KafkaError) -> TransactionError {
        let fenced = error.rdkafka_error_code().is_some_and(is_fenced)
            || self.producer.client().fatal_error().is_some_and(|(code, _)| is_fenced(code));
        TransactionError::Unknown { fenced, error: self.failed(doing, error) }
    }

    /// What a failed step means: whose fault it is, and whether the producer can go on.
    fn classified(&self, doing: &str, error: KafkaError) -> TransactionError {
        match error.rdkafka_error_code() {
            _ if is_fatal(&error) => self.unknown(doing, error),
            Some(Code::IllegalGeneration | Code::RebalanceInProgress) => {
                TransactionError::Rebalancing(self.failed(doing, error))
            }
            Some(Code::UnknownMemberId | Code::FencedInstanceId) => {
                TransactionError::UnknownMember(self.failed(doing, error))
            }
            _ => TransactionError::Aborted(self.failed(doing, error)),
        }
    }

    /// What one record's failure means: its own fault, or nobody's.
    fn blamed(&self, index: usize, error: KafkaError) -> TransactionError {
        let refusal = match error.rdkafka_error_code() {
            Some(Code::MessageSizeTooLarge | Code::InvalidMessageSize) => Refusal::TooLarge,
            Some(Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicOrPartition) => {
                Refusal::NotAllowed
            }
            Some(code) if super::error::is_authorization(code) => Refusal::NotAllowed,
            Some(Code::InvalidRecord | Code::InvalidMessage | Code::PolicyViolation) => Refusal::Invalid,
            _ => return self.classified("writing a record", error),
        };
        TransactionError::Refused { index, refusal, error: self.failed("writing a record", error) }
    }
}

fn is_fenced(code: Code) -> bool {
    matches!(code, Code::ProducerFenced | Code::InvalidProducerEpoch | Code::Fenced)
}

fn is_retriable(error: &KafkaError) -> bool {
    match error {
        KafkaError::Transaction(error) => error.is_retriable(),
        KafkaError::Flush(_) => true,
        _ => false,
    }
}

fn is_fatal(error: &KafkaError) -> bool {
    match error {
        KafkaError::Transaction(error) => error.is_fatal() || is_fenced(error.code()),
        other => matches!(other.rdkafka_error_code(), Some(Code::Fatal)),
    }
}

fn requires_abort(error: &KafkaError) -> bool {
    matches!(error, KafkaError::Transaction(error) if error.txn_requires_abort())
}

/// One offset and its metadata, as librdkafka wants it.
pub(super) fn offset_list(
    topic: &str,
    bucket: Bucket,
    committed: &Committed,
) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, bucket.partition(), Offset::Offset(committed.offset.get()))?;
    if let Some(mut element) = list.find_partition(topic, bucket.partition()) {
        element.set_metadata(&committed.metadata);
    }
    Ok(list)
}

/// Remembers the first record that was not written.
struct ReportContext {
    client: Context,
    refused: Mutex<Option<(usize, KafkaError)>>,
}

impl ReportContext {
    fn refused(&self) -> std::sync::MutexGuard<'_, Option<(usize, KafkaError)>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for ReportContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        client::log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.client.report(&error, reason);
    }

    fn stats_raw(&self, _: &[u8]) {}
}

impl ProducerContext for ReportContext {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, index: usize) {
        if let Err((error, _)) = result {
            // A purge follows from another failure; it is nobody's own.
            let purged = matches!(error.rdkafka_error_code(), Some(Code::PurgeQueue | Code::PurgeInflight));
            if !purged {
                self.refused().get_or_insert((index, error.clone()));
            }
        }
    }
}

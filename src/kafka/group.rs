//! A member of the controllers' consumer group: callbacks, pausing, seeking, and records copied out.
//!
//! Classic protocol, cooperative-sticky, dynamic membership. Group metadata is taken in the callbacks and
//! nowhere else: read later it would pass the broker's check for a bucket that is somebody else's by now.
//! A revocation is answered later, by [`GroupConsumer::give_up`]; until then the member stays in the group.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{
        BaseConsumer, CommitMode, Consumer as _, ConsumerContext, ConsumerGroupMetadata, RebalanceProtocol,
    },
    error::{KafkaError, RDKafkaErrorCode as Code},
    topic_partition_list::TopicPartitionListElem,
    types::RDKafkaRespErr,
};
use serde::Deserialize;

use super::{Committed, Error, Settings, Statistics, client, client::Context, record};
use crate::{
    model::{Bucket, NextOffset, Record},
    telemetry::Metrics,
};

/// How often librdkafka reports the ends of the logs, in milliseconds.
const STATISTICS_INTERVAL: &str = "5000";

/// How long waking a fetching thread may block: some round trips to a broker.
const WAKE: Duration = Duration::from_millis(50);

/// What the coordinator knows this member by, as of one callback (KIP-447).
#[derive(Clone)]
pub struct GroupMetadata(Arc<ConsumerGroupMetadata>);

impl GroupMetadata {
    /// Stands for no member; good for looking at what is done with metadata, not for writing.
    #[cfg(test)]
    pub(crate) fn of_nobody() -> Self {
        let mut config = rdkafka::ClientConfig::new();
        let consumer: BaseConsumer = config.set("group.id", "nobody").create().unwrap();
        Self(Arc::new(consumer.group_metadata().unwrap()))
    }

    pub(super) fn get(&self) -> &ConsumerGroupMetadata {
        &self.0
    }
}

impl fmt::Debug for GroupMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupMetadata")
    }
}

/// Told of rebalances, on the thread that polls. Must return at once and never panic.
pub trait Rebalances: Send + Sync + 'static {
    /// `buckets` were added (perhaps none); each is assigned and paused.
    fn assigned(&self, buckets: &[Bucket], group: GroupMetadata);
    /// `buckets` are to be given up; they stay assigned until [`GroupConsumer::give_up`].
    fn revoking(&self, buckets: &[Bucket], group: GroupMetadata);
    /// `buckets` are somebody else's already, and no longer assigned.
    fn lost(&self, buckets: &[Bucket]);
    /// This member leaves; `buckets` were given up before.
    fn left(&self, buckets: &[Bucket]);
    /// Where the logs end, by partition, as far as this member has fetched from them.
    fn ends(&self, ends: &Statistics);
}

/// What a member is created with.
#[derive(Debug, Clone)]
pub struct GroupSettings {
    /// The group.
    pub group: String,
    /// The topic that it shares.
    pub topic: String,
    /// `session.timeout.ms`.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`.
    pub heartbeat: Duration,
    /// `max.poll.interval.ms`.
    pub max_poll_interval: Duration,
}

/// A consumer that never joins a group: it only reports.
pub(super) struct Quiet(pub(super) Context);

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        client::log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        // The end of a partition is what readers wait for.
        if error.rdkafka_error_code() != Some(Code::PartitionEOF) {
            self.0.report(&error, reason);
        }
    }

    fn stats_raw(&self, _: &[u8]) {}
}

impl ConsumerContext for Quiet {}

/// The callbacks of a member.
struct MemberContext<R> {
    client: Context,
    topic: String,
    rebalances: R,
    /// What a revocation named and nobody has given up yet.
    deferred: Mutex<Option<TopicPartitionList>>,
    /// Set before the consumer is dropped: from then on nothing is deferred.
    closing: AtomicBool,
    /// What kept a callback from doing its work. The member is of no use then: buckets might be assigned to it
    /// that nobody serves.
    fault: Mutex<Option<KafkaError>>,
}

/// A member of the group. Used from one thread, which must poll all the time.
pub struct GroupConsumer<R: Rebalances> {
    consumer: BaseConsumer<MemberContext<R>>,
    topic: String,
}

impl<R: Rebalances> GroupConsumer<R> {
    /// Joins the group; nothing is assigned before the first poll.
    ///
    /// # Errors
    /// When librdkafka does not take the settings.
    pub fn join(
        settings: &Settings,
        group: &GroupSettings,
        rebalances: R,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Error> {
        let failed = |error| Error::new(format!("joining {}", group.group), error);
        let mut config = settings.client();
        config
            .set("group.id", &group.group)
            .set("group.protocol", "classic")
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", group.session_timeout.as_millis().to_string())
            .set("heartbeat.interval.ms", group.heartbeat.as_millis().to_string())
            .set("max.poll.interval.ms", group.max_poll_interval.as_millis().to_string())
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed");
        if settings.embedded() {
            config.set("fetch.wait.max.ms", "10"); // there an empty fetch sleeps for all of it
        }
        for (name, value) in
            [("queued.max.messages.kbytes", "16384"), ("statistics.interval.ms", STATISTICS_INTERVAL)]
        {
            if config.get(name).is_none() {
                config.set(name, value);
            }
        }
        let context = MemberContext {
            client: Context::new(Some(metrics)),
            topic: group.topic.clone(),
            rebalances,
            deferred: Mutex::new(None),
            closing: AtomicBool::new(false),
            fault: Mutex::new(None),
        };
        let consumer: BaseConsumer<MemberContext<R>> = config.create_with_context(context).map_err(failed)?;
        consumer.subscribe(&[&group.topic]).map_err(failed)?;
        Ok(Self { consumer, topic: group.topic.clone() })
    }

    /// The next record, waiting for at most `timeout`. Callbacks run in here.
    ///
    /// # Errors
    /// Whatever the client reports; [`Polled`] says what it means.
    pub fn poll(&self, timeout: Duration) -> Polled {
        let polled = self.consumer.poll(timeout);
        if let Some(error) = self.context().fault().take() {
            return Polled::Fatal(Error::new(format!("a rebalance of {}", self.topic), error));
        }
        match polled {
            None => Polled::Nothing,
            Some(Ok(message)) => record::copied(&message).map_or(Polled::Nothing, Polled::Record),
            Some(Err(error)) => {
                let code = error.rdkafka_error_code();
                let fatal = matches!(error, KafkaError::MessageConsumptionFatal(_));
                let error = Error::new(format!("polling {}", self.topic), error);
                match code {
                    _ if fatal => Polled::Fatal(error),
                    Some(Code::AutoOffsetReset | Code::OffsetOutOfRange) => Polled::OutOfRange(error),
                    _ => Polled::Trouble(error),
                }
            }
        }
    }

    /// Whether a revocation waits to be given up.
    #[must_use]
    pub fn is_revoking(&self) -> bool {
        self.context().deferred().is_some()
    }

    /// Gives up what the last revocation named; the member then joins again.
    ///
    /// # Errors
    /// When librdkafka refuses, which ends this member.
    pub fn give_up(&self) -> Result<(), Error> {
        let Some(list) = self.context().deferred().take() else { return Ok(()) };
        unassign(&self.consumer, &list)
            .map_err(|error| Error::new(format!("giving up buckets of {}", self.topic), error))
    }

    /// Stops fetching a bucket; what is queued of it is dropped and fetched again later.
    ///
    /// # Errors
    /// When the bucket is not assigned.
    pub fn pause(&self, bucket: Bucket) -> Result<(), Error> {
        self.consumer.pause(&self.list(bucket)).map_err(|error| self.failed("pausing", bucket, error))
    }

    /// Goes on fetching a bucket.
    ///
    /// # Errors
    /// When the bucket is not assigned.
    pub fn resume(&self, bucket: Bucket) -> Result<(), Error> {
        self.consumer.resume(&self.list(bucket)).map_err(|error| self.failed("resuming", bucket, error))?;
        self.wake(bucket);
        Ok(())
    }

    /// Wakes the thread that fetches a bucket. While nothing is to be fetched it sleeps for up to a second, and
    /// neither a resume nor a seek wakes it; a request to its broker does.
    fn wake(&self, bucket: Bucket) {
        if let Err(error) = self.consumer.fetch_watermarks(&self.topic, bucket.partition(), WAKE) {
            tracing::debug!(%bucket, %error, "the thread that fetches a bucket may wake late");
        }
    }

    /// Lets the next record of a bucket be the first one at or after `offset`.
    ///
    /// # Errors
    /// When the bucket is not assigned, or librdkafka did not answer in time.
    pub fn seek(&self, bucket: Bucket, offset: NextOffset, timeout: Duration) -> Result<(), Error> {
        let to = Offset::Offset(offset.get());
        let sought = match self.try_seek(bucket, to, timeout) {
            Err(error) if error.rdkafka_error_code() == Some(Code::State) => self.assign_again(bucket, to),
            sought => sought,
        };
        sought.map_err(|error| self.failed("seeking", bucket, error))
    }

    /// With a list of one, since only then rdkafka tells librdkafka's code.
    fn try_seek(&self, bucket: Bucket, to: Offset, timeout: Duration) -> Result<(), KafkaError> {
        let mut list = self.list(bucket);
        list.set_all_offsets(to)?;
        let sought = self.consumer.seek_partitions(list, timeout)?;
        sought.elements().iter().try_for_each(TopicPartitionListElem::error)
    }

    /// Where a position was out of its log's range, librdkafka has ended fetching for good and refuses to seek; only
    /// another assignment begins again. The bucket stays this member's throughout.
    fn assign_again(&self, bucket: Bucket, to: Offset) -> Result<(), KafkaError> {
        let mut list = self.list(bucket);
        list.set_all_offsets(to)?;
        self.consumer.incremental_unassign(&list)?;
        self.consumer.incremental_assign(&list)
    }

    /// Commits an offset plainly. Only towards the embedded broker, which forgets the offsets of transactions.
    ///
    /// # Errors
    /// When the coordinator did not take it.
    pub fn commit_plainly(&self, bucket: Bucket, committed: &Committed) -> Result<(), Error> {
        super::transaction::offset_list(&self.topic, bucket, committed)
            .and_then(|list| self.consumer.commit(&list, CommitMode::Sync))
            .map_err(|error| self.failed("committing", bucket, error))
    }

    /// Starts leaving the group: what a revocation still waits for is given up, and a last one comes, if anything
    /// is assigned.
    pub fn leave(&self) {
        self.context().closing.store(true, Ordering::SeqCst);
        if let Err(error) = self.give_up() {
            tracing::warn!(%error, "could not give up buckets before leaving the group");
        }
        self.consumer.unsubscribe();
    }

    /// Whether nothing is assigned.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.consumer.assignment().is_ok_and(|list| list.count() == 0)
    }

    fn context(&self) -> &MemberContext<R> {
        self.consumer.client().context()
    }

    fn list(&self, bucket: Bucket) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        list.add_partition(&self.topic, bucket.partition());
        list
    }

    fn failed(&self, doing: &str, bucket: Bucket, error: KafkaError) -> Error {
        Error::new(format!("{doing} {}-{bucket}", self.topic), error)
    }
}

impl<R: Rebalances> Drop for GroupConsumer<R> {
    fn drop(&mut self) {
        // rdkafka's own drop polls until the consumer is closed, callbacks included.
        self.context().closing.store(true, Ordering::SeqCst);
        if let Err(error) = self.give_up() {
            tracing::warn!(%error, "could not give up buckets while leaving the group");
        }
    }
}

/// What a poll brought.
#[derive(Debug)]
pub enum Polled {
    /// A record.
    Record(Record),
    /// Nothing, or only callbacks.
    Nothing,
    /// Something that librdkafka goes on about by itself.
    Trouble(Error),
    /// A bucket's position is no longer in its log: it must be sought anew.
    OutOfRange(Error),
    /// This member will never work again.
    Fatal(Error),
}

impl<R: Rebalances> MemberContext<R> {
    fn deferred(&self) -> std::sync::MutexGuard<'_, Option<TopicPartitionList>> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self) -> std::sync::MutexGuard<'_, Option<KafkaError>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn buckets(&self, list: &TopicPartitionList) -> Vec<Bucket> {
        let ours = list.elements().into_iter().filter(|element| element.topic() == self.topic);
        ours.filter_map(|element| Bucket::from_partition(element.partition())).collect()
    }

    fn assign(&self, consumer: &BaseConsumer<Self>, list: &mut TopicPartitionList) -> Result<(), KafkaError> {
        let buckets = self.buckets(list);
        // An explicit position: where reading really starts is the takeover's to say.
        list.set_all_offsets(Offset::Beginning)?;
        consumer.incremental_assign(list)?;
        if list.count() > 0 {
            consumer.pause(list)?;
        }
        let group = consumer.group_metadata().ok_or(KafkaError::Rebalance(Code::UnknownGroup))?;
        self.rebalances.assigned(&buckets, GroupMetadata(Arc::new(group)));
        Ok(())
    }

    fn revoke(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) -> Result<(), KafkaError> {
        let buckets = self.buckets(list);
        let closing = self.closing.load(Ordering::SeqCst);
        if consumer.assignment_lost() {
            self.deferred().take();
            self.rebalances.lost(&buckets);
        } else if let (false, Some(group)) = (closing, consumer.group_metadata()) {
            self.rebalances.revoking(&buckets, GroupMetadata(Arc::new(group)));
            if !buckets.is_empty() {
                *self.deferred() = Some(list.clone());
                return Ok(());
            }
        } else {
            self.rebalances.left(&buckets);
        }
        unassign(consumer, list)
    }
}

fn unassign<R: Rebalances>(
    consumer: &BaseConsumer<MemberContext<R>>,
    list: &TopicPartitionList,
) -> Result<(), KafkaError> {
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer.incremental_unassign(list),
        RebalanceProtocol::None | RebalanceProtocol::Eager => consumer.unassign(),
    }
}

impl<R: Rebalances> ClientContext for MemberContext<R> {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        client::log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.client.report(&error, reason);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        match serde_json::from_slice::<Report>(statistics) {
            Ok(report) => self.rebalances.ends(&report.ends(&self.topic)),
            Err(error) => tracing::debug!(%error, "librdkafka's statistics could not be read"),
        }
    }
}

impl<R: Rebalances> ConsumerContext for MemberContext<R> {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let result = if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assign(consumer, list)
        } else {
            self.revoke(consumer, list)
        };
        if let Err(error) = result {
            self.client.report(&error, "a rebalance could not be carried out");
            self.fault().get_or_insert(error);
        }
    }
}

/// The part of librdkafka's statistics that is read (STATISTICS.md of librdkafka).
#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    topics: BTreeMap<String, TopicReport>,
}

#[derive(Deserialize)]
struct TopicReport {
    #[serde(default)]
    partitions: BTreeMap<String, PartitionReport>,
}

#[derive(Deserialize)]
struct PartitionReport {
    #[serde(default)]
    ls_offset: i64,
}

impl Report {
    fn ends(&self, topic: &str) -> Statistics {
        let partitions = self.topics.get(topic).map(|topic| &topic.partitions);
        let known = partitions.into_iter().flatten().filter_map(|(number, partition)| {
            let number: i32 = number.parse().ok().filter(|number| *number >= 0)?;
            (partition.ls_offset >= 0).then_some((number, partition.ls_offset))
        });
        known.collect()
    }
}

#[cfg(test)]
mod tests;

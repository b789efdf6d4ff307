//! Reading a partition without a group: from one position to another, then done.
//!
//! A reader commits nothing and joins nothing. The end is where it *stands*, never "the last record + 1":
//! transactions' markers take offsets too.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode as Code},
};

use super::{Error, Settings, client::Context, record};
use crate::{
    model::{Bucket, NextOffset, Record},
    telemetry::Metrics,
};

/// What a reader sees of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Only what was committed; the log ends at the first open transaction.
    ReadCommitted,
    /// Everything, aborted records too.
    ReadUncommitted,
}

impl Isolation {
    /// The value of librdkafka's `isolation.level`.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read_committed",
            Self::ReadUncommitted => "read_uncommitted",
        }
    }
}

/// A group-less reader. Its calls block, each up to the time-out it is given, and one after another.
pub struct LogReader {
    consumer: Mutex<BaseConsumer<super::group::Quiet>>,
}

impl LogReader {
    /// A reader of any topic.
    ///
    /// # Errors
    /// When librdkafka does not take its settings.
    pub fn new(
        settings: &Settings,
        isolation: Isolation,
        metrics: Option<Arc<Metrics>>,
    ) -> Result<Self, Error> {
        let mut config = settings.client();
        config
            .set("group.id", "control-bus.reader") // asked for by librdkafka; never joined, never committed to
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "error")
            .set("fetch.wait.max.ms", "10")
            .set("queued.max.messages.kbytes", "8192")
            .set("isolation.level", isolation.as_str());
        let consumer = config
            .create_with_context(super::group::Quiet(Context::new(metrics)))
            .map_err(|error| Error::new("creating a reader", error))?;
        Ok(Self { consumer: Mutex::new(consumer) })
    }

    /// Where the log of a partition starts and ends now; under read-committed the end is the last stable offset.
    ///
    /// # Errors
    /// When no broker answered in time, or the partition does not exist.
    pub fn bounds(
        &self,
        topic: &str,
        bucket: Bucket,
        timeout: Duration,
    ) -> Result<(NextOffset, NextOffset), Error> {
        let consumer = self.consumer.lock().unwrap_or_else(PoisonError::into_inner);
        let operation = || format!("asking for the bounds of {}-{bucket}", topic);
        let (start, end) = consumer
            .fetch_watermarks(topic, bucket.partition(), timeout)
            .map_err(|error| Error::new(operation(), error))?;
        match (NextOffset::new(start), NextOffset::new(end)) {
            (Some(start), Some(end)) => Ok((start, end)),
            _ => Err(Error::new(operation(), KafkaError::OffsetFetch(Code::OffsetOutOfRange))),
        }
    }

    /// The position of the first record whose timestamp is `time` or later, in milliseconds since the Unix epoch;
    /// `None` where there is none.
    ///
    /// # Errors
    /// When no broker answered in time, or the partition does not exist.
    pub fn position_at(
        &self,
        topic: &str,
        bucket: Bucket,
        time: i64,
        timeout: Duration,
    ) -> Result<Option<NextOffset>, Error> {
        let consumer = self.consumer.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error| Error::new(format!("asking {topic}-{bucket} for an offset by its time"), error);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, bucket.partition(), Offset::Offset(time)).map_err(failed)?;
        let found = consumer.offsets_for_times(list, timeout).map_err(failed)?;
        let Some(found) = found.find_partition(topic, bucket.partition()) else { return Ok(None) };
        found.error().map_err(failed)?;
        match found.offset() {
            Offset::Offset(offset) => Ok(NextOffset::new(offset)),
            _ => Ok(None),
        }
    }

    /// Reads a partition `(topic, bucket)` from `from` until the reader stands at `to` or beyond, and gives
    /// every record below `to` to `each`.
    ///
    /// Where the log has been cut off after `from`, reading begins at its start. The time-out counts anew
    /// whenever something was read, so it bounds silence, not the whole.
    ///
    /// # Errors
    /// When nothing was read for `timeout`, or Kafka refused.
    pub fn read(
        &self,
        (topic, bucket): (&str, Bucket),
        (from, to): (NextOffset, NextOffset),
        timeout: Duration,
        mut each: impl FnMut(Record),
    ) -> Result<(), Error> {
        let consumer = self.consumer.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error| Error::new(format!("reading {}-{bucket}", topic), error);
        if from >= to {
            return Ok(());
        }
        // Without it an unknown topic is looked up once a second only.
        consumer.fetch_metadata(Some(topic), timeout).map_err(failed)?;
        assign(&consumer, topic, bucket, Offset::Offset(from.get())).map_err(failed)?;
        let mut deadline = Instant::now() + timeout;
        let result = loop {
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => {
                    deadline = Instant::now() + timeout;
                    let Some(record) = record::copied(&message) else { continue };
                    let passed = record.offset().next();
                    if to.is_past(record.offset()) {
                        each(record);
                    }
                    if passed >= to {
                        break Ok(());
                    }
                }
                Some(Err(KafkaError::PartitionEOF(_))) => {
                    // Everything up to the end is read; markers and gaps at the end have no records.
                    if position(&consumer, topic, bucket).is_some_and(|position| position >= to) {
                        break Ok(());
                    }
                }
                Some(Err(error)) if error.rdkafka_error_code() == Some(Code::AutoOffsetReset) => {
                    if let Err(error) = assign(&consumer, topic, bucket, Offset::Beginning) {
                        break Err(failed(error));
                    }
                }
                Some(Err(error)) if super::error::is_lasting(&error) => break Err(failed(error)),
                Some(Err(_)) | None => {}
            }
            if Instant::now() >= deadline {
                break Err(failed(KafkaError::MessageConsumption(Code::OperationTimedOut)));
            }
        };
        // Idle readers must not fetch on.
        consumer.unassign().map_err(failed)?;
        result
    }
}

fn assign(
    consumer: &BaseConsumer<super::group::Quiet>,
    topic: &str,
    bucket: Bucket,
    offset: Offset,
) -> Result<(), KafkaError> {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, bucket.partition(), offset)?;
    consumer.assign(&list)
}

fn position(consumer: &BaseConsumer<super::group::Quiet>, topic: &str, bucket: Bucket) -> Option<NextOffset> {
    let positions = consumer.position().ok()?;
    match positions.find_partition(topic, bucket.partition())?.offset() {
        Offset::Offset(offset) => NextOffset::new(offset),
        _ => None,
    }
}

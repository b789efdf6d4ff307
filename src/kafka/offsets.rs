//! A group's committed offsets, read by a consumer that never joins it.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode as Code},
};

use super::{Error, Isolation, Settings, client::Context, error, group::Quiet};
use crate::{
    model::{Bucket, NextOffset},
    telemetry::Metrics,
};

/// How long to wait before a coordinator is looked for again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How long one question may take, before it is looked whether there was a refusal.
const PART: Duration = Duration::from_secs(2);

/// A committed offset and the text that was committed with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The offset at which reading continues.
    pub offset: NextOffset,
    /// The commit metadata, as written.
    pub metadata: String,
}

/// Reads a group's committed offsets. Its calls block, each up to the time-out it is given.
pub struct OffsetReader {
    consumer: BaseConsumer<Quiet>,
    group: String,
}

impl OffsetReader {
    /// A reader of `group`'s offsets.
    ///
    /// Under [`Isolation::ReadCommitted`] an offset with a transaction pending on it is waited for, up to the
    /// time-out; under [`Isolation::ReadUncommitted`] the last stable one is returned at once.
    ///
    /// # Errors
    /// When librdkafka does not take its settings.
    pub fn new(
        settings: &Settings,
        group: &str,
        isolation: Isolation,
        metrics: Option<Arc<Metrics>>,
    ) -> Result<Self, Error> {
        let mut config = settings.client();
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("isolation.level", isolation.as_str());
        let consumer = config
            .create_with_context(Quiet(Context::new(metrics)))
            .map_err(|error| Error::new(format!("creating a reader of {group}'s offsets"), error))?;
        Ok(Self { consumer, group: group.to_owned() })
    }

    /// The offset committed for one partition, `None` where there is none.
    ///
    /// # Errors
    /// When the coordinator did not answer in time, or refused.
    pub fn committed(
        &self,
        topic: &str,
        bucket: Bucket,
        timeout: Duration,
    ) -> Result<Option<Committed>, Error> {
        let failed =
            |error| Error::new(format!("reading {}'s offset of {topic}-{bucket}", self.group), error);
        let list = self.asked(topic, bucket, Instant::now() + timeout).map_err(failed)?;
        let Some(found) = list.find_partition(topic, bucket.partition()) else { return Ok(None) };
        found.error().map_err(failed)?;
        let offset = match found.offset() {
            Offset::Offset(offset) => NextOffset::new(offset),
            _ => None,
        };
        Ok(offset.map(|offset| Committed { offset, metadata: found.metadata().to_owned() }))
    }

    /// Asks until the deadline. A coordinator that moves is found again, and the first group of a cluster brings it into
    /// being.
    fn asked(
        &self,
        topic: &str,
        bucket: Bucket,
        deadline: Instant,
    ) -> Result<TopicPartitionList, KafkaError> {
        loop {
            let mut list = TopicPartitionList::new();
            list.add_partition(topic, bucket.partition());
            let left = deadline.saturating_duration_since(Instant::now()).max(ASK_AGAIN);
            match self.consumer.committed_offsets(list, left.min(PART)) {
                Err(error) if Instant::now() >= deadline => return Err(self.refusal().unwrap_or(error)),
                Err(error) if error::coordinator_moves(&error) => thread::sleep(ASK_AGAIN),
                Err(error) if error.rdkafka_error_code() == Some(Code::OperationTimedOut) => {
                    if let Some(refusal) = self.refusal() {
                        return Err(refusal);
                    }
                }
                found => return found,
            }
        }
    }

    /// Why no coordinator is found, where that is for want of permission: librdkafka tells it to those who poll, and asks
    /// on until the time-out.
    fn refusal(&self) -> Option<KafkaError> {
        match self.consumer.poll(Duration::ZERO) {
            Some(Err(error)) if error.rdkafka_error_code().is_some_and(error::is_authorization) => {
                Some(error)
            }
            _ => None,
        }
    }
}

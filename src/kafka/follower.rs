//! Following a topic without a group: records of many buckets as they come, for as long as somebody looks.
//!
//! A follower commits nothing and joins nothing. It sees only what was committed. What was cut off before its start
//! is passed over in silence: it goes on where the log begins.

use std::time::Duration;

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
};

use super::{Error, Settings, client::Context, group::Quiet, record};
use crate::model::{Bucket, NextOffset, Record};

/// How much librdkafka may fetch ahead, in KiB: people read slowly.
const AHEAD_KIB: &str = "16384";

/// A group-less reader of many buckets at a time. Its calls block, and belong on one thread.
pub struct Follower {
    consumer: BaseConsumer<Quiet>,
    topic: String,
}

/// What following brought.
#[derive(Debug)]
pub enum Followed {
    /// A record.
    Record(Record),
    /// All that this bucket holds by now was given.
    End(Bucket),
    /// Nothing yet.
    Nothing,
    /// Something that librdkafka goes on about by itself.
    Trouble(Error),
    /// It cannot go on.
    Failed(Error),
}

impl Follower {
    /// Starts to follow buckets of `topic`, each at its position.
    ///
    /// # Errors
    /// When librdkafka does not take the settings.
    pub fn new(settings: &Settings, topic: &str, starts: &[(Bucket, NextOffset)]) -> Result<Self, Error> {
        let failed = |error| Error::new(format!("following {topic}"), error);
        let mut config = settings.client();
        config
            .set("group.id", "control-bus.reader") // asked for by librdkafka; never joined, never committed to
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "earliest")
            .set("queued.max.messages.kbytes", AHEAD_KIB)
            .set("isolation.level", "read_committed");
        if settings.embedded() {
            config.set("fetch.wait.max.ms", "10"); // there an empty fetch sleeps for all of it
        }
        let consumer: BaseConsumer<Quiet> =
            config.create_with_context(Quiet(Context::new(None))).map_err(failed)?;
        let mut list = TopicPartitionList::new();
        for (bucket, start) in starts {
            list.add_partition_offset(topic, bucket.partition(), Offset::Offset(start.get()))
                .map_err(failed)?;
        }
        consumer.assign(&list).map_err(failed)?;
        Ok(Self { consumer, topic: topic.to_owned() })
    }

    /// What comes next, waiting for at most `timeout`.
    pub fn poll(&self, timeout: Duration) -> Followed {
        match self.consumer.poll(timeout) {
            None => Followed::Nothing,
            Some(Ok(message)) => record::copied(&message).map_or(Followed::Nothing, Followed::Record),
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                Bucket::from_partition(partition).map_or(Followed::Nothing, Followed::End)
            }
            Some(Err(error)) => {
                let lasting = super::error::is_lasting(&error);
                let error = Error::new(format!("following {}", self.topic), error);
                if lasting { Followed::Failed(error) } else { Followed::Trouble(error) }
            }
        }
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("topic", &self.topic).finish_non_exhaustive()
    }
}

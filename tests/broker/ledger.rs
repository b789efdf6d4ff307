//! Every commit of a group's offsets, from Kafka's own log of them: nothing that took effect for a moment is missed.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use control_bus::{
    engine::{CommitMetadata, ParsedMetadata},
    model::NextOffset,
};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
};

const TOPIC: &str = "__consumer_offsets";
const PATIENCE: Duration = Duration::from_secs(30);

/// One commit that took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) offset: i64,
    pub(crate) metadata: String,
}

/// The commits of `group` by partition, in the order in which they took effect.
pub(crate) fn commits(brokers: &str, group: &str) -> BTreeMap<i32, Vec<Commit>> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", brokers)
        .set("group.id", "ledger")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().unwrap();
    let metadata = consumer.fetch_metadata(Some(TOPIC), PATIENCE).unwrap();
    let partitions = i32::try_from(metadata.topics()[0].partitions().len()).unwrap();
    let mut list = TopicPartitionList::new();
    let partition = java_hash(group).checked_abs().unwrap_or(0) % partitions;
    list.add_partition_offset(TOPIC, partition, Offset::Beginning).unwrap();
    consumer.assign(&list).unwrap();
    let mut all: BTreeMap<i32, Vec<Commit>> = BTreeMap::new();
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "the log of offsets cannot be read");
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                let key = message.key().and_then(|key| committed_for(&mut Bytes(key), group));
                if let (Some(of), Some(value)) = (key, message.payload()) {
                    all.entry(of).or_default().push(commit(&mut Bytes(value)).unwrap());
                }
            }
            Some(Err(KafkaError::PartitionEOF(_))) => return all,
            Some(Err(error)) => panic!("{error}"),
            None => {}
        }
    }
}

/// Every commit is the bus's own and later than the one before: its tenure's, or a later tenure's; and no offset goes
/// back. Returns the number of commits.
pub(crate) fn assert_only_grows(brokers: &str, group: &str) -> usize {
    let all = commits(brokers, group);
    for (partition, commits) in &all {
        let mut last = None;
        for commit in commits {
            let metadata = CommitMetadata::decode(&commit.metadata, NextOffset::new(commit.offset).unwrap());
            let ParsedMetadata::Ours(metadata) = metadata else {
                panic!("partition {partition}: not an owner's: {commit:?}")
            };
            let this = (metadata.epoch, metadata.sequence, commit.offset);
            let grows = last.is_none_or(|(epoch, sequence, offset)| {
                (epoch, sequence) < (this.0, this.1) && offset <= this.2
            });
            assert!(grows, "partition {partition}: {last:?} was followed by {this:?}");
            last = Some(this);
        }
    }
    all.values().map(Vec::len).sum()
}

/// What Java's `String.hashCode` gives for ASCII.
fn java_hash(text: &str) -> i32 {
    text.bytes().fold(0_i32, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte)))
}

/// The rest of a record, in Kafka's own encoding.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn i16(&mut self) -> Option<i16> {
        Some(i16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn i64(&mut self) -> Option<i64> {
        Some(i64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.i16()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    /// Text whose length plus one comes first, as a varint.
    fn compact_text(&mut self) -> Option<&'a str> {
        let (mut length, mut shift) = (0_usize, 0);
        loop {
            let byte = self.take(1)?[0];
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        std::str::from_utf8(self.take(length.checked_sub(1)?)?).ok()
    }
}

/// The partition that a key of version 0 or 1 is about, if it is an offset of `group`.
fn committed_for(key: &mut Bytes<'_>, group: &str) -> Option<i32> {
    let is_offset = matches!(key.i16()?, 0 | 1);
    (is_offset && key.text()? == group).then_some(())?;
    key.text()?;
    key.i32()
}

/// A value of version 3, or 4, which writes its text differently.
fn commit(value: &mut Bytes<'_>) -> Option<Commit> {
    let version = value.i16()?;
    let offset = value.i64()?;
    value.i32()?;
    let metadata = if version < 4 { value.text()? } else { value.compact_text()? };
    Some(Commit { offset, metadata: metadata.to_owned() })
}

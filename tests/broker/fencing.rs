//! What Kafka's own fencing does not hold, and that the bus is safe all the same: each hazard first with plain
//! clients, as it is, then with the bus's own means.

mod members;
mod metadata;
mod pending;
mod plain_commits;
mod superseded;

use std::time::Duration;

use control_bus::kafka::Settings;
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _, ConsumerGroupMetadata},
    error::KafkaResult,
    producer::{BaseProducer, Producer as _},
};

use crate::owners::Fixture;

/// How long one call to Kafka may take.
const CALL: Duration = Duration::from_secs(20);

/// A plain client's settings.
fn client(kafka: &Settings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.brokers());
    config
}

/// A plain transactional producer, initialised.
fn producer(kafka: &Settings, id: &str) -> BaseProducer {
    let mut config = client(kafka);
    let config = config.set("transactional.id", id).set("transaction.timeout.ms", "10000");
    let producer: BaseProducer = config.create().unwrap();
    producer.init_transactions(CALL).unwrap();
    producer
}

/// A consumer that asks and commits, and never joins.
fn stranger(fixture: &Fixture) -> BaseConsumer {
    client(&fixture.kafka).set("group.id", fixture.bus.group()).create().unwrap()
}

/// One offset of the notifications topic.
fn offset(fixture: &Fixture, partition: i32, offset: i64) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&fixture.bus.notifications(), partition, Offset::Offset(offset)).unwrap();
    list
}

/// Commits an offset in a transaction, with this metadata.
fn transact(
    producer: &BaseProducer,
    offsets: &TopicPartitionList,
    metadata: &ConsumerGroupMetadata,
) -> KafkaResult<()> {
    producer.begin_transaction()?;
    if let Err(error) = producer.send_offsets_to_transaction(offsets, metadata, CALL) {
        producer.abort_transaction(CALL)?;
        return Err(error);
    }
    producer.commit_transaction(CALL)
}

/// What is committed for a partition, as a number.
fn committed(fixture: &Fixture, partition: u16) -> Option<i64> {
    fixture.committed(fixture.bucket(partition)).map(|committed| committed.offset.get())
}

fn metadata_of(consumer: &BaseConsumer) -> ConsumerGroupMetadata {
    consumer.group_metadata().unwrap()
}

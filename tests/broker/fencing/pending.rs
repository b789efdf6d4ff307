//! A transaction that outlives its owner.

use std::time::{Duration, Instant};

use control_bus::model::Epoch;
use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    producer::{BaseProducer, BaseRecord, Producer as _},
};

use super::{CALL, client, committed, members::Plain, metadata_of, offset, producer, stranger};
use crate::{
    fleet::assert_quick,
    owners::{Fixture, PATIENCE, Recorder, until},
};

/// What the stopped owner had sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Offsets,
    Records,
}

/// An owner that was stopped in the middle of a transaction.
struct Zombie {
    member: Plain,
    producer: BaseProducer,
    stopped: Instant,
}

impl Zombie {
    /// Owns bucket 0, begins a transaction under `id`, and falls silent.
    async fn new(fixture: &Fixture, id: &str, sent: Sent) -> Self {
        let member = Plain::join(fixture);
        member.until_owns(1).await;
        let producer = producer(&fixture.kafka, id);
        producer.begin_transaction().unwrap();
        match sent {
            Sent::Offsets => {
                let metadata = metadata_of(member.consumer());
                producer.send_offsets_to_transaction(&offset(fixture, 0, 5), &metadata, CALL).unwrap();
            }
            Sent::Records => {
                let topic = fixture.bus.commands();
                let command = BaseRecord::to(&topic).partition(0).key("zombie").payload("zombie");
                producer.send::<str, str>(command).map_err(|(error, _)| error).unwrap();
                producer.flush(CALL).unwrap();
            }
        }
        member.freeze();
        Self { member, producer, stopped: Instant::now() }
    }
}

/// Where the commands' partition ends: for one who reads what is committed, and for one who reads all.
fn ends(fixture: &Fixture) -> (i64, i64) {
    let end = |isolation| {
        let mut config = client(&fixture.kafka);
        let consumer: BaseConsumer =
            config.set("group.id", "ends").set("isolation.level", isolation).create().unwrap();
        consumer.fetch_watermarks(&fixture.bus.commands(), 0, CALL).unwrap().1
    };
    (end("read_committed"), end("read_uncommitted"))
}

#[tokio::test(flavor = "multi_thread")]
async fn hazard_offsets_sent_before_a_stop_hide_the_offset_and_are_committed_after_it() {
    let fixture = Fixture::new("fencing-offsets-plain", 1).await;
    let zombie = Zombie::new(&fixture, fixture.bus.name(), Sent::Offsets).await;
    let next = Plain::join(&fixture);
    next.until_owns(1).await;
    let mut list = TopicPartitionList::new();
    list.add_partition(&fixture.bus.notifications(), 0);
    let asked = stranger(&fixture).committed_offsets(list, Duration::from_secs(2));
    assert!(asked.is_err(), "the offset is hidden: {asked:?}");
    zombie.producer.commit_transaction(CALL).unwrap();
    until("the offset is committed", PATIENCE, || committed(&fixture, 0) == Some(5)).await;
    assert_eq!(next.partitions(), [0]);
    drop(zombie.member);
}

#[tokio::test(flavor = "multi_thread")]
async fn hazard_records_sent_before_a_stop_hide_what_follows_and_are_committed_after_it() {
    let fixture = Fixture::new("fencing-records-plain", 1).await;
    let zombie = Zombie::new(&fixture, fixture.bus.name(), Sent::Records).await;
    let next = Plain::join(&fixture);
    next.until_owns(1).await;
    assert_eq!(ends(&fixture), (0, 1));
    zombie.producer.commit_transaction(CALL).unwrap();
    until("the record is committed", PATIENCE, || {
        let mut commands = Vec::new();
        fixture.read(&fixture.bus.commands(), fixture.bucket(0), |key, _| commands.push(key.to_vec()));
        commands == [b"zombie"]
    })
    .await;
    assert_eq!(next.partitions(), [0]);
}

/// Stops an owner in the middle of a transaction; a controller takes over in time, and the transaction is void. Three
/// times, so that other work on the machine does not count.
async fn takes_over(test: &str, sent: Sent) {
    let mut takeovers = Vec::new();
    for _ in 0..3 {
        takeovers.push(takeover(test, sent).await);
    }
    assert_quick(&takeovers);
}

/// One of them; the time from the stop until the new owner was ready.
async fn takeover(test: &str, sent: Sent) -> Duration {
    let fixture = Fixture::new(test, 1).await;
    let bucket = fixture.bucket(0);
    for number in 0..3 {
        fixture.publish(&fixture.resource(bucket, 0), &number.to_string()).await;
    }
    let zombie = Zombie::new(&fixture, &fixture.bus.transactional_id(bucket), sent).await;
    let handler = Recorder::new(Duration::ZERO);
    let owner = fixture.start("owner", &handler);
    owner.until_ready(bucket).await;
    let waited = zombie.stopped.elapsed();

    let error = zombie.producer.commit_transaction(CALL).unwrap_err();
    let fatal = zombie.producer.client().fatal_error();
    assert!(fatal.is_some(), "the zombie's producer is shut out: {error}");
    assert_eq!(fixture.metadata(bucket).map(|metadata| metadata.epoch), Some(Epoch::new(1)));
    assert_eq!(fixture.claim(bucket).map(|claim| claim.epoch), Some(Epoch::new(1)));
    until("the owner begins where the zombie had not committed", PATIENCE, || {
        handler.ended(bucket) == [0, 1, 2]
    })
    .await;
    let (stable, end) = ends(&fixture);
    assert_eq!(stable, end, "nothing hides commands any more");
    fixture.read(&fixture.bus.commands(), bucket, |key, _| panic!("a void command: {key:?}"));
    owner.stop().await;
    drop(zombie.member);
    waited
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_voids_offsets_that_a_stopped_owner_had_sent() {
    takes_over("fencing-offsets", Sent::Offsets).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_voids_records_that_a_stopped_owner_had_sent() {
    takes_over("fencing-records", Sent::Records).await;
}

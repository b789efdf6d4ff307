//! Group metadata that says too little: of a consumer that never joined, read afresh after an eviction, or beside no
//! offset at all.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use control_bus::{
    engine::CommitMetadata,
    kafka::{Committed, GroupMetadata, Transaction, TransactionError, TransactionalProducer},
    model::{Bucket, NextOffset, Outgoing},
    telemetry::Metrics,
};
use rdkafka::{TopicPartitionList, producer::Producer as _};

use super::{
    CALL, committed,
    members::{Member, Plain},
    metadata_of, offset, producer, stranger, transact,
};
use crate::owners::{Fixture, PATIENCE, Recorder, until};

/// The bus's own producer under an id that nobody else uses, so that only the group can fence it.
fn own_producer(fixture: &Fixture) -> TransactionalProducer {
    let metrics = Arc::new(Metrics::new().unwrap());
    let id = format!("{}.stale", fixture.bus.name());
    let producer = TransactionalProducer::new(&fixture.kafka, &id, 1 << 20, metrics).unwrap();
    producer.init(&fixture.bus.notifications(), CALL).unwrap();
    producer
}

/// Writes as an owner does: an offset, and a record.
fn write(
    fixture: &Fixture,
    producer: &TransactionalProducer,
    (bucket, offset): (Bucket, i64),
    group: &GroupMetadata,
) -> Result<(), TransactionError> {
    let record = Outgoing {
        bucket,
        key: Some(Bytes::from_static(b"stale")),
        payload: Some(Bytes::from_static(b"stale")),
        headers: Vec::new(),
    };
    producer.run(&Transaction {
        topic: &fixture.bus.notifications(),
        bucket,
        committed: Committed { offset: NextOffset::new(offset).unwrap(), metadata: "stale".to_owned() },
        group,
        records: &[(fixture.bus.ownership(), record)],
    })
}

fn assert_refused(result: Result<(), TransactionError>) {
    assert!(
        matches!(result, Err(TransactionError::UnknownMember(_) | TransactionError::Rebalancing(_))),
        "{result:?}"
    );
}

/// Nothing of what the stale member wrote is there, and the owner's own word stands.
fn assert_untouched(fixture: &Fixture, bucket: Bucket, owners: &CommitMetadata) {
    assert_eq!(fixture.metadata(bucket).as_ref(), Some(owners));
    fixture.read(&fixture.bus.ownership(), bucket, |key, _| assert_ne!(key, b"stale"));
}

#[tokio::test(flavor = "multi_thread")]
async fn hazard_metadata_of_a_consumer_that_never_joined_is_accepted() {
    let fixture = Fixture::new("fencing-never-joined", 1).await;
    let owner = Plain::join(&fixture);
    owner.until_owns(1).await;
    let (stranger, producer) = (stranger(&fixture), producer(&fixture.kafka, fixture.bus.name()));
    transact(&producer, &offset(&fixture, 0, 7), &metadata_of(&stranger)).unwrap();
    until("it is committed", PATIENCE, || committed(&fixture, 0) == Some(7)).await;
    assert_eq!(owner.partitions(), [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_callback_gives_metadata_that_is_good_for_one_who_is_not_in_the_group() {
    let fixture = Fixture::new("fencing-callbacks", 1).await;
    let bucket = fixture.bucket(0);
    let member = Member::join(&fixture);
    member.until_owns(bucket).await;
    member.freeze();
    let owner = fixture.start("owner", &Recorder::new(Duration::ZERO));
    owner.until_ready(bucket).await;
    member.thaw_and_rejoin().await;
    let given = tokio::task::block_in_place(|| member.leave());
    assert!(given.len() >= 2, "one before the loss, one after it");

    let (producer, owners) = (own_producer(&fixture), fixture.metadata(bucket).unwrap());
    for group in &given {
        assert_refused(write(&fixture, &producer, (bucket, 7), group));
    }
    assert_untouched(&fixture, bucket, &owners);
    owner.stop().await;
}

/// As long as it has not given up what it was asked for, the client signals no loss.
#[tokio::test(flavor = "multi_thread")]
async fn nor_does_a_callback_after_an_eviction_in_the_middle_of_a_revocation() {
    let fixture = Fixture::new("fencing-deferred", 2).await;
    let member = Member::join(&fixture);
    for number in 0..2 {
        member.until_owns(fixture.bucket(number)).await;
    }
    member.hold(true);
    let owner = fixture.start("owner", &Recorder::new(Duration::ZERO));
    member.until_revoked().await;
    member.freeze();
    for number in 0..2 {
        owner.until_ready(fixture.bucket(number)).await;
    }
    member.hold(false);
    member.thaw_and_rejoin().await;
    let given = tokio::task::block_in_place(|| member.leave());
    for number in 0..2 {
        owner.until_ready(fixture.bucket(number)).await;
    }
    let (producer, bucket) = (own_producer(&fixture), fixture.bucket(0));
    for (index, group) in given.iter().enumerate() {
        let result = write(&fixture, &producer, (bucket, 7), group);
        println!("{index}: {result:?}");
        assert_refused(result);
    }
    owner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hazard_metadata_read_afresh_after_an_eviction_is_accepted() {
    let fixture = Fixture::new("fencing-afresh", 1).await;
    let first = Plain::join(&fixture);
    first.until_owns(1).await;
    let (producer, captured) = (producer(&fixture.kafka, fixture.bus.name()), metadata_of(first.consumer()));
    first.freeze();
    let second = Plain::join(&fixture);
    second.until_owns(1).await;
    assert!(transact(&producer, &offset(&fixture, 0, 7), &captured).is_err(), "captured metadata is refused");

    first.thaw();
    until("metadata read afresh is accepted", PATIENCE, || {
        first.partitions().is_empty()
            && transact(&producer, &offset(&fixture, 0, 7), &metadata_of(first.consumer())).is_ok()
    })
    .await;
    until("it is committed", PATIENCE, || committed(&fixture, 0) == Some(7)).await;
    assert_eq!(second.partitions(), [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenure_from_before_an_eviction_gets_no_metadata_from_after_it() {
    let fixture = Fixture::new("fencing-tenure", 1).await;
    let bucket = fixture.bucket(0);
    let (member, producer) = (Member::join(&fixture), own_producer(&fixture));
    let token = member.until_owns(bucket).await;
    let captured = member.ticket(bucket, token).unwrap();
    member.freeze();
    let handler = Recorder::new(Duration::ZERO);
    let owner = fixture.start("owner", &handler);
    owner.until_ready(bucket).await;
    let owners = fixture.metadata(bucket).unwrap();

    // Before it has polled again: it still believes that the bucket is its own.
    let ticket = member.ticket(bucket, token).unwrap();
    assert_refused(write(&fixture, &producer, (bucket, 7), &ticket.group));
    // After it has joined again.
    member.thaw_and_rejoin().await;
    assert_refused(write(&fixture, &producer, (bucket, 7), &captured.group));
    assert!(
        member.ticket(bucket, token).is_none(),
        "what the group would accept now is nothing that this tenure may have"
    );
    assert_untouched(&fixture, bucket, &owners);

    let at = fixture.publish(&fixture.resource(bucket, 0), "1").await;
    until("the owner handles on", PATIENCE, || handler.ended(bucket) == [at.get()]).await;
    owner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hazard_a_transaction_without_an_offset_is_fenced_by_nothing() {
    let fixture = Fixture::new("fencing-no-offset", 1).await;
    let first = Plain::join(&fixture);
    first.until_owns(1).await;
    let (producer, captured) = (producer(&fixture.kafka, fixture.bus.name()), metadata_of(first.consumer()));
    first.freeze();
    let second = Plain::join(&fixture);
    second.until_owns(1).await;
    let mut invalid = TopicPartitionList::new();
    invalid.add_partition(&fixture.bus.notifications(), 0);
    for nothing in [TopicPartitionList::new(), invalid] {
        transact(&producer, &nothing, &captured).unwrap();
    }
    assert!(transact(&producer, &offset(&fixture, 0, 0), &captured).is_err());
    assert!(producer.client().fatal_error().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_moves_no_offset_is_fenced_all_the_same() {
    let fixture = Fixture::new("fencing-unmoved", 1).await;
    let bucket = fixture.bucket(0);
    let (member, producer) = (Member::join(&fixture), own_producer(&fixture));
    let token = member.until_owns(bucket).await;
    let ticket = member.ticket(bucket, token).unwrap();
    write(&fixture, &producer, (bucket, 0), &ticket.group).unwrap();
    member.freeze();
    let owner = fixture.start("owner", &Recorder::new(Duration::ZERO));
    owner.until_ready(bucket).await;
    let owners = fixture.metadata(bucket).unwrap();
    assert_refused(write(&fixture, &producer, (bucket, committed(&fixture, 0).unwrap()), &ticket.group));
    assert_eq!(fixture.metadata(bucket), Some(owners));
    let mut stale = 0;
    fixture.read(&fixture.bus.ownership(), bucket, |key, _| stale += usize::from(key == b"stale"));
    assert_eq!(stale, 1, "only what was written while it was the owner");
    owner.stop().await;
}

//! Plain commits: Kafka takes them from any live member, and from anybody while the group is empty.

use std::time::Duration;

use rdkafka::consumer::{CommitMode, Consumer as _};

use super::{committed, members::Plain, offset, stranger};
use crate::{
    ledger,
    owners::{Fixture, PATIENCE, Recorder, What, until},
};

#[tokio::test(flavor = "multi_thread")]
async fn hazard_plain_commits_are_accepted_for_anybodys_partition() {
    let fixture = Fixture::new("fencing-plain", 2).await;
    stranger(&fixture).commit(&offset(&fixture, 0, 5), CommitMode::Sync).unwrap();
    assert_eq!(committed(&fixture, 0), Some(5), "the group was empty");

    let (first, second) = (Plain::join(&fixture), Plain::join(&fixture));
    first.until_owns(1).await;
    second.until_owns(1).await;
    let others = second.partitions()[0];
    let list = offset(&fixture, others, 7);
    until("a live member's commit for another's partition is accepted", PATIENCE, || {
        first.consumer().commit(&list, CommitMode::Sync).is_ok()
    })
    .await;
    assert_eq!(committed(&fixture, others.try_into().unwrap()), Some(7));
    assert_eq!(second.partitions(), [others]);
}

/// Whatever happens to it: each committed text is the bus's own, and its numbers only grow.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_never_commits_plainly() {
    let fixture = Fixture::new("fencing-never-plainly", 1).await;
    let bucket = fixture.bucket(0);
    let (handler, resource) = (Recorder::new(Duration::ZERO), fixture.resource(bucket, 0));
    let mut published = Vec::new();
    for round in 0..3 {
        let owner = fixture.start("owner", &handler);
        let other = fixture.start("other", &handler);
        for number in 0..100 {
            published.push(fixture.publish(&resource, &format!("{round}-{number}")).await.get());
        }
        until("all is handled", PATIENCE, || handler.ended(bucket).len() >= published.len()).await;
        owner.stop().await;
        other.stop().await;
    }
    assert_eq!(handler.ended(bucket), published, "orderly handovers repeat nothing");
    assert_eq!(committed(&fixture, 0), Some(300));
    assert!(ledger::assert_only_grows(fixture.kafka.brokers(), &fixture.bus.group()) >= 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_goes_on_from_whatever_was_committed_and_its_epoch_still_grows() {
    let fixture = Fixture::new("fencing-foreign", 1).await;
    let (bucket, handler) = (fixture.bucket(0), Recorder::new(Duration::ZERO));
    let resource = fixture.resource(bucket, 0);
    for number in 0..5 {
        fixture.publish(&resource, &number.to_string()).await;
    }
    let owner = fixture.start("first", &handler);
    until("all is handled", PATIENCE, || handler.ended(bucket) == [0, 1, 2, 3, 4]).await;
    owner.stop().await;
    stranger(&fixture).commit(&offset(&fixture, 0, 2), CommitMode::Sync).unwrap();

    let owner = fixture.start("second", &handler);
    until("what was committed back comes again", PATIENCE, || handler.ended(bucket).len() == 8).await;
    owner.stop().await;
    assert_eq!(handler.ended(bucket)[5..], [2, 3, 4]);
    let acquired = handler.told().into_iter().filter(|told| told.what == What::Acquired);
    let epochs: Vec<u64> = acquired.map(|told| told.epoch.get()).collect();
    assert_eq!(epochs, [1, 2], "the claim has kept the epoch");
}

/// Each of the owner's transactions says the offset anew, so that a stranger's does not stand.
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_commit_beside_a_live_owner_stands_until_its_next_transaction() {
    let fixture = Fixture::new("fencing-beside", 2).await;
    let (bucket, handler) = (fixture.bucket(0), Recorder::new(Duration::ZERO));
    let owner = fixture.start("owner", &handler);
    owner.until_ready(bucket).await;
    owner.until_ready(fixture.bucket(1)).await;
    let resource = fixture.resource(bucket, 0);
    fixture.publish(&resource, "1").await;
    until("the first is committed", PATIENCE, || committed(&fixture, 0) == Some(1)).await;

    let member = Plain::join(&fixture);
    member.until_owns(1).await;
    let theirs = u16::try_from(member.partitions()[0]).unwrap();
    let (ours, handled) = (fixture.bucket(1 - theirs), handler.ended(fixture.bucket(1 - theirs)).len());
    let list = offset(&fixture, ours.partition(), 9);
    until("the stranger commits", PATIENCE, || member.consumer().commit(&list, CommitMode::Sync).is_ok())
        .await;
    assert_eq!(committed(&fixture, 1 - theirs), Some(9));
    let at = fixture.publish(&fixture.resource(ours, 0), "2").await;
    until("the owner's next transaction", PATIENCE, || committed(&fixture, 1 - theirs) == Some(at.get() + 1))
        .await;
    assert_eq!(handler.ended(ours).len(), handled + 1);
    assert!(fixture.metadata(ours).is_some());
    owner.stop().await;
}

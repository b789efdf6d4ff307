//! An owner that finds that somebody else has written since.

use std::{collections::BTreeSet, time::Duration};

use control_bus::{
    engine::{CommitMetadata, Marks},
    model::{Bucket, Epoch, NextOffset, TransactionSequence},
};
use rdkafka::error::KafkaResult;

use super::{committed, metadata_of, offset, producer, stranger, transact};
use crate::{
    ledger,
    owners::{Fixture, PATIENCE, Recorder, What, until},
};

/// Writes in the bucket's name: a thing that nobody should do. It fails where the owner initialises its producer anew in
/// between.
fn usurp(fixture: &Fixture, bucket: Bucket, epoch: Epoch) -> KafkaResult<()> {
    let other = producer(&fixture.kafka, &fixture.bus.transactional_id(bucket));
    let at = committed(fixture, 0).unwrap_or(0);
    let metadata = CommitMetadata { epoch, sequence: TransactionSequence::CLAIM, marks: Marks::default() };
    let list = offset(fixture, 0, at);
    let text = metadata.encode(NextOffset::new(at).unwrap());
    list.find_partition(&fixture.bus.notifications(), 0).unwrap().set_metadata(text);
    transact(&other, &list, &metadata_of(&stranger(fixture)))
}

/// Its handlers are cancelled, their records begin again in a later tenure, and not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_owner_that_finds_anothers_epoch_begins_nothing_more_in_its_tenure() {
    let fixture = Fixture::new("fencing-superseded", 1).await;
    let (bucket, handler) = (fixture.bucket(0), Recorder::new(Duration::from_millis(300)));
    let owner = fixture.start("owner", &handler);
    owner.until_ready(bucket).await;
    let mut count = 0;
    for round in 1..=5 {
        for resource in 0..40 {
            fixture.publish(&fixture.resource(bucket, resource), &format!("{round}-{resource}")).await;
            count += 1;
        }
        let epoch = Epoch::new(round * 100);
        until("somebody else has written", PATIENCE, || usurp(&fixture, bucket, epoch).is_ok()).await;
        until("the owner has taken over anew", PATIENCE, || {
            handler.told().iter().any(|told| told.what == What::Acquired && told.epoch > epoch)
        })
        .await;
    }
    until("all is handled", PATIENCE, || {
        handler.ended(bucket).into_iter().collect::<BTreeSet<_>>().len() == count
    })
    .await;
    owner.stop().await;
    let mut begun = BTreeSet::new();
    for told in handler.told() {
        if let What::Begun(offset) = told.what {
            assert!(begun.insert((told.epoch, offset)), "{offset} began twice in epoch {}", told.epoch);
        }
    }
    assert!(ledger::commits(fixture.kafka.brokers(), &fixture.bus.group())[&0].len() > 10);
}

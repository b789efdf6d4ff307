use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig,
    producer::{BaseProducer, BaseRecord, Producer as _},
};

use super::*;
use crate::kafka::EmbeddedBroker;

const TOPIC: &str = "bus.notifications";
const PATIENCE: Duration = Duration::from_secs(30);

/// Tells what was assigned.
struct Told(mpsc::SyncSender<Vec<Bucket>>);

impl Rebalances for Told {
    fn assigned(&self, buckets: &[Bucket], _: GroupMetadata) {
        self.0.send(buckets.to_vec()).unwrap();
    }

    fn revoking(&self, _: &[Bucket], _: GroupMetadata) {}

    fn lost(&self, _: &[Bucket]) {}

    fn left(&self, _: &[Bucket]) {}

    fn ends(&self, _: &Statistics) {}
}

/// Ten records in the one partition of a topic.
fn broker() -> EmbeddedBroker {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic(TOPIC, 1, 1).unwrap();
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", broker.bootstrap()).create().unwrap();
    for _ in 0..10 {
        producer.send(BaseRecord::to(TOPIC).partition(0).key("key").payload("value")).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
    broker
}

/// Polls until something comes that `look` takes.
fn until<T>(consumer: &GroupConsumer<Told>, look: impl Fn(Polled) -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look(consumer.poll(Duration::from_millis(10))) {
            return found;
        }
        assert!(Instant::now() < end, "it did not come within {PATIENCE:?}");
    }
}

#[test]
fn a_bucket_whose_position_was_out_of_range_can_be_sought_again() {
    let broker = broker();
    let settings = Settings::new(broker.bootstrap(), "test", BTreeMap::new(), true).unwrap();
    let group = GroupSettings {
        group: "bus.controllers".to_owned(),
        topic: TOPIC.to_owned(),
        session_timeout: Duration::from_secs(6),
        heartbeat: Duration::from_millis(200),
        max_poll_interval: Duration::from_secs(60),
    };
    let (sender, assigned) = mpsc::sync_channel(10);
    let metrics = Arc::new(Metrics::new().unwrap());
    let consumer = GroupConsumer::join(&settings, &group, Told(sender), metrics).unwrap();
    let bucket = Bucket::from_partition(0).unwrap();
    until(&consumer, |_| assigned.try_recv().ok().filter(|buckets| buckets.contains(&bucket)));

    let go_on_at = |offset: i64| {
        consumer.seek(bucket, NextOffset::new(offset).unwrap(), PATIENCE)?;
        consumer.resume(bucket)
    };
    let record = |polled| match polled {
        Polled::Record(record) => Some(record.offset().get()),
        _ => None,
    };
    // The question for the log's beginning, which the assignment asks, must be over before anything else is tried.
    go_on_at(0).unwrap();
    assert_eq!(until(&consumer, record), 0);
    go_on_at(1000).unwrap();
    until(&consumer, |polled| matches!(polled, Polled::OutOfRange(_)).then_some(()));
    go_on_at(7).unwrap();
    let offsets: Vec<i64> = (0..3).map(|_| until(&consumer, record)).collect();
    assert_eq!(offsets, [7, 8, 9]);
}

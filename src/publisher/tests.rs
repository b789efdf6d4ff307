//! On the embedded broker.

use std::collections::BTreeMap;

use super::*;
use crate::{
    kafka::{EmbeddedBroker, Isolation, LogReader, ProduceFault},
    model::{Attribute, Bucket, Buckets, Bus, ErrorKind, Kind, PodName, Record},
};

const PATIENCE: Duration = Duration::from_secs(20);

struct Fixture {
    broker: EmbeddedBroker,
    settings: kafka::Settings,
    metrics: Arc<Metrics>,
    publisher: Publisher,
}

fn config() -> Config {
    Config {
        bus: Bus::new("bus").unwrap(),
        buckets: Buckets::new(4).unwrap(),
        name: PodName::new("pod").unwrap(),
        delivery_timeout: PATIENCE,
        linger: Duration::ZERO,
        max_records: 1000,
        max_bytes: 10_000_000,
        max_message_bytes: 100_000,
    }
}

fn fixture(config: Config) -> Fixture {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic("bus.notifications", 4, 1).unwrap();
    let settings = kafka::Settings::new(broker.bootstrap(), "pod", BTreeMap::new(), true).unwrap();
    let metrics = Arc::new(Metrics::new().unwrap());
    let publisher = Publisher::start(config, &settings, Arc::clone(&metrics)).unwrap();
    Fixture { broker, settings, metrics, publisher }
}

fn message(resource: &str, kind: Kind, data: impl Into<bytes::Bytes>) -> Message {
    Message::new(resource.parse().unwrap(), kind, "t", data).unwrap()
}

fn event(resource: &str) -> Message {
    message(resource, Kind::Event, "data")
}

impl Fixture {
    fn read(&self, bucket: Bucket) -> Vec<Record> {
        let reader = LogReader::new(&self.settings, Isolation::ReadUncommitted, None).unwrap();
        let topic = "bus.notifications";
        let (from, to) = reader.bounds(topic, bucket, PATIENCE).unwrap();
        let mut found = Vec::new();
        reader.read((topic, bucket), (from, to), PATIENCE, |record| found.push(record)).unwrap();
        found
    }

    fn failed(&self, kind: ErrorKind) -> u64 {
        self.metrics.publish_failed.with_label_values(&[kind.as_str()]).get()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_names_where_the_message_stands() {
    let fixture = fixture(config());
    let sent = message("default/trigger1", Kind::State, "").with_id("1").unwrap();
    let receipt = fixture.publisher.publish(sent).await.unwrap();
    let home = Buckets::new(4).unwrap().of(&"default/trigger1".parse().unwrap());
    assert_eq!((receipt.id.as_str(), receipt.bucket, receipt.offset.get()), ("1", home, 0));
    let record = fixture.read(home).remove(0);
    assert_eq!((record.offset(), record.payload()), (receipt.offset, Some(&b""[..])));
    assert_eq!(record.text(Attribute::Id), Some("1"));
    let time = record.text(Attribute::Time).unwrap();
    assert!(time.len() == "2026-01-01T00:00:00.000Z".len() && time.ends_with('Z'), "{time}");
    assert_eq!(fixture.metrics.published.get(), 1);
    assert_eq!(fixture.metrics.publish_outstanding_records.get(), 0);
    assert_eq!(fixture.metrics.publish_outstanding_bytes.get(), 0);
    assert_eq!(fixture.metrics.publish_seconds.get_sample_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_an_id_is_given_a_uuid_of_version_7() {
    let fixture = fixture(config());
    let receipt = fixture.publisher.publish(event("a/b")).await.unwrap();
    assert_eq!(receipt.id.parse::<uuid::Uuid>().unwrap().get_version_num(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_resource_stand_in_the_order_of_their_acceptance() {
    let fixture = fixture(config());
    let mut pending = Vec::new();
    for number in 0..500 {
        let resource = format!("ns/{}", number % 7);
        let sent = message(&resource, Kind::Event, number.to_string());
        pending.push((number % 7, fixture.publisher.enqueue(sent).await.unwrap()));
    }
    let mut last = [-1; 7];
    for (resource, pending) in pending {
        let offset = pending.await.unwrap().offset.get();
        assert!(offset > last[resource]);
        last[resource] = offset;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_is_one_record_per_bucket() {
    let fixture = fixture(config());
    let receipts = fixture.publisher.publish_to_all_buckets(event("a/b")).await.unwrap();
    let buckets: Vec<u16> = receipts.iter().map(|receipt| receipt.bucket.get()).collect();
    assert_eq!(buckets, [0, 1, 2, 3]);
    for receipt in &receipts {
        let record = fixture.read(receipt.bucket).remove(0);
        assert_eq!(record.text(Attribute::Broadcast), Some("true"));
        assert_eq!(record.text(Attribute::Id), Some(receipts[0].id.as_str()));
    }
    assert_eq!(fixture.metrics.published.get(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_over_the_limit_is_refused_at_once_by_name_and_size() {
    let fixture = fixture(config());
    let sent = message("a/b", Kind::Event, vec![0; 100_000]).with_id("large").unwrap();
    let error = fixture.publisher.publish(sent).await.unwrap_err();
    let PublishError::TooLarge { size, limit, .. } = &error else { panic!("{error}") };
    assert!(*size > 100_000 && *limit == 100_000);
    let text = error.to_string();
    assert!(text.contains("large") && text.contains(&size.to_string()) && text.contains("100000"), "{text}");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(fixture.failed(ErrorKind::Invalid), 1);
    // The largest that passes here passes Kafka's client too.
    let overhead = size - 100_000;
    let sent = message("a/b", Kind::Event, vec![0; 100_000 - overhead]).with_id("large").unwrap();
    fixture.publisher.publish(sent).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_room_try_publish_gives_the_message_back_and_publish_waits() {
    let fixture = fixture(Config { max_records: 2, ..config() });
    fixture.broker.broker_down(-1).unwrap();
    let first = fixture.publisher.try_publish(event("a/b")).unwrap();
    let _second = fixture.publisher.try_publish(event("a/b")).unwrap();
    assert!(fixture.publisher.oldest_unanswered().is_some());
    let third = message("a/b", Kind::Event, "third").with_id("3").unwrap();
    let refused = fixture.publisher.try_publish(third).unwrap_err();
    assert!(matches!(refused, Refused::Full(_)), "{refused}");
    let third = refused.into_message();
    assert_eq!((third.id(), &third.data()[..]), (Some("3"), &b"third"[..]));
    let publisher = fixture.publisher.clone();
    let waiting = tokio::spawn(async move { publisher.publish(third).await });
    fixture.broker.broker_up(-1).unwrap();
    first.await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().id, "3");
    assert_eq!(fixture.publisher.oldest_unanswered(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_broker_away_every_message_gets_a_retryable_error_that_names_it() {
    let timeout = Duration::from_secs(1);
    let fixture = fixture(Config { delivery_timeout: timeout, max_bytes: 1000, ..config() });
    fixture.broker.broker_down(-1).unwrap();
    let began = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..4 {
        let publisher = fixture.publisher.clone();
        let sent = message("a/b", Kind::Event, vec![0; 500]).with_id(number.to_string()).unwrap();
        calls.spawn(async move { publisher.publish(sent).await.unwrap_err() });
    }
    let errors = calls.join_all().await;
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    let mut ids: Vec<&str> = errors.iter().map(PublishError::id).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["0", "1", "2", "3"]);
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::Retryable));
    assert!(errors.iter().any(|error| matches!(error, PublishError::NoRoom { .. })), "{errors:?}");
    let timed_out = errors.iter().find(|error| matches!(error, PublishError::TimedOut { .. })).unwrap();
    assert!(timed_out.to_string().contains("within 1 s"), "{timed_out}");
    assert_eq!(fixture.failed(ErrorKind::Retryable), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_after_a_refused_one_of_its_resource_is_given_back() {
    let fixture = fixture(config());
    fixture.publisher.publish(event("a/b")).await.unwrap();
    fixture.broker.set_round_trip_time(Duration::from_millis(200)).unwrap();
    fixture.broker.fail_produce(ProduceFault::TooLarge, 1).unwrap();
    // Each is larger than half a batch, so each goes out in a request of its own.
    let large = |id: &str| message("a/b", Kind::Event, vec![0; 60_000]).with_id(id).unwrap();
    let first = fixture.publisher.enqueue(large("first")).await.unwrap();
    let second = fixture.publisher.enqueue(large("second")).await.unwrap();
    let error = first.await.unwrap_err();
    assert!(matches!(error, PublishError::Kafka { .. }), "{error}");
    assert_eq!((error.id(), error.kind()), ("first", ErrorKind::Invalid));
    let error = second.await.unwrap_err();
    assert!(matches!(&error, PublishError::AfterFailed { failed, .. } if failed == "first"), "{error}");
    let third = fixture.publisher.publish(large("third")).await.unwrap();
    assert_eq!(third.id, "third");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_state_is_never_written_over_a_newer_one() {
    let fixture = fixture(config());
    let state = |data: &'static str| message("a/b", Kind::State, data);
    fixture.publisher.publish(state("0")).await.unwrap();
    fixture.broker.fail_produce(ProduceFault::TooLarge, 1).unwrap();
    let old = fixture.publisher.publish(state("old")).await.unwrap_err().into_message();
    let new = fixture.publisher.publish(state("new")).await.unwrap();
    for _ in 0..2 {
        let error = fixture.publisher.publish(old.clone()).await.unwrap_err();
        assert!(matches!(error, PublishError::Superseded { .. }), "{error}");
    }
    assert_eq!(fixture.read(new.bucket).last().and_then(Record::payload), Some(&b"new"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_is_fatal_and_does_not_blame_the_message() {
    let fixture = fixture(config());
    fixture.publisher.publish(event("a/b")).await.unwrap();
    fixture.broker.fail_produce(ProduceFault::NotAllowed, 1).unwrap();
    let error = fixture.publisher.publish(event("a/b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fatal, "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_answers_what_was_accepted_and_accepts_nothing_more() {
    let fixture = fixture(config());
    let accepted = fixture.publisher.enqueue(event("a/b")).await.unwrap();
    fixture.publisher.close().await;
    fixture.publisher.close().await;
    tokio::time::timeout(Duration::ZERO, accepted).await.unwrap().unwrap();
    let error = fixture.publisher.publish(event("a/b")).await.unwrap_err();
    assert!(matches!(error, PublishError::Closed { .. }), "{error}");
    assert!(matches!(fixture.publisher.try_publish(event("a/b")), Err(Refused::Failed(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_waits_for_all_that_was_accepted_and_a_dropped_wait_withdraws_nothing() {
    let fixture = fixture(config());
    for _ in 0..100 {
        drop(fixture.publisher.enqueue(event("a/b")).await.unwrap());
    }
    fixture.publisher.flush().await;
    assert_eq!(fixture.metrics.published.get(), 100);
    assert_eq!(fixture.publisher.oldest_unanswered(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dropped_publisher_accepted_still_goes_out() {
    let fixture = fixture(config());
    fixture.broker.broker_down(-1).unwrap();
    let pending = fixture.publisher.enqueue(event("a/b")).await.unwrap();
    drop(fixture.publisher);
    fixture.broker.broker_up(-1).unwrap();
    pending.await.unwrap();
}

#[tokio::test]
async fn a_setting_that_the_client_refuses_is_an_error_of_the_start() {
    let settings = kafka::Settings::new("127.0.0.1:1", "pod", BTreeMap::new(), false).unwrap();
    let impossible = Config { linger: Duration::from_secs(60), ..config() };
    let error = Publisher::start(impossible, &settings, Arc::new(Metrics::new().unwrap())).unwrap_err();
    assert!(std::error::Error::source(&error).is_some(), "{error:?}");
}

//! The pod's side on a real broker: what receipts promise, and what happens while Kafka is away.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use control_bus::{
    kafka::Settings,
    model::{Buckets, Bus, ErrorKind, Kind, Message, PodName},
    pipe::data_plane::{self, AtEnd, Options},
    publisher::{Config, PublishError, Publisher, Refused},
    telemetry::Metrics,
};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
    message::Headers as _,
};
use tokio_util::sync::CancellationToken;

use crate::support::kafka::{self, Cluster};

const BUCKETS: i32 = 4;
const MAX_MESSAGE_BYTES: usize = 100_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// A record as a plain consumer sees it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    partition: i32,
    offset: i64,
    key: Option<Vec<u8>>,
    payload: Option<Vec<u8>>,
    headers: HashMap<String, String>,
}

/// A bus of its own.
struct Fixture {
    bootstrap: String,
    bus: Bus,
    metrics: Arc<Metrics>,
    publisher: Publisher,
}

impl Fixture {
    async fn new(bootstrap: &str, change: impl FnOnce(&mut Config)) -> Self {
        let bus = Bus::new(format!("publisher-{}", uuid::Uuid::now_v7())).unwrap();
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
        let topic = bus.notifications();
        let limit = MAX_MESSAGE_BYTES.to_string();
        let new = NewTopic::new(&topic, BUCKETS, TopicReplication::Fixed(1))
            .set("max.message.bytes", &limit)
            .set("cleanup.policy", "compact");
        admin.create_topics(&[new], &AdminOptions::new()).await.unwrap()[0].as_ref().unwrap();
        let mut config = Config {
            bus: bus.clone(),
            buckets: Buckets::new(4).unwrap(),
            name: PodName::new("pod").unwrap(),
            delivery_timeout: PATIENCE,
            linger: Duration::ZERO,
            max_records: 10_000,
            max_bytes: 10_000_000,
            max_message_bytes: MAX_MESSAGE_BYTES,
        };
        change(&mut config);
        let settings = Settings::new(bootstrap, "pod", BTreeMap::new(), false).unwrap();
        let metrics = Arc::new(Metrics::new().unwrap());
        let publisher = Publisher::start(config, &settings, Arc::clone(&metrics)).unwrap();
        Self { bootstrap: bootstrap.to_owned(), bus, metrics, publisher }
    }

    /// Every record of the bus, partition by partition.
    fn read(&self) -> Vec<Seen> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", "never-joined")
            .set("enable.partition.eof", "true")
            .create()
            .unwrap();
        let topic = self.bus.notifications();
        let mut all = Vec::new();
        for partition in 0..BUCKETS {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&topic, partition, Offset::Beginning).unwrap();
            consumer.assign(&list).unwrap();
            let deadline = Instant::now() + PATIENCE;
            loop {
                assert!(Instant::now() < deadline, "partition {partition} cannot be read");
                match consumer.poll(Duration::from_millis(100)) {
                    Some(Ok(message)) => all.push(Seen::new(&message.detach())),
                    Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => break,
                    Some(Err(_)) | None => {}
                }
            }
        }
        all
    }
}

impl Seen {
    fn new(message: &rdkafka::message::OwnedMessage) -> Self {
        let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        let text = |value: Option<&[u8]>| String::from_utf8(value.unwrap().to_vec()).unwrap();
        Self {
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            payload: message.payload().map(<[u8]>::to_vec),
            headers: headers.map(|header| (header.key.to_owned(), text(header.value))).collect(),
        }
    }
}

fn event(resource: &str, id: impl ToString, data: impl Into<bytes::Bytes>) -> Message {
    let message = Message::new(resource.parse().unwrap(), Kind::Event, "t", data).unwrap();
    message.with_id(id.to_string()).unwrap()
}

/// A cluster of a test's own, to break.
fn cluster() -> Cluster {
    Cluster::start(1, &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_names_the_record_that_a_plain_consumer_finds() {
    let fixture = Fixture::new(kafka::shared(), |_| {}).await;
    let mut receipts = Vec::new();
    for number in 0..40 {
        let kind = if number % 2 == 0 { Kind::State } else { Kind::Event };
        let data = if number < 20 { String::new() } else { number.to_string() };
        let resource = format!("default/trigger{number}");
        let message = Message::new(resource.parse().unwrap(), kind, "t", data).unwrap();
        let message = message.with_id(number.to_string()).unwrap();
        receipts.push(fixture.publisher.publish(message).await.unwrap());
    }
    let seen = fixture.read();
    assert_eq!(seen.len(), 40);
    for (number, receipt) in receipts.iter().enumerate() {
        let place = (receipt.bucket.partition(), receipt.offset.get());
        let found = seen.iter().find(|record| (record.partition, record.offset) == place).unwrap();
        assert_eq!((&found.headers["ce_id"], &receipt.id), (&number.to_string(), &number.to_string()));
        let data = if number < 20 { String::new() } else { number.to_string() };
        assert_eq!(found.payload.as_deref(), Some(data.as_bytes()), "an empty value is no tombstone");
        assert_eq!(found.headers["ce_subject"], format!("default/trigger{number}"));
        assert_eq!(found.headers["ce_pod"], "pod");
        let key = match found.headers["ce_kind"].as_str() {
            "state" => format!("state/default/trigger{number}/pod/pod/t"),
            _ => format!("event/default/trigger{number}/pod/pod/{number}"),
        };
        assert_eq!(found.key.as_deref(), Some(key.as_bytes()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_resource_stand_in_order_and_none_is_missing() {
    let fixture = Fixture::new(kafka::shared(), |config| config.max_records = 500).await;
    let mut calls = tokio::task::JoinSet::new();
    for resource in 0..8 {
        let publisher = fixture.publisher.clone();
        calls.spawn(async move {
            let mut pending = Vec::new();
            for number in 0..2000 {
                let message = event(&format!("ns/{resource}"), number, number.to_string());
                pending.push(publisher.enqueue(message).await.unwrap());
            }
            for pending in pending {
                pending.await.unwrap();
            }
        });
    }
    calls.join_all().await;
    let mut by_resource: HashMap<String, Vec<i32>> = HashMap::new();
    for record in fixture.read() {
        let number = String::from_utf8(record.payload.unwrap()).unwrap().parse().unwrap();
        by_resource.entry(record.headers["ce_subject"].clone()).or_default().push(number);
    }
    assert_eq!(by_resource.len(), 8);
    for (resource, numbers) in by_resource {
        assert!(numbers.iter().copied().eq(0..2000), "{resource} is not 0 to 1999 in order");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_size_limit_is_the_topics_own() {
    // With the linger, small messages could add up to a batch that the broker refuses.
    let fixture = Fixture::new(kafka::shared(), |config| config.linger = Duration::from_millis(50)).await;
    let large = event("ns/a", "too-large", vec![b'x'; MAX_MESSAGE_BYTES]);
    let began = Instant::now();
    let error = fixture.publisher.publish(large).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(1), "it was not refused at once");
    let PublishError::TooLarge { size, limit: MAX_MESSAGE_BYTES, .. } = error else { panic!("{error}") };
    let text = error.to_string();
    assert!(text.contains("too-large") && text.contains(&size.to_string()), "{text}");
    // The largest that is let through is small enough for the broker, and so are many at once.
    let fits = MAX_MESSAGE_BYTES - (size - MAX_MESSAGE_BYTES);
    let mut pending = Vec::new();
    for number in 0..1000 {
        let size = if number % 50 == 0 { fits } else { 500 };
        let message = event("ns/a", format!("{number:09}"), vec![b'x'; size]);
        pending.push(fixture.publisher.enqueue(message).await.unwrap());
    }
    for pending in pending {
        pending.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_set_too_high_makes_the_broker_refuse_the_message_and_only_that() {
    let fixture = Fixture::new(kafka::shared(), |config| config.max_message_bytes = 500_000).await;
    let error = fixture.publisher.publish(event("ns/a", "1", vec![b'x'; 200_000])).await.unwrap_err();
    assert!(matches!(error, PublishError::Kafka { .. }), "{error}");
    assert_eq!((error.id(), error.kind()), ("1", ErrorKind::Invalid));
    fixture.publisher.publish(event("ns/a", "2", "small")).await.unwrap();
    assert_eq!(fixture.read().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_reaches_every_partition_once() {
    let fixture = Fixture::new(kafka::shared(), |_| {}).await;
    let receipts = fixture.publisher.publish_to_all_buckets(event("ns/a", "1", "data")).await.unwrap();
    let places: Vec<_> =
        receipts.iter().map(|receipt| (receipt.bucket.partition(), receipt.offset.get())).collect();
    let seen = fixture.read();
    assert_eq!(seen.iter().map(|record| (record.partition, record.offset)).collect::<Vec<_>>(), places);
    assert_eq!(seen.len(), 4);
    for record in seen {
        assert_eq!(
            (record.headers["ce_id"].as_str(), record.headers["ce_broadcast"].as_str()),
            ("1", "true")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_broker_is_frozen_memory_is_bounded_and_every_message_fails_by_name_in_time() {
    let cluster = cluster();
    let timeout = Duration::from_secs(3);
    let fixture = Fixture::new(cluster.bootstrap(), |config| {
        config.delivery_timeout = timeout;
        (config.max_records, config.max_bytes) = (50, 100_000);
    })
    .await;
    fixture.publisher.publish(event("ns/warm", "warm", "")).await.unwrap();
    cluster.pause(1);
    let began = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..200 {
        let publisher = fixture.publisher.clone();
        let size = if number % 2 == 0 { 10 } else { 5000 };
        calls.spawn(
            async move { publisher.publish(event("ns/a", number, vec![b'x'; size])).await.unwrap_err() },
        );
    }
    while fixture.publisher.oldest_unanswered().is_none() {
        tokio::task::yield_now().await;
    }
    let mut refused = None;
    while refused.is_none() {
        refused = fixture.publisher.try_publish(event("ns/a", "refused", vec![b'y'; 50_000])).err();
    }
    let refused = refused.unwrap();
    assert!(matches!(refused, Refused::Full(_)), "{refused}");
    assert_eq!((refused.kind(), refused.into_message().data().len()), (ErrorKind::Retryable, 50_000));
    let mut ids = std::collections::BTreeSet::new();
    while let Some(error) = calls.join_next().await {
        let (records, bytes) =
            (&fixture.metrics.publish_outstanding_records, &fixture.metrics.publish_outstanding_bytes);
        assert!(records.get() <= 50 && bytes.get() <= 100_000, "{} {}", records.get(), bytes.get());
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::Retryable, "{error}");
        assert!(error.to_string().contains(&format!("message {} was", error.id())), "{error}");
        ids.insert(error.id().to_owned());
    }
    assert_eq!(ids.len(), 200);
    // Once for room and once for Kafka, and a scan of librdkafka's, once a second.
    assert!(began.elapsed() < 2 * timeout + Duration::from_secs(3), "{:?}", began.elapsed());
    cluster.resume(1);
    fixture.publisher.publish(event("ns/a", "after", "")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_shorter_than_the_delivery_timeout_loses_and_repeats_nothing() {
    let cluster = cluster();
    let fixture = Fixture::new(cluster.bootstrap(), |config| config.max_records = 300).await;
    let publisher = fixture.publisher.clone();
    let (half, mut at_half) = tokio::sync::mpsc::channel(1);
    let publishing = tokio::spawn(async move {
        let mut pending = Vec::new();
        for number in 0..4000 {
            if number == 2000 {
                half.send(()).await.unwrap();
            }
            let message = event(&format!("ns/{}", number % 5), number, number.to_string());
            pending.push(publisher.enqueue(message).await.unwrap());
        }
        for pending in pending {
            pending.await.unwrap();
        }
    });
    at_half.recv().await.unwrap();
    cluster.kill(1);
    cluster.restart(1);
    publishing.await.unwrap();
    let mut next: HashMap<String, i32> = HashMap::new();
    let seen = fixture.read();
    assert_eq!(seen.len(), 4000);
    for record in seen {
        let number: i32 = String::from_utf8(record.payload.unwrap()).unwrap().parse().unwrap();
        let expected = next.entry(record.headers["ce_subject"].clone()).or_insert(number % 5);
        assert_eq!(number, *expected);
        *expected += 5;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_planes_pipe_answers_each_line_with_where_its_record_stands() {
    let fixture = Fixture::new(kafka::shared(), |_| {}).await;
    let mut input = String::new();
    for number in 0..5000 {
        let line =
            format!(r#"{{"resource":"ns/{}","type":"t","kind":"event","data":[{number}]}}"#, number % 9);
        input.push_str(&line);
        input.push('\n');
    }
    let (mut output, options) = (Vec::new(), Options { at_end: AtEnd::Exit });
    let shutdown = CancellationToken::new();
    let publisher = &fixture.publisher;
    let summary = data_plane::run(publisher, input.as_bytes(), &mut output, options, shutdown).await.unwrap();
    assert!(summary.all_accepted() && summary.lines == 5000, "{summary:?}");
    let mut answers = HashMap::new();
    for (number, line) in String::from_utf8(output).unwrap().lines().enumerate() {
        let answer: serde_json::Value = serde_json::from_str(line).unwrap();
        answers.insert((answer["bucket"].as_i64().unwrap(), answer["offset"].as_i64().unwrap()), number);
    }
    for record in fixture.read() {
        let number = answers[&(i64::from(record.partition), record.offset)];
        assert_eq!(record.payload.unwrap(), format!("[{number}]").into_bytes());
        assert_eq!(record.headers["content-type"], "application/json");
    }
    assert_eq!(answers.len(), 5000);
}

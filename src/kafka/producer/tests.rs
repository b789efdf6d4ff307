use std::{collections::BTreeMap, sync::mpsc};

use bytes::Bytes;

use super::*;
use crate::{
    kafka::{EmbeddedBroker, Isolation, LogReader, ProduceFault},
    model::{Bucket, NextOffset},
};

const TOPIC: &str = "bus.notifications";
const PATIENCE: Duration = Duration::from_secs(20);

/// Says how the record numbered by its first field ended.
#[derive(Debug)]
struct Told(usize, mpsc::SyncSender<(usize, Result<RecordOffset, Error>)>);

impl Completion for Told {
    fn complete(self, result: Result<RecordOffset, Error>) {
        self.1.send((self.0, result)).unwrap();
    }
}

struct Fixture {
    broker: EmbeddedBroker,
    settings: Settings,
    producer: Producer<Told>,
    told: mpsc::Receiver<(usize, Result<RecordOffset, Error>)>,
    sender: mpsc::SyncSender<(usize, Result<RecordOffset, Error>)>,
    ended: mpsc::Receiver<()>,
}

fn fixture(delivery_timeout: Duration) -> Fixture {
    let broker = EmbeddedBroker::start(1).unwrap();
    broker.create_topic(TOPIC, 2, 1).unwrap();
    let settings = Settings::new(broker.bootstrap(), "test", BTreeMap::new(), true).unwrap();
    let producer = ProducerSettings {
        delivery_timeout,
        linger: Duration::ZERO,
        max_message_bytes: 1 << 20,
        max_records: 1000,
        max_bytes: 1 << 20,
    };
    let (end, ended) = mpsc::sync_channel(1);
    let metrics = Arc::new(Metrics::new().unwrap());
    let producer = Producer::new(&settings, &producer, metrics, move || end.send(()).unwrap()).unwrap();
    let (sender, told) = mpsc::sync_channel(10_000);
    Fixture { broker, settings, producer, told, sender, ended }
}

fn outgoing(partition: i32, payload: Option<&'static [u8]>) -> Outgoing {
    Outgoing {
        bucket: Bucket::from_partition(partition).unwrap(),
        key: Some(Bytes::from_static(b"key")),
        payload: payload.map(Bytes::from_static),
        headers: vec![("empty".to_owned(), Some(Bytes::new())), ("null".to_owned(), None)],
    }
}

impl Fixture {
    fn send(&self, number: usize, partition: i32, payload: Option<&'static [u8]>) {
        let completion = Told(number, self.sender.clone());
        self.producer.send(TOPIC, &outgoing(partition, payload), completion).unwrap();
    }

    fn answer(&self) -> (usize, Result<RecordOffset, Error>) {
        self.told.recv_timeout(PATIENCE).unwrap()
    }
}

#[test]
fn records_reach_the_given_partition_and_an_empty_payload_is_no_null() {
    let fixture = fixture(PATIENCE);
    for (number, payload) in [Some(&b"x"[..]), Some(b""), None].into_iter().enumerate() {
        fixture.send(number, 1, payload);
    }
    for (number, offset) in (0..3).zip(0..) {
        let (told, result) = fixture.answer();
        assert_eq!((told, result.unwrap().get()), (number, offset));
    }
    let reader = LogReader::new(&fixture.settings, Isolation::ReadUncommitted, None).unwrap();
    let bucket = Bucket::from_partition(1).unwrap();
    let mut found = Vec::new();
    let range = (NextOffset::ZERO, NextOffset::new(3).unwrap());
    reader.read((TOPIC, bucket), range, PATIENCE, |record| found.push(record)).unwrap();
    let payloads: Vec<_> = found.iter().map(crate::model::Record::payload).collect();
    assert_eq!(payloads, [Some(&b"x"[..]), Some(b""), None]);
    assert_eq!(found[0].key(), Some(&b"key"[..]));
    assert_eq!(found[0].headers().collect::<Vec<_>>(), [("empty", Some(&b""[..])), ("null", None)]);
}

#[test]
fn a_dropped_producer_tells_every_completion_once() {
    let fixture = fixture(Duration::from_secs(600));
    fixture.broker.broker_down(-1).unwrap();
    for number in 0..500 {
        fixture.send(number, 0, Some(b"x"));
    }
    drop(fixture.producer);
    fixture.ended.recv_timeout(PATIENCE).unwrap();
    drop(fixture.sender);
    let mut told: Vec<usize> = fixture
        .told
        .iter()
        .map(|(number, result)| {
            assert!(matches!(result.unwrap_err().code().as_str(), "PurgeQueue" | "PurgeInflight"));
            number
        })
        .collect();
    told.sort_unstable();
    assert_eq!(told, (0..500).collect::<Vec<_>>());
}

#[test]
fn with_the_broker_away_a_record_fails_when_its_delivery_timeout_passes() {
    let fixture = fixture(Duration::from_secs(1));
    fixture.broker.broker_down(-1).unwrap();
    let began = Instant::now();
    fixture.send(0, 0, Some(b"x"));
    let error = fixture.answer().1.unwrap_err();
    assert!(error.is_delivery_timeout(), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn a_refusal_by_the_broker_is_told_with_its_code_and_a_broken_connection_is_survived() {
    let fixture = fixture(PATIENCE);
    fixture.send(0, 0, Some(b"warm"));
    fixture.answer().1.unwrap();
    fixture.broker.fail_produce(ProduceFault::TooLarge, 1).unwrap();
    fixture.send(1, 0, Some(b"x"));
    let error = fixture.answer().1.unwrap_err();
    assert!(error.blames_record(), "{error:?}");
    fixture.broker.fail_produce(ProduceFault::Disconnected, 2).unwrap();
    fixture.send(2, 0, Some(b"y"));
    fixture.answer().1.unwrap();
}

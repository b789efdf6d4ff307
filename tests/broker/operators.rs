//! The operator's commands against a real broker: what they tell is what the topics hold.

mod away;
mod check;
mod permissions;
mod send;
mod tail;
mod watch;

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use control_bus::{
    cli::{self, Answer, Append, Cli, Error, Outcome, Selection, Target},
    kafka::{self, Settings},
    model::{
        Bucket, Buckets, Bus, Claim, DeadLetter, Decoded, Epoch, Kind, Message, Outgoing, PodName, Record,
        RecordOffset, ResourceKey, Why,
    },
    topics::{self, Config},
};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer as _},
    message::{Header, OwnedHeaders},
    producer::{FutureProducer, FutureRecord, Producer as _},
};

use crate::support::kafka::shared;

const TIMEOUT: Duration = Duration::from_secs(20);
const NOW: &str = "2026-01-01T00:00:00Z";

/// A bus of its own, and a way to write to it.
struct Fixture {
    target: Target,
    producer: FutureProducer,
    /// Writes in transactions, as owners do: the log has their markers.
    owner: FutureProducer,
    /// What was appended by replays.
    appended: Mutex<Vec<Outgoing>>,
}

impl Fixture {
    async fn new() -> Self {
        let config = Config {
            bus: Bus::new(format!("operators-{}", uuid::Uuid::now_v7())).unwrap(),
            buckets: Buckets::new(3).unwrap(),
            slots: 2,
            create: true,
            replication_factor: None,
        };
        let kafka = Settings::new(shared(), "operators-test", BTreeMap::new(), false).unwrap();
        topics::ensure(&config, &kafka, TIMEOUT).await.unwrap();
        let target = Target {
            kafka,
            bus: config.bus,
            buckets: config.buckets,
            slots: config.slots,
            replication_factor: None,
            name: PodName::new("operator").unwrap(),
            timeout: TIMEOUT,
        };
        let mut client = ClientConfig::new();
        let producer = client.set("bootstrap.servers", shared()).create().unwrap();
        client.set("transactional.id", target.bus.name()).set("retry.backoff.ms", "10");
        let owner: FutureProducer = client.create().unwrap();
        owner.init_transactions(TIMEOUT).unwrap();
        Self { target, producer, owner, appended: Mutex::new(Vec::new()) }
    }

    /// Writes as an owner does; `committed` or not.
    async fn transact(&self, topic: &str, outgoing: &Outgoing, committed: bool) -> RecordOffset {
        self.owner.begin_transaction().unwrap();
        let offset = write(&self.owner, topic, outgoing).await;
        if committed {
            self.owner.commit_transaction(TIMEOUT).unwrap();
        } else {
            self.owner.abort_transaction(TIMEOUT).unwrap();
        }
        offset
    }

    /// Publishes a message as `dispatcher1`, and returns the record with its place.
    async fn publish(&self, message: &Message) -> Record {
        let outgoing = message.encode(&PodName::new("dispatcher1").unwrap(), self.target.buckets, NOW);
        let offset = write(&self.producer, &self.target.bus.notifications(), &outgoing).await;
        read(&outgoing, offset)
    }

    /// Gives a record up, and returns its letter's place.
    async fn give_up(&self, record: &Record, why: Why, with_data: bool) -> (Bucket, RecordOffset) {
        let topic = self.target.bus.notifications();
        let letter = DeadLetter {
            topic: &topic,
            record,
            why,
            reason: "no such trigger\nsecond line",
            attempts: 3,
            epoch: Epoch::new(2),
            owner: "controller1",
            time: NOW,
        };
        let outgoing = if with_data { letter.encode() } else { letter.encode_without_data() };
        (outgoing.bucket, self.transact(&self.target.bus.dead_letters(), &outgoing, true).await)
    }

    async fn claim(&self, bucket: Bucket, epoch: u64, released: bool, committed: bool) {
        let claim = Claim {
            epoch: Epoch::new(epoch),
            owner: format!("controller{epoch}"),
            time: NOW.to_owned(),
            released,
            cautious_until: None,
        };
        let outgoing = Outgoing {
            bucket,
            key: Some("claim".into()),
            payload: Some(claim.encode().into()),
            headers: Vec::new(),
        };
        self.transact(&self.target.bus.ownership(), &outgoing, committed).await;
    }

    /// Commits as a stranger to the group, which nobody has joined.
    async fn commit(&self, bucket: Bucket, offset: i64) {
        let bus = &self.target.bus;
        let (group, topic) = (bus.group(), bus.notifications());
        let commit = move || {
            let consumer: BaseConsumer = ClientConfig::new()
                .set("bootstrap.servers", shared())
                .set("group.id", group)
                .create()
                .unwrap();
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&topic, bucket.partition(), Offset::Offset(offset)).unwrap();
            consumer.commit(&list, CommitMode::Sync).unwrap();
        };
        tokio::task::spawn_blocking(commit).await.unwrap();
    }

    async fn replay(&self, selection: &Selection) -> (Vec<Answer>, Result<(), Error>) {
        let mut answers = Vec::new();
        let result = cli::replay(&self.target, selection, self, &mut answers).await;
        (answers, result)
    }

    fn bucket(&self, number: u16) -> Bucket {
        self.target.buckets.get(number).unwrap()
    }
}

impl Append for &Fixture {
    async fn append(&self, topic: &str, outgoing: Outgoing) -> Result<RecordOffset, kafka::Error> {
        let offset = write(&self.producer, topic, &outgoing).await;
        self.appended.lock().unwrap().push(outgoing);
        Ok(offset)
    }
}

impl Append for Fixture {
    async fn append(&self, topic: &str, outgoing: Outgoing) -> Result<RecordOffset, kafka::Error> {
        (&self).append(topic, outgoing).await
    }
}

async fn write(producer: &FutureProducer, topic: &str, outgoing: &Outgoing) -> RecordOffset {
    let mut headers = OwnedHeaders::new();
    for (name, value) in &outgoing.headers {
        headers = headers.insert(Header { key: name, value: value.as_deref() });
    }
    let mut record: FutureRecord<'_, [u8], [u8]> =
        FutureRecord::to(topic).partition(outgoing.bucket.partition()).headers(headers);
    record.key = outgoing.key.as_deref();
    record.payload = outgoing.payload.as_deref();
    let delivered = producer.send(record, TIMEOUT).await.unwrap();
    RecordOffset::new(delivered.offset).unwrap()
}

fn read(outgoing: &Outgoing, offset: RecordOffset) -> Record {
    let mut builder = Record::builder(outgoing.bucket, offset, None, 0)
        .key(outgoing.key.as_deref())
        .payload(outgoing.payload.as_deref());
    for (name, value) in &outgoing.headers {
        builder.header(name, value.as_deref());
    }
    builder.finish()
}

fn message(resource: &str, kind: Kind, id: &str) -> Message {
    let resource: ResourceKey = resource.parse().unwrap();
    Message::new(resource, kind, "consumers", "data").and_then(|message| message.with_id(id)).unwrap()
}

/// What the program prints for these arguments.
async fn printed(fixture: &Fixture, arguments: &str) -> (String, Result<bool, Error>) {
    use clap::Parser as _;
    let arguments = format!("control-bus {arguments} --config unused");
    let cli = Cli::try_parse_from(arguments.split_whitespace()).unwrap();
    let mut out = Vec::new();
    let result = cli::execute(&cli.command, &fixture.target, async || Ok(fixture), &mut out).await;
    (String::from_utf8(out).unwrap(), result)
}

#[tokio::test]
async fn a_route_tells_the_bucket_and_what_its_latest_claim_says() {
    let fixture = Fixture::new().await;
    let resource: ResourceKey = "default/trigger1".parse().unwrap();
    let bucket = fixture.target.buckets.of(&resource);
    let nobody = cli::route(&fixture.target, &resource).await.unwrap();
    assert_eq!(
        (nobody.bucket, nobody.owner, nobody.epoch, nobody.committed),
        (bucket.get(), None, None, None)
    );

    fixture.publish(&message("default/trigger1", Kind::Event, "1")).await;
    fixture.claim(bucket, 1, true, true).await;
    fixture.claim(bucket, 2, false, true).await;
    fixture.claim(bucket, 3, false, false).await;
    fixture.commit(bucket, 1).await;
    let owned = cli::route(&fixture.target, &resource).await.unwrap();
    assert_eq!((owned.owner.as_deref(), owned.epoch), (Some("controller2"), Some(2)));
    assert_eq!((owned.released, owned.committed), (Some(false), Some(1)));
    let (json, _) = printed(&fixture, "route default/trigger1 --output json").await;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["epoch"], &json["partition"]), (&2.into(), &bucket.partition().into()));
}

#[tokio::test]
async fn buckets_tell_owner_and_lag_each() {
    let fixture = Fixture::new().await;
    let first = fixture.bucket(0);
    fixture.claim(first, 1, true, true).await;
    let resource = (0..)
        .map(|n| format!("a/b{n}"))
        .find(|name| fixture.target.buckets.of(&name.parse().unwrap()) == first);
    let resource = resource.unwrap();
    for id in ["1", "2", "3"] {
        fixture.publish(&message(&resource, Kind::Event, id)).await;
    }
    let lag = async || {
        let buckets = cli::buckets(&fixture.target).await.unwrap();
        assert_eq!(buckets.iter().map(|status| status.bucket).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((buckets[1].lag, buckets[1].end, &buckets[1].owner), (0, 0, &None));
        (buckets[0].lag, buckets[0].end, buckets[0].released)
    };
    assert_eq!(lag().await, (3, 3, Some(true)), "without a commit all of it waits");
    fixture.commit(first, 2).await;
    assert_eq!(lag().await, (1, 3, Some(true)));
    let (plain, _) = printed(&fixture, "buckets --output plain").await;
    assert_eq!(plain.lines().nth(1), Some(&*format!("0\tcontroller1\t1\ttrue\t{NOW}\t2\t3\t1\t\t0")));
}

#[tokio::test]
async fn a_bus_of_another_size_is_not_told_about() {
    let mut fixture = Fixture::new().await;
    fixture.target.buckets = Buckets::new(4).unwrap();
    let error = cli::buckets(&fixture.target).await.unwrap_err();
    assert!(matches!(error, Error::Topics(topics::Error::Mismatch(_))), "{error:?}");
    let error = cli::list(&fixture.target, Some(4), 1).await.unwrap_err();
    assert!(matches!(error, Error::NoBucket { found: 4, .. }), "{error:?}");
    assert_eq!(error.exit_code(), 64);
}

#[tokio::test]
async fn the_list_has_the_newest_letters_with_their_reasons() {
    let fixture = Fixture::new().await;
    for id in ["1", "2", "3", "4", "5", "6"] {
        let record = fixture.publish(&message(&format!("a/b{id}"), Kind::Event, id)).await;
        fixture.give_up(&record, Why::Rejected, true).await;
    }
    let ids =
        |letters: Vec<cli::Letter>| letters.into_iter().filter_map(|letter| letter.id).collect::<Vec<_>>();
    assert_eq!(ids(cli::list(&fixture.target, None, 100).await.unwrap()), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(ids(cli::list(&fixture.target, None, 2).await.unwrap()), ["5", "6"]);
    assert_eq!(ids(cli::list(&fixture.target, None, 0).await.unwrap()), [""; 0]);
    let bucket = fixture.target.buckets.of(&"a/b6".parse().unwrap());
    let last = cli::list(&fixture.target, Some(bucket.get()), 1).await.unwrap().remove(0);
    assert_eq!((last.resource.as_deref(), last.why.as_deref()), (Some("a/b6"), Some("rejected")));
    assert_eq!((last.attempts, last.time.as_deref()), (Some(3), Some(NOW)));
    let (plain, _) = printed(&fixture, "dead-letters list --output plain").await;
    assert_eq!(plain.lines().count(), 7, "a reason of two lines stays in its line: {plain}");
}

#[tokio::test]
async fn a_letter_comes_back_under_a_new_id() {
    let fixture = Fixture::new().await;
    let record = fixture.publish(&message("a/b", Kind::Event, "old")).await;
    let (bucket, offset) = fixture.give_up(&record, Why::Exhausted, true).await;
    let (answers, result) = fixture.replay(&Selection::At(bucket, offset)).await;
    result.unwrap();
    let [answer] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((answer.outcome, answer.id.as_deref()), (Outcome::Replayed, Some("old")));
    assert_eq!(answer.new_offset, Some(record.offset().get() + 1));
    let appended = fixture.appended.lock().unwrap().remove(0);
    let Decoded::Notification(again) =
        Decoded::judge(read(&appended, record.offset()), fixture.target.buckets)
    else {
        panic!("{appended:?}")
    };
    assert_eq!(Some(again.id()), answer.new_id.as_deref());
    assert_eq!((again.pod(), again.data(), again.has_own_key()), ("dispatcher1", &b"data"[..], true));
    assert_eq!(again.record().text(control_bus::model::Attribute::ReplayOf), Some("old"));
}

#[tokio::test]
async fn a_state_is_not_brought_back_over_a_newer_one() {
    let fixture = Fixture::new().await;
    let old = fixture.publish(&message("a/b", Kind::State, "1")).await;
    let new = fixture.publish(&message("a/b", Kind::State, "2")).await;
    for record in [&old, &new] {
        fixture.give_up(record, Why::Rejected, true).await;
    }
    let outcomes = |answers: &[Answer]| answers.iter().map(|answer| answer.outcome).collect::<Vec<_>>();
    let (answers, result) = fixture.replay(&Selection::All(None)).await;
    result.unwrap();
    assert_eq!(outcomes(&answers), [Outcome::Superseded, Outcome::Replayed]);
    assert_eq!(answers[0].new_offset, Some(new.offset().get()));
    // Now the replay itself is newer than both.
    let (answers, _) = fixture.replay(&Selection::All(None)).await;
    assert_eq!(outcomes(&answers), [Outcome::Superseded, Outcome::Superseded]);

    // Withdrawn is newer as well.
    let gone = fixture.publish(&message("a/c", Kind::State, "3")).await;
    fixture.give_up(&gone, Why::Rejected, true).await;
    let key = gone.key().map(<[u8]>::to_vec).unwrap();
    let tombstone =
        Outgoing { bucket: gone.bucket(), key: Some(key.into()), payload: None, headers: Vec::new() };
    write(&fixture.producer, &fixture.target.bus.notifications(), &tombstone).await;
    let (answers, _) = fixture.replay(&Selection::Id("3".to_owned(), None)).await;
    assert_eq!(outcomes(&answers), [Outcome::Superseded]);
}

#[tokio::test]
async fn a_letter_that_cannot_be_replayed_says_why_and_holds_up_no_other() {
    let fixture = Fixture::new().await;
    let large = fixture.publish(&message("a/b", Kind::Event, "large")).await;
    let good = fixture.publish(&message("a/b", Kind::Event, "good")).await;
    fixture.give_up(&large, Why::Rejected, false).await;
    let bare = Record::builder(large.bucket(), large.offset(), None, 0).payload(Some(b"x")).finish();
    fixture.give_up(&bare, Why::Undecodable, true).await;
    fixture.give_up(&good, Why::Rejected, true).await;
    let (text, result) = printed(&fixture, "dead-letters replay --all --output json").await;
    assert!(!result.unwrap(), "two letters are not replayed");
    let answers: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcomes: Vec<_> = answers.iter().map(|answer| answer["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["refused", "refused", "replayed"]);
    assert!(answers[0]["detail"].as_str().unwrap().contains("SHA-256"), "{text}");
    assert!(answers[1]["detail"].as_str().unwrap().contains("ce_specversion"), "{text}");
}

#[tokio::test]
async fn a_letter_that_is_not_there_is_an_error() {
    let fixture = Fixture::new().await;
    let nowhere = Selection::At(fixture.bucket(1), RecordOffset::new(5).unwrap());
    for selection in [nowhere, Selection::Id("x".to_owned(), None)] {
        let (answers, result) = fixture.replay(&selection).await;
        assert!(matches!(result, Err(Error::NoLetter { .. })) && answers.is_empty());
    }
    assert!(fixture.replay(&Selection::All(None)).await.1.is_ok(), "all of none is nothing to do");
    fixture.producer.flush(TIMEOUT).unwrap();
}

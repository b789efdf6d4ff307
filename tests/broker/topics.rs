//! What must exist for a bus: created as designed, and refused where it is not.

mod permissions;

use std::{collections::BTreeMap, time::Duration};

use control_bus::{
    kafka::{Admin, Settings, TopicPlan},
    model::{Buckets, Bus, ErrorKind},
    topics::{self, Config, Defaults, Error, Mismatch, TopicSpec, Verified},
};

use crate::support::kafka::{Cluster, shared};

const TIMEOUT: Duration = Duration::from_secs(20);

fn kafka(brokers: &str) -> Settings {
    Settings::new(brokers, "topics-test", BTreeMap::new(), false).unwrap()
}

fn admin(kafka: &Settings) -> Admin {
    Admin::new(kafka, TIMEOUT).unwrap()
}

/// A bus that no other test has: 3 buckets, 5 slots, creation on.
fn bus() -> Config {
    Config {
        bus: Bus::new(format!("topics-{}", uuid::Uuid::now_v7())).unwrap(),
        buckets: Buckets::new(3).unwrap(),
        slots: 5,
        create: true,
        replication_factor: None,
    }
}

async fn ensure(config: &Config, kafka: &Settings) -> Result<Verified, Error> {
    topics::ensure(config, kafka, TIMEOUT).await
}

/// Creates one of the bus's topics by hand, with some settings changed.
async fn create(kafka: &Settings, spec: &TopicSpec, changed: &[(&'static str, &str)]) {
    let mut settings = spec.settings_to_create(&Defaults::default());
    settings.extend(changed.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let plan = TopicPlan {
        name: &spec.name,
        partitions: spec.partitions,
        replication_factor: None,
        settings: &settings,
    };
    admin(kafka).create(&plan).await.unwrap();
}

/// The bus's topics, `wrong` among them with some settings changed; the others are right.
async fn with_wrong(kafka: &Settings, wrong: usize, changed: &[(&'static str, &str)]) -> (Config, TopicSpec) {
    let config = bus();
    let spec = topics::expected(&config)[wrong].clone();
    create(kafka, &spec, changed).await;
    (config, spec)
}

fn assert_names(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not named in: {text}");
    }
    assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
}

#[tokio::test]
async fn a_bus_is_created_exactly_as_designed() {
    let (kafka, config) = (kafka(shared()), bus());
    let verified = ensure(&config, &kafka).await.unwrap();
    assert_eq!((verified.notification_limit, verified.dead_letter_limit), (1_048_588, 1_114_124));
    assert_eq!(verified.warnings, []);
    assert_eq!(verified.created.len(), 5);

    let common = [("unclean.leader.election.enable", "false"), ("min.insync.replicas", "1")];
    let compacted = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "600000"),
        ("min.cleanable.dirty.ratio", "0.1"),
        ("min.compaction.lag.ms", "60000"),
        ("max.compaction.lag.ms", "3600000"),
        ("delete.retention.ms", "604800000"),
    ];
    let replies = [("cleanup.policy", "delete"), ("retention.ms", "3600000"), ("segment.ms", "600000")];
    let letters = [
        ("cleanup.policy", "delete"),
        ("retention.ms", "1209600000"),
        ("segment.ms", "86400000"),
        ("max.message.bytes", "1114124"),
    ];
    let notifications = [&compacted[..], &[("max.message.bytes", "1048588")]].concat();
    let name = config.bus.name();
    let designed = [
        (format!("{name}.notifications"), 3, &notifications[..]),
        (format!("{name}.ownership"), 3, &compacted),
        (format!("{name}.commands"), 5, &compacted),
        (format!("{name}.replies"), 5, &replies),
        (format!("{name}.dead-letters"), 3, &letters),
    ];
    let admin = admin(&kafka);
    for (topic, partitions, settings) in designed {
        assert_eq!(admin.layout(&topic).await.unwrap().partitions, partitions, "{topic}");
        let found = admin.configs(&topic).await.unwrap();
        for (setting, value) in common.iter().chain(settings) {
            assert_eq!(found.get(setting), Some(*value), "{setting} of {topic}");
        }
    }
}

#[tokio::test]
async fn ensuring_again_changes_nothing() {
    let (kafka, config) = (kafka(shared()), bus());
    let first = ensure(&config, &kafka).await.unwrap();
    let again = ensure(&config, &kafka).await.unwrap();
    assert_eq!(again, Verified { created: Vec::new(), ..first.clone() });
    assert_eq!(topics::verify(&config, &kafka, TIMEOUT).await.unwrap(), again);
}

#[tokio::test]
async fn many_may_ensure_the_same_bus_at_once() {
    let (kafka, config) = (kafka(shared()), bus());
    let (a, b, c, d) = tokio::join!(
        ensure(&config, &kafka),
        ensure(&config, &kafka),
        ensure(&config, &kafka),
        ensure(&config, &kafka)
    );
    let mut created: Vec<_> = [a, b, c, d].into_iter().flat_map(|one| one.unwrap().created).collect();
    created.sort();
    let mut wanted: Vec<_> = topics::expected(&config).into_iter().map(|spec| spec.name).collect();
    wanted.sort();
    assert_eq!(created, wanted, "each was created once");
}

#[tokio::test]
async fn another_number_of_partitions_is_refused_and_nothing_created_beside_it() {
    let kafka = kafka(shared());
    for (index, setting) in [(0, "bus.buckets"), (3, "bus.slots")] {
        let mut config = bus();
        create(&kafka, &topics::expected(&config)[index], &[]).await;
        config.buckets = Buckets::new(4).unwrap();
        config.slots = 6;
        let error = ensure(&config, &kafka).await.unwrap_err();
        let specs = topics::expected(&config);
        assert!(matches!(error, Error::Mismatch(Mismatch::Partitions { .. })), "{error:?}");
        let (found, expected) = (specs[index].partitions - 1, specs[index].partitions);
        assert_names(&error, &[&specs[index].name, setting, &found.to_string(), &expected.to_string()]);
        for (other, spec) in specs.iter().enumerate().filter(|(other, _)| *other != index) {
            assert!(admin(&kafka).layout(&spec.name).await.is_err(), "topic {other} was created");
        }
    }
}

#[tokio::test]
async fn a_topic_that_is_not_compacted_is_refused() {
    let kafka = kafka(shared());
    for index in 0..3 {
        let (config, spec) = with_wrong(&kafka, index, &[("cleanup.policy", "delete")]).await;
        let error = ensure(&config, &kafka).await.unwrap_err();
        assert!(matches!(error, Error::Mismatch(Mismatch::NotCompacted { .. })), "{error:?}");
        assert_names(&error, &[&spec.name, "\"delete\"", "\"compact\""]);
    }
}

#[tokio::test]
async fn a_topic_that_is_compacted_and_deleted_is_refused() {
    let kafka = kafka(shared());
    for index in 0..3 {
        let (config, spec) = with_wrong(&kafka, index, &[("cleanup.policy", "compact,delete")]).await;
        let error = ensure(&config, &kafka).await.unwrap_err();
        assert!(matches!(error, Error::Mismatch(Mismatch::AlsoDeletes { .. })), "{error:?}");
        assert_names(&error, &[&spec.name, "\"compact,delete\"", "\"compact\" alone"]);
    }
}

#[tokio::test]
async fn a_missing_topic_is_refused_where_creation_is_off() {
    // A broker that creates what is asked for must not be made to.
    let cluster = Cluster::start(1, &[("auto.create.topics.enable", "true")]);
    let kafka = kafka(cluster.bootstrap());
    let config = Config { create: false, ..bus() };
    for result in [ensure(&config, &kafka).await, topics::verify(&config, &kafka, TIMEOUT).await] {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Missing { .. }), "{error:?}");
        assert_names(&error, &[&config.bus.notifications(), "3 partitions", "topics.create"]);
    }
    // Of a bus with some of its topics, the first missing one is named.
    create(&kafka, &topics::expected(&config)[0], &[]).await;
    let error = ensure(&config, &kafka).await.unwrap_err();
    assert!(matches!(&error, Error::Missing { topic, .. } if *topic == config.bus.ownership()), "{error:?}");
}

#[tokio::test]
async fn dead_letters_that_take_less_than_they_must_are_refused() {
    let kafka = kafka(shared());
    let (config, spec) = with_wrong(&kafka, 4, &[("max.message.bytes", "1114123")]).await;
    let error = ensure(&config, &kafka).await.unwrap_err();
    assert!(matches!(error, Error::Mismatch(Mismatch::DeadLettersTooSmall { .. })), "{error:?}");
    assert_names(&error, &[&spec.name, "1114123", "1114124", &config.bus.notifications()]);
}

#[tokio::test]
async fn new_dead_letters_follow_the_notifications_that_are_there() {
    let kafka = kafka(shared());
    let (config, _) = with_wrong(&kafka, 0, &[("max.message.bytes", "2000000")]).await;
    let verified = ensure(&config, &kafka).await.unwrap();
    assert_eq!((verified.notification_limit, verified.dead_letter_limit), (2_000_000, 2_065_536));
}

#[tokio::test]
async fn other_differences_are_warnings() {
    let kafka = kafka(shared());
    let (config, spec) = with_wrong(&kafka, 1, &[("segment.ms", "604800000")]).await;
    let verified = ensure(&config, &kafka).await.unwrap();
    let [warning] = &verified.warnings[..] else { panic!("{:?}", verified.warnings) };
    assert_eq!((warning.topic.as_str(), warning.what), (spec.name.as_str(), "segment.ms"));
}

#[tokio::test]
async fn a_cluster_that_cannot_be_reached_is_refused_in_time() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let timeout = Duration::from_secs(2);
    let started = std::time::Instant::now();
    let error = topics::ensure(&bus(), &kafka(&nobody), timeout).await.unwrap_err();
    assert!(started.elapsed() < 3 * timeout, "it took {:?}", started.elapsed());
    let Error::Unreachable { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.to_string().contains(&nobody), "{source}");
    assert!(source.to_string().contains("onnect"), "the reason is not told: {source}");
    assert_eq!(error.kind(), ErrorKind::Retryable);
}

#[tokio::test]
async fn three_brokers_all_know_a_new_bus_and_keep_two_copies_of_each_record() {
    let cluster = Cluster::start(3, &[("default.replication.factor", "3")]);
    let kafka = kafka(cluster.bootstrap());
    let admin = admin(&kafka);
    for replication_factor in [None, Some(3)] {
        let config = Config { replication_factor, ..bus() };
        let verified = ensure(&config, &kafka).await.unwrap();
        assert_eq!(verified.warnings, []);
        for spec in topics::expected(&config) {
            assert_eq!(admin.layout(&spec.name).await.unwrap().replication_factor, 3);
            let configs = admin.configs(&spec.name).await.unwrap();
            assert_eq!(configs.get("min.insync.replicas"), Some("2"));
            for broker in 1..=3 {
                assert!(!admin.is_known_by(broker, "no-such-topic").await.unwrap());
                assert!(admin.is_known_by(broker, &spec.name).await.unwrap(), "{} on {broker}", spec.name);
            }
        }
    }
}

#[tokio::test]
async fn towards_the_embedded_broker_only_partitions_are_verified() {
    let cluster = rdkafka::mocking::MockCluster::new(1).unwrap();
    let kafka = Settings::new(cluster.bootstrap_servers(), "topics-test", BTreeMap::new(), true).unwrap();
    let config = bus();
    let error = ensure(&config, &kafka).await.unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "it cannot create topics: {error:?}");
    for spec in topics::expected(&config) {
        cluster.create_topic(&spec.name, i32::try_from(spec.partitions).unwrap(), 1).unwrap();
    }
    let verified = ensure(&config, &kafka).await.unwrap();
    assert_eq!(verified.dead_letter_limit, verified.notification_limit + topics::DEAD_LETTER_MARGIN);
    let other = Config { buckets: Buckets::new(4).unwrap(), ..config };
    let error = topics::verify(&other, &kafka, TIMEOUT).await.unwrap_err();
    assert!(matches!(error, Error::Mismatch(Mismatch::Partitions { found: 3, .. })), "{error:?}");
}

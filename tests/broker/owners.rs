//! Controllers in the test's own process, and what plain clients see beside them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use control_bus::{
    engine::{CommitMetadata, ParsedMetadata},
    kafka::{Committed, Isolation, LogReader, OffsetReader, Settings},
    model::{
        Bucket, Buckets, Bus, Claim, Epoch, Kind, Message, PodName, RecordKey, RecordOffset, ResourceKey,
    },
    owner::{self, Config, Delivery, Handler, Outcome, Owner, Released, RetryConfig, WindowConfig},
    publisher::{self, Publisher},
    telemetry::Metrics,
    topics,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::kafka::shared;

/// For what should happen soon, and may take long on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How long one question to Kafka may take.
const ANSWER: Duration = Duration::from_secs(10);

/// `group.session_timeout` of every member here.
pub(crate) const SESSION: Duration = crate::fleet::SESSION;

/// A bus of a test's own, with its topics.
pub(crate) struct Fixture {
    pub(crate) bus: Bus,
    pub(crate) buckets: Buckets,
    pub(crate) kafka: Settings,
    /// Sees the last stable offset at once, also where a transaction is pending.
    offsets: OffsetReader,
    /// Sees what is committed.
    log: LogReader,
    publisher: Publisher,
}

impl Fixture {
    pub(crate) async fn new(test: &str, buckets: u32) -> Self {
        let bus = Bus::new(format!("{test}-{}", uuid::Uuid::now_v7())).unwrap();
        let buckets = Buckets::new(buckets).unwrap();
        let kafka = Settings::new(shared(), test, BTreeMap::new(), false).unwrap();
        let config =
            topics::Config { bus: bus.clone(), buckets, slots: 1, create: true, replication_factor: None };
        topics::ensure(&config, &kafka, PATIENCE).await.unwrap();
        let offsets = OffsetReader::new(&kafka, &bus.group(), Isolation::ReadUncommitted, None).unwrap();
        let log = LogReader::new(&kafka, Isolation::ReadCommitted, None).unwrap();
        let config = publisher::Config {
            bus: bus.clone(),
            buckets,
            name: PodName::new("pod").unwrap(),
            delivery_timeout: PATIENCE,
            linger: Duration::ZERO,
            max_records: 100_000,
            max_bytes: 1 << 26,
            max_message_bytes: 1 << 20,
        };
        let publisher = Publisher::start(config, &kafka, Arc::new(Metrics::new().unwrap())).unwrap();
        Self { bus, buckets, kafka, offsets, log, publisher }
    }

    pub(crate) fn bucket(&self, number: u16) -> Bucket {
        self.buckets.get(number).unwrap()
    }

    /// A resource of a bucket; `which` tells several apart.
    pub(crate) fn resource(&self, bucket: Bucket, which: usize) -> ResourceKey {
        let all = (0..).map(|number| format!("default/r{number}").parse::<ResourceKey>().unwrap());
        all.filter(|resource| self.buckets.of(resource) == bucket).nth(which).unwrap()
    }

    pub(crate) fn config(&self, name: &str) -> Config {
        Config {
            bus: self.bus.clone(),
            buckets: self.buckets,
            name: PodName::new(name).unwrap(),
            session_timeout: SESSION,
            heartbeat: Duration::from_millis(200),
            max_poll_interval: Duration::from_secs(300),
            handler_timeout: PATIENCE,
            handler_concurrency: 16,
            retry: RetryConfig {
                attempts: 3,
                initial: Duration::from_millis(20),
                max: Duration::from_millis(50),
            },
            window: WindowConfig { max_records: 1000, max_bytes: 1 << 24 },
            commit_interval: Duration::from_millis(50),
            drain: Duration::from_secs(3),
            dead_letter_limit: 1_114_124,
        }
    }

    /// A controller that runs until it is stopped.
    pub(crate) fn start<H: Handler>(&self, name: &str, handler: &Arc<H>) -> Running {
        self.start_with(self.config(name), handler)
    }

    pub(crate) fn start_with<H: Handler>(&self, config: Config, handler: &Arc<H>) -> Running {
        let metrics = Arc::new(Metrics::new().unwrap());
        let owner =
            Owner::new(config, self.kafka.clone(), Arc::clone(&metrics), Arc::clone(handler)).unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(owner.run(shutdown.clone()));
        Running { metrics, shutdown, task }
    }

    /// Publishes one event, and returns its offset.
    pub(crate) async fn publish(&self, resource: &ResourceKey, id: &str) -> RecordOffset {
        let message = Message::new(resource.clone(), Kind::Event, "t", "1").unwrap().with_id(id).unwrap();
        self.publisher.publish(message).await.unwrap().offset
    }

    /// The last stable offset of a bucket, as committed.
    pub(crate) fn committed(&self, bucket: Bucket) -> Option<Committed> {
        self.offsets.committed(&self.bus.notifications(), bucket, ANSWER).unwrap()
    }

    /// What the bus itself wrote beside a bucket's offset; `None` where somebody else did.
    pub(crate) fn metadata(&self, bucket: Bucket) -> Option<CommitMetadata> {
        let committed = self.committed(bucket)?;
        match CommitMetadata::decode(&committed.metadata, committed.offset) {
            ParsedMetadata::Ours(metadata) => Some(metadata),
            _ => None,
        }
    }

    /// The latest claim that a read-committed reader sees now.
    pub(crate) fn claim(&self, bucket: Bucket) -> Option<Claim> {
        let mut claim = None;
        self.read(&self.bus.ownership(), bucket, |key, payload| {
            if key == RecordKey::CLAIM.as_bytes() {
                claim = Some(Claim::decode(payload).unwrap());
            }
        });
        claim
    }

    /// What a read-committed reader sees in a partition now: every key and payload.
    pub(crate) fn read(&self, topic: &str, bucket: Bucket, mut each: impl FnMut(&[u8], &[u8])) {
        let bounds = self.log.bounds(topic, bucket, ANSWER).unwrap();
        let read = self.log.read((topic, bucket), bounds, ANSWER, |record| {
            each(record.key().unwrap_or_default(), record.payload().unwrap_or_default());
        });
        read.unwrap();
    }
}

/// A controller at work.
pub(crate) struct Running {
    pub(crate) metrics: Arc<Metrics>,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), owner::Error>>,
}

impl Running {
    /// Stops it in good order; how long that took.
    pub(crate) async fn stop(self) -> Duration {
        let began = Instant::now();
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
        began.elapsed()
    }

    /// Ends it as a crash would, but for what runs in threads.
    pub(crate) async fn abort(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    pub(crate) fn is_ready(&self, bucket: Bucket) -> bool {
        self.metrics.bucket(bucket).ready.get() == 1
    }

    pub(crate) fn owns(&self, bucket: Bucket) -> bool {
        self.metrics.bucket(bucket).owned.get() == 1
    }

    pub(crate) async fn until_ready(&self, bucket: Bucket) {
        until("the bucket is ready", PATIENCE, || self.is_ready(bucket)).await;
    }
}

/// What a handler was asked and told, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Acquired,
    Begun(RecordOffset),
    /// The handler came to its end; one that is cancelled does not.
    Ended(RecordOffset),
    /// The handler is gone, cancelled or not.
    Gone(RecordOffset),
    Released(Released),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) at: Instant,
    pub(crate) bucket: Bucket,
    pub(crate) epoch: Epoch,
    pub(crate) what: What,
}

/// A handler that takes its time and writes everything down.
pub(crate) struct Recorder {
    told: Mutex<Vec<Told>>,
    /// How long each attempt takes.
    takes: Duration,
    /// How long it takes to be told of a tenure's end.
    release_takes: Duration,
}

impl Recorder {
    pub(crate) fn new(takes: Duration) -> Arc<Self> {
        Self::slow_to_release(takes, Duration::ZERO)
    }

    pub(crate) fn slow_to_release(takes: Duration, release_takes: Duration) -> Arc<Self> {
        Arc::new(Self { told: Mutex::default(), takes, release_takes })
    }

    pub(crate) fn told(&self) -> Vec<Told> {
        self.lock().clone()
    }

    /// The offsets of a bucket that were handled to their end, in that order.
    pub(crate) fn ended(&self, bucket: Bucket) -> Vec<i64> {
        let told = self.told().into_iter().filter(|told| told.bucket == bucket);
        told.filter_map(|told| if let What::Ended(offset) = told.what { Some(offset.get()) } else { None })
            .collect()
    }

    fn tell(&self, bucket: Bucket, epoch: Epoch, what: What) {
        // The time is taken under the lock, so that times grow.
        let mut told = self.lock();
        told.push(Told { at: Instant::now(), bucket, epoch, what });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes down that an attempt is gone, however it went.
struct Attempt<'a>(&'a Recorder, Bucket, Epoch, RecordOffset);

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.0.tell(self.1, self.2, What::Gone(self.3));
    }
}

impl Handler for Recorder {
    async fn handle(&self, delivery: Delivery) -> Outcome {
        let (bucket, epoch, offset) = (delivery.bucket, delivery.epoch, delivery.notification.offset());
        self.tell(bucket, epoch, What::Begun(offset));
        let _attempt = Attempt(self, bucket, epoch, offset);
        tokio::time::sleep(self.takes).await;
        self.tell(bucket, epoch, What::Ended(offset));
        Outcome::Handled
    }

    async fn acquired(&self, bucket: Bucket, epoch: Epoch) {
        self.tell(bucket, epoch, What::Acquired);
    }

    async fn released(&self, bucket: Bucket, epoch: Epoch, why: Released) {
        tokio::time::sleep(self.release_takes).await;
        self.tell(bucket, epoch, What::Released(why));
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, patience: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

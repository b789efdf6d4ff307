//! Members of the controllers' group that can be made to fall silent: a plain one, and one as the bus has them.
//!
//! A member that does not poll leaves the group at its `max.poll.interval.ms`, and learns of it when it polls again: a
//! process that was stopped, as far as the group can tell.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use control_bus::{
    engine::{Snapshot, Ticket, Token},
    kafka::{GroupConsumer, GroupMetadata, GroupSettings, Polled, Rebalances, Statistics},
    model::Bucket,
    telemetry::Metrics,
};
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use super::client;
use crate::owners::{Fixture, PATIENCE, SESSION, until};

const POLL: Duration = Duration::from_millis(10);

/// A thread that polls, until it is told to fall silent or to end.
struct Polling {
    frozen: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Polling {
    fn start<C: Send + 'static>(client: C, poll: impl Fn(&C) + Send + 'static) -> Self {
        let (frozen, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (silent, end) = (Arc::clone(&frozen), Arc::clone(&ended));
        let thread = thread::spawn(move || {
            while !end.load(Ordering::SeqCst) {
                if silent.load(Ordering::SeqCst) { thread::sleep(POLL) } else { poll(&client) }
            }
        });
        Self { frozen, ended, thread: Some(thread) }
    }

    fn end(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

/// A plain member.
pub(super) struct Plain {
    consumer: Arc<BaseConsumer>,
    polling: Polling,
}

impl Plain {
    pub(super) fn join(fixture: &Fixture) -> Self {
        let silence = SESSION.as_millis().to_string();
        let mut config = client(&fixture.kafka);
        config
            .set("group.id", fixture.bus.group())
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", &silence)
            .set("max.poll.interval.ms", &silence)
            .set("heartbeat.interval.ms", "200")
            .set("enable.auto.commit", "false");
        let consumer: Arc<BaseConsumer> = Arc::new(config.create().unwrap());
        consumer.subscribe(&[&fixture.bus.notifications()]).unwrap();
        let polling = Polling::start(Arc::clone(&consumer), |consumer| drop(consumer.poll(POLL)));
        Self { consumer, polling }
    }

    pub(super) fn consumer(&self) -> &BaseConsumer {
        &self.consumer
    }

    pub(super) fn partitions(&self) -> Vec<i32> {
        let assigned = self.consumer.assignment().unwrap();
        assigned.elements().iter().map(|element| element.partition()).collect()
    }

    /// Waits until it owns this many partitions.
    pub(super) async fn until_owns(&self, count: usize) {
        until("the plain member owns its partitions", PATIENCE, || self.partitions().len() == count).await;
    }

    pub(super) fn freeze(&self) {
        self.polling.frozen.store(true, Ordering::SeqCst);
    }

    pub(super) fn thaw(&self) {
        self.polling.frozen.store(false, Ordering::SeqCst);
    }
}

/// What a member's callbacks brought.
#[derive(Default)]
struct Seen {
    snapshot: Mutex<Snapshot<GroupMetadata>>,
    given: Mutex<Vec<GroupMetadata>>,
    losses: AtomicUsize,
    /// Whether revocations have to wait.
    holds: AtomicBool,
}

impl Seen {
    fn snapshot(&self) -> MutexGuard<'_, Snapshot<GroupMetadata>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn given(&self) -> MutexGuard<'_, Vec<GroupMetadata>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Follower(Arc<Seen>);

impl Rebalances for Follower {
    fn assigned(&self, buckets: &[Bucket], group: GroupMetadata) {
        self.0.given().push(group.clone());
        self.0.snapshot().assigned(buckets, group);
    }

    fn revoking(&self, buckets: &[Bucket], group: GroupMetadata) {
        self.0.given().push(group.clone());
        self.0.snapshot().revoking(buckets, group);
    }

    fn lost(&self, _: &[Bucket]) {
        self.0.snapshot().lost();
        self.0.losses.fetch_add(1, Ordering::SeqCst);
    }

    fn left(&self, _: &[Bucket]) {
        self.0.snapshot().lost();
    }

    fn ends(&self, _: &Statistics) {}
}

/// A member as the bus has it: group metadata from callbacks only, kept in a snapshot.
pub(super) struct Member {
    seen: Arc<Seen>,
    polling: Polling,
}

impl Member {
    pub(super) fn join(fixture: &Fixture) -> Self {
        let settings = GroupSettings {
            group: fixture.bus.group(),
            topic: fixture.bus.notifications(),
            session_timeout: SESSION,
            heartbeat: Duration::from_millis(200),
            max_poll_interval: SESSION,
        };
        let seen = Arc::new(Seen::default());
        let metrics = Arc::new(Metrics::new().unwrap());
        let follower = Follower(Arc::clone(&seen));
        let consumer = GroupConsumer::join(&fixture.kafka, &settings, follower, metrics).unwrap();
        let followed = Arc::clone(&seen);
        let polling = Polling::start(consumer, move |consumer| {
            if consumer.is_revoking() && !followed.holds.load(Ordering::SeqCst) {
                consumer.give_up().unwrap();
                let mut snapshot = followed.snapshot();
                let revoked: Vec<Bucket> = snapshot.being_revoked().collect();
                snapshot.unassigned(&revoked);
            }
            if let Polled::Fatal(error) = consumer.poll(POLL) {
                panic!("{error}");
            }
        });
        Self { seen, polling }
    }

    /// Waits until a bucket is its own; the tenure's token.
    pub(super) async fn until_owns(&self, bucket: Bucket) -> Token {
        let token = || self.seen.snapshot().token(bucket);
        until("the member owns the bucket", PATIENCE, || token().is_some()).await;
        token().unwrap()
    }

    pub(super) fn ticket(&self, bucket: Bucket, token: Token) -> Option<Ticket<GroupMetadata>> {
        self.seen.snapshot().ticket(bucket, token)
    }

    /// Every group metadata that a callback gave so far.
    pub(super) fn given(&self) -> Vec<GroupMetadata> {
        self.seen.given().clone()
    }

    pub(super) fn freeze(&self) {
        self.polling.frozen.store(true, Ordering::SeqCst);
    }

    /// Gives up nothing, or gives up what it was asked for.
    pub(super) fn hold(&self, holds: bool) {
        self.seen.holds.store(holds, Ordering::SeqCst);
    }

    /// Waits until it is asked to give something up.
    pub(super) async fn until_revoked(&self) {
        let revoked = || self.seen.snapshot().being_revoked().next().is_some();
        until("the member is asked to give something up", PATIENCE, revoked).await;
    }

    /// Polls on; returns when it has learnt of its loss, and is a member again.
    pub(super) async fn thaw_and_rejoin(&self) {
        let before = self.given().len();
        self.polling.frozen.store(false, Ordering::SeqCst);
        until("the member learns of its loss and joins again", PATIENCE, || {
            self.seen.losses.load(Ordering::SeqCst) > 0 && self.given().len() > before
        })
        .await;
    }

    /// Leaves the group; returns what callbacks gave.
    pub(super) fn leave(mut self) -> Vec<GroupMetadata> {
        self.polling.end();
        self.given()
    }
}

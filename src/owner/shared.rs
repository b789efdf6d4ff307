//! What the poll loop and the buckets' tasks share.
//!
//! The snapshot is changed in callbacks and looked at by everyone; a change only wakes those who look. What
//! a bucket's task wants from the consumer is put in a list that the poll loop carries out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{oneshot, watch};

use super::{Config, mailbox::Mailbox};
use crate::{
    engine::{Setback, Snapshot, Ticket, Token},
    kafka::{Committed, GroupMetadata, Rebalances, Statistics},
    model::{Bucket, NextOffset},
    telemetry::Metrics,
};

/// Something that only the poll loop can do. A bucket's task has at most one request waiting.
pub(super) enum Request {
    /// Let the next record be the one at `offset`, and resume the partition.
    Seek { bucket: Bucket, token: Token, offset: NextOffset, reply: oneshot::Sender<Result<(), Setback>> },
    /// Fetch nothing more of the bucket.
    Close { bucket: Bucket },
    /// Commit plainly (embedded broker only).
    Commit { bucket: Bucket, committed: Committed, reply: oneshot::Sender<Result<(), Setback>> },
}

/// Answers a step. Nobody waits any more when its tenure has ended meanwhile.
pub(super) fn answer<T>(reply: oneshot::Sender<T>, value: T) {
    if reply.send(value).is_err() {
        tracing::debug!("a step was answered after its tenure had ended");
    }
}

/// What a bucket is doing, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Doing {
    /// Taking the bucket over, since when.
    TakingOver(Instant),
    /// Delivering.
    Delivering,
    /// Waiting for its handler, or for its dead letters.
    Unavailable(String),
}

pub(super) struct Shared {
    snapshot: Mutex<Snapshot<GroupMetadata>>,
    changed: watch::Sender<()>,
    requests: Mutex<Vec<Request>>,
    mailboxes: Vec<Arc<Mailbox>>,
    /// Tenures that ended while their bucket is to be given up.
    given_up: Mutex<BTreeSet<Token>>,
    doing: Mutex<BTreeMap<Bucket, Doing>>,
    began: Instant,
    /// When the poll loop last polled, in milliseconds since `began`.
    polled: AtomicU64,
    assigned_once: AtomicBool,
    shutting_down: AtomicBool,
}

impl Shared {
    pub(super) fn new(config: &Config, metrics: &Metrics) -> Self {
        let mailbox = |bucket| Arc::new(Mailbox::new(config.window, metrics.bucket(bucket)));
        Self {
            snapshot: Mutex::default(),
            changed: watch::Sender::new(()),
            requests: Mutex::default(),
            mailboxes: config.buckets.iter().map(mailbox).collect(),
            given_up: Mutex::default(),
            doing: Mutex::default(),
            began: Instant::now(),
            polled: AtomicU64::new(0),
            assigned_once: AtomicBool::new(false),
            shutting_down: AtomicBool::new(false),
        }
    }

    /// Time since the controller was created: what the engine is given as "now".
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The instant that the engine calls `at`.
    pub(super) fn instant(&self, at: Duration) -> Instant {
        self.began + at
    }

    pub(super) fn snapshot(&self) -> MutexGuard<'_, Snapshot<GroupMetadata>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to one step of a tenure: token and group metadata, taken together.
    pub(super) fn ticket(&self, bucket: Bucket, token: Token) -> Option<Ticket<GroupMetadata>> {
        self.snapshot().ticket(bucket, token)
    }

    /// Wakes whenever the snapshot was changed.
    pub(super) fn watch(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(super) fn announce(&self) {
        self.changed.send_replace(());
    }

    pub(super) fn mailbox(&self, bucket: Bucket) -> Option<&Arc<Mailbox>> {
        self.mailboxes.get(usize::from(bucket.get()))
    }

    pub(super) fn request(&self, request: Request) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    }

    pub(super) fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The tenure has ended; if its bucket is being revoked, that need not wait for it any more.
    pub(super) fn give_up(&self, token: Token) {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner).insert(token);
    }

    /// Whether every bucket that is being revoked has been given up.
    pub(super) fn all_given_up(&self) -> bool {
        let snapshot = self.snapshot();
        let given_up = self.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        snapshot
            .being_revoked()
            .all(|bucket| snapshot.token(bucket).is_none_or(|token| given_up.contains(&token)))
    }

    /// The buckets being revoked are no longer assigned.
    pub(super) fn unassigned(&self) {
        let mut snapshot = self.snapshot();
        let buckets: Vec<Bucket> = snapshot.being_revoked().collect();
        snapshot.unassigned(&buckets);
        self.show_owned(&buckets, false);
        // A tenure that ended before its bucket is asked back, as at shutdown, need not end again.
        let held: BTreeSet<Token> = snapshot.buckets().filter_map(|bucket| snapshot.token(bucket)).collect();
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner).retain(|token| held.contains(token));
        drop(snapshot);
        self.announce();
    }

    /// Nothing is assigned any more.
    fn all_gone(&self) {
        let mut snapshot = self.snapshot();
        let buckets: Vec<Bucket> = snapshot.buckets().collect();
        snapshot.lost();
        self.show_owned(&buckets, false);
        drop(snapshot);
        self.announce();
    }

    /// Call it while the snapshot is locked, so that what is shown last is what holds.
    fn show_owned(&self, buckets: &[Bucket], owned: bool) {
        for mailbox in buckets.iter().filter_map(|bucket| self.mailbox(*bucket)) {
            mailbox.show_owned(owned);
        }
    }

    pub(super) fn set_doing(&self, bucket: Bucket, doing: Option<Doing>) {
        let mut all = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        match doing {
            Some(doing) => all.insert(bucket, doing),
            None => all.remove(&bucket),
        };
    }

    pub(super) fn doing(&self) -> BTreeMap<Bucket, Doing> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn polled_now(&self) {
        let millis = u64::try_from(self.now().as_millis()).unwrap_or(u64::MAX);
        self.polled.store(millis, Ordering::Relaxed);
    }

    /// For how long the poll loop has been silent.
    pub(super) fn poll_silence(&self) -> Duration {
        self.now().saturating_sub(Duration::from_millis(self.polled.load(Ordering::Relaxed)))
    }

    pub(super) fn was_assigned(&self) -> bool {
        self.assigned_once.load(Ordering::Relaxed)
    }

    pub(super) fn begin_shutdown(&self) {
        self.shutting_down.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Relaxed)
    }
}

/// What rebalances do to the snapshot. Runs on the poll loop's thread.
pub(super) struct Callbacks {
    shared: Arc<Shared>,
    metrics: Arc<Metrics>,
}

impl Callbacks {
    pub(super) fn new(shared: &Arc<Shared>, metrics: &Arc<Metrics>) -> Self {
        Self { shared: Arc::clone(shared), metrics: Arc::clone(metrics) }
    }

    fn count(&self, kind: &str, buckets: &[Bucket]) {
        self.metrics.rebalances.with_label_values(&[kind]).inc();
        let buckets: Vec<u16> = buckets.iter().map(|bucket| bucket.get()).collect();
        tracing::info!(kind, ?buckets, "rebalance");
    }
}

impl Rebalances for Callbacks {
    fn assigned(&self, buckets: &[Bucket], group: GroupMetadata) {
        self.count("assigned", buckets);
        // Partitions beyond the configured number are somebody's mistake; nobody here would serve them.
        let (ours, strange): (Vec<Bucket>, Vec<Bucket>) =
            buckets.iter().partition(|bucket| self.shared.mailbox(**bucket).is_some());
        if !strange.is_empty() {
            tracing::error!(?strange, "the topic has more partitions than `bus.buckets`");
        }
        let mut snapshot = self.shared.snapshot();
        snapshot.assigned(&ours, group);
        self.shared.show_owned(&ours, true);
        drop(snapshot);
        self.shared.assigned_once.store(true, Ordering::Relaxed);
        self.shared.announce();
    }

    fn revoking(&self, buckets: &[Bucket], group: GroupMetadata) {
        self.count("revoked", buckets);
        self.shared.snapshot().revoking(buckets, group);
        self.shared.announce();
    }

    fn lost(&self, buckets: &[Bucket]) {
        self.count("lost", buckets);
        self.shared.all_gone();
    }

    fn left(&self, buckets: &[Bucket]) {
        self.count("left", buckets);
        self.shared.all_gone();
    }

    fn ends(&self, ends: &Statistics) {
        for (partition, end) in ends {
            let bucket = Bucket::from_partition(*partition);
            if let Some(mailbox) = bucket.and_then(|bucket| self.shared.mailbox(bucket)) {
                mailbox.set_end(*end);
            }
        }
    }
}

#[cfg(test)]
mod tests;

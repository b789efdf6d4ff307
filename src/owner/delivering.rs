//! A tenure while it delivers: the scheduler, the handlers in flight, and what a checkpoint becomes in Kafka.

use std::{collections::HashMap, sync::Arc, time::Instant};

use tokio::task::{Id, JoinSet};

use super::{
    Config, Delivery, Handler, Outcome,
    mailbox::Mailbox,
    writer::{Write, WriteError},
};
use crate::{
    engine::{
        Checkpoint, CommitMetadata, Dead, Ending, Incoming, Limits, Order, Plan, Received, Resume, Scheduler,
        Ticket,
    },
    kafka::{Committed, GroupMetadata, Refusal},
    model::{
        Bucket, Buckets, Claim, DeadLetter, Decoded, Epoch, Kind, Notification, Outgoing, Record, RecordKey,
        RecordOffset, Why, chain,
    },
    telemetry::{BucketMetrics, Metrics},
};

/// What the scheduler keeps of a record.
#[derive(Debug, Clone)]
enum Item {
    Notification(Arc<Notification>),
    /// Nothing to hand to a handler; the reason is empty for a tombstone.
    Bare(Arc<Record>, Arc<str>),
}

impl Item {
    fn record(&self) -> &Record {
        match self {
            Self::Notification(notification) => notification.record(),
            Self::Bare(record, _) => record,
        }
    }
}

/// What a handler's task brings back.
struct Ended {
    offset: RecordOffset,
    outcome: Outcome,
    seconds: f64,
}

/// A delivering tenure.
pub(super) struct Delivering<H> {
    config: Arc<Config>,
    handler: Arc<H>,
    bucket: Bucket,
    epoch: Epoch,
    scheduler: Scheduler<Item>,
    running: JoinSet<Ended>,
    /// The records of running handlers, to name one that panicked.
    tasks: HashMap<Id, RecordOffset>,
    mailbox: Arc<Mailbox>,
    metrics: Metrics,
    counts: BucketMetrics,
    /// The dead letters of the outstanding checkpoint, in the order of its records.
    sent: Vec<Dead>,
}

impl<H: Handler> Delivering<H> {
    pub(super) fn new(
        (config, handler): (&Arc<Config>, &Arc<H>),
        bucket: Bucket,
        resume: &Resume,
        mailbox: &Arc<Mailbox>,
        metrics: &Metrics,
    ) -> Self {
        let limits = Limits {
            concurrency: config.handler_concurrency,
            attempts: config.retry.attempts,
            retry: crate::engine::Backoff { initial: config.retry.initial, max: config.retry.max },
            unavailable: config.unavailable_backoff(),
        };
        let seed = (u64::from(bucket.get()) << 48) ^ resume.epoch.get();
        mailbox.set_durable(resume.offset.get());
        Self {
            config: Arc::clone(config),
            handler: Arc::clone(handler),
            bucket,
            epoch: resume.epoch,
            scheduler: Scheduler::resume(limits, resume, seed),
            running: JoinSet::new(),
            tasks: HashMap::new(),
            mailbox: Arc::clone(mailbox),
            metrics: metrics.clone(),
            counts: metrics.bucket(bucket),
            sent: Vec::new(),
        }
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn scheduler(&mut self) -> &mut Scheduler<impl Clone + use<H>> {
        &mut self.scheduler
    }

    /// Takes what the poll loop brought.
    pub(super) fn receive(&mut self) {
        for record in self.mailbox.take() {
            let bytes = record.size();
            let offset = record.offset();
            let (order, item) = self.judge(record);
            match self.scheduler.receive(Incoming { offset, bytes, order, item }) {
                Received::Queued { superseded: true } => self.counts.superseded.inc(),
                Received::Queued { superseded: false } | Received::Finished => {}
                Received::Repeated => tracing::debug!(bucket = %self.bucket, %offset, "record came twice"),
            }
        }
    }

    /// Starts what may start.
    pub(super) fn start(&mut self, now: std::time::Duration) {
        while let Some(start) = self.scheduler.next(now) {
            let Item::Notification(notification) = start.item else { continue };
            if start.redelivered {
                self.counts.redelivered.inc();
            }
            let delivery = Delivery {
                notification,
                bucket: self.bucket,
                epoch: self.epoch,
                attempt: start.attempt,
                redelivered: start.redelivered,
            };
            let handler = Arc::clone(&self.handler);
            let timeout = handler.is_timed().then_some(self.config.handler_timeout);
            let offset = start.offset;
            let task = self.running.spawn(async move {
                let began = Instant::now();
                let outcome = attempt(&*handler, delivery, timeout).await;
                Ended { offset, outcome, seconds: began.elapsed().as_secs_f64() }
            });
            self.tasks.insert(task.id(), offset);
        }
        self.publish();
    }

    /// Waits until a handler ends. Never ends while none runs. Cancel safe.
    pub(super) async fn ended(&mut self, now: impl Fn() -> std::time::Duration) {
        let Some(joined) = self.running.join_next_with_id().await else {
            return std::future::pending().await;
        };
        self.conclude(now(), joined);
        // Many end at once: one round of scheduling for all of them.
        while let Some(joined) = self.running.try_join_next_with_id() {
            self.conclude(now(), joined);
        }
    }

    fn conclude(&mut self, now: std::time::Duration, joined: Result<(Id, Ended), tokio::task::JoinError>) {
        let ended = match joined {
            Ok((id, ended)) => {
                self.tasks.remove(&id);
                ended
            }
            Err(error) => {
                let Some(offset) = self.tasks.remove(&error.id()) else { return };
                if error.is_cancelled() {
                    return;
                }
                tracing::error!(bucket = %self.bucket, %offset, "the handler panicked");
                Ended { offset, outcome: Outcome::Retry("the handler panicked".to_owned()), seconds: 0.0 }
            }
        };
        self.count(&ended);
        self.scheduler.conclude(now, ended.offset, ended.outcome);
    }

    fn count(&self, ended: &Ended) {
        let seconds = self.metrics.handler_seconds.with_label_values(&[ended.outcome.as_str()]);
        seconds.observe(ended.seconds);
        match &ended.outcome {
            Outcome::Handled => {
                self.counts.handled.inc();
                if let Some(age) = self.scheduler.item(ended.offset).and_then(|item| age(item.record())) {
                    self.metrics.record_to_handled_seconds.observe(age);
                }
            }
            Outcome::Retry(reason) => {
                self.counts.retried.inc();
                tracing::info!(bucket = %self.bucket, offset = %ended.offset, reason, "attempt failed");
            }
            Outcome::Reject(reason) => {
                self.counts.rejected.inc();
                tracing::warn!(bucket = %self.bucket, offset = %ended.offset, reason, "record rejected");
            }
            Outcome::Unavailable(reason) => {
                tracing::warn!(bucket = %self.bucket, offset = %ended.offset, reason, "handler unavailable");
            }
        }
    }

    /// What to write now; the last one (`plan.release`) with the claim.
    pub(super) fn checkpoint(
        &mut self,
        now: std::time::Duration,
        plan: &Plan,
        ticket: Ticket<GroupMetadata>,
    ) -> Write {
        let Checkpoint { offset, marks, cautious, dead } = self.scheduler.checkpoint(now);
        let metadata = CommitMetadata { epoch: plan.epoch, sequence: plan.sequence, marks };
        let mut records: Vec<(String, Outgoing)> = dead
            .iter()
            .filter_map(|dead| {
                let item = self.scheduler.item(dead.offset)?;
                Some((self.config.bus.dead_letters(), self.dead_letter(dead, item)))
            })
            .collect();
        self.sent = dead;
        if let Some(released) = plan.release {
            records.push(claim(&self.config, self.bucket, plan.epoch, released && !cautious));
        }
        Write { ticket, committed: Committed { offset, metadata: metadata.encode(offset) }, records }
    }

    /// The outstanding checkpoint took effect, or did not.
    pub(super) fn settled(&mut self, committed: bool) {
        let sent = std::mem::take(&mut self.sent);
        if !committed {
            self.scheduler.aborted();
            return;
        }
        self.scheduler.committed();
        self.mailbox.set_durable(self.scheduler.durable().get());
        for dead in sent {
            self.counts.dead_lettered.inc();
            let reason = match &dead.ending {
                Ending::Rejected(reason) | Ending::Exhausted(reason) => reason.as_str(),
                Ending::Undecodable => "undecodable",
            };
            tracing::warn!(
                bucket = %self.bucket, offset = %dead.offset, attempts = dead.attempts, reason, "dead-lettered"
            );
        }
    }

    /// Why a transaction was refused, if it was one dead letter's fault.
    pub(super) fn refused(&mut self, now: std::time::Duration, error: &WriteError) {
        let Some((index, refusal, reason)) = &error.refused else { return };
        let Some(dead) = self.sent.get(*index) else { return };
        let too_large = *refusal == Refusal::TooLarge;
        let reason = format!("a dead letter cannot be written: {reason}");
        self.scheduler.refused(now, dead.offset, too_large, reason);
    }

    /// Cancels every handler, for good; their records are as if never started.
    pub(super) fn cancel(&mut self) {
        self.scheduler.stop(); // or they would begin again at once
        self.metrics.fenced.inc_by(u64::try_from(self.scheduler.in_flight()).unwrap_or(0));
        self.running.abort_all();
        self.scheduler.cancel();
    }

    /// Waits until no handler runs any more.
    pub(super) async fn end(&mut self) {
        self.running.shutdown().await;
    }

    /// Tells the mailbox and the metrics how things stand.
    pub(super) fn publish(&self) {
        self.mailbox.hold(self.scheduler.window());
        self.counts.in_flight_records.set(i64::try_from(self.scheduler.in_flight()).unwrap_or(i64::MAX));
        self.counts.unavailable.set(i64::from(self.scheduler.unavailable().is_some()));
    }

    fn judge(&self, record: Record) -> (Order, Item) {
        match Decoded::judge(record, self.buckets()) {
            Decoded::Notification(notification) => {
                if !notification.has_own_key() {
                    self.counts.foreign_keys.inc();
                }
                let own = notification.kind() == Kind::State && notification.has_own_key();
                let state = notification.record().key().filter(|_| own).map(Box::from);
                let resource = Arc::from(notification.resource());
                (Order::Handle { resource, state }, Item::Notification(Arc::new(notification)))
            }
            Decoded::Tombstone(record) => {
                self.counts.tombstones.inc();
                (Order::Skip, Item::Bare(Arc::new(record), Arc::from("")))
            }
            Decoded::Undecodable(record, why) => {
                let why = chain(&why);
                (Order::Undecodable, Item::Bare(Arc::new(record), Arc::from(why)))
            }
        }
    }

    fn buckets(&self) -> Buckets {
        self.config.buckets
    }

    fn dead_letter(&self, dead: &Dead, item: &Item) -> Outgoing {
        let (why, reason) = match (&dead.ending, item) {
            (Ending::Rejected(reason), _) => (Why::Rejected, reason.as_str()),
            (Ending::Exhausted(reason), _) => (Why::Exhausted, reason.as_str()),
            (Ending::Undecodable, Item::Bare(_, reason)) => (Why::Undecodable, &**reason),
            (Ending::Undecodable, Item::Notification(_)) => (Why::Undecodable, "undecodable"),
        };
        let (topic, time) = (self.config.bus.notifications(), timestamp());
        let letter = DeadLetter {
            topic: &topic,
            record: item.record(),
            why,
            reason,
            attempts: dead.attempts,
            epoch: self.epoch,
            owner: self.config.name.as_str(),
            time: &time,
        };
        let whole = letter.encode();
        let too_large = dead.without_data || whole.wire_size() > self.config.dead_letter_limit;
        if too_large { letter.encode_without_data() } else { whole }
    }
}

/// One attempt.
async fn attempt(
    handler: &impl Handler,
    delivery: Delivery,
    timeout: Option<std::time::Duration>,
) -> Outcome {
    let handling = handler.handle(delivery);
    let Some(timeout) = timeout else { return handling.await };
    match tokio::time::timeout(timeout, handling).await {
        Ok(outcome) => outcome,
        Err(_) => Outcome::Retry(format!("the handler took longer than {timeout:?}")),
    }
}

/// The claim record.
pub(super) fn claim(config: &Config, bucket: Bucket, epoch: Epoch, released: bool) -> (String, Outgoing) {
    let claim = Claim { epoch, owner: config.name.to_string(), time: timestamp(), released };
    let outgoing = Outgoing {
        bucket,
        key: Some(RecordKey::CLAIM.into()),
        payload: Some(claim.encode().into()),
        headers: Vec::new(),
    };
    (config.bus.ownership(), outgoing)
}

/// Now, RFC 3339.
fn timestamp() -> String {
    jiff::Timestamp::now().to_string()
}

/// Seconds since a record's timestamp; none for a time that lies in the future, or has none.
fn age(record: &Record) -> Option<f64> {
    let millis = jiff::Timestamp::now().as_millisecond().checked_sub(record.timestamp()?)?;
    let millis = u32::try_from(millis).ok()?;
    Some(f64::from(millis) / 1000.0)
}

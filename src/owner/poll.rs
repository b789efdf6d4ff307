//! The poll loop: one thread that polls the group's consumer and never waits for anyone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::{
    Error,
    shared::{Callbacks, Request, Shared, answer},
};
use crate::{
    engine::{Setback, Token},
    kafka::{GroupConsumer, Polled},
    model::{Bucket, NextOffset, Record, chain},
};

/// How long one poll waits; also how long a request waits at most.
const POLL: Duration = Duration::from_millis(5);

/// The most records taken before requests are looked at again.
const BATCH: usize = 500;

/// How long a seek may block the loop.
const SEEK: Duration = Duration::from_secs(1);

/// How long the loop goes on polling after it left the group.
const LEAVE: Duration = Duration::from_secs(2);

pub(super) struct PollLoop {
    consumer: GroupConsumer<Callbacks>,
    shared: Arc<Shared>,
    stop: CancellationToken,
    /// The tenure that each open bucket's records are for.
    open: BTreeMap<Bucket, Token>,
    /// Open buckets that are paused because their window is full.
    full: BTreeSet<Bucket>,
}

impl PollLoop {
    pub(super) fn new(
        consumer: GroupConsumer<Callbacks>,
        shared: Arc<Shared>,
        stop: CancellationToken,
    ) -> Self {
        Self { consumer, shared, stop, open: BTreeMap::new(), full: BTreeSet::new() }
    }

    /// Polls until it is stopped, then leaves the group.
    pub(super) fn run(mut self) -> Result<(), Error> {
        while !self.stop.is_cancelled() {
            self.turn()?;
        }
        self.consumer.leave();
        let deadline = Instant::now() + LEAVE;
        while !self.consumer.is_idle() && Instant::now() < deadline {
            self.consumer.poll(POLL);
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<(), Error> {
        self.shared.polled_now();
        for request in self.shared.take_requests() {
            self.carry_out(request);
        }
        self.give_up()?;
        self.resume();
        let mut timeout = POLL;
        for _ in 0..BATCH {
            match self.consumer.poll(timeout) {
                Polled::Record(record) => self.hand_over(record),
                Polled::Nothing => break,
                Polled::Trouble(error) => {
                    tracing::warn!(error = chain(&error), "polling reported an error");
                }
                Polled::OutOfRange(error) => self.out_of_range(&error),
                Polled::Fatal(error) => return Err(Error::Member(error)),
            }
            timeout = Duration::ZERO;
        }
        Ok(())
    }

    /// A record goes to its bucket's mailbox, unless no tenure waits for it: then it comes again after a seek.
    fn hand_over(&mut self, record: Record) {
        let bucket = record.bucket();
        let current = self.open.get(&bucket).copied();
        if current.is_none() || self.shared.snapshot().token(bucket) != current {
            return;
        }
        let Some(mailbox) = self.shared.mailbox(bucket) else { return };
        if mailbox.push(record) && self.full.insert(bucket) {
            mailbox.show_full(true);
            self.pause(bucket);
        }
    }

    fn carry_out(&mut self, request: Request) {
        match request {
            Request::Seek { bucket, token, offset, reply } => {
                answer(reply, self.seek(bucket, token, offset));
            }
            Request::Close { bucket } => {
                self.close(bucket);
                self.pause(bucket);
            }
            Request::Commit { bucket, committed, reply } => {
                // Callbacks run on this thread only, so the version is the one that the commit was made with.
                let version = self.shared.snapshot().version();
                let result = self.consumer.commit_plainly(bucket, &committed).map_err(|error| {
                    tracing::warn!(error = chain(&error), "the embedded broker refused an offset");
                    setback(&error, version)
                });
                answer(reply, result);
            }
        }
    }

    fn seek(&mut self, bucket: Bucket, token: Token, offset: NextOffset) -> Result<(), Setback> {
        if self.shared.snapshot().token(bucket) != Some(token) {
            return Err(Setback::Aborted);
        }
        let sought = self.consumer.seek(bucket, offset, SEEK).and_then(|()| self.consumer.resume(bucket));
        if let Err(error) = sought {
            tracing::warn!(%bucket, error = chain(&error), "the bucket could not be sought");
            return Err(Setback::Aborted);
        }
        self.open.insert(bucket, token);
        self.full.remove(&bucket);
        Ok(())
    }

    /// Gives up what is being revoked, once every tenure of it has ended.
    fn give_up(&mut self) -> Result<(), Error> {
        if self.consumer.is_revoking() && self.shared.all_given_up() {
            let revoked: Vec<Bucket> = self.shared.snapshot().being_revoked().collect();
            self.consumer.give_up().map_err(Error::Member)?;
            for bucket in revoked {
                self.close(bucket);
            }
            self.shared.unassigned();
        }
        Ok(())
    }

    /// Reads on where there is room again.
    fn resume(&mut self) {
        let shared = &self.shared;
        let roomy = |bucket: &Bucket| shared.mailbox(*bucket).is_none_or(|mailbox| mailbox.has_room());
        let ready: Vec<Bucket> = self.full.iter().copied().filter(roomy).collect();
        for bucket in ready {
            self.full.remove(&bucket);
            if let Some(mailbox) = self.shared.mailbox(bucket) {
                mailbox.show_full(false);
            }
            if self.open.get(&bucket).copied() == self.shared.snapshot().token(bucket)
                && let Err(error) = self.consumer.resume(bucket)
            {
                tracing::warn!(%bucket, error = chain(&error), "the bucket could not be resumed");
            }
        }
    }

    fn close(&mut self, bucket: Bucket) {
        self.open.remove(&bucket);
        self.full.remove(&bucket);
        if let Some(mailbox) = self.shared.mailbox(bucket) {
            mailbox.show_full(false);
        }
    }

    fn pause(&self, bucket: Bucket) {
        if let Err(error) = self.consumer.pause(bucket) {
            tracing::warn!(%bucket, error = chain(&error), "the bucket could not be paused");
        }
    }

    /// A position is not in its log any more, and librdkafka does not say whose: every open bucket begins anew,
    /// and its takeover finds out.
    fn out_of_range(&mut self, error: &crate::kafka::Error) {
        tracing::error!(
            error = chain(error),
            "a bucket's position is not in its log; its buckets are taken over anew"
        );
        let mut snapshot = self.shared.snapshot();
        for (bucket, token) in std::mem::take(&mut self.open) {
            snapshot.renew(bucket, token);
        }
        drop(snapshot);
        self.full.clear();
        self.shared.announce();
    }
}

/// What a refused plain commit means, as in a transaction.
fn setback(error: &crate::kafka::Error, version: u64) -> Setback {
    if error.is_unknown_member() {
        Setback::UnknownMember { version }
    } else if error.is_rebalance() {
        Setback::Rebalancing { version }
    } else {
        Setback::Aborted
    }
}

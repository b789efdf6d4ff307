//! Each promise of the scheduler as a test; the last part compares it with a naive model.

mod cautious;
mod dead_letters;
mod model;
mod order;
mod outcomes;
mod room;

use std::{collections::BTreeMap, time::Duration};

use super::*;
use crate::{
    engine::{Backoff, CommitMetadata, LIMIT, Marks, ParsedMetadata},
    model::{Epoch, TransactionSequence},
};

/// Far more concurrency than any test needs unless it says otherwise.
const MANY: usize = 1000;

/// Nothing started.
const NONE: [i64; 0] = [];

fn at(offset: i64) -> RecordOffset {
    RecordOffset::new(offset).unwrap()
}

fn to(offset: i64) -> NextOffset {
    NextOffset::new(offset).unwrap()
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn retry() -> Outcome {
    Outcome::Retry("it failed".to_owned())
}

fn unavailable() -> Outcome {
    Outcome::Unavailable("nobody is there".to_owned())
}

fn reject() -> Outcome {
    Outcome::Reject("it is wrong".to_owned())
}

fn limits(concurrency: usize, attempts: u32) -> Limits {
    Limits {
        concurrency,
        attempts,
        retry: Backoff { initial: seconds(1), max: seconds(300) },
        unavailable: Backoff { initial: seconds(1), max: seconds(60) },
    }
}

fn fresh(offset: i64) -> Resume {
    Resume {
        epoch: Epoch::new(1),
        offset: to(offset),
        marks: Marks::default(),
        cautious_until: to(offset),
        lost: None,
        unreadable: false,
    }
}

/// After an owner that did not release the bucket and left `tried` and `finished` beside offset 0.
fn inherited(cautious_until: i64, tried: &[(i64, u32, bool)], finished: &[(i64, i64)]) -> Resume {
    let mut resume = Resume { cautious_until: to(cautious_until), ..fresh(0) };
    for (offset, count, open) in tried {
        resume.marks.attempts.insert(at(*offset), Attempts { count: *count, open: *open });
    }
    for (start, end) in finished {
        resume.marks.finished.insert(to(*start), to(*end));
    }
    resume
}

/// A scheduler with a clock, and what was last committed.
struct Bench {
    scheduler: Scheduler<i64>,
    now: Duration,
    committed: (NextOffset, Marks),
}

impl Bench {
    fn new(concurrency: usize, attempts: u32) -> Self {
        Self::resumed(limits(concurrency, attempts), &fresh(0))
    }

    fn resumed(limits: Limits, resume: &Resume) -> Self {
        let scheduler = Scheduler::resume(limits, resume, 7);
        Self { scheduler, now: seconds(100), committed: (resume.offset, resume.marks.clone()) }
    }

    fn receive(&mut self, offset: i64, order: Order) -> Received {
        self.scheduler.receive(Incoming { offset: at(offset), bytes: 10, order, item: offset })
    }

    fn event(&mut self, offset: i64, resource: &str) -> Received {
        self.receive(offset, Order::Handle { resource: resource.into(), state: None })
    }

    fn state(&mut self, offset: i64, resource: &str, key: &str) -> Received {
        let state = Some(key.as_bytes().into());
        self.receive(offset, Order::Handle { resource: resource.into(), state })
    }

    /// Everything that may start now: offset and attempt.
    fn starts(&mut self) -> Vec<(i64, u32)> {
        std::iter::from_fn(|| self.scheduler.next(self.now))
            .map(|start| (start.item, start.attempt))
            .collect()
    }

    /// The offsets of everything that may start now.
    fn started(&mut self) -> Vec<i64> {
        self.starts().into_iter().map(|(offset, _)| offset).collect()
    }

    fn conclude(&mut self, offset: i64, outcome: Outcome) {
        self.scheduler.conclude(self.now, at(offset), outcome);
    }

    fn handled(&mut self, offset: i64) {
        self.conclude(offset, Outcome::Handled);
    }

    /// A checkpoint; its metadata fits, whatever the numbers of epoch and transaction are.
    fn checkpoint(&mut self) -> Checkpoint {
        let checkpoint = self.scheduler.checkpoint(self.now);
        let (epoch, sequence) = (Epoch::new(u64::MAX), TransactionSequence::new(u64::MAX));
        let metadata = CommitMetadata { epoch, sequence, marks: checkpoint.marks.clone() };
        let text = metadata.encode(checkpoint.offset);
        assert!(text.len() <= LIMIT, "{} bytes of metadata", text.len());
        assert_eq!(CommitMetadata::decode(&text, checkpoint.offset), ParsedMetadata::Ours(metadata));
        checkpoint
    }

    /// A checkpoint that takes effect: the offset, and the offsets of its dead letters.
    fn commit(&mut self) -> (i64, Vec<i64>) {
        let checkpoint = self.checkpoint();
        self.scheduler.committed();
        self.committed = (checkpoint.offset, checkpoint.marks);
        (checkpoint.offset.get(), checkpoint.dead.iter().map(|dead| dead.offset.get()).collect())
    }

    /// What was last committed about tried records: offset → count and whether the last one is open.
    fn tried(&self) -> BTreeMap<i64, (u32, bool)> {
        let tried = self.committed.1.attempts.iter();
        tried.map(|(offset, tried)| (offset.get(), (tried.count, tried.open))).collect()
    }

    /// Goes on as the next owner of the bucket, after a crash unless `released`.
    fn next_owner(self, attempts: u32, released: bool) -> Self {
        let (offset, marks) = self.committed;
        let cautious_until = if released { offset } else { to(1_000_000) };
        let resume = Resume { offset, marks, cautious_until, ..fresh(0) };
        Self::resumed(limits(MANY, attempts), &resume)
    }

    /// Lets time pass until the scheduler wants to be called again.
    fn wait(&mut self) {
        let until = self.scheduler.wake_at().expect("the scheduler waits for nothing");
        assert!(until > self.now, "it wants to be called at {until:?}, but it is {:?} already", self.now);
        self.now = until;
    }
}

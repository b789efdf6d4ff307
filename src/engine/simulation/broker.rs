//! What Kafka keeps of a bucket: log, committed offset, claim, dead letters, and a transactional id. Whatever
//! takes effect here is judged by the promises.

use std::collections::{BTreeMap, BTreeSet};

use super::group::Member;
use crate::{
    engine::{CommitMetadata, LIMIT, Marks, Order, ParsedMetadata, Reading},
    model::{Claim, Epoch, NextOffset, RecordOffset, TransactionSequence},
};

/// What handling a record does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nature {
    Plain,
    /// Fails so often and is handled then.
    Flaky(u32),
    /// Fails always.
    Stubborn,
    /// Is refused.
    Wrong,
    /// Kills the process that handles it.
    Poison,
    /// Cannot be decoded.
    Undecodable,
    Tombstone,
}

/// A record, and what has become of it.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) nature: Nature,
    pub(super) resource: u64,
    /// Its key, if it is a state.
    pub(super) state: Option<u64>,
    /// Its dead letter is too large unless it goes without its data.
    pub(super) large: bool,
    /// Removed by compaction: cannot be read any more.
    pub(super) removed: bool,
    /// A newer state of its key is there.
    pub(super) superseded: bool,
    pub(super) started: u32,
    pub(super) handled: u32,
    pub(super) kills: u32,
    pub(super) dead: u32,
    /// How often its bucket had been claimed when it came.
    born: u32,
}

impl Record {
    pub(super) fn new(nature: Nature, resource: u64, state: Option<u64>, large: bool) -> Self {
        Self {
            nature,
            resource,
            state,
            large,
            removed: false,
            superseded: false,
            started: 0,
            handled: 0,
            kills: 0,
            dead: 0,
            born: 0,
        }
    }

    pub(super) fn order(&self) -> Order {
        match self.nature {
            Nature::Undecodable => Order::Undecodable,
            Nature::Tombstone => Order::Skip,
            _ => Order::Handle {
                resource: format!("r/{}", self.resource).into(),
                state: self.state.map(|key| key.to_be_bytes().into()),
            },
        }
    }

    /// Whether it needs nothing more.
    pub(super) fn has_ended(&self) -> bool {
        self.handled > 0 || self.dead > 0 || self.superseded || self.nature == Nature::Tombstone
    }

    fn may_die(&self) -> bool {
        !matches!(self.nature, Nature::Plain | Nature::Flaky(_) | Nature::Tombstone)
    }
}

/// A transaction on its way.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    pub(super) number: u64,
    /// The producer that sends it.
    pub(super) producer: u64,
    pub(super) group: Member,
    /// The callback that brought the group metadata.
    pub(super) version: u64,
    pub(super) epoch: Epoch,
    pub(super) sequence: TransactionSequence,
    pub(super) committed: Option<(NextOffset, String)>,
    pub(super) claim: Option<Claim>,
    pub(super) dead: Vec<(RecordOffset, bool)>,
}

/// One bucket.
#[derive(Debug, Default)]
pub(super) struct Partition {
    pub(super) log: BTreeMap<i64, Record>,
    pub(super) end: i64,
    pub(super) committed: Option<(NextOffset, String)>,
    pub(super) claim: Option<Claim>,
    /// How often it was claimed.
    claims: u32,
    /// The epoch of the transactional id's latest producer.
    pub(super) producer: u64,
    /// What it has open.
    pub(super) open: Option<Transaction>,
}

impl Partition {
    /// Appends a record, after as many offsets that hold nothing as `gap` says.
    pub(super) fn append(&mut self, mut record: Record, gap: i64) {
        let offset = self.end + gap;
        if let Some(key) = record.state {
            for older in self.log.values_mut().filter(|older| older.state == Some(key)) {
                older.superseded = true;
            }
        }
        record.born = self.claims;
        self.log.insert(offset, record);
        self.end = offset + 1;
    }

    /// The first record that can be read at or after `position`.
    pub(super) fn read(&self, position: i64) -> Option<(i64, &Record)> {
        let found = self.log.range(position..).find(|(_, record)| !record.removed);
        found.map(|(offset, record)| (*offset, record))
    }

    /// A new producer of the bucket's id: what the former one had open is aborted.
    pub(super) fn initialise(&mut self) -> u64 {
        self.open = None;
        self.producer += 1;
        self.producer
    }

    /// The stable offset, whatever is pending.
    pub(super) fn reading(&self) -> Reading {
        Reading {
            committed: self.committed.clone(),
            claim: self.claim.clone(),
            log_start: NextOffset::ZERO,
            log_end: NextOffset::new(self.end).unwrap(),
        }
    }

    /// What is durable.
    pub(super) fn durable(&self) -> (NextOffset, Marks, Epoch, TransactionSequence) {
        let Some((offset, text)) = &self.committed else {
            return (NextOffset::ZERO, Marks::default(), Epoch::NONE, TransactionSequence::CLAIM);
        };
        match CommitMetadata::decode(text, *offset) {
            ParsedMetadata::Ours(metadata) => (*offset, metadata.marks, metadata.epoch, metadata.sequence),
            other => panic!("{text} is {other:?}"),
        }
    }

    /// The open transaction takes effect. The promises that this breaks, if any.
    pub(super) fn apply(&mut self, limit: u32) -> Result<(), String> {
        let transaction = self.open.take().unwrap();
        self.judge_epoch(&transaction)?;
        self.claims += u32::from(transaction.sequence == TransactionSequence::CLAIM);
        for (offset, _) in &transaction.dead {
            let record = self.log.get_mut(&offset.get()).unwrap();
            record.dead += 1;
            if record.dead > 1 {
                return Err(format!("{offset} is dead-lettered twice"));
            }
            if !record.may_die() {
                return Err(format!("{offset} is dead-lettered and innocent: {record:?}"));
            }
            // A tenure that ended is charged for, also to what it had only announced.
            if record.nature == Nature::Stubborn && record.started + self.claims - record.born < limit {
                return Err(format!("{offset} is dead-lettered after too few attempts: {record:?}"));
            }
        }
        if let Some((offset, text)) = &transaction.committed {
            if text.len() > LIMIT {
                return Err(format!("{} bytes of metadata", text.len()));
            }
            let before = self.committed.replace((*offset, text.clone()));
            self.judge_offset(before.map_or(0, |(offset, _)| offset.get()))?;
        }
        self.claim = transaction.claim.or(self.claim.take());
        Ok(())
    }

    /// Epochs grow by claims, and numbers one by one.
    fn judge_epoch(&self, transaction: &Transaction) -> Result<(), String> {
        let (_, _, epoch, sequence) = self.durable();
        let claimed = self.claim.as_ref().map_or(Epoch::NONE, |claim| claim.epoch);
        let (new, number) = (transaction.epoch, transaction.sequence);
        if number == TransactionSequence::CLAIM {
            return match new > epoch && new > claimed {
                true => Ok(()),
                false => Err(format!("epoch {new} is claimed after {epoch}, {claimed}")),
            };
        }
        match new == epoch && new == claimed && number == sequence.next() {
            true => Ok(()),
            false => Err(format!("transaction {new}/{number} takes effect after {epoch}/{sequence}")),
        }
    }

    /// Nothing is passed that needs something still.
    fn judge_offset(&self, before: i64) -> Result<(), String> {
        let (offset, marks, ..) = self.durable();
        for (at, record) in self.log.range(before..) {
            let at = RecordOffset::new(*at).unwrap();
            if (offset.is_past(at) || marks.finished.contains(at)) && !record.has_ended() && !record.removed {
                return Err(format!("{at} is committed and has not ended: {record:?}"));
            }
        }
        Ok(())
    }

    /// Whether a record may start: what is before it of its resource needs nothing more.
    pub(super) fn judge_start(&self, offset: i64) -> Result<(), String> {
        let record = &self.log[&offset];
        let earlier = self.log.range(..offset).find(|(_, earlier)| {
            let same = earlier.resource == record.resource && earlier.nature != Nature::Undecodable;
            same && !earlier.has_ended() && !earlier.removed
        });
        earlier.map_or(Ok(()), |(skipped, _)| Err(format!("{offset} starts and skips {skipped}")))
    }

    /// What is left to be done: nothing is lost, what had to die is dead.
    pub(super) fn unfinished(&self) -> Option<String> {
        let (committed, marks, ..) = self.durable();
        let last = self.log.iter().rev().find(|(_, record)| !record.removed);
        let end = last.map_or(0, |(offset, _)| offset + 1);
        if committed.get() < end || !marks.attempts.is_empty() {
            return Some(format!("committed {committed} of {end}, {marks:?}"));
        }
        let lost = self.log.iter().find(|(_, record)| {
            let fatal = matches!(
                record.nature,
                Nature::Stubborn | Nature::Wrong | Nature::Undecodable | Nature::Poison
            );
            (!record.has_ended() || (fatal && !record.superseded && record.dead != 1)) && !record.removed
        });
        lost.map(|(offset, record)| format!("{offset} came to no end: {record:?}"))
    }

    /// Compaction removes a superseded state; the latest of each key stays.
    pub(super) fn compact(&mut self, pick: u64) {
        let old: BTreeSet<i64> =
            self.log.iter().filter(|(_, record)| record.superseded).map(|(offset, _)| *offset).collect();
        let index = usize::try_from(pick).unwrap_or(0) % old.len().max(1);
        if let Some(record) = old.iter().nth(index).and_then(|offset| self.log.get_mut(offset)) {
            record.removed = true;
        }
    }
}

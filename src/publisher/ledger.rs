//! Every message that was accepted and not yet answered, and what its answer will be.
//!
//! No I/O; time comes in as an argument. A message has a number, in the order of acceptance, and one record,
//! or one per bucket. It is answered when all its records are, at the latest when the ledger is dropped.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{PublishError, Receipt, order::Order, room::Held, superseded, superseded::Superseded};
use crate::{
    kafka,
    model::{Bucket, ErrorKind, Message, RecordOffset},
};

/// The messages that were accepted and not yet answered.
#[derive(Debug)]
pub(super) struct Ledger {
    next: u64,
    outstanding: BTreeMap<u64, Entry>,
    order: Order,
    superseded: Superseded,
}

/// A message as it is accepted.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) message: Box<Message>,
    /// Its record's key, for a state; `None` for an event.
    pub(super) state_key: Option<Arc<str>>,
    pub(super) records: usize,
    pub(super) bytes: usize,
    pub(super) reply: Reply,
    pub(super) room: Held,
}

/// Who waits for the answer.
#[derive(Debug)]
pub(super) enum Reply {
    One(oneshot::Sender<Result<Receipt, PublishError>>),
    All(oneshot::Sender<Result<Vec<Receipt>, PublishError>>),
}

/// A message whose answer is known and is to be told.
#[derive(Debug)]
#[must_use = "it is answered by `tell`"]
pub(super) struct Finished {
    pub(super) records: usize,
    pub(super) bytes: usize,
    /// How many of its records Kafka has.
    pub(super) written: usize,
    /// The kind of the error, if it is one.
    pub(super) failed: Option<ErrorKind>,
    pub(super) took: Duration,
    entry: Entry,
    reply: Reply,
    result: Result<Vec<Receipt>, PublishError>,
}

/// A message that is outstanding.
#[derive(Debug)]
struct Entry {
    since: Instant,
    records: usize,
    bytes: usize,
    state_key: Option<Arc<str>>,
    receipts: Vec<Receipt>,
    failures: Vec<(Bucket, kafka::Error)>,
    /// `None` once it is answered.
    open: Option<(Box<Message>, Reply)>,
    _room: Held,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            next: 1,
            outstanding: BTreeMap::new(),
            order: Order::default(),
            superseded: Superseded::new(superseded::LIMIT),
        }
    }

    /// The number that the next accepted message will have.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// When the oldest outstanding message was accepted, and its number.
    pub(super) fn oldest(&self) -> Option<(u64, Instant)> {
        self.outstanding.first_key_value().map(|(number, entry)| (*number, entry.since))
    }

    /// Whether a message must not be sent, since it would replace a newer state.
    pub(super) fn is_superseded(&self, state_key: Option<&Arc<str>>, message: &Message) -> bool {
        state_key.is_some_and(|key| self.superseded.is_superseded(key, message.id().unwrap_or_default()))
    }

    /// A message was accepted, as number [`Ledger::next`].
    pub(super) fn accept(&mut self, accepted: Accepted, now: Instant) {
        let Accepted { message, state_key, records, bytes, reply, room } = accepted;
        let number = self.take_number();
        self.order.accepted(message.resource(), number);
        if let Some(key) = &state_key {
            self.superseded.accepted(key, message.id().unwrap_or_default(), number);
        }
        let entry = Entry {
            since: now,
            records,
            bytes,
            state_key,
            receipts: Vec::with_capacity(records),
            failures: Vec::new(),
            open: Some((message, reply)),
            _room: room,
        };
        self.outstanding.insert(number, entry);
    }

    /// A message is given back without having been accepted.
    pub(super) fn refuse(&mut self, state_key: Option<&Arc<str>>, message: &Message) {
        if let Some(key) = state_key {
            let number = self.take_number();
            self.superseded.hand_back(key, message.id().unwrap_or_default(), number);
        }
    }

    /// One record of a message ended. With the last one, the message's answer is known.
    ///
    /// `timeout` is the delivery time-out, for the error's text.
    pub(super) fn answer(
        &mut self,
        number: u64,
        bucket: Bucket,
        result: Result<RecordOffset, kafka::Error>,
        timeout: Duration,
        now: Instant,
    ) -> Option<Finished> {
        let entry = self.outstanding.get_mut(&number)?;
        let (message, _) = entry.open.as_ref()?;
        let id = message.id().unwrap_or_default();
        match result {
            Ok(offset) => entry.receipts.push(Receipt { id: id.to_owned(), bucket, offset }),
            Err(error) => {
                if entry.failures.is_empty() {
                    self.order.failed(message.resource(), number, id);
                }
                entry.failures.push((bucket, error));
            }
        }
        if entry.receipts.len() + entry.failures.len() < entry.records {
            return None;
        }
        let mut entry = self.outstanding.remove(&number)?;
        let (message, reply) = entry.open.take()?;
        let culprit = self.order.finished(message.resource(), number);
        let is_error = culprit.is_some() || !entry.failures.is_empty();
        if let Some(key) = &entry.state_key {
            if is_error {
                self.superseded.hand_back(key, message.id().unwrap_or_default(), number);
            }
            self.superseded.finished(key);
        }
        let written = entry.receipts.len();
        let result = entry.verdict(message, &reply, culprit, timeout);
        Some(Finished {
            records: entry.records,
            bytes: entry.bytes,
            written,
            failed: result.as_ref().err().map(PublishError::kind),
            took: now.saturating_duration_since(entry.since),
            entry,
            reply,
            result,
        })
    }

    /// Takes out everything that is outstanding; dropping it answers that the publisher is closed.
    pub(super) fn abandon(&mut self) -> impl Sized + use<> {
        self.order = Order::default();
        std::mem::take(&mut self.outstanding)
    }

    fn take_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }
}

impl Finished {
    /// Gives back the message's room and answers, in this order: whoever is told finds room.
    pub(super) fn tell(self) {
        drop(self.entry);
        self.reply.send(self.result);
    }
}

impl Entry {
    /// What its records' ends amount to.
    fn verdict(
        &mut self,
        message: Box<Message>,
        reply: &Reply,
        culprit: Option<Arc<str>>,
        timeout: Duration,
    ) -> Result<Vec<Receipt>, PublishError> {
        let mut receipts = std::mem::take(&mut self.receipts);
        let mut failures = std::mem::take(&mut self.failures);
        receipts.sort_by_key(|receipt| receipt.bucket);
        failures.sort_by_key(|(bucket, _)| *bucket);
        match (reply, failures.pop(), culprit) {
            (_, None, None) => Ok(receipts),
            (_, None, Some(id)) => Err(PublishError::AfterFailed { message, failed: id.as_ref().to_owned() }),
            (Reply::One(_), Some((_, error)), _) => Err(of_record(message, Box::new(error), timeout)),
            (Reply::All(_), Some(last), _) => {
                failures.push(last);
                Err(PublishError::PartlyFailed { message, failures, receipts })
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some((message, reply)) = self.open.take() {
            reply.send(Err(PublishError::Closed { message }));
        }
    }
}

impl Reply {
    /// Answers; that nobody waits any more is no error.
    fn send(self, result: Result<Vec<Receipt>, PublishError>) {
        match self {
            Self::All(sender) => drop(sender.send(result)),
            Self::One(sender) => {
                // One record has one receipt, so there is always something to send.
                let one = result.map(|receipts| receipts.into_iter().next());
                if let Some(one) = one.transpose() {
                    drop(sender.send(one));
                }
            }
        }
    }
}

fn of_record(message: Box<Message>, source: Box<kafka::Error>, timeout: Duration) -> PublishError {
    if source.is_delivery_timeout() {
        PublishError::TimedOut { message, timeout, source }
    } else {
        PublishError::Kafka { message, source }
    }
}

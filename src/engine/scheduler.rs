//! Which record of a bucket starts next, and what its outcome means.
//!
//! Records of one resource are handled one after another, different resources concurrently and round robin.
//! A queued *state* that a newer one supersedes is skipped; an event never is. A resource in retry blocks
//! only itself. Nothing starts unless the commit metadata would still fit ([`Tracker::admits`]).
//!
//! After a takeover without release the scheduler is *cautious*: an attempt is durable before it begins, and a
//! record whose last attempt has no outcome runs alone. So a record that kills its owner runs out of attempts.

mod gate;
mod lanes;
mod staged;
mod turn;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use gate::Gate;
use lanes::Lanes;
use staged::Staged;
pub use staged::{Dead, Ending};
pub use turn::{Checkpoint, Incoming, Limits, Order, Received, Start};

use super::{Attempts, Jitter, Outcome, Receipt, Resume, Tracker};
use crate::model::{NextOffset, RecordOffset};

/// How many attempts of one resource are announced in one transaction, besides its head's.
const AHEAD: usize = 15;

/// A record that is not finished.
#[derive(Debug, Clone)]
struct Pending<T> {
    bytes: usize,
    item: T,
    resource: Option<Arc<str>>,
    /// The key, while it is a state that was never started.
    state: Option<Box<[u8]>>,
    /// Retries wait for this change to be durable.
    change: u64,
    /// What was known of its attempts when the latest one was announced or begun.
    before: Option<Attempts>,
}

/// What the outstanding checkpoint carried.
#[derive(Debug, Clone)]
struct Sent {
    change: u64,
    offset: NextOffset,
    dead: Vec<RecordOffset>,
}

/// One bucket's queue.
#[derive(Debug)]
pub struct Scheduler<T> {
    limits: Limits,
    jitter: Jitter,
    tracker: Tracker,
    records: HashMap<RecordOffset, Pending<T>>,
    bytes: usize,
    lanes: Lanes,
    /// Records that need no handler, in order.
    bypass: VecDeque<RecordOffset>,
    /// Attempts that wait for their time, and for being durable.
    timers: BTreeSet<(Duration, RecordOffset)>,
    in_flight: BTreeSet<RecordOffset>,
    /// Attempts about to begin, each waiting for its mark to be durable, with the change that marks it.
    marking: Vec<(RecordOffset, u64)>,
    /// Attempts that are announced before their record's turn, with the change that marks each.
    ahead: BTreeMap<RecordOffset, u64>,
    /// A record that runs alone, and the change that carries its outcome.
    alone: Option<(RecordOffset, Option<u64>)>,
    staged: Staged,
    gate: Option<Gate>,
    stopped: bool,
    /// The latest time it was told.
    now: Duration,
    cautious_until: NextOffset,
    durable: NextOffset,
    /// Numbers what happens between checkpoints.
    change: u64,
    durable_change: Option<u64>,
    sent: Option<Sent>,
    dirty: bool,
}

impl<T: Clone> Scheduler<T> {
    /// A scheduler that goes on where a takeover says. `seed` spreads its retries.
    #[must_use]
    pub fn resume(limits: Limits, resume: &Resume, seed: u64) -> Self {
        Self {
            limits,
            jitter: Jitter::seeded(seed),
            tracker: Tracker::resume(resume.offset, resume.marks.clone()),
            records: HashMap::new(),
            bytes: 0,
            lanes: Lanes::default(),
            bypass: VecDeque::new(),
            timers: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            marking: Vec::new(),
            ahead: BTreeMap::new(),
            alone: None,
            staged: Staged::default(),
            gate: None,
            stopped: false,
            now: Duration::ZERO,
            cautious_until: resume.cautious_until,
            durable: resume.offset,
            change: 0,
            durable_change: None,
            sent: None,
            dirty: false,
        }
    }

    /// Takes a record. Records arrive in order.
    pub fn receive(&mut self, incoming: Incoming<T>) -> Received {
        let Incoming { offset, bytes, order, item } = incoming;
        match self.tracker.receive(offset) {
            Receipt::Repeated => return Received::Repeated,
            Receipt::Finished => {
                self.dirty = true;
                return Received::Finished;
            }
            Receipt::New => {}
        }
        self.bytes += bytes;
        let mut pending = Pending { bytes, item, resource: None, state: None, change: 0, before: None };
        let mut superseded = false;
        match order {
            Order::Handle { resource, state } => {
                // Queued first, so that the resource keeps its turn when that leaves nothing else of it.
                self.lanes.push(&resource, offset);
                if let Some(key) = &state {
                    superseded = self.supersede(key, offset);
                }
                pending.resource = Some(resource);
                pending.state = state;
            }
            Order::Skip => self.bypass.push_back(offset),
            Order::Undecodable => {
                self.staged.undecodable(offset);
                self.bypass.push_back(offset);
            }
        }
        self.records.insert(offset, pending);
        Received::Queued { superseded }
    }

    /// The next record to handle, if one may start now. Call until there is none.
    pub fn next(&mut self, now: Duration) -> Option<Start<T>> {
        self.now = now;
        self.pass();
        self.ring(now);
        if let Some(start) = self.marked() {
            return Some(start);
        }
        while self.may_start(now) {
            let (resource, offset) = self.turn()?;
            if let Some(change) = self.ahead.remove(&offset) {
                self.begin_turn(&resource, offset);
                self.marking.push((offset, change));
                if let Some(start) = self.marked() {
                    return Some(start);
                }
                continue;
            }
            let tried = self.tracker.attempts(offset).unwrap_or(Attempts { count: 0, open: false });
            if tried.count >= self.limits.attempts {
                self.lanes.take(&resource);
                self.exhausted_before(offset, tried);
                continue;
            }
            if tried.open && (!self.in_flight.is_empty() || !self.marking.is_empty()) {
                return None; // it runs alone
            }
            self.begin_turn(&resource, offset);
            if let Some(pending) = self.records.get_mut(&offset) {
                pending.before = self.tracker.attempts(offset);
            }
            if !tried.open && !self.is_cautious() {
                return self.started(offset, tried.count + 1);
            }
            self.tracker.set_attempts(offset, Some(Attempts { count: tried.count + 1, open: true }));
            self.marking.push((offset, self.change));
            self.dirty = true;
            if tried.open {
                self.take_back_ahead();
                self.alone = Some((offset, None));
            } else if tried.count == 0 && self.limits.attempts > 1 {
                self.announce_ahead(&resource);
            }
        }
        None
    }

    /// It is a record's turn.
    fn begin_turn(&mut self, resource: &Arc<str>, offset: RecordOffset) {
        self.lanes.take(resource);
        self.forget_state(offset);
        self.tracker.start(offset);
        if let Some(gate) = &mut self.gate {
            gate.probe = Some(offset);
        }
    }

    /// Announces the first attempts of the records behind a resource's head with its own, so that a resource with
    /// many records does not wait for a transaction before each. Should the owner end then, each is charged
    /// one attempt at the most, and runs alone; so not where one attempt is all there is.
    fn announce_ahead(&mut self, resource: &Arc<str>) {
        for offset in self.lanes.behind_head(resource, AHEAD) {
            if self.tracker.attempts(offset).is_some() || !self.tracker.admits(offset) {
                return;
            }
            self.forget_state(offset);
            self.tracker.start(offset);
            self.tracker.set_attempts(offset, Some(Attempts { count: 1, open: true }));
            self.ahead.insert(offset, self.change);
        }
    }

    /// Takes back what was announced before its turn.
    fn take_back_ahead(&mut self) {
        for (offset, _) in std::mem::take(&mut self.ahead) {
            self.tracker.set_attempts(offset, None);
            self.dirty = true;
        }
    }

    /// Takes the outcome of a started record. One that is not in flight is ignored: its tenure is over.
    pub fn conclude(&mut self, now: Duration, offset: RecordOffset, outcome: Outcome) {
        if !self.in_flight.remove(&offset) {
            return;
        }
        self.dirty = true;
        if let Some((_, change)) = self.alone.as_mut().filter(|(alone, _)| *alone == offset) {
            *change = Some(self.change);
        }
        if !matches!(outcome, Outcome::Unavailable(_))
            && self.gate.as_ref().is_some_and(|gate| !gate.dead_letters)
        {
            self.gate = None;
        }
        let tried = self.tracker.attempts(offset).unwrap_or(Attempts { count: 0, open: false });
        let attempt = if tried.open { tried.count } else { tried.count + 1 };
        match outcome {
            Outcome::Handled => self.finish(offset),
            Outcome::Reject(reason) => self.stage(offset, attempt, Ending::Rejected(reason)),
            Outcome::Retry(reason) if attempt >= self.limits.attempts => {
                self.stage(offset, attempt, Ending::Exhausted(reason));
            }
            Outcome::Retry(_) => {
                self.tracker.set_attempts(offset, Some(Attempts { count: attempt, open: false }));
                let at = now.saturating_add(self.limits.retry.wait(attempt, &mut self.jitter));
                self.timers.insert((at, offset));
                if let Some(pending) = self.records.get_mut(&offset) {
                    pending.change = self.change;
                }
            }
            Outcome::Unavailable(reason) => {
                self.close_gate(now, offset, reason);
                self.not_attempted(offset);
            }
        }
    }

    /// What to write now. Ends with [`Scheduler::committed`] or [`Scheduler::aborted`] before the next one.
    pub fn checkpoint(&mut self, now: Duration) -> Checkpoint {
        let dead = self.staged.due(now);
        let also: BTreeSet<RecordOffset> = dead.iter().map(|dead| dead.offset).collect();
        let (offset, marks) = self.tracker.commit(&also);
        self.sent = Some(Sent { change: self.change, offset, dead: also.into_iter().collect() });
        self.change += 1;
        self.dirty = false;
        let cautious_until = (offset < self.cautious_until).then_some(self.cautious_until);
        Checkpoint { offset, marks, cautious_until, dead }
    }

    /// The last checkpoint is durable.
    pub fn committed(&mut self) {
        let Some(sent) = self.sent.take() else { return };
        self.durable = sent.offset;
        self.durable_change = Some(sent.change);
        if !sent.dead.is_empty() && self.gate.as_ref().is_some_and(|gate| gate.dead_letters) {
            self.gate = None;
        }
        for offset in sent.dead {
            self.staged.remove(offset);
            self.finish(offset);
        }
        if self.alone.is_some_and(|(_, change)| change.is_some_and(|change| change <= sent.change)) {
            self.alone = None;
        }
    }

    /// The last checkpoint did not take effect; what it carried goes with the next one.
    pub fn aborted(&mut self) {
        if self.sent.take().is_some() {
            self.dirty = true;
        }
    }

    /// One dead letter of the last checkpoint was refused: if it was too large it goes without its data next
    /// time; otherwise the bucket waits until dead letters can be written again.
    pub fn refused(&mut self, now: Duration, offset: RecordOffset, too_large: bool, reason: String) {
        if too_large && self.staged.drop_data(offset) {
            return;
        }
        let failures = self.gate.as_ref().map_or(1, |gate| gate.failures.saturating_add(1));
        let until = now.saturating_add(self.limits.unavailable.wait(failures, &mut self.jitter));
        self.staged.hold(until);
        self.gate = Some(Gate { until, failures, probe: None, dead_letters: true, reason });
        self.take_back();
    }

    /// Starts nothing more. Attempts that were announced and did not begin are taken back.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.take_back();
    }

    /// Takes back the attempts that were announced and did not begin.
    fn take_back(&mut self) {
        self.take_back_ahead();
        for (offset, _) in std::mem::take(&mut self.marking) {
            self.not_attempted(offset);
            if self.alone.is_some_and(|(alone, _)| alone == offset) {
                self.alone = None;
            }
        }
    }

    /// Starts records again.
    pub fn go_on(&mut self) {
        self.stopped = false;
    }

    /// What is in flight was cancelled: no attempt is counted for it.
    pub fn cancel(&mut self) {
        for offset in std::mem::take(&mut self.in_flight) {
            self.not_attempted(offset);
        }
        self.alone = None;
        self.take_back_ahead();
    }

    /// Whether nothing is in flight and nothing waits to be written for a record that has ended.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.in_flight.is_empty() && self.marking.is_empty() && self.staged.is_empty()
    }

    /// Whether there is something to commit, and whether that is urgent.
    #[must_use]
    pub fn dirty(&self, now: Duration) -> Option<bool> {
        let pending = |change: u64| !self.is_durable(change) && !self.is_sent(change);
        let marking = self.marking.iter().any(|(_, change)| pending(*change));
        let alone = self.alone.is_some_and(|(_, change)| change.is_some_and(pending));
        let sent = self.sent.as_ref().map_or(0, |sent| sent.dead.len());
        let urgent = marking || alone || (self.staged.is_due(now) && self.staged.len() > sent);
        (self.dirty || urgent).then_some(urgent)
    }

    /// When [`Scheduler::next`] or [`Scheduler::checkpoint`] can do more, if nothing else happens: later than the
    /// time that `next` was called with last, unless an attempt has become due and durable since.
    #[must_use]
    pub fn wake_at(&self) -> Option<Duration> {
        let held = self.staged.held_until().filter(|until| *until > self.now);
        if self.stopped {
            return held;
        }
        // A timer whose attempt is not durable yet waits for the commit, not for the time.
        let mut durable = self.timers.iter().filter(|(_, offset)| {
            self.records.get(offset).is_some_and(|pending| self.is_durable(pending.change))
        });
        let timer = durable.next().map(|(at, _)| *at);
        // Once its time has come, what still keeps the probe from starting is no matter of time.
        let gate = self.gate.as_ref().and_then(Gate::opens_at).filter(|until| *until > self.now);
        [timer, gate, held].into_iter().flatten().min()
    }

    /// A record that is not finished.
    #[must_use]
    pub fn item(&self, offset: RecordOffset) -> Option<&T> {
        self.records.get(&offset).map(|pending| &pending.item)
    }

    /// How many records, and bytes of them, are not finished.
    #[must_use]
    pub fn window(&self) -> (usize, usize) {
        (self.records.len(), self.bytes)
    }

    /// How many records are being handled.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Why nothing starts, while the handler or the dead letters are unavailable.
    #[must_use]
    pub fn unavailable(&self) -> Option<&str> {
        self.gate.as_ref().map(|gate| gate.reason.as_str())
    }

    /// Up to where everything is durably finished.
    #[must_use]
    pub fn durable(&self) -> NextOffset {
        self.durable
    }

    /// How many resources have something queued.
    #[must_use]
    pub fn resources(&self) -> usize {
        self.lanes.len()
    }

    /// Skips a queued state for a newer one with the same key.
    fn supersede(&mut self, key: &[u8], newer: RecordOffset) -> bool {
        let Some(older) = self.lanes.newest_state(key, newer) else { return false };
        // Without room for its mark it simply waits for its turn and is handled.
        if !self.tracker.admits(older) {
            return false;
        }
        if let Some(resource) = self.records.get(&older).and_then(|pending| pending.resource.clone()) {
            self.lanes.withdraw(&resource, older);
        }
        self.dirty = true;
        self.tracker.finish(older);
        self.remove(older);
        true
    }

    /// The record is no longer one that a newer state supersedes.
    fn forget_state(&mut self, offset: RecordOffset) {
        if let Some(key) = self.records.get_mut(&offset).and_then(|pending| pending.state.take()) {
            self.lanes.forget_state(&key, offset);
        }
    }

    /// Ends what needs no handler.
    fn pass(&mut self) {
        while let Some(&offset) = self.bypass.front() {
            if !self.tracker.admits(offset) {
                return;
            }
            self.bypass.pop_front();
            self.tracker.start(offset);
            self.dirty = true;
            if !self.staged.release(offset) {
                self.finish(offset);
            }
        }
    }

    /// The resource whose turn it is, and its head. Where there is no room for that one's mark, it is the turn of the
    /// record that holds the bucket's offset up: nothing else can make room.
    fn turn(&self) -> Option<(Arc<str>, RecordOffset)> {
        let (resource, offset) = self.lanes.head()?;
        if self.tracker.admits(offset) {
            return Some((resource, offset));
        }
        let first = self.tracker.head()?;
        let resource = self.records.get(&first)?.resource.clone()?;
        self.lanes.is_ready(&resource, first).then_some((resource, first))
    }

    /// Lets attempts begin whose time has come and whose failed predecessor is durable.
    fn ring(&mut self, now: Duration) {
        let due: Vec<_> = self
            .timers
            .iter()
            .take_while(|(at, _)| *at <= now)
            .filter(|(_, offset)| {
                self.records.get(offset).is_some_and(|pending| self.is_durable(pending.change))
            })
            .copied()
            .collect();
        for timer in due {
            self.timers.remove(&timer);
            if let Some(resource) = self.records.get(&timer.1).and_then(|pending| pending.resource.as_ref()) {
                self.lanes.release(resource);
            }
        }
    }

    /// An attempt whose mark is durable.
    fn marked(&mut self) -> Option<Start<T>> {
        let at = self.marking.iter().position(|(_, change)| self.is_durable(*change))?;
        let (offset, _) = self.marking.remove(at);
        let attempt = self.tracker.attempts(offset).map_or(1, |tried| tried.count);
        self.started(offset, attempt)
    }

    fn started(&mut self, offset: RecordOffset, attempt: u32) -> Option<Start<T>> {
        let item = self.records.get(&offset)?.item.clone();
        self.in_flight.insert(offset);
        let redelivered = attempt > 1 || self.cautious_until.is_past(offset);
        Some(Start { offset, item, attempt, redelivered })
    }

    fn may_start(&self, now: Duration) -> bool {
        let busy = self.in_flight.len() + self.marking.len();
        let gate_open = self.gate.as_ref().is_none_or(|gate| gate.lets_through(now));
        !self.stopped && self.alone.is_none() && busy < self.limits.concurrency && gate_open
    }

    /// Whether an attempt must be durable before it begins.
    fn is_cautious(&self) -> bool {
        self.durable < self.cautious_until
    }

    fn is_durable(&self, change: u64) -> bool {
        self.durable_change.is_some_and(|durable| change <= durable)
    }

    fn is_sent(&self, change: u64) -> bool {
        self.sent.as_ref().is_some_and(|sent| change <= sent.change)
    }

    /// Its attempts were used up before this tenure.
    fn exhausted_before(&mut self, offset: RecordOffset, tried: Attempts) {
        self.tracker.start(offset);
        self.forget_state(offset);
        let reason = if tried.open {
            let begun = tried.count;
            format!(
                "its owner ended while handling it: {begun} attempts were begun, the last one had no outcome"
            )
        } else {
            format!("it had failed {} times under an owner that allowed for more attempts", tried.count)
        };
        self.stage(offset, tried.count, Ending::Exhausted(reason));
    }

    fn stage(&mut self, offset: RecordOffset, attempts: u32, ending: Ending) {
        self.staged.push(offset, attempts, ending);
        self.dirty = true;
    }

    /// An announced or running attempt that does not count.
    fn not_attempted(&mut self, offset: RecordOffset) {
        if let Some(gate) = self.gate.as_mut().filter(|gate| gate.probe == Some(offset)) {
            gate.probe = None;
        }
        let Some(pending) = self.records.get(&offset) else { return };
        if self.tracker.attempts(offset) != pending.before {
            self.tracker.set_attempts(offset, pending.before);
            self.dirty = true;
        }
        if let Some(resource) = &pending.resource {
            self.lanes.release_first(resource);
        }
    }

    fn close_gate(&mut self, now: Duration, offset: RecordOffset, reason: String) {
        let failures = match &self.gate {
            // Others that were in flight say the same thing: it is one failure.
            Some(gate) if gate.probe != Some(offset) => return,
            Some(gate) => gate.failures.saturating_add(1),
            None => 1,
        };
        let until = now.saturating_add(self.limits.unavailable.wait(failures, &mut self.jitter));
        self.gate = Some(Gate { until, failures, probe: None, dead_letters: false, reason });
        self.take_back();
    }

    fn finish(&mut self, offset: RecordOffset) {
        self.tracker.finish(offset);
        self.dirty = true;
        if let Some(resource) = self.remove(offset) {
            self.lanes.finished(&resource, offset);
        }
    }

    fn remove(&mut self, offset: RecordOffset) -> Option<Arc<str>> {
        self.forget_state(offset);
        self.ahead.remove(&offset);
        let pending = self.records.remove(&offset)?;
        self.bytes = self.bytes.saturating_sub(pending.bytes);
        pending.resource
    }
}

#[cfg(test)]
mod tests;

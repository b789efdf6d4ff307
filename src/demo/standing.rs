//! What is known at each moment: who owns what, what each received, and the account for the judge.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use super::{
    load::{DISPATCHERS, Sent, TRIGGER1, TRIGGER2},
    process::ProcessId,
    said::{Answer, Said},
    verdict::{Accepted, Account, End, Line, Transcript},
};

/// A controller process's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// Told to end in good order.
    Stopping,
    Stopped,
    Killed,
}

/// One run of a controller.
#[derive(Debug)]
pub(super) struct Controller {
    pub(super) id: ProcessId,
    pub(super) state: State,
    /// How many messages, by the pod they are from.
    pub(super) received: BTreeMap<String, u64>,
}

/// A bucket.
#[derive(Debug)]
pub(super) struct BucketState {
    pub(super) resource: &'static str,
    /// Who owns it, in which epoch.
    pub(super) owner: Option<(ProcessId, u64)>,
    /// Since when that is so.
    pub(super) since: Instant,
    pub(super) received: u64,
    /// What was accepted and not yet handled, by offset; of a state, what it is the state of.
    waiting: BTreeMap<i64, Option<String>>,
    /// What was handled before its receipt was read.
    early: BTreeSet<i64>,
}

/// A dispatcher.
#[derive(Debug, Default)]
struct Dispatcher {
    sent: u64,
    running: bool,
}

/// Something that is worth a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    Acquired { bucket: u16, epoch: u64, ownerless: Option<Duration> },
    Released { bucket: u16, epoch: u64, lost: bool },
    Handled { pod: String, resource: String, bucket: u16, offset: i64 },
}

/// What is known.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) began: Instant,
    pub(super) buckets: Vec<BucketState>,
    pub(super) controllers: Vec<Controller>,
    dispatchers: BTreeMap<&'static str, Dispatcher>,
    /// In the order of `controllers`; what is still unanswered is not in it.
    account: Account,
    pending: HashMap<String, Option<String>>,
}

impl Standing {
    pub(super) fn new(began: Instant) -> Self {
        let bucket = |resource| BucketState {
            resource,
            owner: None,
            since: began,
            received: 0,
            waiting: BTreeMap::new(),
            early: BTreeSet::new(),
        };
        Self {
            began,
            buckets: [TRIGGER1, TRIGGER2].map(bucket).into(),
            controllers: Vec::new(),
            dispatchers: DISPATCHERS.iter().map(|(name, ..)| (*name, Dispatcher::default())).collect(),
            account: Account::default(),
            pending: HashMap::new(),
        }
    }

    /// A dispatcher was started.
    pub(super) fn dispatching(&mut self, name: &str) {
        if let Some(dispatcher) = self.dispatchers.get_mut(name) {
            dispatcher.running = true;
        }
    }

    /// A controller was started.
    pub(super) fn started(&mut self, id: ProcessId, name: &str) {
        self.controllers.push(Controller { id, state: State::Running, received: BTreeMap::new() });
        let (controller, lines) = (name.to_owned(), Vec::new());
        self.account.transcripts.push(Transcript { controller, lines, end: End::Running });
    }

    /// A controller is about to be killed: its buckets have no owner from now on.
    pub(super) fn killed(&mut self, id: ProcessId, at: Instant) {
        let ago = at.saturating_duration_since(self.began);
        if let Some((controller, transcript)) = self.controller(id) {
            controller.state = State::Killed;
            transcript.end = End::Killed(ago);
        }
        for bucket in self.buckets.iter_mut().filter(|bucket| bucket.owner.is_some_and(|owner| owner.0 == id))
        {
            (bucket.owner, bucket.since) = (None, at);
        }
    }

    /// A controller was told to end in good order.
    pub(super) fn stopping(&mut self, id: ProcessId) {
        if let Some((controller, _)) = self.controller(id) {
            controller.state = State::Stopping;
        }
    }

    /// A child has ended; for a controller, what its state was before.
    pub(super) fn ended(&mut self, id: ProcessId, name: &str) -> Option<State> {
        if let Some(dispatcher) = self.dispatchers.get_mut(name) {
            dispatcher.running = false;
        }
        let (controller, transcript) = self.controller(id)?;
        let before = controller.state;
        if before != State::Killed {
            controller.state = State::Stopped;
            transcript.end = End::Stopped;
        }
        Some(before)
    }

    /// A message goes to a dispatcher.
    pub(super) fn sent(&mut self, sent: Sent) {
        if let Some(dispatcher) = self.dispatchers.get_mut(sent.dispatcher) {
            dispatcher.sent += sent.records;
        }
        self.pending.insert(sent.id, sent.state);
    }

    /// A dispatcher's answer.
    pub(super) fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Accepted { id, resource, places } => {
                let state = self.pending.remove(&id).flatten();
                for (bucket, offset) in places {
                    if let Some(known) = self.bucket(bucket) {
                        known.accepted(offset, state.clone());
                    }
                    let (id, resource, state) = (id.clone(), resource.clone(), state.clone());
                    self.account.accepted.push(Accepted { id, resource, bucket, offset, state });
                }
            }
            Answer::Refused { id, why } => {
                let id = id.unwrap_or_else(|| "a message".to_owned());
                self.pending.remove(&id);
                self.account.refused.insert(id, why);
            }
        }
    }

    /// A controller's line; what of it is news.
    pub(super) fn said(&mut self, id: ProcessId, at: Instant, said: Said) -> News {
        let Said { line, pod } = said;
        let news = match &line {
            Line::Acquired { bucket, epoch } => {
                let (bucket, epoch) = (*bucket, *epoch);
                News::Acquired { bucket, epoch, ownerless: self.acquired(id, at, bucket, epoch) }
            }
            Line::Released { bucket, epoch, lost } => {
                if let Some(known) = self.bucket(*bucket).filter(|known| known.owner == Some((id, *epoch))) {
                    (known.owner, known.since) = (None, at);
                }
                News::Released { bucket: *bucket, epoch: *epoch, lost: *lost }
            }
            Line::Handled(handled) => {
                if let Some(known) = self.bucket(handled.bucket) {
                    known.received += 1;
                    known.handled(handled.offset);
                }
                let (resource, bucket, offset) = (handled.resource.clone(), handled.bucket, handled.offset);
                News::Handled { pod: pod.clone(), resource, bucket, offset }
            }
        };
        let since = at.saturating_duration_since(self.began);
        if let Some((controller, transcript)) = self.controller(id) {
            if matches!(line, Line::Handled(_)) {
                *controller.received.entry(pod).or_default() += 1;
            }
            transcript.lines.push((since, line));
        }
        news
    }

    /// For how long the bucket had nobody, where it once had an owner.
    fn acquired(&mut self, id: ProcessId, at: Instant, bucket: u16, epoch: u64) -> Option<Duration> {
        let known = self.bucket(bucket)?;
        let ownerless = known.owner.is_none().then(|| at.saturating_duration_since(known.since));
        (known.owner, known.since) = (Some((id, epoch)), at);
        ownerless.filter(|_| epoch > 1)
    }

    /// Whether these own a bucket each, and there is no bucket left.
    pub(super) fn share(&self, owners: &[ProcessId]) -> bool {
        let all =
            self.buckets.iter().all(|bucket| bucket.owner.is_some_and(|owner| owners.contains(&owner.0)));
        all && owners.iter().all(|id| self.owned(*id).next().is_some())
    }

    /// Who owns a bucket.
    pub(super) fn owner(&self, bucket: usize) -> Option<ProcessId> {
        self.buckets.get(bucket)?.owner.map(|owner| owner.0)
    }

    /// A controller's state.
    pub(super) fn state(&self, id: ProcessId) -> Option<State> {
        self.controllers.iter().find(|controller| controller.id == id).map(|controller| controller.state)
    }

    /// The controllers that nobody has told to end.
    pub(super) fn running(&self) -> impl Iterator<Item = ProcessId> {
        let running = self.controllers.iter().filter(|controller| controller.state == State::Running);
        running.map(|controller| controller.id)
    }

    /// Whether any child has not ended; one that was killed ends without help.
    pub(super) fn has_children(&self) -> bool {
        let at_work = |controller: &Controller| matches!(controller.state, State::Running | State::Stopping);
        self.controllers.iter().any(at_work) || self.is_dispatching()
    }

    /// Whether any dispatcher has not ended.
    pub(super) fn is_dispatching(&self) -> bool {
        self.dispatchers.values().any(|dispatcher| dispatcher.running)
    }

    /// The resource that a bucket is there for.
    pub(super) fn resource(&self, bucket: u16) -> &'static str {
        self.buckets.get(usize::from(bucket)).map_or("?", |bucket| bucket.resource)
    }

    /// Which buckets a process owns.
    pub(super) fn owned(&self, id: ProcessId) -> impl Iterator<Item = usize> {
        let owns = move |bucket: &BucketState| bucket.owner.is_some_and(|owner| owner.0 == id);
        self.buckets.iter().enumerate().filter(move |(_, bucket)| owns(bucket)).map(|(number, _)| number)
    }

    /// Whether everything that was sent was answered and handled.
    pub(super) fn has_caught_up(&self) -> bool {
        self.pending.is_empty() && self.buckets.iter().all(|bucket| bucket.waiting() == 0)
    }

    /// Records of messages given to dispatchers, those that Kafka has, and lines of controllers about them.
    pub(super) fn totals(&self) -> (u64, usize, u64) {
        let sent = self.dispatchers.values().map(|dispatcher| dispatcher.sent).sum();
        let received = self.buckets.iter().map(|bucket| bucket.received).sum();
        (sent, self.account.accepted.len(), received)
    }

    /// The account, where unanswered messages count as refused.
    pub(super) fn account(&self) -> Account {
        let mut account = self.account.clone();
        let unanswered = self.pending.keys().map(|id| (id.clone(), "it was never answered".to_owned()));
        account.refused.extend(unanswered);
        account
    }

    fn bucket(&mut self, bucket: u16) -> Option<&mut BucketState> {
        self.buckets.get_mut(usize::from(bucket))
    }

    fn controller(&mut self, id: ProcessId) -> Option<(&mut Controller, &mut Transcript)> {
        let controllers = self.controllers.iter_mut().zip(&mut self.account.transcripts);
        controllers.into_iter().find(|(controller, _)| controller.id == id)
    }
}

impl BucketState {
    /// How many records are accepted and neither handled nor superseded.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn accepted(&mut self, offset: i64, state: Option<String>) {
        self.waiting.insert(offset, state);
        if self.early.remove(&offset) {
            self.handled(offset);
        }
    }

    /// A state that is handled leaves nothing to wait for of the older ones of its key.
    fn handled(&mut self, offset: i64) {
        match self.waiting.remove(&offset) {
            Some(Some(key)) => {
                self.waiting.retain(|older, state| *older > offset || state.as_ref() != Some(&key));
            }
            Some(None) => {}
            None => {
                self.early.insert(offset);
            }
        }
    }
}

impl Controller {
    /// How many messages it received.
    pub(super) fn total(&self) -> u64 {
        self.received.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_what_was_accepted_and_neither_handled_nor_superseded() {
        let mut standing = Standing::new(Instant::now());
        let bucket = standing.bucket(0).unwrap();
        let waiting = |bucket: &BucketState| bucket.waiting.keys().copied().collect::<Vec<_>>();
        let state = || Some("key".to_owned());
        for (offset, state) in [(0, None), (1, state()), (2, Some("other".to_owned())), (3, state())] {
            bucket.accepted(offset, state);
        }
        bucket.handled(3);
        assert_eq!(waiting(bucket), [0, 2]);
        // A receipt may be read after the line that it comes before.
        bucket.handled(5);
        bucket.accepted(4, state());
        bucket.accepted(5, state());
        bucket.handled(0);
        assert_eq!(waiting(bucket), [2]);
        // A repeat changes nothing.
        bucket.handled(0);
        assert_eq!(bucket.waiting(), 1);
    }
}

//! One stretch of owning one bucket: takeover, transactions, and the end.
//!
//! A state machine: events in, actions out, time as an argument. At most one action that must be answered
//! (`Initialise`, `Read`, `Claim`, `Seek`, `Commit`) is outstanding at a time. Whoever carries actions out
//! takes a ticket from the [`Snapshot`](super::Snapshot) first, and reports [`Event::Gone`] when there is none.
//!
//! What holds, whatever comes:
//! - nothing is read before the bucket's producer id is initialised, and nothing is delivered before the
//!   claim is durable;
//! - a transaction whose outcome is unknown is never sent again before the committed offset has told;
//! - a tenure that found another's epoch, or that its member is unknown, writes nothing more.

mod takeover;

use std::time::Duration;

pub use takeover::{OffsetsLost, Reading, Resume};

use super::{Backoff, Jitter};
use crate::model::{Epoch, TransactionSequence};

/// The waits of a tenure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timing {
    /// After this long without a durable transaction, although one is wanted, intake stops.
    pub session: Duration,
    /// How often progress is committed when nothing is urgent.
    pub commit_interval: Duration,
    /// How long handlers in flight may go on after [`Event::GiveUp`].
    pub drain: Duration,
    /// How long the last transaction may take after that.
    pub release: Duration,
    /// A transaction is due at least this often, since idle ids expire at the broker.
    pub idle: Duration,
    /// Waits after failures.
    pub backoff: Backoff,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// A fresh producer was initialised, or could not be.
    Initialised(Result<(), Setback>),
    /// The committed offset and the claim were read, or could not be.
    Read(Result<Reading, Setback>),
    /// The claim or commit took effect, or did not.
    Transacted(Result<(), Setback>),
    /// The partition was sought and resumed, or could not be.
    Sought(Result<(), Setback>),
    /// A callback that was not a loss replaced the snapshot; its number.
    Callback(u64),
    /// The snapshot does not hold this tenure any more.
    Gone,
    /// The bucket is to be given up in good order.
    GiveUp,
    /// Nothing is being handled any more, and nothing waits for an outcome.
    Drained,
    /// There is something to commit, at once or on the interval.
    Dirty {
        /// Whether it must not wait for the interval.
        urgent: bool,
    },
    /// Time passed.
    Wake,
}

/// Why a step did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Setback {
    /// The group is rebalancing; nothing took effect. The callback whose metadata was used.
    Rebalancing {
        /// Its number.
        version: u64,
    },
    /// The coordinator does not know this member; nothing took effect. The callback whose metadata was used.
    UnknownMember {
        /// Its number.
        version: u64,
    },
    /// Nothing took effect; it can be tried again as it was.
    Aborted,
    /// Nothing took effect, for one record's sake; without it, it can be tried again.
    Refused,
    /// Nobody knows whether it took effect, and the producer is of no more use.
    Unknown,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// Build a producer anew under the bucket's id and initialise it.
    Initialise,
    /// Read the stable committed offset with its metadata, the claim, and the log's bounds.
    Read,
    /// Write the claim and, unchanged but for epoch and sequence, the offset and metadata.
    Claim(Resume),
    /// Let the next record be the one at the resumed offset, and resume the partition.
    Seek(Resume),
    /// Begin to deliver.
    Deliver(Resume),
    /// Write what is finished and staged.
    Commit(Plan),
    /// The outstanding commit did, or did not, take effect; what it carried is durable, or waits for the next.
    Settled(bool),
    /// Start nothing more.
    StopIntake,
    /// Start records again.
    ResumeIntake,
    /// Cancel what is being handled.
    Cancel,
    /// The tenure has ended.
    Over(End),
}

/// A transaction to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The tenure's epoch.
    pub epoch: Epoch,
    /// The transaction's number.
    pub sequence: TransactionSequence,
    /// `Some` for the last one: the claim goes with it, marked released if all that was started has ended, unless
    /// the checkpoint is still cautious.
    pub release: Option<bool>,
}

/// How a tenure ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// In good order: the last transaction is durable.
    Released,
    /// Given up before it delivered anything, or without a last transaction.
    GivenUp,
    /// The snapshot does not hold it any more.
    Gone,
    /// The coordinator does not know this member, as of the callback with this number.
    Evicted {
        /// Its number: a new tenure must wait for a later one.
        version: u64,
    },
    /// Another tenure has written since.
    Superseded,
}

impl End {
    /// The word in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::GivenUp => "given_up",
            Self::Gone => "lost",
            Self::Evicted { .. } => "evicted",
            Self::Superseded => "superseded",
        }
    }
}

/// What is in progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step {
    /// Nothing.
    Idle,
    /// An action that will be answered.
    Outstanding(Next),
    /// A wait: until a time, or for a callback later than a number, whichever is given and comes first.
    Waiting { until: Option<Duration>, after: Option<u64>, then: Next },
    /// It is over.
    Over,
}

/// The actions that are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Next {
    Initialise,
    Read,
    Claim,
    Seek,
    Commit { release: Option<bool> },
}

/// Giving up in good order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Leaving {
    drain_until: Duration,
    end_by: Duration,
    drained: bool,
    cancelled: bool,
}

/// A tenure's state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tenure {
    timing: Timing,
    jitter: Jitter,
    step: Step,
    /// Set once the takeover knows where to go on.
    resume: Option<Resume>,
    /// Whether records are delivered.
    delivering: bool,
    /// The last transaction that is durable.
    sequence: TransactionSequence,
    /// The transaction whose outcome is being found out, by its `release`.
    inquiry: Option<Option<bool>>,
    failures: u32,
    /// The latest callback.
    seen: u64,
    /// Since when something waits to be committed, and whether it is urgent.
    dirty: Option<(Duration, bool)>,
    committed_at: Duration,
    /// Since when a transaction has been wanted and none has become durable.
    stalled_since: Option<Duration>,
    intake_stopped: bool,
    leaving: Option<Leaving>,
}

impl Tenure {
    /// A tenure that begins with its takeover.
    ///
    /// `seed` spreads its retries. After a tenure that ended while the bucket stayed assigned, `wait` keeps
    /// this one from beginning at once: for a time, or ([`End::Evicted`]) for a callback after a number.
    #[must_use]
    pub fn new(timing: Timing, seed: u64, now: Duration, wait: Option<Result<Duration, u64>>) -> Self {
        let (until, after) = match wait {
            None => (Some(now), None),
            Some(Ok(delay)) => (Some(now.saturating_add(delay)), None),
            Some(Err(version)) => (None, Some(version)),
        };
        Self {
            timing,
            jitter: Jitter::seeded(seed),
            step: Step::Waiting { until, after, then: Next::Initialise },
            resume: None,
            delivering: false,
            sequence: TransactionSequence::CLAIM,
            inquiry: None,
            failures: 0,
            seen: 0,
            dirty: None,
            committed_at: now,
            stalled_since: None,
            intake_stopped: false,
            leaving: None,
        }
    }

    /// Takes an event, and says what to do about it.
    pub fn on(&mut self, now: Duration, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.step == Step::Over {
            return actions;
        }
        match event {
            Event::Initialised(result) => self.initialised(now, result),
            Event::Read(result) => self.read(now, result, &mut actions),
            Event::Transacted(result) => self.transacted(now, result, &mut actions),
            Event::Sought(result) => self.sought(now, result, &mut actions),
            Event::Callback(version) => self.seen = self.seen.max(version),
            Event::Gone => self.end(End::Gone, &mut actions),
            Event::GiveUp => self.give_up(now, &mut actions),
            Event::Drained => {
                if let Some(leaving) = &mut self.leaving {
                    leaving.drained = true;
                }
            }
            Event::Dirty { urgent } => {
                let (since, was) = self.dirty.unwrap_or((now, false));
                self.dirty = Some((since, was || urgent));
            }
            Event::Wake => {}
        }
        self.advance(now, &mut actions);
        actions
    }

    /// When to send [`Event::Wake`] at the latest.
    #[must_use]
    pub fn wake_at(&self) -> Option<Duration> {
        let waiting = match &self.step {
            Step::Waiting { until, .. } => *until,
            Step::Idle => self.commit_due(),
            Step::Outstanding(_) => None,
            Step::Over => return None,
        };
        let leaving = self.leaving.as_ref().map(|leaving| {
            if leaving.drained || leaving.cancelled { leaving.end_by } else { leaving.drain_until }
        });
        let stall = self.stalled_since.filter(|_| !self.intake_stopped);
        let stall = stall.map(|since| since.saturating_add(self.timing.session));
        [waiting, leaving, stall].into_iter().flatten().min()
    }

    /// Whether the tenure has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.step == Step::Over
    }

    /// The epoch, once the claim is durable.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.resume.as_ref().filter(|_| self.delivering).map(|resume| resume.epoch)
    }

    fn initialised(&mut self, now: Duration, result: Result<(), Setback>) {
        if self.step != Step::Outstanding(Next::Initialise) {
            return;
        }
        match result {
            Ok(()) => self.at_once(now, Next::Read),
            Err(_) => self.later(now, Next::Initialise),
        }
    }

    fn read(&mut self, now: Duration, result: Result<Reading, Setback>, actions: &mut Vec<Action>) {
        if self.step != Step::Outstanding(Next::Read) {
            return;
        }
        match (result, self.inquiry) {
            (Err(_), _) => self.later(now, Next::Read),
            (Ok(reading), None) => {
                self.resume = Some(reading.resume());
                self.at_once(now, Next::Claim);
            }
            (Ok(reading), Some(release)) => self.inquired(now, &reading, release, actions),
        }
    }

    /// The committed offset tells what became of a transaction: ours, our predecessor's, or somebody else's.
    fn inquired(
        &mut self,
        now: Duration,
        reading: &Reading,
        release: Option<bool>,
        actions: &mut Vec<Action>,
    ) {
        let epoch = self.resume.as_ref().map(|resume| resume.epoch);
        let (by, sequence) = reading.written_by();
        self.inquiry = None;
        if epoch != Some(by) || reading.claimed_above(by) {
            self.end(End::Superseded, actions);
        } else if sequence == self.sequence.next() {
            self.step = Step::Outstanding(Next::Commit { release });
            self.transacted(now, Ok(()), actions);
        } else if sequence == self.sequence {
            actions.push(Action::Settled(false));
            self.at_once(now, Next::Commit { release });
        } else {
            self.end(End::Superseded, actions);
        }
    }

    fn transacted(&mut self, now: Duration, result: Result<(), Setback>, actions: &mut Vec<Action>) {
        match (self.step.clone(), result) {
            (Step::Outstanding(Next::Claim), result) => self.claimed(now, result, actions),
            (Step::Outstanding(Next::Commit { release }), result) => {
                self.committed(now, release, result, actions);
            }
            _ => {}
        }
    }

    fn claimed(&mut self, now: Duration, result: Result<(), Setback>, actions: &mut Vec<Action>) {
        match result {
            Ok(()) => {
                self.committed_at = now;
                self.at_once(now, Next::Seek);
            }
            Err(Setback::Rebalancing { version }) => self.after_callback(now, version, Next::Claim),
            Err(Setback::UnknownMember { version }) => self.end(End::Evicted { version }, actions),
            Err(Setback::Aborted | Setback::Refused) => self.later(now, Next::Claim),
            // That costs an epoch's number, if the claim did take effect.
            Err(Setback::Unknown) => self.later(now, Next::Initialise),
        }
    }

    fn sought(&mut self, now: Duration, result: Result<(), Setback>, actions: &mut Vec<Action>) {
        let (Step::Outstanding(Next::Seek), Some(resume)) = (&self.step, &self.resume) else { return };
        match result {
            Ok(()) => {
                actions.push(Action::Deliver(resume.clone()));
                self.delivering = true;
                self.failures = 0;
                self.step = Step::Idle;
            }
            Err(_) => self.later(now, Next::Seek),
        }
    }

    fn committed(
        &mut self,
        now: Duration,
        release: Option<bool>,
        result: Result<(), Setback>,
        actions: &mut Vec<Action>,
    ) {
        if result.is_err_and(|setback| setback != Setback::Unknown) {
            actions.push(Action::Settled(false));
        }
        match result {
            Ok(()) => {
                actions.push(Action::Settled(true));
                self.sequence = self.sequence.next();
                self.committed_at = now;
                self.failures = 0;
                self.stalled_since = None;
                self.step = Step::Idle;
                if release.is_some() {
                    self.end(End::Released, actions);
                } else if self.intake_stopped && self.leaving.is_none() {
                    self.intake_stopped = false;
                    actions.push(Action::ResumeIntake);
                }
            }
            Err(Setback::UnknownMember { version }) => self.end(End::Evicted { version }, actions),
            Err(Setback::Rebalancing { version }) => {
                self.after_callback(now, version, Next::Commit { release });
            }
            Err(Setback::Aborted) => self.later(now, Next::Commit { release }),
            // The claim itself was refused, or what goes with it: haste would not help.
            Err(Setback::Refused) if release.is_some() => self.later(now, Next::Commit { release }),
            Err(Setback::Refused) => {
                // Sent again without it, as soon as there is anything else.
                self.step = Step::Idle;
                self.dirty.get_or_insert((now, false));
            }
            Err(Setback::Unknown) => {
                self.inquiry = Some(release);
                self.later(now, Next::Initialise);
            }
        }
    }

    fn give_up(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.leaving.is_some() {
            return;
        }
        if !self.delivering {
            // Nothing was delivered: whoever comes next takes over from the same place.
            self.end(End::GivenUp, actions);
            return;
        }
        let drain_until = now.saturating_add(self.timing.drain);
        self.leaving = Some(Leaving {
            drain_until,
            end_by: drain_until.saturating_add(self.timing.release),
            drained: false,
            cancelled: false,
        });
        self.intake_stopped = true;
        actions.push(Action::StopIntake);
    }

    /// Does what is due.
    fn advance(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.step == Step::Over {
            return;
        }
        if let Some(leaving) = &mut self.leaving {
            if now >= leaving.end_by {
                self.end(End::GivenUp, actions);
                return;
            }
            if now >= leaving.drain_until && !leaving.drained && !leaving.cancelled {
                leaving.cancelled = true;
                actions.push(Action::Cancel);
            }
        }
        let stalled =
            self.stalled_since.is_some_and(|since| now >= since.saturating_add(self.timing.session));
        if stalled && !self.intake_stopped {
            self.intake_stopped = true;
            actions.push(Action::StopIntake);
        }
        if let Step::Waiting { until, after, then } = &self.step {
            let due = until.is_some_and(|until| now >= until);
            if due || after.is_some_and(|after| self.seen > after) {
                self.begin(now, *then, actions);
            }
        } else if self.step == Step::Idle && self.commit_due().is_some_and(|due| now >= due) {
            let release = self.leaving.as_ref().filter(|leaving| leaving.drained || leaving.cancelled);
            let release = release.map(|leaving| leaving.drained && !leaving.cancelled);
            self.begin(now, Next::Commit { release }, actions);
        }
    }

    /// When the next transaction is due, if nothing else happens.
    fn commit_due(&self) -> Option<Duration> {
        let leaving = self.leaving.as_ref();
        let releasing =
            leaving.filter(|leaving| leaving.drained || leaving.cancelled).map(|_| Duration::ZERO);
        let dirty = self.dirty.map(|(since, urgent)| {
            let interval = if urgent { Duration::ZERO } else { self.timing.commit_interval };
            since.saturating_add(interval)
        });
        let idle = Some(self.committed_at.saturating_add(self.timing.idle));
        [releasing, dirty, idle].into_iter().flatten().min()
    }

    fn begin(&mut self, now: Duration, next: Next, actions: &mut Vec<Action>) {
        let action = match (next, &self.resume) {
            (Next::Initialise, _) => Action::Initialise,
            (Next::Claim, Some(resume)) => Action::Claim(resume.clone()),
            (Next::Seek, Some(resume)) => Action::Seek(resume.clone()),
            (Next::Commit { release }, Some(resume)) => {
                self.dirty = None;
                self.stalled_since.get_or_insert(now);
                Action::Commit(Plan { epoch: resume.epoch, sequence: self.sequence.next(), release })
            }
            // Without a resumed offset, reading comes first.
            (Next::Read | Next::Claim | Next::Seek | Next::Commit { .. }, _) => {
                self.step = Step::Outstanding(Next::Read);
                actions.push(Action::Read);
                return;
            }
        };
        self.step = Step::Outstanding(next);
        actions.push(action);
    }

    fn at_once(&mut self, now: Duration, then: Next) {
        self.step = Step::Waiting { until: Some(now), after: None, then };
    }

    fn later(&mut self, now: Duration, then: Next) {
        self.failures = self.failures.saturating_add(1);
        let wait = self.timing.backoff.wait(self.failures, &mut self.jitter);
        self.step = Step::Waiting { until: Some(now.saturating_add(wait)), after: None, then };
    }

    /// The next callback makes it possible again; should there be none, time does.
    fn after_callback(&mut self, now: Duration, version: u64, then: Next) {
        self.later(now, then);
        if let Step::Waiting { until, after, .. } = &mut self.step {
            *until = Some(now.saturating_add(self.timing.backoff.max));
            *after = Some(version);
        }
    }

    fn end(&mut self, end: End, actions: &mut Vec<Action>) {
        self.step = Step::Over;
        if end != End::Released {
            actions.push(Action::Cancel);
        }
        actions.push(Action::Over(end));
    }
}

#[cfg(test)]
mod tests;

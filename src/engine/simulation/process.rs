//! One controller process: its snapshot, its tenures, and what it does about their actions.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Broken, Happening, Process, World, broker::Transaction, group::Member};
use crate::{
    engine::{
        Action, Backoff, End, Event, Incoming, Limits, Marks, Outcome, Reading, Resume, Scheduler, Setback,
        Snapshot, Start, Tenure, Timing, Token,
    },
    model::{Bucket, Epoch, NextOffset, RecordOffset},
};

/// How many attempts a record has.
pub(super) const ATTEMPTS: u32 = 8;

/// How many records of a bucket may be unfinished.
const WINDOW: usize = 24;

/// What a tenure's task is to do when its time comes.
#[derive(Debug, Clone)]
pub(super) enum Job {
    Wake,
    Fetch,
    Initialise,
    Read,
    Seek(Resume),
    Send(Box<Transaction>),
    Commit { producer: u64 },
    Answer(Event),
    Refused { offset: RecordOffset, too_large: bool },
    Done { offset: RecordOffset, outcome: Outcome },
    Kill { offset: RecordOffset },
}

/// One tenure at work.
pub(super) struct Running {
    pub(super) tenure: Tenure,
    pub(super) scheduler: Option<Scheduler<()>>,
    pub(super) position: i64,
    pub(super) fetching: bool,
    pub(super) wake: Option<Duration>,
    pub(super) leaving: bool,
    pub(super) producer: u64,
    /// What was durable when it was claimed.
    pub(super) inherited: (NextOffset, Marks),
    pub(super) cautious_until: NextOffset,
    pub(super) epoch: Epoch,
    pub(super) in_flight: BTreeSet<RecordOffset>,
    /// Read before initialising, which must not be.
    pub(super) early: Option<Reading>,
}

/// A controller process.
#[derive(Default)]
pub(super) struct Controller {
    pub(super) alive: bool,
    /// Grows with every start: what belongs to an earlier run is dropped.
    pub(super) run: u64,
    pub(super) paused: bool,
    /// What happened to it while it was paused.
    pub(super) deferred: Vec<Happening>,
    pub(super) member: Option<u64>,
    /// What its client holds.
    pub(super) view: BTreeSet<Bucket>,
    /// What it has to give up.
    pub(super) revoking: bool,
    pub(super) rejoins: bool,
    pub(super) stopping: bool,
    pub(super) snapshot: Snapshot<Member>,
    pub(super) tenures: BTreeMap<(Bucket, Token), Running>,
}

fn limits() -> Limits {
    let backoff = Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(5) };
    Limits { concurrency: 4, attempts: ATTEMPTS, retry: backoff, unavailable: backoff }
}

fn timing() -> Timing {
    Timing {
        session: super::SESSION,
        commit_interval: Duration::from_millis(500),
        drain: Duration::from_secs(8),
        release: Duration::from_secs(4),
        idle: Duration::from_secs(86_400),
        backoff: Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(2) },
    }
}

impl Controller {
    pub(super) fn new(run: u64, alive: bool) -> Self {
        Self { run, alive, ..Self::default() }
    }

    /// Whether a bucket has a tenure that delivers.
    pub(super) fn delivers(&self, bucket: Bucket) -> bool {
        let mut tenures = self.tenures.iter().filter(|((of, _), _)| *of == bucket);
        tenures.any(|(_, running)| running.tenure.epoch().is_some())
    }
}

impl World {
    /// A callback that is not a loss: what this generation means for a process.
    pub(super) fn callback(&mut self, process: Process, member: u64, generation: u64) {
        let controller = &self.controllers[process];
        if controller.member != Some(member) || self.group.generation() != generation || controller.revoking {
            return;
        }
        let given = self.group.given(member);
        let revoked: Vec<Bucket> = controller.view.difference(&given).copied().collect();
        let added: Vec<Bucket> = given.difference(&controller.view).copied().collect();
        self.group.told(member, !revoked.is_empty());
        let meta = Member { id: member, generation };
        if revoked.is_empty() {
            let controller = &mut self.controllers[process];
            controller.snapshot.assigned(&added, meta);
            controller.view.extend(added.iter().copied());
            for bucket in added {
                let token = self.controllers[process].snapshot.token(bucket).unwrap();
                self.begin(process, bucket, token, None);
            }
            self.tell_all(process);
        } else {
            self.revoke(process, &revoked, meta);
        }
    }

    /// A callback that asks for `buckets`.
    pub(super) fn revoke(&mut self, process: Process, buckets: &[Bucket], meta: Member) {
        let controller = &mut self.controllers[process];
        controller.snapshot.revoking(buckets, meta);
        controller.revoking = true;
        let tenures: Vec<_> =
            controller.tenures.keys().copied().filter(|(bucket, _)| buckets.contains(bucket)).collect();
        for key in tenures {
            if let Some(running) = self.controllers[process].tenures.get_mut(&key) {
                running.leaving = true;
                self.tell(process, key, Event::GiveUp);
            }
        }
        self.tell_all(process);
        self.give_up(process);
    }

    /// Says to every tenure that there was a callback.
    fn tell_all(&mut self, process: Process) {
        let version = self.controllers[process].snapshot.version();
        let keys: Vec<_> = self.controllers[process].tenures.keys().copied().collect();
        for key in keys {
            self.tell(process, key, Event::Callback(version));
        }
    }

    /// Gives up what is asked for, once its tenures are over.
    pub(super) fn give_up(&mut self, process: Process) {
        let controller = &mut self.controllers[process];
        let buckets: Vec<Bucket> = controller.snapshot.being_revoked().collect();
        let snapshot = &controller.snapshot;
        let busy = buckets.iter().any(|bucket| {
            snapshot.token(*bucket).is_some_and(|token| controller.tenures.contains_key(&(*bucket, token)))
        });
        if !controller.revoking || busy {
            return;
        }
        controller.revoking = false;
        controller.snapshot.unassigned(&buckets);
        controller.view.retain(|bucket| !buckets.contains(bucket));
        let view = controller.view.clone();
        let (rejoins, stopping, run) =
            (std::mem::take(&mut controller.rejoins), controller.stopping, controller.run);
        if let Some(member) = controller.member {
            self.group.given_up(member, &view);
        }
        if stopping {
            self.leave(process);
        } else if rejoins {
            let wait = self.delay();
            self.schedule(wait, Happening::Rejoin { process, run });
        }
        self.rebalance_soon();
    }

    /// A callback that says that everything is gone. Its tenures find out one by one, some of them late: by then
    /// the bucket may have come back, with another tenure.
    pub(super) fn lost(&mut self, process: Process) {
        let controller = &mut self.controllers[process];
        controller.snapshot.lost();
        controller.view.clear();
        controller.revoking = false;
        let keys: Vec<_> = controller.tenures.keys().copied().collect();
        for key in keys {
            let wait = if self.chance(30) { self.below_seconds(30) } else { self.delay() };
            self.task(wait, process, key, Job::Answer(Event::Gone));
        }
    }

    fn begin(&mut self, process: Process, bucket: Bucket, token: Token, wait: Option<Result<Duration, u64>>) {
        let seed = self.numbers.next_number();
        let tenure = Tenure::new(timing(), seed, self.now, wait);
        let running = Running {
            tenure,
            scheduler: None,
            position: 0,
            fetching: false,
            wake: None,
            leaving: false,
            producer: 0,
            inherited: (NextOffset::ZERO, Marks::default()),
            cautious_until: NextOffset::ZERO,
            epoch: Epoch::NONE,
            in_flight: BTreeSet::new(),
            early: None,
        };
        self.controllers[process].tenures.insert((bucket, token), running);
        let version = self.controllers[process].snapshot.version();
        self.tell(process, (bucket, token), Event::Callback(version));
    }

    /// Carries out what a tenure's task is to do now.
    pub(super) fn carry_out(&mut self, process: Process, key: (Bucket, Token), job: Job) {
        let now = self.now;
        let Some(running) = self.controllers[process].tenures.get_mut(&key) else { return };
        match job {
            Job::Wake => {
                running.wake = None;
                self.tell(process, key, Event::Wake);
            }
            Job::Answer(event) => self.tell(process, key, event),
            Job::Fetch => self.fetch(process, key),
            Job::Initialise => self.initialise(process, key),
            Job::Read => {
                let early = running.early.take();
                let reading = early.unwrap_or_else(|| self.partition(key.0).reading());
                let result = self.perhaps(reading);
                self.answer(process, key, Event::Read(result));
            }
            Job::Seek(resume) => {
                running.position = resume.offset.get();
                let result = self.perhaps(());
                self.answer(process, key, Event::Sought(result));
            }
            Job::Send(transaction) => self.send(process, key, *transaction),
            Job::Commit { producer } => self.commit(process, key, producer),
            Job::Refused { offset, too_large } => {
                if let Some(scheduler) = &mut running.scheduler {
                    scheduler.refused(now, offset, too_large, "refused".to_owned());
                }
                self.tell(process, key, Event::Transacted(Err(Setback::Refused)));
            }
            Job::Done { offset, outcome } => {
                if running.in_flight.remove(&offset) {
                    if let Some(scheduler) = &mut running.scheduler {
                        scheduler.conclude(now, offset, outcome.clone());
                    }
                    let record = self.record(key.0, offset);
                    record.handled += u32::from(outcome == Outcome::Handled);
                }
                self.pump(process, key);
            }
            Job::Kill { offset } => {
                if running.in_flight.contains(&offset) {
                    // One whose time is over is not charged for; there may be one such beside the owner.
                    let owner = running.epoch == self.partitions[key.0].durable().2;
                    let record = self.record(key.0, offset);
                    record.kills += u32::from(owner);
                    // The first may come without a mark; since then owners are cautious.
                    if record.kills > ATTEMPTS + 1 {
                        self.violated(format!("bucket {}: {offset} kills without end", key.0));
                    }
                    self.seen.kills += 1;
                    self.crash(process);
                }
            }
        }
    }

    /// Sends an event to a tenure and does what it says.
    fn tell(&mut self, process: Process, key: (Bucket, Token), event: Event) {
        let now = self.now;
        self.trace(|| format!("{process} {key:?} {event:?}"));
        let Some(running) = self.controllers[process].tenures.get_mut(&key) else { return };
        let mut gone = false;
        for action in running.tenure.on(now, event) {
            gone |= !self.act(process, key, action);
        }
        if gone {
            self.tell(process, key, Event::Gone);
        }
        self.pump(process, key);
    }

    /// `false` when the snapshot does not hold the tenure any more.
    fn act(&mut self, process: Process, key: (Bucket, Token), action: Action) -> bool {
        let now = self.now;
        self.trace(|| format!("{process} {key:?}     {action:?}"));
        let Some(running) = self.controllers[process].tenures.get_mut(&key) else { return true };
        match action {
            Action::Initialise => {
                if self.broken == Some(Broken::ReadsBeforeInitialising) {
                    running.early = Some(self.partitions[key.0].reading());
                }
                return self.ask_to_initialise(process, key);
            }
            Action::Read => return self.ask(process, key, Job::Read),
            Action::Seek(resume) => return self.ask(process, key, Job::Seek(resume)),
            Action::Claim(resume) => return self.claim(process, key, &resume),
            Action::Commit(plan) => {
                let checkpoint = running.scheduler.as_mut().unwrap().checkpoint(now);
                return self.write(process, key, plan, checkpoint);
            }
            Action::Deliver(resume) => {
                running.scheduler = Some(Scheduler::resume(limits(), &resume, 11));
                running.cautious_until = resume.cautious_until;
                running.epoch = resume.epoch;
                self.seen.cautious += u64::from(resume.cautious_until > resume.offset);
                self.fetch_soon(process, key);
            }
            Action::Settled(true) => running.scheduler.as_mut().unwrap().committed(),
            Action::Settled(false) => running.scheduler.as_mut().unwrap().aborted(),
            Action::StopIntake => running.scheduler.as_mut().unwrap().stop(),
            Action::ResumeIntake => running.scheduler.as_mut().unwrap().go_on(),
            Action::Cancel => {
                running.in_flight.clear();
                if let Some(scheduler) = &mut running.scheduler {
                    scheduler.cancel();
                }
            }
            Action::Over(end) => self.over(process, key, end),
        }
        true
    }

    fn over(&mut self, process: Process, key: (Bucket, Token), end: End) {
        self.seen.superseded += u64::from(end == End::Superseded);
        self.seen.released += u64::from(end == End::Released);
        let controller = &mut self.controllers[process];
        controller.tenures.remove(&key);
        let wait = match end {
            End::Evicted { version } => Err(version),
            _ => Ok(Duration::from_millis(300)),
        };
        if let Some(token) = controller.snapshot.renew(key.0, key.1) {
            self.begin(process, key.0, token, Some(wait));
        }
        self.give_up(process);
    }

    /// There may be something to read.
    pub(super) fn read_on(&mut self, process: Process, bucket: Bucket) {
        let keys: Vec<_> =
            self.controllers[process].tenures.keys().copied().filter(|(of, _)| *of == bucket).collect();
        for key in keys {
            if self.controllers[process].tenures[&key].scheduler.is_some() {
                self.fetch_soon(process, key);
            }
        }
    }

    fn fetch_soon(&mut self, process: Process, key: (Bucket, Token)) {
        let Some(running) = self.controllers[process].tenures.get_mut(&key) else { return };
        if !running.fetching {
            running.fetching = true;
            self.task_soon(process, key, Job::Fetch);
        }
    }

    /// Reads on, as far as the window lets it.
    fn fetch(&mut self, process: Process, key: (Bucket, Token)) {
        let partition = &self.partitions[key.0];
        let Some(running) = self.controllers[process].tenures.get_mut(&key) else { return };
        running.fetching = false;
        let Some(scheduler) = &mut running.scheduler else { return };
        for _ in 0..5 {
            let Some((offset, record)) = partition.read(running.position) else { break };
            if running.leaving || scheduler.window().0 >= WINDOW {
                break;
            }
            let order = record.order();
            let at = RecordOffset::new(offset).unwrap();
            scheduler.receive(Incoming { offset: at, bytes: 1, order, item: () });
            running.position = offset + 1;
        }
        self.pump(process, key);
    }

    /// Starts what may start, says what there is to write, and sets the clock.
    fn pump(&mut self, process: Process, key: (Bucket, Token)) {
        let now = self.now;
        let Some(running) = self.controllers[process].tenures.get_mut(&key) else { return };
        let mut wake = running.tenure.wake_at();
        if let Some(scheduler) = running.scheduler.as_mut().filter(|_| !running.tenure.is_over()) {
            let starts: Vec<Start<()>> = std::iter::from_fn(|| scheduler.next(now)).collect();
            let dirty = scheduler.dirty(now);
            let drained = running.leaving && scheduler.is_drained();
            let more = scheduler.window().0 < WINDOW && !running.leaving;
            let alarm = scheduler.wake_at();
            let position = running.position;
            if alarm.is_some_and(|alarm| alarm <= now) {
                self.violated(format!("{key:?} asks for {alarm:?}, and it is {now:?} already"));
            }
            for start in starts {
                self.start(process, key, &start);
            }
            if more && self.partitions[key.0].read(position).is_some() {
                self.fetch_soon(process, key);
            }
            let events = [dirty.map(|urgent| Event::Dirty { urgent }), drained.then_some(Event::Drained)];
            for event in events.into_iter().flatten() {
                let Some(running) = self.controllers[process].tenures.get_mut(&key) else { return };
                for action in running.tenure.on(now, event) {
                    if !self.act(process, key, action) {
                        return self.tell(process, key, Event::Gone);
                    }
                }
            }
            let Some(running) = self.controllers[process].tenures.get(&key) else { return };
            wake = [running.tenure.wake_at(), alarm].into_iter().flatten().min();
        }
        self.set_clock(process, key, wake);
    }

    fn set_clock(&mut self, process: Process, key: (Bucket, Token), wake: Option<Duration>) {
        let now = self.now;
        let Some(running) = self.controllers[process].tenures.get_mut(&key) else { return };
        let Some(wake) = wake.map(|wake| wake.max(now)) else { return };
        if running.wake.is_none_or(|set| set > wake) {
            running.wake = Some(wake);
            self.task(wake - now, process, key, Job::Wake);
        }
    }

    /// A handler begins.
    fn start(&mut self, process: Process, key: (Bucket, Token), start: &Start<()>) {
        let Start { offset, attempt, .. } = *start;
        self.trace(|| format!("{process} {key:?} starts {offset}, attempt {attempt}"));
        if let Err(broken) = self.judge(process, key, start) {
            self.violated(format!("bucket {}, process {process}: {broken}", key.0));
        }
        self.record(key.0, offset).started += 1;
        self.seen.started += 1;
        let running = self.controllers[process].tenures.get_mut(&key).unwrap();
        running.in_flight.insert(offset);
        let (wait, job) = self.handler(key.0, offset);
        self.task(wait, process, key, job);
    }

    /// What must hold when a record starts.
    fn judge(&self, process: Process, key: (Bucket, Token), start: &Start<()>) -> Result<(), String> {
        let partition = &self.partitions[key.0];
        let running = &self.controllers[process].tenures[&key];
        let Start { offset, attempt, .. } = *start;
        partition.judge_start(offset.get())?;
        let resource = partition.log[&offset.get()].resource;
        if running.in_flight.iter().any(|other| partition.log[&other.get()].resource == resource) {
            return Err(format!("{offset} starts while another of its resource is being handled"));
        }
        if running.in_flight.len() >= limits().concurrency || attempt > ATTEMPTS {
            return Err(format!("{offset} starts attempt {attempt} beside {:?}", running.in_flight));
        }
        let (committed, finished) = (running.inherited.0, &running.inherited.1.finished);
        if committed.is_past(offset) || finished.contains(offset) {
            return Err(format!("{offset} is repeated although that it is finished was durable"));
        }
        let (committed, marks, epoch, _) = partition.durable();
        if epoch != running.epoch {
            return Ok(()); // it does not know yet that it is over
        }
        let tried = marks.attempts.get(&offset);
        if attempt > 1 && tried.is_none_or(|tried| tried.count + 1 < attempt) {
            return Err(format!("attempt {attempt} of {offset} begins when {tried:?} is durable"));
        }
        if committed < running.cautious_until
            && tried.is_none_or(|tried| tried.count != attempt || !tried.open)
        {
            return Err(format!("attempt {attempt} of {offset} begins unannounced: {tried:?}"));
        }
        // Its mark had no outcome when it was inherited: this is the next attempt after that.
        let open = running.inherited.1.attempts.get(&offset).filter(|tried| tried.open);
        if open.is_some_and(|tried| tried.count + 1 == attempt) && !running.in_flight.is_empty() {
            return Err(format!(
                "{offset} may have killed an owner and starts beside {:?}",
                running.in_flight
            ));
        }
        Ok(())
    }
}

//! One bucket's task: runs a tenure whenever the snapshot gives this process the bucket.
//!
//! Tenures of a bucket follow one another here, so a later one begins only after the handlers of the one
//! before have ended and `released` was told.

use std::{
    pin::Pin,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{
    Config, Handler, Owner, Released,
    delivering::{Delivering, claim},
    mailbox::Mailbox,
    shared::{Doing, Request, Shared},
    writer::{Job, Write, WriteError, Writer},
};
use crate::{
    engine::{Action, Backoff, End, Event, Plan, Reading, Resume, Setback, Tenure, Timing, Token},
    kafka::Committed,
    model::{Bucket, TransactionSequence},
    telemetry::{BucketMetrics, Metrics},
};

/// How long the last transaction may take after the drain time.
const RELEASE: Duration = Duration::from_secs(5);

/// Waits after a step failed.
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(50), max: Duration::from_secs(5) };

/// A day: transactional ids that are idle for seven expire.
const IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// What the outstanding step will answer.
enum Answer {
    None,
    Initialised(oneshot::Receiver<Result<(), Setback>>),
    Read(oneshot::Receiver<Result<Reading, Setback>>),
    Written(oneshot::Receiver<Result<(), WriteError>>, Committed),
    Mirrored(oneshot::Receiver<Result<(), Setback>>),
    Sought(oneshot::Receiver<Result<(), Setback>>),
}

/// An answer that came.
enum Answered {
    Event(Event),
    Written(Result<(), WriteError>, Committed),
}

pub(super) struct BucketTask<H> {
    bucket: Bucket,
    config: Arc<Config>,
    handler: Arc<H>,
    shared: Arc<Shared>,
    changed: watch::Receiver<()>,
    mailbox: Arc<Mailbox>,
    metrics: Metrics,
    counts: BucketMetrics,
    writer: Option<Writer>,
    jobs: Option<mpsc::SyncSender<Job>>,
    embedded: bool,
    stop: CancellationToken,
    /// For how long tenures in a row have ended without having been taken away.
    failures: u32,
}

/// One tenure while it runs.
struct Run<H> {
    tenure: Tenure,
    token: Token,
    began: Instant,
    version: u64,
    told_to_leave: bool,
    answer: Answer,
    delivering: Option<Delivering<H>>,
    /// The handler being told `acquired`; nothing is delivered before it has taken that.
    acquiring: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    end: Option<End>,
}

impl<H> Run<H> {
    /// Whether records are delivered.
    fn is_open(&self) -> bool {
        self.delivering.is_some() && self.acquiring.is_none()
    }
}

impl<H: Handler> BucketTask<H> {
    pub(super) fn new(bucket: Bucket, owner: &Owner<H>, stop: CancellationToken) -> Self {
        let (config, shared) = (Arc::clone(&owner.config), Arc::clone(&owner.shared));
        let counts = owner.metrics.bucket(bucket);
        let mailbox = shared
            .mailbox(bucket)
            .map_or_else(|| Arc::new(Mailbox::new(config.window, counts.clone())), Arc::clone);
        let writer = Writer {
            bucket,
            kafka: owner.kafka.clone(),
            transactional_id: config.bus.transactional_id(bucket),
            topic: config.bus.notifications(),
            batch_limit: config.dead_letter_limit,
            metrics: Arc::clone(&owner.metrics),
            readers: Arc::clone(&owner.readers),
        };
        Self {
            bucket,
            changed: shared.watch(),
            mailbox,
            metrics: (*owner.metrics).clone(),
            counts,
            writer: Some(writer),
            jobs: None,
            embedded: owner.kafka.embedded(),
            handler: Arc::clone(&owner.handler),
            config,
            shared,
            stop,
            failures: 0,
        }
    }

    /// Runs tenures until it is stopped and the last one has ended.
    pub(super) async fn run(mut self) {
        let mut wait = None;
        while let Some(token) = self.owned().await {
            let end = self.tenure(token, wait.take()).await;
            wait = self.after(token, end);
            if wait.is_none() {
                self.until_not(token).await;
            }
        }
    }

    /// Waits until the bucket is this process's; `None` once it is stopped.
    async fn owned(&mut self) -> Option<Token> {
        loop {
            let token = self.shared.snapshot().token(self.bucket);
            if self.stop.is_cancelled() {
                return None;
            }
            if token.is_some() {
                return token;
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {}
                _ = self.changed.changed() => {}
            }
        }
    }

    /// Waits until another tenure is called for, or it is stopped.
    async fn until_not(&mut self, token: Token) {
        while self.shared.snapshot().token(self.bucket) == Some(token) && !self.stop.is_cancelled() {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {}
                _ = self.changed.changed() => {}
            }
        }
    }

    /// After a tenure: whether the next one must begin although the bucket was not taken away, and after what.
    fn after(&mut self, token: Token, end: End) -> Option<Result<Duration, u64>> {
        self.metrics.tenures_ended.with_label_values(&[end.as_str()]).inc();
        let wait = match end {
            End::Evicted { version } => Err(version),
            End::Superseded | End::Gone => {
                self.failures = self.failures.saturating_add(1);
                let doubled = BACKOFF.initial.saturating_mul(1 << self.failures.min(7));
                Ok(doubled.min(BACKOFF.max))
            }
            End::Released | End::GivenUp => return None,
        };
        let renewed = self.shared.snapshot().renew(self.bucket, token)?;
        self.shared.request(Request::Close { bucket: self.bucket });
        tracing::warn!(bucket = %self.bucket, ?end, ?renewed, "a tenure ended early; the bucket is taken over anew");
        Some(wait)
    }

    async fn tenure(&mut self, token: Token, wait: Option<Result<Duration, u64>>) -> End {
        let timing = Timing {
            session: self.config.session_timeout,
            commit_interval: self.config.commit_interval,
            drain: self.config.drain,
            release: RELEASE,
            idle: IDLE,
            backoff: BACKOFF,
        };
        let seed = (u64::from(self.bucket.get()) << 32) ^ u64::from(std::process::id());
        let mut run = Run {
            tenure: Tenure::new(timing, seed, self.shared.now(), wait),
            token,
            began: Instant::now(),
            version: 0,
            told_to_leave: false,
            answer: Answer::None,
            delivering: None,
            acquiring: None,
            end: None,
        };
        self.shared.set_doing(self.bucket, Some(Doing::TakingOver(run.began)));
        self.mailbox.clear();
        self.look(&mut run);
        self.feed(&mut run, Event::Wake);
        while run.end.is_none() {
            self.step(&mut run).await;
        }
        self.finish(run).await
    }

    /// Waits for the next thing that happens, and takes it in.
    async fn step(&mut self, run: &mut Run<H>) {
        let wake = self.wake_at(run);
        let shared = Arc::clone(&self.shared);
        let leaving = run.told_to_leave;
        let open = run.is_open() && !leaving;
        tokio::select! {
            biased;
            _ = self.changed.changed() => self.look(run),
            () = self.stop.cancelled(), if !leaving => self.look(run),
            answered = run.answer.wait() => self.answered(run, answered),
            () = ended(run.delivering.as_mut(), || shared.now()) => {}
            () = told(run.acquiring.as_mut()) => run.acquiring = None,
            () = self.mailbox.arrived(), if open => {
                if let Some(delivering) = &mut run.delivering {
                    delivering.receive();
                }
            }
            () = sleep_until(wake) => {}
        }
        self.pump(run);
    }

    /// Starts what can start, and tells the tenure what there is to commit.
    fn pump(&mut self, run: &mut Run<H>) {
        if run.end.is_some() {
            return;
        }
        let now = self.shared.now();
        let open = run.is_open();
        if let Some(delivering) = run.delivering.as_mut().filter(|_| open) {
            delivering.start(now);
            self.show(delivering.scheduler().unavailable().map(str::to_owned));
        }
        let dirty = run.delivering.as_mut().and_then(|delivering| delivering.scheduler().dirty(now));
        if let Some(urgent) = dirty {
            self.feed(run, Event::Dirty { urgent });
        }
        let drained = run.delivering.as_mut().is_some_and(|delivering| delivering.scheduler().is_drained());
        if run.told_to_leave && drained {
            self.feed(run, Event::Drained);
        }
        self.feed(run, Event::Wake);
    }

    /// Looks at the snapshot: level, not edge, so that nothing can be missed.
    fn look(&mut self, run: &mut Run<H>) {
        let (held, version, revoking) = {
            let snapshot = self.shared.snapshot();
            let held = snapshot.ticket(self.bucket, run.token).is_some();
            (held, snapshot.version(), snapshot.is_revoking(self.bucket))
        };
        if !held {
            self.feed(run, Event::Gone);
            return;
        }
        // First: a takeover that is given up anyway must not go on, it would shut out the next owner's producer.
        if (revoking || self.stop.is_cancelled()) && !run.told_to_leave {
            run.told_to_leave = true;
            self.feed(run, Event::GiveUp);
        }
        if version != run.version {
            run.version = version;
            self.feed(run, Event::Callback(version));
        }
    }

    /// Gives the tenure an event and carries out what it says.
    fn feed(&mut self, run: &mut Run<H>, event: Event) {
        let actions = run.tenure.on(self.shared.now(), event);
        for action in actions {
            self.act(run, action);
        }
    }

    fn act(&mut self, run: &mut Run<H>, action: Action) {
        match action {
            Action::Initialise => self.initialise(run),
            Action::Read => self.read(run),
            Action::Claim(resume) => self.claim(run, &resume),
            Action::Seek(resume) => self.seek(run, &resume),
            Action::Deliver(resume) => self.deliver(run, &resume),
            Action::Commit(plan) => self.commit(run, &plan),
            Action::Settled(committed) => {
                if let Some(delivering) = &mut run.delivering {
                    delivering.settled(committed);
                }
                self.failures = 0;
            }
            Action::StopIntake => {
                if let Some(delivering) = &mut run.delivering {
                    delivering.scheduler().stop();
                }
            }
            Action::ResumeIntake => {
                if let Some(delivering) = &mut run.delivering {
                    delivering.scheduler().go_on();
                }
            }
            Action::Cancel => {
                if let Some(delivering) = &mut run.delivering {
                    delivering.cancel();
                }
            }
            Action::Over(end) => run.end = Some(end),
        }
    }

    fn initialise(&mut self, run: &mut Run<H>) {
        if self.shared.ticket(self.bucket, run.token).is_none() {
            self.feed(run, Event::Gone);
            return;
        }
        let (reply, answer) = oneshot::channel();
        self.send(Job::Initialise(reply));
        run.answer = Answer::Initialised(answer);
    }

    fn read(&mut self, run: &mut Run<H>) {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Read(reply));
        run.answer = Answer::Read(answer);
    }

    fn claim(&mut self, run: &mut Run<H>, resume: &Resume) {
        let Some(ticket) = self.shared.ticket(self.bucket, run.token) else {
            self.feed(run, Event::Gone);
            return;
        };
        let metadata = crate::engine::CommitMetadata {
            epoch: resume.epoch,
            sequence: TransactionSequence::CLAIM,
            marks: resume.marks.clone(),
        };
        let committed = Committed { offset: resume.offset, metadata: metadata.encode(resume.offset) };
        let records = vec![claim(&self.config, self.bucket, resume.epoch, (false, None))];
        self.write(run, Write { ticket, committed, records });
    }

    fn commit(&mut self, run: &mut Run<H>, plan: &Plan) {
        let Some(ticket) = self.shared.ticket(self.bucket, run.token) else {
            self.feed(run, Event::Gone);
            return;
        };
        let now = self.shared.now();
        let Some(delivering) = &mut run.delivering else { return };
        let write = delivering.checkpoint(now, plan, ticket);
        self.write(run, write);
    }

    fn write(&mut self, run: &mut Run<H>, write: Write) {
        let (reply, answer) = oneshot::channel();
        let committed = write.committed.clone();
        self.send(Job::Write(Box::new(write), reply));
        run.answer = Answer::Written(answer, committed);
    }

    fn seek(&mut self, run: &mut Run<H>, resume: &Resume) {
        let (reply, answer) = oneshot::channel();
        let (bucket, token, offset) = (self.bucket, run.token, resume.offset);
        self.mailbox.clear();
        self.shared.request(Request::Seek { bucket, token, offset, reply });
        run.answer = Answer::Sought(answer);
    }

    fn deliver(&mut self, run: &mut Run<H>, resume: &Resume) {
        if let Some(lost) = resume.lost {
            self.counts.offsets_lost.inc();
            tracing::error!(
                bucket = %self.bucket, ?lost, from = %resume.offset,
                "the bucket's committed offset is gone or invalid; everything in its log is handled again"
            );
        }
        if resume.unreadable {
            tracing::warn!(
                bucket = %self.bucket,
                "the commit metadata was written by another tool or version; finished records beyond the offset are handled again"
            );
        }
        let seconds = run.began.elapsed().as_secs_f64();
        self.metrics.takeover_seconds.observe(seconds);
        self.counts.ready.set(1);
        self.counts.epoch.set(i64::try_from(resume.epoch.get()).unwrap_or(i64::MAX));
        self.shared.set_doing(self.bucket, Some(Doing::Delivering));
        tracing::info!(
            bucket = %self.bucket, epoch = %resume.epoch, offset = %resume.offset,
            cautious_until = %resume.cautious_until, seconds, "bucket taken over"
        );
        let (handler, bucket, epoch) = (Arc::clone(&self.handler), self.bucket, resume.epoch);
        run.acquiring = Some(Box::pin(async move { handler.acquired(bucket, epoch).await }));
        run.delivering = Some(Delivering::new(
            (&self.config, &self.handler),
            self.bucket,
            resume,
            &self.mailbox,
            &self.metrics,
        ));
    }

    /// Takes in the answer of the outstanding step.
    fn answered(&mut self, run: &mut Run<H>, answered: Answered) {
        run.answer = Answer::None;
        match answered {
            Answered::Event(event) => self.feed(run, event),
            Answered::Written(Ok(()), committed) if self.embedded => {
                let (reply, answer) = oneshot::channel();
                self.shared.request(Request::Commit { bucket: self.bucket, committed, reply });
                run.answer = Answer::Mirrored(answer);
            }
            Answered::Written(result, _) => {
                let now = self.shared.now();
                if let (Err(error), Some(delivering)) = (&result, &mut run.delivering) {
                    delivering.refused(now, error);
                }
                self.feed(run, Event::Transacted(result.map_err(|error| error.setback)));
            }
        }
    }

    /// Ends a tenure: the bucket is given up at once, the rest follows.
    async fn finish(&mut self, mut run: Run<H>) -> End {
        let end = run.end.unwrap_or(End::Gone);
        let graceful = matches!(end, End::Released | End::GivenUp);
        let why = match end {
            _ if !graceful => Released::Lost,
            _ if self.stop.is_cancelled() => Released::Shutdown,
            _ => Released::Revoked,
        };
        drop(std::mem::replace(&mut run.answer, Answer::None));
        self.shared.give_up(run.token);
        self.send_retire();
        self.counts.clear();
        if let Some(mut delivering) = run.delivering.take() {
            delivering.end().await;
            let told = self.handler.released(self.bucket, delivering.epoch(), why);
            if tokio::time::timeout(self.handler.release_timeout(), told).await.is_err() {
                tracing::warn!(bucket = %self.bucket, "the handler did not take `released` in time");
            }
            tracing::info!(bucket = %self.bucket, epoch = %delivering.epoch(), %why, ?end, "bucket released");
        }
        self.mailbox.clear();
        self.counts.clear();
        self.shared.set_doing(self.bucket, None);
        end
    }

    fn show(&self, unavailable: Option<String>) {
        let doing = unavailable.map_or(Doing::Delivering, Doing::Unavailable);
        self.shared.set_doing(self.bucket, Some(doing));
    }

    fn wake_at(&mut self, run: &mut Run<H>) -> Option<Instant> {
        let scheduler = run.delivering.as_mut().and_then(|delivering| delivering.scheduler().wake_at());
        // What is due already was looked at a moment ago; something else must happen first.
        let scheduler = scheduler.filter(|at| *at > self.shared.now());
        let at = [run.tenure.wake_at(), scheduler].into_iter().flatten().min()?;
        Some(self.shared.instant(at))
    }

    /// Gives the bucket's thread a job; one that cannot take it drops the reply, which is answered as a setback.
    fn send(&mut self, job: Job) {
        if self.jobs.is_none() {
            let started = self.writer.take().map(Writer::start);
            match started {
                Some(Ok(jobs)) => self.jobs = Some(jobs),
                Some(Err(error)) => tracing::error!(%error, "a bucket's thread could not be started"),
                None => {}
            }
        }
        if let Some(jobs) = &self.jobs {
            // Full only while jobs of tenures that are over wait behind one that takes long.
            drop(jobs.try_send(job));
        }
    }

    fn send_retire(&mut self) {
        if self.jobs.is_some() {
            self.send(Job::Retire);
        }
    }
}

impl Answer {
    /// The outstanding step's answer. Never ends while there is none. Cancel safe.
    async fn wait(&mut self) -> Answered {
        const LOST: Setback = Setback::Unknown;
        match self {
            Self::None => std::future::pending().await,
            Self::Initialised(answer) => {
                Answered::Event(Event::Initialised(answer.await.unwrap_or(Err(LOST))))
            }
            Self::Read(answer) => Answered::Event(Event::Read(answer.await.unwrap_or(Err(LOST)))),
            Self::Written(answer, committed) => {
                let lost = WriteError { setback: LOST, refused: None };
                Answered::Written(answer.await.unwrap_or(Err(lost)), committed.clone())
            }
            Self::Mirrored(answer) => {
                Answered::Event(Event::Transacted(answer.await.unwrap_or(Err(Setback::Aborted))))
            }
            Self::Sought(answer) => {
                Answered::Event(Event::Sought(answer.await.unwrap_or(Err(Setback::Aborted))))
            }
        }
    }
}

async fn ended<H: Handler>(delivering: Option<&mut Delivering<H>>, now: impl Fn() -> Duration) {
    match delivering {
        Some(delivering) => delivering.ended(now).await,
        None => std::future::pending().await,
    }
}

/// Waits until the handler has taken a hook, if there is one. Cancel safe.
async fn told(hook: Option<&mut Pin<Box<dyn Future<Output = ()> + Send>>>) {
    match hook {
        Some(hook) => hook.await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

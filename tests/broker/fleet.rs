//! Controllers that are stopped and killed while a dispatcher reports all the time: real processes, judged by their
//! lines and by Kafka's own log of the group's commits.

use std::{
    collections::BTreeMap,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use control_bus::engine::Jitter;

use crate::{
    ledger,
    support::{
        checker::{Checker, Fate},
        kafka::shared,
        process::{Bus, Config, Process, eventually},
    },
};

/// How long a step may take.
pub(crate) const STEP: Duration = Duration::from_secs(60);

/// `group.session_timeout`.
pub(crate) const SESSION: Duration = Duration::from_secs(2);

/// How much longer than the session time-out a takeover may take.
pub(crate) const TAKEOVER: Duration = Duration::from_secs(3);

/// How long a takeover may take on a machine that does other things as well. Behind a transaction that nobody ends it
/// would take 12 s at least.
pub(crate) const BUSY: Duration = Duration::from_secs(10);

/// Takeovers were as quick as promised: each of them within [`BUSY`], and at least one, which no other work had slowed down,
/// within the session time-out and [`TAKEOVER`].
pub(crate) fn assert_quick(takeovers: &[Duration]) {
    println!("takeovers: {takeovers:.2?}");
    assert!(takeovers.iter().all(|takeover| *takeover <= BUSY), "{takeovers:?}");
    assert!(takeovers.iter().any(|takeover| *takeover <= SESSION + TAKEOVER), "{takeovers:?}");
}

/// How many lines a dispatcher is given at a time, and how long it then has none.
const BATCH: (usize, Duration) = (2, Duration::from_millis(8));

/// Whether campaigns run at full length.
pub(crate) fn long() -> bool {
    std::env::var_os("CONTROL_BUS_LONG").is_some()
}

/// Numbers that a failure can be repeated with: `CONTROL_BUS_TEST_SEED` chooses them.
pub(crate) struct Random(Jitter);

impl Random {
    pub(crate) fn new(test: &str) -> Self {
        let given = std::env::var("CONTROL_BUS_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
        let seed = given.unwrap_or_else(|| uuid::Uuid::now_v7().as_u64_pair().1);
        println!("{test}: CONTROL_BUS_TEST_SEED={seed}");
        Self(Jitter::seeded(seed))
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.0.next_number() % u64::try_from(limit).unwrap()).unwrap()
    }

    /// A time below `limit`.
    pub(crate) fn time(&mut self, limit: Duration) -> Duration {
        Duration::from_micros(self.0.next_number() % u64::try_from(limit.as_micros()).unwrap())
    }
}

/// Lets a time pass that a schedule says; not a wait for anything.
pub(crate) fn pass(time: Duration) {
    thread::sleep(time);
}

/// Controllers, those that have ended too, and a dispatcher.
pub(crate) struct Fleet {
    pub(crate) bus: Bus,
    buckets: usize,
    pub(crate) dispatcher: Process,
    feeder: Option<(Arc<AtomicBool>, JoinHandle<Vec<String>>)>,
    pub(crate) runs: Vec<Process>,
    /// Runs that were killed or stopped, and when first.
    interrupted: BTreeMap<usize, Instant>,
}

impl Fleet {
    pub(crate) fn new(test: &str, buckets: u16) -> Self {
        let bus = Bus::new(test, shared(), buckets);
        let mut dispatcher = bus.data_plane("dispatcher1").start();
        let mut stdin = dispatcher.take_stdin();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut given: Vec<String> = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let lines: Vec<String> = (given.len()..given.len() + BATCH.0).map(line).collect();
                let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
                stdin.write_all(text.as_bytes()).expect("the dispatcher reads");
                given.extend(lines);
                thread::sleep(BATCH.1); // a pace, not a wait
            }
            given
        });
        Self {
            bus,
            buckets: buckets.into(),
            dispatcher,
            feeder: Some((stop, thread)),
            runs: Vec::new(),
            interrupted: BTreeMap::new(),
        }
    }

    pub(crate) fn config(&self, name: &str) -> Config {
        self.bus
            .controller(name)
            .set("group.session_timeout", format!("{} ms", SESSION.as_millis()))
            .set("group.heartbeat", "200ms")
            .set("commit.interval", "1ms")
            .set("shutdown.drain", "3s")
    }

    pub(crate) fn add(&mut self, name: &str) -> usize {
        self.runs.push(self.config(name).start());
        self.runs.len() - 1
    }

    /// The run that acquired each bucket last, and the epoch.
    pub(crate) fn owners(&self) -> Vec<Option<(i64, usize)>> {
        let mut owners = vec![None; self.buckets];
        for (run, process) in self.runs.iter().enumerate() {
            process.with_lines(|lines| {
                for notice in lines.iter().filter_map(|line| line.json.get("acquired")) {
                    let bucket = usize::try_from(notice["bucket"].as_u64().unwrap()).unwrap();
                    owners[bucket] = owners[bucket].max(Some((notice["epoch"].as_i64().unwrap(), run)));
                }
            });
        }
        owners
    }

    pub(crate) fn until_owners(&self, wanted: impl Fn(&[usize]) -> bool) -> Vec<usize> {
        eventually("the buckets are owned as expected", STEP, &self.everyone(), || {
            let owners: Option<Vec<usize>> =
                self.owners().into_iter().map(|owner| owner.map(|(_, run)| run)).collect();
            owners.filter(|owners| wanted(owners))
        })
    }

    /// Waits until a bucket was acquired with an epoch above `epoch`; by which run, and when its line came.
    pub(crate) fn until_acquired(&self, bucket: usize, epoch: i64) -> (usize, Instant) {
        eventually(&format!("bucket {bucket} acquired after epoch {epoch}"), STEP, &self.everyone(), || {
            let mut runs = self.runs.iter().enumerate();
            runs.find_map(|(run, process)| Some((run, acquired(process, bucket, epoch)?)))
        })
    }

    /// Waits until this run has acquired a bucket with an epoch above `epoch`; when its line came.
    pub(crate) fn until_acquired_by(&self, run: usize, bucket: usize, epoch: i64) -> Instant {
        eventually(&format!("bucket {bucket} acquired by run {run}"), STEP, &self.everyone(), || {
            acquired(&self.runs[run], bucket, epoch)
        })
    }

    /// Waits until each bucket has had `more` further messages, from whomever, from now on.
    pub(crate) fn until_handled(&self, more: usize) {
        let since = Instant::now();
        eventually("every bucket's messages are handled", STEP, &self.everyone(), || {
            let mut counts = vec![0; self.buckets];
            for process in &self.runs {
                process.with_lines(|lines| {
                    for line in lines.iter().rev().take_while(|line| line.at >= since) {
                        if let Ok(bucket) = usize::try_from(line.number("bucket")) {
                            counts[bucket] += 1;
                        }
                    }
                });
            }
            counts.iter().all(|count| *count >= more).then_some(())
        });
    }

    pub(crate) fn everyone(&self) -> Vec<&Process> {
        self.runs.iter().chain([&self.dispatcher]).collect()
    }

    /// SIGSTOP.
    pub(crate) fn pause(&mut self, run: usize) -> Instant {
        let at = Instant::now();
        self.interrupted.entry(run).or_insert(at);
        self.runs[run].pause();
        at
    }

    /// SIGCONT.
    pub(crate) fn resume(&self, run: usize) {
        self.runs[run].resume();
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, run: usize) -> Instant {
        let at = Instant::now();
        self.interrupted.entry(run).or_insert(at);
        self.runs[run].kill();
        at
    }

    /// Ends the dispatcher, waits until everything is handled, and judges: nothing lost, order kept, no epoch going back
    /// but in a run that was interrupted, and every commit an owner's and later than the one before.
    pub(crate) fn finish(mut self) {
        let mut checker = Checker::default();
        let (stop, thread) = self.feeder.take().unwrap();
        stop.store(true, Ordering::Relaxed);
        let given = thread.join().expect("the dispatcher was fed");
        assert_eq!(self.dispatcher.exit_code(STEP), 0, "{}", self.dispatcher.last_words());
        assert_eq!(checker.pod(self.dispatcher.name(), &given, &self.dispatcher.lines()), 0, "errors");
        let mut verdict =
            eventually("a verdict", STEP, &self.everyone(), || Some(self.verdict(&mut checker)));
        let deadline = Instant::now() + STEP;
        while !verdict.lost.is_empty() && Instant::now() < deadline {
            pass(Duration::from_millis(200));
            verdict = self.verdict(&mut checker);
        }
        println!("{} sent, {} lost, {} repeated", verdict.sent, verdict.lost.len(), verdict.repeats.len());
        verdict.assert_sound();
        assert!(verdict.inexcusable().is_empty(), "{:?}", verdict.inexcusable().first());
        let mut ends: BTreeMap<String, f64> = BTreeMap::new();
        for process in &mut self.runs {
            if process.is_running() {
                let metrics = process.metrics().into_iter();
                for (name, count) in metrics.filter(|(name, _)| name.starts_with("control_bus_tenures_ended"))
                {
                    *ends.entry(name).or_default() += count;
                }
                process.terminate();
                assert_eq!(process.exit_code(STEP), 0, "{}", process.last_words());
            }
        }
        println!("tenures that ended in the processes that are left: {ends:?}");
        self.verdict(&mut checker).assert_sound();
        let commits = ledger::assert_only_grows(shared(), &format!("{}.controllers", self.bus.name()));
        println!("{commits} commits");
        assert!(commits > 0);
    }

    fn verdict(&self, checker: &mut Checker) -> crate::support::checker::Verdict {
        checker.stories.clear();
        for (run, process) in self.runs.iter().enumerate() {
            let lines = process.lines();
            let at = self.interrupted.get(&run).copied();
            // On a machine that is too busy a session can end without our help; librdkafka says so.
            let starved =
                || process.stderr().contains("SESSTMOUT").then(|| lines.first().map(|line| line.at));
            let fate = at.or_else(|| starved().flatten()).map_or(Fate::Orderly, Fate::Interrupted);
            checker.controller(process.name(), lines, fate);
        }
        checker.verdict()
    }
}

/// When a process acquired a bucket with an epoch above `epoch`, for the first time.
fn acquired(process: &Process, bucket: usize, epoch: i64) -> Option<Instant> {
    process.with_lines(|lines| {
        lines.iter().find_map(|line| {
            let notice = line.json.get("acquired")?;
            let later = notice["bucket"] == bucket && notice["epoch"].as_i64()? > epoch;
            later.then_some(line.at)
        })
    })
}

/// A dispatcher's line: two events, then a state; each of some resources in turn.
fn line(number: usize) -> String {
    let kind = if number % 3 == 2 { "state" } else { "event" };
    let resource = format!("default/r{}", number / 3 % 12);
    serde_json::json!({ "resource": resource, "type": "t", "kind": kind, "id": number.to_string(), "data": number })
        .to_string()
}

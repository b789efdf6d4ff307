//! The case that the project exists for (README, "The case"), on a real broker and with real processes.
//!
//! Three dispatchers report on resources of two buckets all the while. Of the two controllers, the owner of `trigger1`'s
//! bucket is killed; a third one is added when the other owns both; that other one is stopped in good order; and the
//! first one comes back. Then everything that Kafka has must have been handled as promised, judged by the processes'
//! lines alone.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    process::ChildStdin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::support::{
    checker::{Checker, Fate, Verdict},
    kafka::shared,
    process::{Bus, Process, Progress, eventually},
};

/// How long a step may take.
const STEP: Duration = Duration::from_secs(120);

/// After so long without a line nothing is expected any more.
const SILENCE: Duration = Duration::from_secs(20);

/// How soon an orderly end must be over: `shutdown.grace`.
const GRACE: Duration = Duration::from_secs(30);

/// How many messages must be sent, at least.
const MESSAGES: usize = 20_000;

/// After so long the group gives a killed controller's bucket to another.
const SESSION: Duration = Duration::from_secs(6);

/// The default of `commit.interval`.
const COMMIT_INTERVAL: Duration = Duration::from_millis(200);

/// How many lines a dispatcher is given at a time, and how long it then has none.
const BATCH: (usize, Duration) = (6, Duration::from_millis(20));

/// How far the owner of a resource's bucket may be behind with it, in offsets.
const BEHIND: i64 = 2_500;

/// What a dispatcher reports on: resource and source, as in "trigger1's consumer 4".
type Consumer = (String, String);

/// `trigger1` has 11 consumers, 5, 1 and 5; `trigger2` has one, on dispatcher2; and there are others.
fn consumers(dispatcher: usize) -> Vec<Consumer> {
    let of_trigger1 = match dispatcher {
        1 => 0..5,
        2 => 5..6,
        _ => 6..11,
    };
    let mut all: Vec<Consumer> =
        of_trigger1.map(|number| ("default/trigger1".to_owned(), format!("consumer-{number}"))).collect();
    if dispatcher == 2 {
        all.push(("default/trigger2".to_owned(), "consumer-0".to_owned()));
    }
    all.extend((0..18).map(|number| (format!("team-{dispatcher}/broker-{number}"), "ingress".to_owned())));
    all.extend((0..2).map(|number| (format!("shared/source-{number}"), "adapter".to_owned())));
    all
}

/// How far the controllers are behind the dispatchers.
#[derive(Default)]
struct Pace {
    dispatchers: Mutex<Vec<Progress>>,
    controllers: Mutex<Vec<Progress>>,
}

impl Pace {
    /// Whether more of a resource waits than a slow machine should have to catch up with: its records are handled one
    /// after another, and after a crash each costs a transaction, until what the dead owner may have begun is done.
    fn is_behind(&self, resource: &str) -> bool {
        let newest = |processes: &Mutex<Vec<Progress>>| {
            processes.lock().unwrap().iter().map(|progress| progress.newest(resource)).max().unwrap_or(-1)
        };
        newest(&self.dispatchers) - newest(&self.controllers) > BEHIND
    }
}

/// Gives a dispatcher lines until it is told to stop, and remembers them.
struct Feeder {
    stop: Arc<AtomicBool>,
    extra: Arc<Mutex<Vec<String>>>,
    thread: JoinHandle<Vec<String>>,
}

impl Feeder {
    fn start(dispatcher: usize, mut stdin: ChildStdin, pace: Arc<Pace>) -> Self {
        let (stop, extra) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (stopped, asked) = (Arc::clone(&stop), Arc::clone(&extra));
        let thread = thread::spawn(move || {
            let consumers = consumers(dispatcher);
            let mut given = Vec::new();
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                let mut lines = std::mem::take(&mut *asked.lock().unwrap());
                for number in number..number + BATCH.0 {
                    let consumer = &consumers[(number / 3) % consumers.len()];
                    if !pace.is_behind(&consumer.0) {
                        lines.push(line(dispatcher, consumer, number));
                    }
                }
                number += BATCH.0;
                let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
                std::io::Write::write_all(&mut stdin, text.as_bytes()).expect("the dispatcher reads");
                given.extend(lines);
                thread::sleep(BATCH.1); // a pace, not a wait
            }
            given
        });
        Self { stop, extra, thread }
    }

    /// Gives one more line, soon.
    fn give(&self, line: String) {
        self.extra.lock().unwrap().push(line);
    }

    /// Ends the dispatcher's input; all that it was given.
    fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the dispatcher was fed")
    }
}

/// A dispatcher's line: two events, then a state; each consumer in turn.
fn line(dispatcher: usize, (resource, source): &Consumer, number: usize) -> String {
    let (kind, ty) = if number % 3 == 2 { ("state", "consumer.ready") } else { ("event", "consumer.moved") };
    serde_json::json!({
        "resource": resource, "type": ty, "kind": kind, "id": format!("d{dispatcher}-{number}"),
        "source": source, "data": { "number": number },
    })
    .to_string()
}

/// What happened, from when to when.
struct Step {
    what: String,
    from: Instant,
    to: Instant,
}

/// A run that was killed.
struct Kill {
    run: usize,
    at: Instant,
    /// Its slowest transaction until then, at most.
    transaction: Duration,
}

struct Case {
    bus: Bus,
    pace: Arc<Pace>,
    dispatchers: Vec<Process>,
    feeders: Vec<Feeder>,
    /// Every run of a controller, those that have ended too.
    controllers: Vec<Process>,
    killed: Vec<Kill>,
    steps: Vec<Step>,
}

impl Case {
    /// Two controllers that own a bucket each, and three dispatchers that report.
    fn start() -> Self {
        let bus = Bus::new("the-case", shared(), 2);
        let mut case = Self {
            bus,
            pace: Arc::default(),
            dispatchers: vec![],
            feeders: vec![],
            controllers: vec![],
            killed: vec![],
            steps: vec![],
        };
        case.add("controller1");
        case.add("controller2");
        case.until_owners(|owners| owners[0] != owners[1]);
        for number in 1..=3 {
            let mut dispatcher = case.bus.data_plane(&format!("dispatcher{number}")).start();
            case.pace.dispatchers.lock().unwrap().push(dispatcher.progress());
            case.feeders.push(Feeder::start(number, dispatcher.take_stdin(), Arc::clone(&case.pace)));
            case.dispatchers.push(dispatcher);
        }
        case.step("two controllers", |case| case.until_heard(300));
        case
    }

    fn add(&mut self, name: &str) -> usize {
        let config =
            self.bus.controller(name).set("group.session_timeout", format!("{} s", SESSION.as_secs()));
        let controller = config.start();
        self.pace.controllers.lock().unwrap().push(controller.progress());
        self.controllers.push(controller);
        self.controllers.len() - 1
    }

    /// The run that acquired each bucket last.
    fn owners(&self) -> [Option<usize>; 2] {
        [0, 1].map(|bucket| {
            let epochs = self.controllers.iter().enumerate().filter_map(|(run, process)| {
                let epoch = process.with_lines(|lines| {
                    lines.iter().rev().find_map(|line| {
                        let notice = line.json.get("acquired")?;
                        (notice["bucket"] == bucket).then(|| notice["epoch"].as_i64())?
                    })
                });
                Some((epoch?, run))
            });
            epochs.max().map(|(_, run)| run)
        })
    }

    fn until_owners(&self, wanted: impl Fn([usize; 2]) -> bool) -> [usize; 2] {
        eventually("the buckets are owned as expected", STEP, &self.everyone(), || {
            let [Some(first), Some(second)] = self.owners() else { return None };
            wanted([first, second]).then_some([first, second])
        })
    }

    /// Waits until each bucket has had `more` further messages from now on, and until `trigger1`'s owner has heard all
    /// three dispatchers on it, and both owners dispatcher2.
    fn until_heard(&self, more: usize) {
        let since = Instant::now();
        let heard = || {
            let mut counts = [0; 2];
            let mut pods = BTreeSet::new();
            for process in &self.controllers {
                process.with_lines(|lines| {
                    for line in lines.iter().rev().take_while(|line| line.at >= since) {
                        if !line.is_message() {
                            continue;
                        }
                        counts[usize::from(line.number("bucket") == 1)] += 1;
                        pods.insert((line.text_of("resource").to_owned(), line.text_of("pod").to_owned()));
                    }
                });
            }
            let has = |resource: &str, number: usize| {
                pods.contains(&(format!("default/{resource}"), format!("dispatcher{number}")))
            };
            let all = (1..=3).all(|number| has("trigger1", number)) && has("trigger2", 2);
            (all && counts.iter().all(|count| *count >= more)).then_some(())
        };
        eventually("each bucket's owner hears its dispatchers", STEP, &self.everyone(), heard);
    }

    fn step(&mut self, what: &str, act: impl FnOnce(&mut Self)) {
        let from = Instant::now();
        act(self);
        self.steps.push(Step { what: what.to_owned(), from, to: Instant::now() });
    }

    fn everyone(&self) -> Vec<&Process> {
        self.controllers.iter().chain(&self.dispatchers).collect()
    }

    fn sent(&self) -> usize {
        self.dispatchers.iter().map(|dispatcher| dispatcher.with_lines(<[_]>::len)).sum()
    }

    /// Kills the owner of `trigger1`'s bucket; a message to all buckets reaches that bucket's next owner all the same.
    fn kill_the_owner_of_trigger1(&mut self) -> (usize, usize) {
        let [victim, other] = self.until_owners(|owners| owners[0] != owners[1]);
        self.step("SIGKILL of trigger1's controller", |case| {
            let transaction = slowest_transaction(&case.controllers[victim]);
            let at = Instant::now();
            case.controllers[victim].kill();
            case.killed.push(Kill { run: victim, at, transaction });
            case.tell_all(victim);
            case.until_owners(|owners| owners == [other; 2]);
            case.until_told(victim, other);
            case.until_heard(300);
        });
        (victim, other)
    }

    /// Each dispatcher sends a message to all buckets, and has its receipt while nobody owns the first one.
    fn tell_all(&self, victim: usize) {
        for (feeder, dispatcher) in self.feeders.iter().zip(&self.dispatchers) {
            let id = format!("to-all-{victim}-{}", dispatcher.name());
            feeder.give(
                serde_json::json!({ "resource": "default/all", "type": "hello", "kind": "event", "id": id,
                    "data": victim, "to": "all-buckets" })
                .to_string(),
            );
            let places = dispatcher.until("the receipt of a message to all buckets", STEP, |lines| {
                let answer = lines.iter().rev().find(|line| line.text_of("id") == id)?;
                Some(answer.json["buckets"].as_array().expect("a place in each bucket").len())
            });
            assert_eq!(places, 2);
        }
        let owners = self.owners();
        assert_eq!(
            owners[0],
            Some(victim),
            "the dead controller's bucket was taken over before the receipts came"
        );
    }

    /// The survivor hears of it in both buckets, though the one was another's when it was sent.
    fn until_told(&self, victim: usize, other: usize) {
        for dispatcher in &self.dispatchers {
            let id = format!("to-all-{victim}-{}", dispatcher.name());
            self.controllers[other].until("a message to all buckets in both", STEP, |lines| {
                let told = lines.iter().filter(|line| line.text_of("id") == id);
                let buckets: BTreeSet<i64> = told.map(|line| line.number("bucket")).collect();
                (buckets == BTreeSet::from([0, 1])).then_some(())
            });
        }
    }

    /// Kill, add, stop, come back.
    fn round(&mut self, newcomer: &str) {
        let (victim, other) = self.kill_the_owner_of_trigger1();
        let third = self.add(newcomer);
        self.step("a further controller is added", |case| {
            case.until_owners(|owners| owners.contains(&third) && owners.contains(&other));
            case.until_heard(300);
        });
        self.step("SIGTERM of the other one", |case| {
            case.controllers[other].terminate();
            assert_eq!(case.controllers[other].exit_code(GRACE), 0);
            case.until_owners(|owners| owners == [third; 2]);
            case.until_heard(300);
        });
        let name = self.controllers[victim].name().to_owned();
        let back = self.add(&name);
        self.step("the killed one comes back", |case| {
            case.until_owners(|owners| owners.contains(&third) && owners.contains(&back));
            case.until_heard(300);
        });
    }

    /// Ends the dispatchers, waits until everything is handled, and judges.
    fn finish(mut self) {
        self.step("until enough is sent", |case| {
            eventually("enough messages", STEP * 3, &case.everyone(), || {
                (case.sent() >= MESSAGES).then_some(())
            });
        });
        for dispatcher in &self.dispatchers {
            assert_eq!(clients(dispatcher), 1, "{} has one producer for all buckets", dispatcher.name());
        }
        let mut checker = Checker::default();
        for (feeder, dispatcher) in self.feeders.drain(..).zip(&mut self.dispatchers) {
            let given = feeder.stop();
            assert_eq!(dispatcher.exit_code(STEP), 0, "{}", dispatcher.last_words());
            let answers = dispatcher.lines();
            assert_eq!(answers.len(), given.len(), "{} answers every line", dispatcher.name());
            assert_eq!(checker.pod(dispatcher.name(), &given, &answers), 0, "errors");
        }
        for message in &checker.accepted {
            match message.input["resource"].as_str() {
                Some("default/trigger1") => assert_eq!(message.places[0].0, 0),
                Some("default/trigger2") => assert_eq!(message.places[0].0, 1),
                _ => {}
            }
        }
        let verdict = self.until_nothing_more_comes(&mut checker);
        self.report(&checker, &verdict);
        self.judge(&verdict);
        self.end_in_good_order(&mut checker);
    }

    /// Waits until everything is handled, or until nothing is for a while; slow is not lost.
    fn until_nothing_more_comes(&self, checker: &mut Checker) -> Verdict {
        let (mut handled, mut since) = (0, Instant::now());
        loop {
            self.tell(checker);
            let verdict = checker.verdict();
            if verdict.handled > handled {
                (handled, since) = (verdict.handled, Instant::now());
            }
            if verdict.lost.is_empty() || since.elapsed() > SILENCE {
                return verdict;
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn tell(&self, checker: &mut Checker) {
        checker.stories.clear();
        for (run, process) in self.controllers.iter().enumerate() {
            let kill = self.killed.iter().find(|kill| kill.run == run);
            let fate = kill.map_or(Fate::Orderly, |kill| Fate::Interrupted(kill.at));
            checker.controller(process.name(), process.lines(), fate);
        }
    }

    /// Everything as promised: nothing lost, in order, and repeated only what a kill left uncommitted.
    fn judge(&self, verdict: &Verdict) {
        verdict.assert_sound();
        let bad = verdict.inexcusable();
        assert!(bad.is_empty(), "{} repeats after orderly handovers, as {:?}", bad.len(), bad.first());
        for kill in &self.killed {
            for repeat in verdict.repeats_of(kill.run) {
                let age = kill.at.saturating_duration_since(repeat.before.0);
                let window = kill.window();
                assert!(
                    age <= window,
                    "{:?} was handled {age:?} before the kill, and again; expected within {window:?}",
                    repeat.place
                );
            }
        }
    }

    /// The controllers that are left end in good order, and that repeats and loses nothing.
    fn end_in_good_order(mut self, checker: &mut Checker) {
        for process in &mut self.controllers {
            if process.is_running() {
                process.terminate();
            }
        }
        let killed: BTreeSet<usize> = self.killed.iter().map(|kill| kill.run).collect();
        for (run, process) in self.controllers.iter_mut().enumerate() {
            if !killed.contains(&run) {
                assert_eq!(process.exit_code(GRACE), 0, "{}", process.last_words());
                assert_eq!(process.torn(), b"");
            }
        }
        self.tell(checker);
        self.judge(&checker.verdict());
    }

    /// The figures, past the test harness, which shows nothing of a test that passes.
    fn report(&self, checker: &Checker, verdict: &Verdict) {
        let mut text = format!(
            "the case: {} records sent, {} handled, {} states superseded, {} lost, {} out of order, {} repeated\n",
            verdict.sent,
            verdict.handled,
            verdict.superseded,
            verdict.lost.len(),
            verdict.disorder.len(),
            verdict.repeats.len(),
        );
        for Step { what, from, to } in &self.steps {
            let silence = [0, 1].map(|bucket| checker.longest_silence(bucket, *from, *to));
            let took = *to - *from;
            writeln!(text, "  {what}: {took:.1?}; longest silence {:.2?} and {:.2?}", silence[0], silence[1])
                .unwrap();
        }
        for kill in &self.killed {
            let repeats = verdict.repeats_of(kill.run);
            let oldest =
                repeats.iter().map(|repeat| kill.at.saturating_duration_since(repeat.before.0)).max();
            let (count, oldest, window) = (repeats.len(), oldest.unwrap_or_default(), kill.window());
            let name = self.controllers[kill.run].name();
            writeln!(
                text,
                "  {name} killed: {count} repeats, the oldest from {oldest:.1?} before; bound {window:.1?}"
            )
            .unwrap();
        }
        std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).unwrap();
    }
}

impl Kill {
    /// How long before the kill something was handled, at most, that no commit carried: it had waited for a commit's turn
    /// while another transaction ran, and its own did not end. What both cores were busy with comes on top.
    fn window(&self) -> Duration {
        COMMIT_INTERVAL + 2 * self.transaction + Duration::from_millis(250)
    }
}

/// The upper bound of the slowest transaction that a process tells of.
fn slowest_transaction(process: &Process) -> Duration {
    let metrics = process.metrics();
    let prefix = "control_bus_transaction_seconds_bucket{outcome=\"committed\",le=\"";
    let bounds = metrics.iter().filter_map(|(name, count)| {
        let bound: f64 = name.strip_prefix(prefix)?.strip_suffix("\"}")?.parse().ok()?;
        Some((bound, *count))
    });
    let all = metrics["control_bus_transaction_seconds_count{outcome=\"committed\"}"];
    let slowest = bounds.filter(|(_, count)| *count >= all).map(|(bound, _)| bound).reduce(f64::min);
    Duration::from_secs_f64(slowest.expect("a last bucket"))
}

/// How many Kafka clients a process has, by their main threads.
fn clients(process: &Process) -> usize {
    let threads = fs::read_dir(format!("/proc/{}/task", process.pid())).expect("a process's threads");
    let names = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "rdk:main").count()
}

#[test]
fn every_owner_hears_every_dispatcher_while_controllers_are_killed_added_stopped_and_come_back() {
    let mut case = Case::start();
    let rounds = if std::env::var_os("CONTROL_BUS_LONG").is_some() { 6 } else { 1 };
    for round in 0..rounds {
        case.round(&format!("controller{}", 3 + round));
    }
    case.finish();
}

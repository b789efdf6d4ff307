//! Random schedules of kills, stops and starts. Whatever they leave behind: soon every bucket is served again, and
//! nothing was lost or put out of order.

use std::time::{Duration, Instant};

use crate::fleet::{Fleet, Random, SESSION, long, pass};

const BUCKETS: u16 = 4;

/// How many controllers run at most.
const MEMBERS: usize = 4;

/// How soon after the last step every bucket must be served: members that were killed or stopped have to be missed,
/// those that wake up join, at most once a second, and whoever then gets a bucket takes it over.
const SETTLED: Duration = Duration::from_secs(10);

/// What a schedule does next.
#[derive(Debug, Clone, Copy)]
enum Step {
    Start,
    Kill,
    Terminate,
    Pause,
    Resume,
    /// A newcomer makes the group rebalance; the member that has been in it for longest, which leads it, is killed in the
    /// middle.
    KillLeader(Duration),
}

struct Schedule {
    fleet: Fleet,
    random: Random,
    /// Runs that are alive, the oldest first; and which of them are stopped.
    members: Vec<usize>,
    paused: Vec<usize>,
    started: usize,
}

impl Schedule {
    fn new() -> Self {
        let random = Random::new("flapping");
        let fleet = Fleet::new("flapping", BUCKETS);
        let mut schedule = Self { fleet, random, members: vec![], paused: vec![], started: 0 };
        for _ in 0..2 {
            schedule.start();
        }
        schedule
    }

    fn start(&mut self) {
        self.started += 1;
        self.members.push(self.fleet.add(&format!("controller{}", self.started)));
    }

    /// One of those that are alive and not stopped.
    fn pick(&mut self) -> Option<usize> {
        let running: Vec<usize> =
            self.members.iter().copied().filter(|run| !self.paused.contains(run)).collect();
        (running.len() > 1).then(|| running[self.random.below(running.len())])
    }

    fn forget(&mut self, run: usize) {
        self.members.retain(|member| *member != run);
        self.paused.retain(|member| *member != run);
    }

    fn choose(&mut self) -> Step {
        match self.random.below(12) {
            0..=2 => Step::Start,
            3 => Step::Kill,
            4 => Step::Terminate,
            5..=7 => Step::Pause,
            8 | 9 => Step::Resume,
            _ => Step::KillLeader(self.random.time(Duration::from_millis(1500))),
        }
    }

    fn act(&mut self, step: Step) {
        match step {
            Step::Start if self.members.len() < MEMBERS => self.start(),
            Step::Start => {}
            Step::Kill => {
                if let Some(run) = self.pick() {
                    self.fleet.kill(run);
                    self.forget(run);
                }
            }
            Step::Terminate => {
                if let Some(run) = self.pick() {
                    self.fleet.runs[run].terminate();
                    self.forget(run);
                }
            }
            Step::Pause => {
                if let Some(run) = self.pick() {
                    self.fleet.pause(run);
                    self.paused.push(run);
                }
            }
            Step::Resume => {
                if !self.paused.is_empty() {
                    let run = self.paused.remove(self.random.below(self.paused.len()));
                    self.fleet.resume(run);
                }
            }
            Step::KillLeader(after) => {
                self.start();
                pass(after);
                let leader = self.members[0];
                self.fleet.kill(leader);
                self.forget(leader);
            }
        }
    }

    /// Some steps, with random times between them; then all that are stopped go on, while the group has lost its leader.
    fn run(&mut self) {
        for _ in 0..7 {
            let step = self.choose();
            self.act(step);
            let time = self.random.time(Duration::from_millis(1200));
            println!("  {step:?}, then {time:?}");
            pass(time);
        }
        let last = Step::KillLeader(self.random.time(Duration::from_millis(1500)));
        println!("  {last:?}");
        self.act(last);
        for run in std::mem::take(&mut self.paused) {
            self.fleet.resume(run);
        }
        while self.members.len() < 2 {
            self.start();
        }
    }

    /// Which of the members say that a bucket is assigned to them, and which that they deliver from it.
    fn served(&self, bucket: u16) -> (Vec<usize>, Vec<usize>) {
        let who = |name: &str| {
            let members = self.members.iter().copied();
            members.filter(|run| self.fleet.runs[*run].bucket_metric(name, bucket) > 0.0).collect()
        };
        (who("owned"), who("ready"))
    }

    /// Waits until each bucket is assigned to one member, which delivers from it.
    fn settle(&mut self) -> Duration {
        let began = Instant::now();
        loop {
            let all: Vec<_> = (0..BUCKETS).map(|bucket| self.served(bucket)).collect();
            if all.iter().all(|(owned, ready)| owned.len() == 1 && owned == ready) {
                break;
            }
            assert!(
                began.elapsed() < SETTLED,
                "after {SETTLED:?} the buckets are assigned to, and served by: {all:?}\n{}",
                self.fleet.everyone().iter().map(|process| process.last_words()).collect::<String>()
            );
            pass(Duration::from_millis(50));
        }
        let settled = began.elapsed();
        self.fleet.until_handled(20);
        for run in &self.members {
            self.fleet.runs[*run].until_ready(SESSION);
        }
        settled
    }
}

#[test]
fn every_bucket_is_served_soon_after_whatever_happened_to_its_owners() {
    let mut schedule = Schedule::new();
    schedule.settle();
    let rounds = if long() { 20 } else { 3 };
    for round in 0..rounds {
        println!("schedule {round}");
        schedule.run();
        let settled = schedule.settle();
        println!("  every bucket is served {settled:?} later");
    }
    schedule.fleet.finish();
}

//! Each transition of a tenure as a test; the last part sends it anything in any order.

mod anything;
mod commits;
mod leaving;
mod takeover;

use super::*;
use crate::{
    engine::{CommitMetadata, Marks},
    model::{Claim, NextOffset},
};

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn to(offset: i64) -> NextOffset {
    NextOffset::new(offset).unwrap()
}

fn timing() -> Timing {
    Timing {
        session: seconds(10),
        commit_interval: seconds(1),
        drain: seconds(20),
        release: seconds(5),
        idle: seconds(86_400),
        backoff: Backoff { initial: Duration::from_millis(100), max: seconds(4) },
    }
}

fn text(epoch: u64, sequence: u64) -> String {
    let sequence = TransactionSequence::new(sequence);
    CommitMetadata { epoch: Epoch::new(epoch), sequence, marks: Marks::default() }.encode(NextOffset::ZERO)
}

fn claim(epoch: u64, released: bool) -> Claim {
    Claim {
        epoch: Epoch::new(epoch),
        owner: "somebody".to_owned(),
        time: String::new(),
        released,
        cautious_until: None,
    }
}

/// Offset 50 of a log from 10 to 100, written by (epoch, sequence), and claimed with that epoch.
fn written_by(epoch: u64, sequence: u64) -> Reading {
    Reading {
        committed: Some((to(50), text(epoch, sequence))),
        claim: Some(claim(epoch, false)),
        log_start: to(10),
        log_end: to(100),
    }
}

/// A plan of the tenure that takes over in these tests, which is the eighth.
fn plan(sequence: u64, release: Option<bool>) -> Action {
    Action::Commit(Plan { epoch: Epoch::new(8), sequence: TransactionSequence::new(sequence), release })
}

const ALL: [Setback; 5] = [
    Setback::Rebalancing { version: 3 },
    Setback::UnknownMember { version: 3 },
    Setback::Aborted,
    Setback::Refused,
    Setback::Unknown,
];

/// A tenure with a clock.
#[derive(Clone)]
struct Bench {
    tenure: Tenure,
    now: Duration,
}

impl Bench {
    fn new(wait: Option<Result<Duration, u64>>) -> Self {
        let now = seconds(1000);
        Self { tenure: Tenure::new(timing(), 7, now, wait), now }
    }

    fn on(&mut self, event: Event) -> Vec<Action> {
        self.tenure.on(self.now, event)
    }

    /// Lets time pass until the tenure wants to be called, and calls it.
    fn wait(&mut self) -> Vec<Action> {
        let until = self.tenure.wake_at().expect("the tenure waits for no time");
        assert!(until >= self.now, "it wants to be called at {until:?}, but it is {:?} already", self.now);
        self.now = until;
        self.on(Event::Wake)
    }

    fn pass(&mut self, time: Duration) -> Vec<Action> {
        self.now += time;
        self.on(Event::Wake)
    }

    /// A tenure whose `step` actions of the takeover are answered: 0, its initialisation is outstanding.
    fn at(step: usize) -> Self {
        let mut bench = Self::new(None);
        bench.on(Event::Wake);
        for event in Self::takeover().into_iter().take(step) {
            bench.on(event);
        }
        bench
    }

    /// The answers of a takeover without trouble.
    fn takeover() -> [Event; 4] {
        let read = Event::Read(Ok(written_by(7, 3)));
        [Event::Initialised(Ok(())), read, Event::Transacted(Ok(())), Event::Sought(Ok(()))]
    }

    /// One that delivers.
    fn delivering() -> Self {
        Self::at(4)
    }

    /// One with an outstanding transaction, whose number is 1.
    fn committing() -> Self {
        let mut bench = Self::delivering();
        assert_eq!(bench.on(Event::Dirty { urgent: true }), [plan(1, None)]);
        bench
    }

    /// One whose transaction 1 ended in nobody knows what, and whose reading is outstanding.
    fn inquiring() -> Self {
        let mut bench = Self::committing();
        assert_eq!(bench.on(Event::Transacted(Err(Setback::Unknown))), []);
        assert_eq!(bench.wait(), [Action::Initialise]);
        assert_eq!(bench.on(Event::Initialised(Ok(()))), [Action::Read]);
        bench
    }
}

fn over(end: End) -> [Action; 2] {
    [Action::Cancel, Action::Over(end)]
}

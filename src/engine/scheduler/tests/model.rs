//! The scheduler against a naive model of order, superseding and finishing.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// What may be done with a scheduler.
#[derive(Debug, Clone)]
enum Step {
    Receive { gap: i64, resource: u8, kind: u8 },
    Start,
    Conclude { pick: usize, outcome: u8 },
    Checkpoint,
    Committed,
    Aborted,
    Pass(u64),
    Stop,
    GoOn,
    Crash { released: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1_i64..4, 0_u8..5, 0_u8..8).prop_map(|(gap, resource, kind)| Step::Receive { gap, resource, kind }),
        8 => Just(Step::Start),
        8 => (any::<usize>(), 0_u8..10).prop_map(|(pick, outcome)| Step::Conclude { pick, outcome }),
        3 => Just(Step::Checkpoint),
        4 => Just(Step::Committed),
        1 => Just(Step::Aborted),
        3 => (0_u64..200).prop_map(Step::Pass),
        1 => Just(Step::Stop),
        2 => Just(Step::GoOn),
        1 => any::<bool>().prop_map(|released| Step::Crash { released }),
    ]
}

/// A record, as the model knows it.
#[derive(Debug, Clone)]
struct Known {
    order: Order,
    /// Handled, skipped, or superseded in this tenure.
    finished: bool,
    started: bool,
    dead: bool,
}

/// The naive model: every record, and what is committed.
#[derive(Default)]
struct Naive {
    log: BTreeMap<i64, Known>,
    /// Where the tenure has read to.
    read: i64,
    running: BTreeSet<i64>,
    /// What the outstanding checkpoint would make durable: an offset, marks, dead letters.
    sent: Option<(NextOffset, Marks, Vec<i64>)>,
    durable: (i64, Marks),
    dead: BTreeMap<i64, usize>,
    stopped: bool,
}

impl Naive {
    fn is_durably_finished(&self, offset: i64) -> bool {
        offset < self.durable.0 || self.durable.1.finished.contains(at(offset))
    }

    fn resource(&self, offset: i64) -> Option<std::sync::Arc<str>> {
        match &self.log[&offset].order {
            Order::Handle { resource, .. } => Some(std::sync::Arc::clone(resource)),
            _ => None,
        }
    }

    /// Records of `resource` before `offset` that are read and not finished.
    fn before(&self, offset: i64, resource: &str) -> Option<i64> {
        let mut earlier = self.log.range(..offset).filter(|(_, known)| !known.finished);
        earlier
            .find(|(earlier, known)| match &known.order {
                Order::Handle { resource: other, .. } => {
                    &**other == resource && !self.is_durably_finished(**earlier)
                }
                _ => false,
            })
            .map(|(earlier, _)| *earlier)
    }

    fn receive(&mut self, bench: &mut Bench, offset: i64) -> Result<(), TestCaseError> {
        let order = self.log[&offset].order.clone();
        let superseded = match &order {
            Order::Handle { state: Some(key), .. } => self.superseded_by(offset, key),
            _ => None,
        };
        let received = bench.receive(offset, order.clone());
        if self.is_durably_finished(offset) {
            prop_assert_eq!(received, Received::Finished);
            return Ok(());
        }
        prop_assert_eq!(received, Received::Queued { superseded: superseded.is_some() });
        if let Some(older) = superseded {
            self.log.get_mut(&older).unwrap().finished = true;
        }
        Ok(())
    }

    /// The newest earlier state of that key that no predecessor finished, if it is queued and was never started
    /// in this tenure.
    fn superseded_by(&self, offset: i64, key: &[u8]) -> Option<i64> {
        let mut earlier = self.log.range(..offset).rev().filter(|(earlier, known)| match &known.order {
            Order::Handle { state: Some(other), .. } => {
                **other == *key && !self.is_durably_finished(**earlier)
            }
            _ => false,
        });
        let (older, known) = earlier.next()?;
        (!known.finished && !known.started).then_some(*older)
    }
}

fn order(resource: u8, kind: u8) -> Order {
    let resource = format!("r{resource}").into();
    match kind {
        0 => Order::Skip,
        1 => Order::Undecodable,
        2..4 => Order::Handle { state: Some(format!("{resource}/{kind}").into_bytes().into()), resource },
        _ => Order::Handle { resource, state: None },
    }
}

fn outcome(number: u8) -> Outcome {
    match number {
        0..5 => Outcome::Handled,
        5..8 => retry(),
        8 => reject(),
        _ => unavailable(),
    }
}

fn apply(bench: &mut Bench, naive: &mut Naive, step: Step) -> Result<(), TestCaseError> {
    match step {
        Step::Receive { gap, resource, kind } => {
            let offset = match naive.log.range(naive.read..).next() {
                Some((offset, _)) => *offset, // read again after a crash
                None => {
                    let known =
                        Known { order: order(resource, kind), finished: false, started: false, dead: false };
                    let offset = naive.read + gap;
                    naive.log.insert(offset, known);
                    offset
                }
            };
            naive.receive(bench, offset)?;
            naive.read = offset + 1;
        }
        Step::Start => {
            for (offset, attempt) in bench.starts() {
                prop_assert!(!naive.stopped, "{} started although stopped", offset);
                prop_assert!(attempt <= 3, "attempt {} of {}", attempt, offset);
                prop_assert!(!naive.log[&offset].finished && !naive.is_durably_finished(offset));
                let resource = naive.resource(offset).unwrap();
                prop_assert_eq!(naive.before(offset, &resource), None, "{} overtook", offset);
                prop_assert!(naive.running.insert(offset), "{} runs twice", offset);
                naive.log.get_mut(&offset).unwrap().started = true;
            }
            prop_assert!(naive.running.len() <= 3);
            // What was announced, or had no attempts left, is not skipped any more either.
            for offset in bench.scheduler.tracker.started() {
                naive.log.get_mut(&offset.get()).unwrap().started = true;
            }
        }
        Step::Conclude { pick, outcome: number } => {
            let running: Vec<i64> = naive.running.iter().copied().collect();
            if let Some(offset) = running.get(pick % running.len().max(1)) {
                naive.running.remove(offset);
                bench.conclude(*offset, outcome(number));
                naive.log.get_mut(offset).unwrap().finished |= number < 5;
            }
        }
        Step::Checkpoint if naive.sent.is_none() => checkpoint(bench, naive)?,
        Step::Committed => committed(bench, naive)?,
        Step::Aborted => {
            if naive.sent.take().is_some() {
                bench.scheduler.aborted();
            }
        }
        Step::Checkpoint => {}
        Step::Pass(deciseconds) => bench.now += Duration::from_millis(deciseconds * 100),
        Step::Stop => {
            bench.scheduler.stop();
            naive.stopped = true;
        }
        Step::GoOn => {
            bench.scheduler.go_on();
            naive.stopped = false;
        }
        Step::Crash { released } => crash(bench, naive, released),
    }
    let unfinished = naive
        .log
        .range(..naive.read)
        .filter(|(offset, known)| !known.finished && !known.dead && !naive.is_durably_finished(**offset));
    let skips = |known: &Known| known.order == Order::Skip;
    let (all, skipped) =
        unfinished.fold((0, 0), |(all, skipped), (_, known)| (all + 1, skipped + usize::from(skips(known))));
    let window = bench.scheduler.window().0;
    prop_assert!(window <= all && window >= all - skipped, "window {} of {}", window, all);
    Ok(())
}

fn checkpoint(bench: &mut Bench, naive: &mut Naive) -> Result<(), TestCaseError> {
    let checkpoint = bench.checkpoint();
    let dead: Vec<i64> = checkpoint.dead.iter().map(|dead| dead.offset.get()).collect();
    for (offset, known) in naive.log.range(..naive.read) {
        let passed = *offset < checkpoint.offset.get() || checkpoint.marks.finished.contains(at(*offset));
        let ended = known.finished
            || known.dead
            || known.order == Order::Skip
            || dead.contains(offset)
            || naive.is_durably_finished(*offset);
        prop_assert!(!passed || ended, "{} is passed and has not ended", offset);
        prop_assert!(passed || !ended || known.order == Order::Skip, "{} has ended and is not told", offset);
    }
    prop_assert!(dead.iter().all(|offset| !naive.running.contains(offset)));
    naive.sent = Some((checkpoint.offset, checkpoint.marks, dead));
    Ok(())
}

fn committed(bench: &mut Bench, naive: &mut Naive) -> Result<(), TestCaseError> {
    let Some((offset, marks, dead)) = naive.sent.take() else { return Ok(()) };
    bench.scheduler.committed();
    bench.committed = (offset, marks.clone());
    naive.durable = (offset.get(), marks);
    for offset in dead {
        let count = naive.dead.entry(offset).or_default();
        *count += 1;
        prop_assert_eq!(*count, 1, "{} is dead twice", offset);
        naive.log.get_mut(&offset).unwrap().dead = true;
        naive.log.get_mut(&offset).unwrap().finished = true;
    }
    Ok(())
}

/// The owner is gone; the next one goes on from what is durable.
fn crash(bench: &mut Bench, naive: &mut Naive, released: bool) {
    let (offset, marks) = bench.committed.clone();
    let end = to(naive.log.last_key_value().map_or(0, |(offset, _)| offset + 1));
    let cautious_until = if released { offset } else { end.max(offset) };
    let resume = Resume { offset, marks, cautious_until, ..fresh(0) };
    let now = bench.now;
    *bench = Bench::resumed(limits(3, 3), &resume);
    bench.now = now;
    naive.read = offset.get();
    naive.running.clear();
    naive.sent = None;
    naive.stopped = false;
    for (offset, known) in &mut naive.log {
        known.started = false;
        known.finished = *offset < naive.durable.0 || naive.durable.1.finished.contains(at(*offset));
    }
}

/// Until nothing is left: everything ends, whatever happened before.
fn finish(bench: &mut Bench, naive: &mut Naive) -> Result<(), TestCaseError> {
    apply(bench, naive, Step::GoOn)?;
    while naive.log.range(naive.read..).next().is_some() {
        apply(bench, naive, Step::Receive { gap: 1, resource: 0, kind: 0 })?;
    }
    for _ in 0..10_000 {
        if bench.scheduler.window().0 == 0 {
            break;
        }
        apply(bench, naive, Step::Start)?;
        for _ in 0..naive.running.len() {
            apply(bench, naive, Step::Conclude { pick: 0, outcome: 0 })?;
        }
        if naive.sent.is_none() {
            apply(bench, naive, Step::Checkpoint)?;
        }
        apply(bench, naive, Step::Committed)?;
        if let Some(until) = bench.scheduler.wake_at() {
            bench.now = bench.now.max(until);
        }
    }
    prop_assert_eq!(bench.scheduler.window(), (0, 0));
    prop_assert_eq!(bench.commit().0, naive.read.max(naive.durable.0));
    Ok(())
}

proptest! {
    #[test]
    fn any_course_of_events_keeps_order_commits_only_what_has_ended_and_comes_to_an_end(
        steps in proptest::collection::vec(step(), 0..250),
    ) {
        let mut bench = Bench::resumed(limits(3, 3), &fresh(0));
        let mut naive = Naive { durable: (0, Marks::default()), ..Naive::default() };
        for step in steps {
            apply(&mut bench, &mut naive, step)?;
        }
        finish(&mut bench, &mut naive)?;
    }
}

//! Owners that are stopped past their session time-out, and owners that are killed while they take over.

mod deferred;
mod ending;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use control_bus::{
    kafka::{Isolation, OffsetReader, Settings},
    model::{Bucket, Bus as Names},
};

use crate::{
    fleet::{Fleet, Random, STEP, assert_quick, long, pass},
    support::{
        kafka::shared,
        process::{Line, eventually},
    },
};

#[test]
fn an_owner_that_was_stopped_commits_nothing_more_and_recovers_by_itself() {
    let mut fleet = Fleet::new("stops", 2);
    let first = fleet.add("controller1");
    fleet.until_owners(|owners| owners == [first; 2]);
    fleet.until_handled(50);

    let paused = fleet.pause(first);
    let second = fleet.add("controller2");
    fleet.until_owners(|owners| owners == [second; 2]);
    let mut takeovers = Vec::new();
    for bucket in 0..2 {
        let (_, at) = fleet.until_acquired(bucket, 1);
        println!("bucket {bucket} was taken over after {:?}", at - paused);
        takeovers.push(at - paused);
    }
    fleet.until_handled(50);
    fleet.resume(first);
    // Woken up, it is a member again, and owns one of the two.
    fleet.until_owners(|owners| owners.contains(&first) && owners.contains(&second));
    fleet.until_handled(50);
    fleet.runs[first].until_ready(STEP);

    fleet.runs[second].terminate();
    assert_eq!(fleet.runs[second].exit_code(STEP), 0);
    fleet.until_owners(|owners| owners == [first; 2]);
    fleet.until_handled(50);
    fleet.runs[first].until_ready(STEP);
    assert!(fleet.runs[first].is_running(), "the same process");
    assert_quick(&takeovers);
    fleet.finish();
}

/// Its offset is hidden then: it was sent, and the transaction has not ended.
#[test]
fn an_owner_stopped_in_the_middle_of_a_transaction_holds_nobody_up() {
    let mut random = Random::new("stopped in a transaction");
    let mut fleet = Fleet::new("stops-transaction", 1);
    let kafka = Settings::new(shared(), "stops", BTreeMap::new(), false).unwrap();
    let names = Names::new(fleet.bus.name()).unwrap();
    let reader = OffsetReader::new(&kafka, &names.group(), Isolation::ReadCommitted, None).unwrap();
    let bucket = Bucket::from_partition(0).unwrap();
    let is_hidden = || reader.committed(&names.notifications(), bucket, Duration::from_millis(400)).is_err();
    for name in ["controller1", "controller2"] {
        fleet.add(name);
    }
    let rounds = if long() { 20 } else { 4 };
    let mut takeovers = Vec::new();
    for round in 0..rounds {
        fleet.until_handled(20);
        let (epoch, owner) = fleet.owners()[0].unwrap();
        let deadline = Instant::now() + STEP;
        let paused = loop {
            assert!(Instant::now() < deadline, "no stop was in the middle of a transaction");
            pass(random.time(Duration::from_millis(50)));
            let paused = fleet.pause(owner);
            if is_hidden() {
                break paused;
            }
            fleet.resume(owner);
        };
        let (next, at) = fleet.until_acquired(0, epoch);
        println!("round {round}: controller{} took over after {:?}", next + 1, at - paused);
        assert_ne!(next, owner);
        takeovers.push(at - paused);
        fleet.until_handled(20);
        fleet.resume(owner);
        let stopped = &fleet.runs[owner];
        // It has learnt of its loss when it says so; until then it is ready as well.
        eventually("the stopped one has learnt of it", STEP, &fleet.everyone(), || {
            let released = |line: &Line| line.json.get("released").is_some();
            stopped
                .with_lines(|lines| lines.iter().rev().any(|line| line.at >= paused && released(line)))
                .then_some(())
        });
        fleet.runs[owner].until_ready(STEP);
    }
    assert_quick(&takeovers);
    fleet.finish();
}

#[test]
fn an_owner_killed_while_it_takes_over_is_replaced() {
    let mut random = Random::new("killed while taking over");
    let mut fleet = Fleet::new("stops-takeover", 1);
    let mut standing = vec![fleet.add("controller1"), fleet.add("controller2"), fleet.add("controller3")];
    let rounds = if long() { 12 } else { 3 };
    let mut takeovers = Vec::new();
    for round in 0..rounds {
        fleet.until_handled(20);
        let (epoch, owner) = fleet.owners()[0].unwrap();
        standing.retain(|run| *run != owner);
        let before: Vec<usize> = standing.iter().map(|run| assigned(&fleet, *run)).collect();
        fleet.kill(owner);
        let heir = eventually("the bucket is assigned again", STEP, &fleet.everyone(), || {
            let mut heirs = standing.iter().zip(&before);
            heirs.find(|(run, before)| assigned(&fleet, **run) > **before).map(|(run, _)| *run)
        });
        pass(random.time(Duration::from_millis(300)));
        let killed = fleet.kill(heir);
        standing.retain(|run| *run != heir);
        let last = standing[0];
        let at = fleet.until_acquired_by(last, 0, epoch);
        let waited = at.saturating_duration_since(killed);
        println!("round {round}: taken over {waited:?} after the heir was killed");
        takeovers.push(waited);
        for name in ["a", "b"] {
            standing.push(fleet.add(&format!("controller-{round}{name}")));
        }
        fleet.runs[last].until_ready(STEP);
    }
    assert_quick(&takeovers);
    fleet.finish();
}

/// How often a run was assigned bucket 0.
fn assigned(fleet: &Fleet, run: usize) -> usize {
    let logs = fleet.runs[run].logs();
    let named = |log: &&serde_json::Value| {
        let text = log.to_string();
        text.contains("\"assigned\"") && text.contains("[0]")
    };
    logs.iter().filter(named).count()
}

//! Controllers that are told to end at a bad moment.

use std::time::{Duration, Instant};

use crate::{
    fleet::{BUSY, Fleet, Random, STEP, assert_quick, long, pass},
    support::{
        kafka::Cluster,
        process::{Bus, eventually},
    },
};

/// While it starts, joins, takes over, or hands over: it ends in good order, and soon somebody else has its buckets.
#[test]
fn a_controller_told_to_end_at_any_moment_of_its_start_ends_at_once() {
    let mut random = Random::new("told to end");
    let mut fleet = Fleet::new("stops-ends", 4);
    let first = fleet.add("controller0");
    fleet.until_owners(|owners| owners == [first; 4]);
    let rounds = if long() { 30 } else { 6 };
    let mut takeovers = Vec::new();
    for round in 1..=rounds {
        let run = fleet.add(&format!("controller{round}"));
        fleet.runs[run].monitoring();
        pass(random.time(Duration::from_millis(2500)));
        let told = Instant::now();
        fleet.runs[run].terminate();
        assert_eq!(fleet.runs[run].exit_code(STEP), 0);
        let took = told.elapsed();
        fleet.until_handled(5);
        let served = told.elapsed();
        println!("round {round}: ended after {took:?}, every bucket is served after {served:?}");
        assert!(took < BUSY, "{took:?}");
        takeovers.push(served);
    }
    assert_quick(&takeovers);
    fleet.finish();
}

#[test]
fn a_controller_told_to_end_while_kafka_is_away_ends_within_its_grace() {
    let cluster = Cluster::start(1, &[]);
    let bus = Bus::new("stops-away", cluster.bootstrap(), 2);
    let config = |name: &str| {
        bus.controller(name)
            .set("shutdown.drain", "2s")
            .set("shutdown.grace", "15s")
            .set("commit.interval", "10m")
            .set("group.session_timeout", "2s")
    };
    let mut first = config("controller1").start();
    let mut pod = bus.data_plane("dispatcher1").start();
    let lines = (0..20).map(|number| {
        format!(r#"{{"resource":"default/r{number}","type":"t","kind":"event","id":"{number}","data":1}}"#)
    });
    pod.feed(lines);
    first.until_count(20, STEP);
    cluster.stop_all();
    let told = Instant::now();
    first.terminate();
    assert_eq!(first.exit_code(STEP), 0, "{}", first.last_words());
    println!("ended after {:?}", told.elapsed());
    assert!(told.elapsed() < Duration::from_secs(15));

    cluster.restart_all();
    // What could not be committed comes again.
    let second = config("controller2").start();
    eventually("all is handled again", STEP, &[&second], || {
        (second.with_lines(|lines| lines.iter().filter(|line| line.is_message()).count()) >= 20).then_some(())
    });
}

//! A stop while a bucket is being given up: until it is, the client signals no loss.

use std::time::{Duration, Instant};

use crate::{
    fleet::{BUSY, SESSION, STEP},
    ledger,
    support::{
        kafka::shared,
        process::{Bus, Process, eventually},
    },
};

const SLOW: Duration = Duration::from_secs(8);

/// The bucket of each `acquired`, and how often.
fn acquired(process: &Process) -> [usize; 2] {
    let mut counts = [0; 2];
    process.with_lines(|lines| {
        for notice in lines.iter().filter_map(|line| line.json.get("acquired")) {
            counts[usize::try_from(notice["bucket"].as_u64().unwrap()).unwrap()] += 1;
        }
    });
    counts
}

/// Its handlers run on when it wakes up, and it has yet to learn that nothing is its own any more.
#[test]
fn an_owner_stopped_while_it_gives_a_bucket_up_recovers_by_itself() {
    let bus = Bus::new("stops-deferred", shared(), 2);
    let config = |name: &str, seconds: &str| {
        bus.controller(name)
            .set("group.session_timeout", format!("{} ms", SESSION.as_millis()))
            .set("group.heartbeat", "200ms")
            .set("shutdown.drain", "20s")
            .set("handler.command", vec!["sleep", seconds])
    };
    let mut first = config("controller1", &SLOW.as_secs().to_string()).start();
    let mut pod = bus.data_plane("dispatcher1").start();
    eventually("it owns both buckets", STEP, &[&first], || (acquired(&first) == [1, 1]).then_some(()));
    let line = |number: usize| {
        format!(r#"{{"resource":"default/r{number}","type":"t","kind":"event","id":"{number}","data":1}}"#)
    };
    pod.feed((0..8).map(line));
    eventually("its handlers run", STEP, &[&first], || {
        let running = |bucket| first.bucket_metric("in_flight_records", bucket) > 0.0;
        (running(0) && running(1)).then_some(())
    });
    let second = config("controller2", "0").start();
    eventually("a bucket is asked back", STEP, &[&first, &second], || {
        (first.metric("control_bus_rebalances_total{kind=\"revoked\"}") > 0.0).then_some(())
    });
    assert_eq!(acquired(&second), [0, 0], "it is being given up");
    let paused = Instant::now();
    first.pause();
    eventually("the other one owns both", STEP, &[&first, &second], || {
        (acquired(&second) == [1, 1]).then_some(())
    });
    let taken = paused.elapsed();
    first.resume();
    let resumed = Instant::now();
    eventually("it owns one again", STEP, &[&first, &second], || {
        (acquired(&first).iter().sum::<usize>() == 3).then_some(())
    });
    println!("taken over {taken:?} after the stop; a member again {:?} after it", resumed.elapsed());
    assert!(taken <= BUSY, "{taken:?}");
    assert!(resumed.elapsed() < SLOW + BUSY, "{:?}", resumed.elapsed());
    for process in [&first, &second] {
        process.until_ready(STEP);
    }
    let owned = |process: &Process| [0, 1].map(|bucket| process.bucket_metric("owned", bucket));
    eventually("each owns one", STEP, &[&first, &second], || {
        let (first, second) = (owned(&first), owned(&second));
        (first[0] + second[0] == 1.0 && first[1] + second[1] == 1.0 && first[0] != first[1]).then_some(())
    });
    ledger::assert_only_grows(shared(), &format!("{}.controllers", bus.name()));
    assert!(first.is_running());
}

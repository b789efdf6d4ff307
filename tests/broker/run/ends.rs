//! An orderly end, of both roles.

use std::time::Instant;

use nix::sys::signal::Signal;

use super::{SOON, buckets, event, handled, handled_by_a_successor, publish};
use crate::support::{kafka::shared, process::Bus};

#[test]
fn an_orderly_end_commits_and_releases_everything() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let bus = Bus::new("run-orderly", shared(), 2);
        let mut controller = bus.controller("controller1").set("commit.interval", "10m").start();
        controller.until_acquired(0, 0, SOON);
        controller.until_acquired(1, 0, SOON);
        publish(&bus, (0..200).map(|number| event(&format!("a/{number}"), &format!("e{number}"))));
        controller.until_count(200, SOON);
        let began = Instant::now();
        controller.signal(signal);
        assert_eq!(controller.exit_code(SOON), 0);
        let took = began.elapsed();
        assert!(took < SOON / 3, "{took:?} with nothing to wait for");
        let buckets = buckets(&bus);
        for bucket in &buckets {
            assert_eq!((&bucket["released"], &bucket["lag"]), (&true.into(), &0.into()), "{bucket}");
        }
        assert_eq!(buckets.len(), 2);
        publish(&bus, [event("a/0", "last")]);
        assert_eq!(handled_by_a_successor(&bus, "last"), ["last"]);
        assert_eq!(handled(&controller).len(), 200);
    }
}

#[test]
fn a_pod_that_is_told_to_end_answers_what_it_has_read() {
    let bus = Bus::new("run-pod-end", shared(), 1);
    let mut pod = bus.data_plane("dispatcher1").start();
    pod.feed((0..2000).map(|number| event("a/b", &format!("e{number}"))));
    pod.until_count(1, SOON);
    pod.terminate();
    let code = pod.exit_code(SOON);
    let answers = pod.lines();
    let refused = answers.iter().filter(|line| line.json.get("error").is_some()).count();
    assert_eq!(code, i32::from(refused > 0), "{refused} of {} refused", answers.len());
    assert!(refused <= 1, "a line that was read is answered, and at most one was not accepted");
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer.text_of("id"), format!("e{number}"));
    }
}

#[test]
fn a_controller_without_a_broker_is_not_ready_says_so_and_can_be_ended() {
    let bus = Bus::new("run-nobody", "127.0.0.1:1", 1);
    for config in [bus.controller("controller1"), bus.data_plane("dispatcher1")] {
        let mut process = config.start();
        process.until_logged("the topics cannot be verified yet", SOON);
        let reasons = process.unready();
        assert!(reasons[0].contains("127.0.0.1:1"), "{reasons:?}");
        assert_eq!(process.get("/livez").unwrap().0, 200);
        process.terminate();
        assert_eq!(process.exit_code(SOON), 0);
        assert_eq!(process.stdout(), "");
    }
}

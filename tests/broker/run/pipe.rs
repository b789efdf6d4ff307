//! A controller whose output is not read, or no longer there.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use super::{SOON, event, handled, handled_by_a_successor, publish, until_no_lag};
use crate::support::{
    kafka::shared,
    process::{Bus, eventually},
};

/// Events of many resources, with ids that begin with `prefix`.
fn events(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| event(&format!("a/{}", number % 40), &format!("{prefix}{number:05}"))).collect()
}

#[test]
fn a_full_pipe_is_backpressure_that_costs_neither_membership_nor_attempts_nor_messages() {
    let bus = Bus::new("run-full", shared(), 1);
    let (limit, session) = (300, Duration::from_secs(6));
    let mut controller = bus
        .controller("controller1")
        .set("bucket.max_records", limit)
        .set("group.session_timeout", "6s")
        .set("group.max_poll_interval", "6s")
        .set("shutdown.drain", "2s")
        .set("handler.timeout", "1s")
        .set("retry.attempts", 2)
        .set("retry.initial", "50ms")
        .start();
    controller.until_ready(SOON);
    controller.stop_reading();
    publish(&bus, events("e", 3000));
    let full = || (controller.bucket_metric("window_full", 0) == 1.0).then_some(());
    eventually("the window is full", SOON, &[&controller], full);
    let stuck = controller.bucket_metric("handled_records_total", 0);
    assert!(stuck < 2000.0, "{stuck} of 3000 were handled though nobody reads");

    // It stays so for longer than anything that would take the bucket away.
    let since = Instant::now();
    eventually("time passes", SOON, &[&controller], || {
        assert_eq!(controller.bucket_metric("window_full", 0), 1.0);
        assert_eq!(controller.unready(), [""; 0]);
        (since.elapsed() > session + Duration::from_secs(2)).then_some(())
    });
    assert!(
        controller.bucket_metric("window_records", 0) < f64::from(limit) + 600.0,
        "one batch more at most"
    );

    controller.read_on();
    controller.until_count(3000, SOON);
    let ids = handled(&controller);
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "nothing was written twice");
    assert_eq!(controller.metric("control_bus_rebalances_total{kind=\"lost\"}"), 0.0);
    assert_eq!(controller.metric("control_bus_rebalances_total{kind=\"revoked\"}"), 0.0);
    controller.with_lines(|lines| {
        assert!(lines.iter().skip(1).all(|line| line.number("epoch") == 1 && line.number("attempt") == 1));
    });
    controller.terminate();
    assert_eq!(controller.exit_code(SOON), 0);
}

#[test]
fn a_full_pipe_keeps_nobody_from_ending_it_or_from_taking_over() {
    let bus = Bus::new("run-stuck", shared(), 1);
    let (grace, count) = (Duration::from_secs(8), 3000);
    let config = bus.controller("controller1").set("bucket.max_records", 300);
    let mut controller = config.set("shutdown.drain", "1s").set("shutdown.grace", "8s").start();
    controller.until_ready(SOON);
    controller.stop_reading();
    publish(&bus, events("e", count));
    let full = || (controller.bucket_metric("window_full", 0) == 1.0).then_some(());
    eventually("the window is full", SOON, &[&controller], full);
    let began = Instant::now();
    controller.terminate();
    let successor = bus.controller("controller2").start();
    successor.until_acquired(0, 0, SOON);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "the bucket was handed over after {took:?}");
    let code = controller.exit_code(grace + Duration::from_secs(2));
    assert!(code == 0 || controller.stderr().contains("shutdown.grace"), "{code}");

    // What stands in the pipe was flushed, save for the last chunk; the rest is the successor's.
    controller.read_on();
    eventually("the pipe is read to its end", SOON, &[], || controller.is_read().then_some(()));
    let read = handled(&controller);
    until_no_lag(&bus, &successor);
    let again = handled(&successor);
    let line = controller.with_lines(|lines| lines[1].text.len());
    let on_its_way: BTreeSet<&String> = read.iter().rev().take(2 * 16 * 1024 / line).collect();
    let repeated: Vec<&String> =
        again.iter().filter(|id| read.contains(id) && !on_its_way.contains(id)).collect();
    assert_eq!(repeated, [""; 0], "of {} lines that were flushed", read.len());
    let known: BTreeSet<&String> = read.iter().chain(&again).collect();
    assert_eq!(known.len(), count, "{} read and {} of the successor", read.len(), again.len());
}

#[test]
fn a_closed_pipe_ends_it_with_1_and_a_successor_repeats_nothing_that_was_flushed() {
    let bus = Bus::new("run-closed", shared(), 1);
    // Nothing is committed by itself in the time that this takes.
    let mut controller = bus.controller("controller1").set("commit.interval", "10m").start();
    publish(&bus, events("flushed", 100));
    controller.until_count(100, SOON);
    controller.close_stdout();
    let after = events("after", 20);
    publish(&bus, &after);
    assert_eq!(controller.exit_code(SOON), 1);
    assert!(controller.stderr().contains("standard output is closed"), "{}", controller.stderr());

    let last = event("b/last", "last");
    publish(&bus, [last]);
    let found = handled_by_a_successor(&bus, "last");
    let mut expected: Vec<String> = (0..20).map(|number| format!("after{number:05}")).collect();
    expected.push("last".to_owned());
    assert_eq!(found, expected);
}

#[test]
fn a_pipe_that_closes_under_load_costs_at_most_what_was_on_its_way() {
    let bus = Bus::new("run-torn", shared(), 1);
    let mut controller = bus.controller("controller1").set("commit.interval", "10m").start();
    controller.until_ready(SOON);
    let count = 6000;
    publish(&bus, events("e", count));
    controller.until_count(500, SOON);
    controller.close_stdout();
    assert_eq!(controller.exit_code(SOON), 1);
    let read = handled(&controller);

    publish(&bus, [event("b/last", "last")]);
    let again: BTreeSet<String> = handled_by_a_successor(&bus, "last").into_iter().collect();
    // A chunk that the pipe took in part was not flushed: its lines come again. The pipe holds 64 KiB, a chunk 16.
    let line = controller.with_lines(|lines| lines[lines.len() - 1].text.len());
    let certain = &read[..read.len().saturating_sub(2 * 16 * 1024 / line)];
    let repeated: Vec<&String> = certain.iter().filter(|id| again.contains(*id)).collect();
    assert_eq!(repeated, [""; 0], "of {} lines that were flushed and read", certain.len());
    let known: BTreeSet<String> = read.iter().cloned().chain(again).collect();
    let unread = count + 1 - known.len();
    assert!(unread <= (64 + 16) * 1024 / line + 1, "{unread} lines are neither read nor handled again");
}

//! Whose turn it is.

use super::*;

#[test]
fn records_of_one_resource_are_handled_one_after_another() {
    let mut bench = Bench::new(MANY, 3);
    for offset in 0..4 {
        bench.event(offset, "a");
    }
    for offset in 0..4 {
        assert_eq!(bench.started(), [offset]);
        bench.handled(offset);
    }
    assert_eq!(bench.started(), NONE);
    assert_eq!(bench.commit(), (4, vec![]));
}

#[test]
fn no_more_than_the_cap_run_at_once_and_resources_take_turns() {
    let mut bench = Bench::new(2, 3);
    for (offset, resource) in ["a", "a", "a", "b", "b", "c"].into_iter().enumerate() {
        bench.event(i64::try_from(offset).unwrap(), resource);
    }
    let mut order = Vec::new();
    let mut running = bench.started();
    while !running.is_empty() {
        assert!(running.len() <= 2 && bench.scheduler.in_flight() == running.len());
        let first = running.remove(0);
        order.push(first);
        bench.handled(first);
        running.extend(bench.started());
    }
    // a, b and c in turn, although a has most.
    assert_eq!(order, [0, 3, 5, 1, 4, 2]);
}

#[test]
fn a_queued_state_is_skipped_for_a_newer_one_and_its_window_is_freed_at_once() {
    let mut bench = Bench::new(1, 3);
    bench.event(0, "busy");
    assert_eq!(bench.started(), [0]);
    assert_eq!(bench.state(1, "a", "k"), Received::Queued { superseded: false });
    assert_eq!(bench.scheduler.window(), (2, 20));
    assert_eq!(bench.state(2, "a", "k"), Received::Queued { superseded: true });
    assert_eq!(bench.scheduler.window(), (2, 20));
    assert_eq!(bench.state(3, "a", "other"), Received::Queued { superseded: false });
    bench.handled(0);
    assert_eq!(bench.commit(), (2, vec![]));
    assert_eq!(bench.started(), [2]);
}

#[test]
fn an_event_is_never_skipped() {
    let mut bench = Bench::new(1, 3);
    for offset in 0..3 {
        assert_eq!(bench.event(offset, "a"), Received::Queued { superseded: false });
    }
    bench.state(3, "a", "k");
    assert_eq!(bench.state(4, "a", "k"), Received::Queued { superseded: true });
    let mut order = Vec::new();
    while let Some(offset) = bench.started().first().copied() {
        order.push(offset);
        bench.handled(offset);
    }
    assert_eq!(order, [0, 1, 2, 4]);
}

#[test]
fn a_state_that_was_started_is_never_skipped() {
    let mut bench = Bench::new(1, 3);
    bench.state(0, "a", "k");
    assert_eq!(bench.started(), [0]);
    assert_eq!(bench.state(1, "a", "k"), Received::Queued { superseded: false });
    bench.conclude(0, retry());
    assert_eq!(bench.state(2, "a", "k"), Received::Queued { superseded: true });
    bench.commit();
    bench.wait();
    assert_eq!(bench.starts(), [(0, 2)]);
    bench.handled(0);
    assert_eq!(bench.started(), [2]);
}

#[test]
fn a_state_keeps_its_resources_turn_when_a_newer_one_takes_its_place() {
    let mut bench = Bench::new(1, 3);
    bench.event(0, "busy");
    assert_eq!(bench.started(), [0]);
    bench.state(1, "often", "k");
    for offset in 2..6 {
        bench.event(offset, &format!("other{offset}"));
    }
    bench.state(6, "often", "k");
    bench.handled(0);
    assert_eq!(bench.started(), [6], "a resource that is written often must not wait for ever");
}

#[test]
fn a_key_under_two_resources_harms_neither() {
    let mut bench = Bench::new(1, 3);
    bench.state(0, "a", "k");
    bench.event(1, "b");
    assert_eq!(bench.state(2, "b", "k"), Received::Queued { superseded: true });
    assert_eq!(bench.started(), [1]);
    bench.handled(1);
    assert_eq!(bench.started(), [2]);
    bench.handled(2);
    assert_eq!((bench.commit().0, bench.scheduler.resources()), (3, 0));
}

#[test]
fn what_comes_twice_is_taken_once() {
    let mut bench = Bench::resumed(limits(MANY, 3), &inherited(0, &[], &[(2, 3)]));
    bench.event(0, "a");
    assert_eq!(bench.event(0, "a"), Received::Repeated);
    bench.event(1, "b");
    assert_eq!(bench.event(2, "c"), Received::Finished);
    assert_eq!(bench.started(), [0, 1]);
    bench.handled(0);
    bench.handled(0);
    bench.handled(17);
    assert_eq!(bench.commit().0, 1);
    bench.handled(1);
    assert_eq!(bench.commit().0, 3);
}

#[test]
fn nothing_is_kept_of_resources_that_came_and_went() {
    let mut bench = Bench::new(16, 3);
    for offset in 0..100_000 {
        let key = format!("key{offset}");
        match offset % 4 {
            0 => bench.state(offset, &format!("r{offset}"), &key),
            1 => bench.receive(offset, Order::Skip),
            _ => bench.event(offset, &format!("r{offset}")),
        };
        for offset in bench.started() {
            bench.handled(offset);
        }
        if offset % 1000 == 0 {
            bench.commit();
        }
    }
    assert_eq!(bench.commit().0, 100_000);
    let scheduler = &bench.scheduler;
    assert_eq!((scheduler.window(), scheduler.resources(), scheduler.in_flight()), ((0, 0), 0, 0));
    assert!(scheduler.timers.is_empty() && scheduler.bypass.is_empty() && scheduler.marking.is_empty());
    assert!(scheduler.lanes.is_empty() && scheduler.staged.is_empty());
    assert_eq!((scheduler.dirty(bench.now), scheduler.wake_at()), (None, None));
    assert!(scheduler.records.capacity() < 4096);
}

#[test]
fn a_stopped_scheduler_starts_nothing_until_it_goes_on() {
    let mut bench = Bench::new(MANY, 3);
    bench.event(0, "a");
    bench.event(1, "b");
    assert_eq!(bench.started(), [0, 1]);
    bench.event(2, "a");
    bench.scheduler.stop();
    bench.handled(0);
    assert_eq!(bench.started(), NONE);
    assert!(!bench.scheduler.is_drained());
    bench.handled(1);
    assert!(bench.scheduler.is_drained());
    assert_eq!(bench.scheduler.wake_at(), None);
    bench.scheduler.go_on();
    assert_eq!(bench.started(), [2]);
}

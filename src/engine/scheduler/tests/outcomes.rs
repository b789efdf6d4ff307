//! What an outcome means for a record, its resource and its bucket.

use super::*;

#[test]
fn a_failed_record_holds_up_only_its_own_resource() {
    let mut bench = Bench::new(MANY, 3);
    bench.event(0, "a");
    bench.event(1, "a");
    bench.event(2, "b");
    bench.event(3, "b");
    assert_eq!(bench.started(), [0, 2]);
    bench.conclude(0, retry());
    bench.handled(2);
    assert_eq!(bench.started(), [3]);
    bench.handled(3);
    assert_eq!(bench.commit().0, 0);
}

#[test]
fn the_next_attempt_waits_for_its_time_and_for_its_count_to_be_durable() {
    let mut bench = Bench::new(MANY, 3);
    bench.event(0, "a");
    assert_eq!(bench.starts(), [(0, 1)]);
    bench.conclude(0, retry());
    // Before its count is durable no time is enough.
    bench.now += seconds(1000);
    assert_eq!(bench.starts(), []);
    assert_eq!(bench.scheduler.wake_at(), None);
    let aborted = bench.checkpoint();
    assert_eq!(aborted.marks.attempts[&at(0)], Attempts { count: 1, open: false });
    assert_eq!(bench.starts(), []);
    bench.scheduler.aborted();
    assert_eq!((bench.starts(), bench.scheduler.dirty(bench.now)), (vec![], Some(false)));
    bench.commit();
    assert_eq!(bench.starts(), [(0, 2)]);
    // And however durable, not before its time.
    bench.conclude(0, retry());
    bench.commit();
    assert_eq!(bench.starts(), []);
    let before = bench.now;
    bench.wait();
    assert!((seconds(1)..=seconds(2)).contains(&(bench.now - before)));
    assert_eq!(bench.starts(), [(0, 3)]);
}

#[test]
fn a_failure_that_came_after_a_checkpoint_was_made_waits_for_the_next_one() {
    let mut bench = Bench::new(MANY, 3);
    bench.event(0, "a");
    bench.event(1, "b");
    assert_eq!(bench.started(), [0, 1]);
    bench.handled(1);
    bench.checkpoint();
    bench.conclude(0, retry());
    bench.scheduler.committed();
    bench.now += seconds(1000);
    assert_eq!(bench.started(), NONE);
    assert_eq!(bench.scheduler.dirty(bench.now), Some(false));
    bench.commit();
    assert_eq!(bench.started(), [0]);
}

#[test]
fn used_up_attempts_end_in_one_dead_letter() {
    let mut bench = Bench::new(MANY, 3);
    bench.event(0, "a");
    bench.event(1, "a");
    for attempt in 1..=3 {
        assert_eq!(bench.starts(), [(0, attempt)]);
        bench.conclude(0, retry());
        if attempt < 3 {
            assert_eq!(bench.commit(), (0, vec![]));
            bench.wait();
        }
    }
    assert_eq!(bench.scheduler.dirty(bench.now), Some(true));
    let checkpoint = bench.checkpoint();
    let ending = Ending::Exhausted("it failed".to_owned());
    assert_eq!(checkpoint.dead, [Dead { offset: at(0), attempts: 3, ending, without_data: false }]);
    assert_eq!((checkpoint.offset, bench.started()), (to(1), vec![]));
    bench.scheduler.committed();
    assert_eq!(bench.starts(), [(1, 1)]);
    bench.handled(1);
    assert_eq!(bench.commit(), (2, vec![]));
}

#[test]
fn a_refused_record_is_dead_at_once() {
    let mut bench = Bench::new(MANY, 3);
    bench.event(0, "a");
    assert_eq!(bench.started(), [0]);
    bench.conclude(0, reject());
    let checkpoint = bench.checkpoint();
    let ending = Ending::Rejected("it is wrong".to_owned());
    assert_eq!(checkpoint.dead, [Dead { offset: at(0), attempts: 1, ending, without_data: false }]);
    bench.scheduler.committed();
    assert_eq!((bench.commit(), bench.scheduler.window()), ((1, vec![]), (0, 0)));
}

#[test]
fn with_the_handler_away_one_record_tries_again_at_growing_distances_and_none_is_charged() {
    let mut bench = Bench::new(MANY, 2);
    for offset in 0..5 {
        bench.event(offset, &format!("r{offset}"));
    }
    assert_eq!(bench.started(), [0, 1, 2, 3, 4]);
    for offset in [2, 0, 1, 3, 4] {
        bench.conclude(offset, unavailable());
    }
    assert_eq!(bench.scheduler.unavailable(), Some("nobody is there"));
    let mut waits = Vec::new();
    for _ in 0..7 {
        assert_eq!(bench.started(), NONE);
        let before = bench.now;
        bench.wait();
        waits.push(bench.now - before);
        let probe = bench.starts();
        assert!(probe.len() == 1 && probe[0].1 == 1, "{probe:?}");
        bench.conclude(probe[0].0, unavailable());
    }
    for (wait, whole) in waits.iter().zip([1, 2, 4, 8, 16, 32, 60]) {
        assert!(*wait >= seconds(whole) / 2 && *wait <= seconds(whole), "{waits:?}");
    }
    bench.wait();
    let probe = bench.started();
    assert_eq!(probe.len(), 1);
    bench.handled(probe[0]);
    assert_eq!(bench.scheduler.unavailable(), None);
    assert_eq!(bench.started().len(), 4);
    bench.commit();
    assert!(bench.tried().is_empty());
}

#[test]
fn any_other_outcome_says_that_the_handler_is_back() {
    for outcome in [Outcome::Handled, retry(), reject()] {
        let mut bench = Bench::new(MANY, 3);
        bench.event(0, "a");
        bench.event(1, "b");
        bench.event(2, "c");
        assert_eq!(bench.started(), [0, 1, 2]);
        bench.conclude(0, unavailable());
        assert_eq!(bench.started(), NONE);
        bench.conclude(1, outcome);
        assert_eq!(bench.started(), [0]);
    }
}

#[test]
fn a_failure_of_those_in_flight_does_not_lengthen_the_wait() {
    let mut bench = Bench::new(MANY, 3);
    for offset in 0..20 {
        bench.event(offset, &format!("r{offset}"));
    }
    for offset in bench.started() {
        bench.conclude(offset, unavailable());
    }
    let before = bench.now;
    bench.wait();
    assert!(bench.now - before <= seconds(1));
}

#[test]
fn a_wait_that_is_over_is_not_asked_for_again() {
    // The handler is away, the wait is over, and something else still keeps records from starting.
    let mut bench = Bench::resumed(limits(MANY, 5), &inherited(10, &[(0, 1, true)], &[]));
    bench.event(0, "a");
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.started(), [0]);
    bench.conclude(0, unavailable());
    bench.checkpoint(); // its outcome must be durable before anything else starts, and that takes time
    bench.wait();
    assert_eq!(bench.started(), NONE);
    assert_eq!(bench.scheduler.wake_at(), None, "a time that is over would be asked for without end");
    bench.scheduler.committed();
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.started(), [0]);
}

#[test]
fn a_stopped_scheduler_waits_for_no_time() {
    let mut bench = Bench::new(MANY, 3);
    bench.event(0, "a");
    bench.event(1, "b");
    assert_eq!(bench.started(), [0, 1]);
    bench.conclude(0, unavailable());
    bench.scheduler.stop();
    assert_eq!(bench.scheduler.wake_at(), None);
    bench.handled(1);
    assert!(bench.scheduler.is_drained());
}

#[test]
fn cancelling_charges_nobody_and_ignores_what_comes_later() {
    let mut bench = Bench::resumed(limits(MANY, 3), &inherited(10, &[(1, 1, false)], &[]));
    bench.event(0, "a");
    bench.event(1, "b");
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.starts(), [(0, 1), (1, 2)]);
    bench.scheduler.stop();
    bench.scheduler.cancel();
    bench.handled(0);
    assert!(bench.scheduler.is_drained());
    bench.commit();
    assert_eq!(bench.tried(), BTreeMap::from([(1, (1, false))]));
    assert_eq!(bench.committed.0, to(0));
}

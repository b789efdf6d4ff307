//! What is on its way to the dead letters.

use super::*;

#[test]
fn a_tombstone_holds_nothing_up() {
    let mut bench = Bench::new(1, 3);
    bench.event(0, "a");
    assert_eq!(bench.started(), [0]);
    for offset in 1..10 {
        bench.receive(offset, Order::Skip);
    }
    assert_eq!(bench.started(), NONE);
    assert_eq!(bench.scheduler.window().0, 1);
    assert_eq!(bench.commit(), (0, vec![]));
    bench.handled(0);
    assert_eq!(bench.commit(), (10, vec![]));
}

#[test]
fn what_cannot_be_decoded_is_dead_without_holding_others_up() {
    let mut bench = Bench::new(1, 3);
    bench.receive(0, Order::Undecodable);
    bench.event(1, "a");
    bench.event(2, "b");
    assert_eq!(bench.started(), [1]);
    assert_eq!(bench.scheduler.dirty(bench.now), Some(true));
    let checkpoint = bench.checkpoint();
    let ending = Ending::Undecodable;
    assert_eq!(checkpoint.dead, [Dead { offset: at(0), attempts: 0, ending, without_data: false }]);
    bench.handled(1);
    assert_eq!(bench.started(), [2]);
    bench.scheduler.committed();
    assert_eq!(bench.commit(), (2, vec![]));
}

#[test]
fn its_resource_waits_until_a_dead_letter_is_durable() {
    let mut bench = Bench::new(MANY, 3);
    bench.event(0, "a");
    bench.event(1, "a");
    assert_eq!(bench.started(), [0]);
    bench.conclude(0, reject());
    assert_eq!(bench.started(), NONE);
    bench.checkpoint();
    assert_eq!(bench.started(), NONE);
    bench.scheduler.committed();
    assert_eq!(bench.started(), [1]);
}

#[test]
fn an_aborted_dead_letter_goes_with_the_next_checkpoint() {
    let mut bench = Bench::new(MANY, 3);
    bench.event(0, "a");
    assert_eq!(bench.started(), [0]);
    bench.conclude(0, reject());
    assert_eq!(bench.checkpoint().dead.len(), 1);
    assert_eq!(bench.scheduler.dirty(bench.now), None);
    bench.scheduler.aborted();
    assert_eq!(bench.scheduler.dirty(bench.now), Some(true));
    assert!(!bench.scheduler.is_drained());
    assert_eq!(bench.commit(), (1, vec![0]));
    assert!(bench.scheduler.is_drained());
}

#[test]
fn one_that_is_too_large_goes_without_its_data() {
    let mut bench = Bench::new(MANY, 3);
    bench.event(0, "a");
    bench.event(1, "b");
    assert_eq!(bench.started(), [0, 1]);
    bench.conclude(0, reject());
    bench.checkpoint();
    bench.scheduler.refused(bench.now, at(0), true, "too large".to_owned());
    bench.scheduler.aborted();
    assert_eq!((bench.scheduler.unavailable(), bench.scheduler.dirty(bench.now)), (None, Some(true)));
    let checkpoint = bench.checkpoint();
    assert_eq!((checkpoint.dead.len(), checkpoint.dead[0].without_data), (1, true));
    // Too large even so: nothing is left to be done but waiting.
    bench.scheduler.refused(bench.now, at(0), true, "too large".to_owned());
    bench.scheduler.aborted();
    assert_eq!(bench.scheduler.unavailable(), Some("too large"));
}

#[test]
fn while_dead_letters_are_refused_the_bucket_waits_and_goes_on_by_itself() {
    let mut bench = Bench::new(MANY, 3);
    bench.event(0, "a");
    bench.event(1, "b");
    bench.event(2, "b");
    assert_eq!(bench.started(), [0, 1]);
    bench.conclude(0, reject());
    for failures in 0..4 {
        assert_eq!(bench.checkpoint().dead.len(), 1);
        bench.scheduler.refused(bench.now, at(0), false, "not allowed".to_owned());
        bench.scheduler.aborted();
        if failures == 0 {
            bench.handled(1);
        }
        // Held: progress is committed without it, and nothing starts.
        assert_eq!((bench.started(), bench.scheduler.unavailable()), (vec![], Some("not allowed")));
        assert_eq!(bench.scheduler.dirty(bench.now), Some(false));
        assert_eq!(bench.commit(), (0, vec![]));
        assert_eq!(bench.scheduler.dirty(bench.now), None);
        let before = bench.now;
        bench.wait();
        assert!(bench.now - before >= seconds(1 << failures) / 2);
        assert_eq!(bench.scheduler.dirty(bench.now), Some(true));
        assert_eq!(bench.started(), NONE);
    }
    assert_eq!(bench.checkpoint().dead.len(), 1);
    assert_eq!(
        (bench.started(), bench.scheduler.wake_at()),
        (vec![], None),
        "the transaction takes its time"
    );
    bench.scheduler.committed();
    assert_eq!((bench.started(), bench.scheduler.unavailable()), (vec![2], None));
    assert_eq!(bench.commit(), (2, vec![]));
}

#[test]
fn many_dead_letters_go_in_transactions_of_a_bounded_size() {
    let mut bench = Bench::new(MANY, 3);
    for offset in 0..450 {
        bench.receive(offset, Order::Undecodable);
    }
    assert_eq!(bench.started(), NONE);
    let mut sizes = Vec::new();
    while bench.scheduler.dirty(bench.now) == Some(true) {
        sizes.push(bench.commit().1.len());
    }
    assert_eq!((sizes, bench.commit()), (vec![200, 200, 50], (450, vec![])));
}

#[test]
fn a_dead_letter_in_an_outstanding_checkpoint_is_not_urgent_twice() {
    let mut bench = Bench::new(MANY, 3);
    bench.event(0, "a");
    bench.event(1, "b");
    assert_eq!(bench.started(), [0, 1]);
    bench.conclude(0, reject());
    bench.checkpoint();
    assert_eq!(bench.scheduler.dirty(bench.now), None);
    bench.conclude(1, reject());
    assert_eq!(bench.scheduler.dirty(bench.now), Some(true));
    bench.scheduler.committed();
    assert_eq!(bench.commit(), (2, vec![1]));
}

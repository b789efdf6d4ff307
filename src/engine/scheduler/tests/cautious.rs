//! After an owner that did not release the bucket.

use super::*;

#[test]
fn after_a_release_attempts_are_not_announced() {
    let mut bench = Bench::new(MANY, 3);
    bench.event(0, "a");
    assert_eq!(bench.started(), [0]);
    assert_eq!(bench.scheduler.dirty(bench.now), None);
}

#[test]
fn without_a_release_no_record_starts_before_its_attempt_is_durable() {
    let mut bench = Bench::resumed(limits(MANY, 3), &inherited(2, &[], &[]));
    bench.event(0, "a");
    bench.event(1, "b");
    assert_eq!((bench.started(), bench.scheduler.dirty(bench.now)), (vec![], Some(true)));
    let checkpoint = bench.checkpoint();
    assert_eq!(checkpoint.marks.attempts.len(), 2, "announced in one batch");
    assert_eq!((bench.started(), bench.scheduler.dirty(bench.now)), (vec![], None));
    bench.scheduler.aborted();
    assert_eq!((bench.started(), bench.scheduler.dirty(bench.now)), (vec![], Some(true)));
    bench.commit();
    assert_eq!(bench.tried(), BTreeMap::from([(0, (1, true)), (1, (1, true))]));
    assert_eq!(bench.starts(), [(0, 1), (1, 1)]);
    bench.handled(0);
    bench.handled(1);
    // The same transaction carries outcomes and announcements.
    bench.event(2, "c");
    assert_eq!(bench.started(), NONE);
    assert_eq!((bench.commit().0, bench.tried()), (2, BTreeMap::from([(2, (1, true))])));
    assert_eq!(bench.started(), [2]);
    // The committed offset has passed the end as it was at the takeover: no more caution.
    bench.event(3, "d");
    assert_eq!(bench.started(), [3]);
}

#[test]
fn what_may_have_been_started_before_is_called_redelivered() {
    let mut bench = Bench::resumed(limits(MANY, 3), &inherited(1, &[], &[]));
    bench.event(0, "a");
    assert!(bench.scheduler.next(bench.now).is_none());
    bench.commit();
    assert!(bench.scheduler.next(bench.now).unwrap().redelivered);
    bench.handled(0);
    bench.commit();
    bench.event(1, "a");
    assert!(!bench.scheduler.next(bench.now).unwrap().redelivered);
    bench.conclude(1, retry());
    bench.commit();
    bench.wait();
    assert!(bench.scheduler.next(bench.now).unwrap().redelivered);
}

#[test]
fn an_attempt_without_an_outcome_is_repeated_alone() {
    let mut bench = Bench::resumed(limits(MANY, 5), &inherited(10, &[(1, 1, true), (2, 1, false)], &[]));
    for offset in 0..4 {
        bench.event(offset, &format!("r{offset}"));
    }
    // 0 has its turn first; 1 waits until it has ended, and nobody overtakes it.
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.starts(), [(0, 1)]);
    bench.handled(0);
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.tried(), BTreeMap::from([(1, (2, true)), (2, (1, false))]));
    assert_eq!(bench.starts(), [(1, 2)]);
    bench.conclude(1, retry());
    assert_eq!(bench.starts(), [], "its outcome is not durable yet");
    assert_eq!(bench.scheduler.dirty(bench.now), Some(true));
    bench.commit();
    // Now it is one that failed, like others.
    assert_eq!(bench.tried()[&1], (2, false));
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.starts(), [(2, 2), (3, 1)]);
}

#[test]
fn a_mark_of_its_own_is_respected_after_a_release_too() {
    let resume = Resume { cautious_until: to(0), ..inherited(0, &[(1, 1, true)], &[]) };
    let mut bench = Bench::resumed(limits(MANY, 5), &resume);
    bench.event(0, "a");
    bench.event(1, "b");
    bench.event(2, "c");
    assert_eq!(bench.started(), [0]);
    bench.handled(0);
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.starts(), [(1, 2)]);
}

#[test]
fn a_record_that_kills_its_owners_runs_out_of_attempts_and_no_other_is_charged_for_it() {
    let attempts = 4;
    let mut bench = Bench::resumed(limits(MANY, attempts), &inherited(1000, &[], &[]));
    let mut kills = 0;
    loop {
        for offset in bench.committed.0.get()..6 {
            bench.event(offset, &format!("r{offset}"));
        }
        let mut alive = true;
        while alive && (bench.scheduler.window().0 > 0 || bench.scheduler.dirty(bench.now).is_some()) {
            let started = bench.started();
            for offset in started {
                alive &= offset != 3;
                if alive {
                    bench.handled(offset);
                }
            }
            if alive {
                let (_, dead) = bench.commit();
                assert!(dead.is_empty() || dead == [3]);
            }
        }
        if alive {
            break;
        }
        kills += 1;
        let innocent = bench.tried().into_iter().filter(|(offset, _)| *offset != 3).map(|(_, tried)| tried.0);
        assert!(innocent.into_iter().all(|count| count == 1), "{:?}", bench.tried());
        bench = bench.next_owner(attempts, false);
    }
    assert_eq!((kills, bench.committed.0), (attempts, to(6)));
}

#[test]
fn used_up_by_kills_is_said_so() {
    let mut bench = Bench::resumed(limits(MANY, 3), &inherited(10, &[(0, 3, true), (1, 3, false)], &[]));
    bench.event(0, "a");
    bench.event(1, "b");
    assert_eq!(bench.started(), NONE);
    let dead = bench.checkpoint().dead;
    let reasons: Vec<_> = dead.iter().map(|dead| (&dead.ending, dead.attempts)).collect();
    let (Ending::Exhausted(killed), 3) = reasons[0] else { panic!("{dead:?}") };
    let (Ending::Exhausted(failed), 3) = reasons[1] else { panic!("{dead:?}") };
    assert!(killed.contains("owner ended") && !failed.contains("owner ended"), "{killed} / {failed}");
}

#[test]
fn stopping_takes_announced_attempts_back() {
    let marks = [(0, 2, true), (1, 1, false)];
    let mut bench = Bench::resumed(limits(MANY, 9), &inherited(10, &marks, &[]));
    bench.event(0, "a");
    bench.event(1, "b");
    bench.event(2, "c");
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.tried()[&0], (3, true));
    bench.scheduler.stop();
    assert_eq!((bench.started(), bench.scheduler.is_drained()), (vec![], true));
    bench.commit();
    assert_eq!(bench.tried(), BTreeMap::from([(0, (2, true)), (1, (1, false))]), "as it was before");
    // And when it goes on after all, the first is still to run alone.
    bench.scheduler.go_on();
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.starts(), [(0, 3)]);
}

#[test]
fn several_announced_attempts_are_taken_back() {
    let mut bench = Bench::resumed(limits(MANY, 9), &inherited(10, &[(1, 1, false)], &[]));
    for offset in 0..3 {
        bench.event(offset, &format!("r{offset}"));
    }
    assert_eq!(bench.started(), NONE);
    bench.commit();
    bench.scheduler.stop();
    bench.commit();
    assert_eq!(bench.tried(), BTreeMap::from([(1, (1, false))]));
}

#[test]
fn an_attempt_that_found_the_handler_away_leaves_the_mark_that_was_there() {
    let mut bench = Bench::resumed(limits(MANY, 9), &inherited(10, &[(0, 2, true)], &[]));
    bench.event(0, "a");
    bench.event(1, "b");
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.starts(), [(0, 3)]);
    bench.conclude(0, unavailable());
    bench.commit();
    assert_eq!(bench.tried(), BTreeMap::from([(0, (2, true))]));
    bench.wait();
    // It is the probe, and alone again.
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.starts(), [(0, 3)]);
    bench.handled(0);
    bench.commit();
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.started(), [1]);
}

#[test]
fn announced_attempts_do_not_begin_while_the_handler_is_away() {
    let mut bench = Bench::resumed(limits(MANY, 9), &inherited(10, &[], &[]));
    bench.event(0, "a");
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.started(), [0]);
    bench.event(1, "b");
    assert_eq!(bench.started(), NONE);
    bench.checkpoint();
    bench.conclude(0, unavailable());
    bench.scheduler.committed();
    assert_eq!(bench.started(), NONE, "one probe at a time, and its time has not come");
    bench.commit();
    assert!(bench.tried().is_empty());
    bench.wait();
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.started().len(), 1);
}

#[test]
fn caution_outlasts_an_owner_that_released_before_it_was_through() {
    let mut bench = Bench::resumed(limits(MANY, 3), &inherited(2, &[], &[]));
    bench.event(0, "a");
    bench.event(1, "a");
    assert!(bench.checkpoint().cautious_until.is_some());
    bench.scheduler.aborted();
    assert_eq!(bench.started(), NONE);
    bench.commit();
    for (offset, cautious) in [(0, true), (1, false)] {
        assert_eq!(bench.started(), [offset]);
        bench.handled(offset);
        assert_eq!(bench.checkpoint().cautious_until.is_some(), cautious);
        bench.scheduler.committed();
    }
}

#[test]
fn a_resource_with_many_records_does_not_wait_for_a_transaction_before_each() {
    let mut bench = Bench::resumed(limits(MANY, 3), &inherited(100, &[], &[]));
    for offset in 0..40 {
        bench.event(offset, "a");
    }
    let mut transactions = 0;
    for offset in 0..40 {
        let mut started = bench.started();
        if started.is_empty() {
            bench.commit();
            transactions += 1;
            started = bench.started();
        }
        assert_eq!(started, [offset]); // in order, one after another
        bench.handled(offset);
    }
    assert_eq!(transactions, 3);
}

#[test]
fn what_is_announced_before_its_turn_is_taken_back_when_it_does_not_come() {
    let mut bench = Bench::resumed(limits(MANY, 3), &inherited(100, &[], &[]));
    for offset in 0..5 {
        bench.event(offset, "a");
    }
    assert_eq!(bench.started(), NONE);
    bench.commit();
    assert_eq!(bench.started(), [0]);
    assert_eq!(bench.checkpoint().marks.attempts.len(), 5);
    bench.scheduler.committed();
    bench.scheduler.stop();
    assert_eq!(bench.checkpoint().marks.attempts.len(), 1);
}

#[test]
fn nothing_is_announced_before_its_turn_where_one_attempt_is_all_there_is() {
    let mut bench = Bench::resumed(limits(MANY, 1), &inherited(100, &[], &[]));
    bench.event(0, "a");
    bench.event(1, "a");
    assert_eq!(bench.started(), NONE);
    assert_eq!(bench.checkpoint().marks.attempts.len(), 1);
}

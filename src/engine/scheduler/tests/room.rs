//! The commit metadata never grows too long, and a bucket never locks itself up for want of room in it.
//! (`Bench::checkpoint` checks every text's length.)

use super::*;

/// Handles what may start until nothing more does.
fn run(bench: &mut Bench) {
    while let Some(start) = bench.scheduler.next(bench.now) {
        bench.handled(start.item);
    }
}

/// Handles and commits until nothing is left.
fn finish(bench: &mut Bench) {
    let mut before = usize::MAX;
    while bench.scheduler.window().0 > 0 {
        assert!(bench.scheduler.window().0 < before, "the bucket is locked up");
        before = bench.scheduler.window().0;
        run(bench);
        bench.commit();
    }
}

#[test]
fn a_stuck_head_with_thousands_of_followers_stops_the_bucket_before_the_text_is_too_long() {
    let mut bench = Bench::new(16, 5);
    bench.event(0, "stuck");
    assert_eq!(bench.started(), [0]);
    bench.conclude(0, retry());
    // Sparse, so that every one that ends is a range of its own.
    for index in 1..20_000_i64 {
        bench.event(index * 200, &format!("r{}", index % 50));
        if index % 2 == 0 {
            bench.event(index * 200 + 1, "stuck");
        }
        run(&mut bench);
        if index % 100 == 0 {
            bench.commit();
        }
    }
    assert!(bench.scheduler.window().0 > 10_000, "the bucket waits");
    assert!(bench.committed.1.finished.len() > 500, "but not before there is no more room");
    // The head's own attempts are never kept waiting by that.
    for attempt in 2..=3 {
        bench.wait();
        assert_eq!(bench.starts(), [(0, attempt)]);
        bench.conclude(0, retry());
        bench.commit();
    }
    bench.wait();
    assert_eq!(bench.starts(), [(0, 4)]);
    bench.handled(0);
    finish(&mut bench);
    assert_eq!((bench.scheduler.window().0, bench.commit().0), (0, 19_999 * 200 + 1));
}

#[test]
fn a_gap_in_the_log_does_not_lengthen_the_text_beyond_what_was_allowed_for() {
    let mut bench = Bench::new(16, 5);
    bench.event(0, "stuck");
    assert_eq!(bench.started(), [0]);
    // Every second record ends: as bits that is short, as ranges it is not.
    for index in 1..9_000 {
        bench.event(index, if index % 2 == 0 { "stuck" } else { "r" });
        run(&mut bench);
    }
    bench.commit();
    assert_eq!(bench.committed.1.finished.len(), 4500);
    bench.event(10_000_000, "r");
    assert_eq!(bench.started(), NONE);
    bench.commit();
    bench.handled(0);
    finish(&mut bench);
    assert_eq!(bench.commit().0, 10_000_001);
}

#[test]
fn the_record_at_the_head_always_gets_its_turn() {
    let mut bench = Bench::new(2, 5);
    bench.event(0, "slow");
    bench.event(1, "slow");
    assert_eq!(bench.started(), [0]);
    let mut last = 1;
    for index in 1..5_000_i64 {
        last = index * 300;
        bench.event(last, &format!("r{index}"));
        run(&mut bench);
    }
    // Many others wait before it for their turn, and none of them has room.
    bench.handled(0);
    finish(&mut bench);
    assert_eq!((bench.scheduler.window().0, bench.commit().0), (0, last + 1));
}

#[test]
fn a_head_behind_others_in_the_turn_is_started_when_only_it_can_make_room() {
    let mut bench = Bench::new(MANY, 1_000_000);
    bench.event(0, "head");
    assert_eq!(bench.started(), [0]);
    bench.conclude(0, retry());
    bench.commit();
    for index in 1..5_000_i64 {
        bench.event(index * 300, &format!("r{index}"));
        run(&mut bench);
    }
    // Its retry is released to the end of the turn, behind thousands for which there is no room.
    bench.wait();
    assert_eq!(bench.starts(), [(0, 2)]);
    bench.handled(0);
    finish(&mut bench);
    assert_eq!(bench.scheduler.window().0, 0);
}

#[test]
fn a_new_owner_of_a_full_text_can_start_the_head() {
    let mut bench = Bench::new(MANY, 100);
    bench.event(0, "head");
    assert_eq!(bench.started(), [0]);
    bench.conclude(0, retry());
    let mut offsets = vec![0];
    for index in 1..3_000_i64 {
        offsets.push(index * 300);
        bench.event(index * 300, &format!("r{index}"));
        for offset in bench.started() {
            match offset % 900 {
                0 => bench.conclude(offset, retry()),
                _ => bench.handled(offset),
            }
        }
        bench.commit();
    }
    for released in [true, false] {
        let (offset, marks) = bench.committed.clone();
        let copy = Bench {
            scheduler: Scheduler::resume(limits(1, 1), &fresh(0), 0),
            now: bench.now,
            committed: (offset, marks),
        };
        let mut next = copy.next_owner(100, released);
        for offset in &offsets {
            next.event(*offset, &format!("r{offset}"));
        }
        let mut rounds = 0;
        while next.scheduler.window().0 > 0 {
            for offset in next.started() {
                next.handled(offset);
            }
            next.commit();
            rounds += 1;
            assert!(rounds < 10_000, "the bucket is locked up");
        }
    }
}

#[test]
fn marks_of_records_that_compaction_removed_do_not_take_room_for_ever() {
    let tried: Vec<(i64, u32, bool)> = (1..800).map(|offset| (offset, 2, false)).collect();
    let mut bench = Bench::resumed(limits(MANY, 5), &inherited(0, &tried, &[]));
    bench.event(0, "a");
    assert_eq!(bench.started(), [0]);
    bench.handled(0);
    bench.event(5_000, "b");
    assert_eq!(bench.commit().0, 5_000);
    assert!(bench.committed.1.attempts.is_empty());
    for offset in 5_001..5_800 {
        bench.event(offset, &format!("r{offset}"));
    }
    assert_eq!(bench.started().len(), 800, "there is as much room as in a new bucket");
}

#[test]
fn a_bucket_of_nothing_but_tombstones_and_undecodable_records_ends() {
    let mut bench = Bench::new(1, 3);
    bench.event(0, "slow");
    assert_eq!(bench.started(), [0]);
    for index in 1..4_000_i64 {
        bench.receive(index * 500, if index % 3 == 0 { Order::Undecodable } else { Order::Skip });
        bench.event(index * 500 + 7, "slow");
        if index % 400 == 0 {
            assert_eq!(bench.started(), NONE);
            bench.commit();
        }
    }
    bench.handled(0);
    finish(&mut bench);
}

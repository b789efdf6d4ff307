//! The tracker against a naive one, and against the limit of what can be written.

use proptest::prelude::*;

use super::*;
use crate::{
    engine::{CommitMetadata, ParsedMetadata},
    model::{Epoch, TransactionSequence},
};

fn at(offset: i64) -> RecordOffset {
    RecordOffset::new(offset).unwrap()
}

fn next(offset: i64) -> NextOffset {
    NextOffset::new(offset).unwrap()
}

#[test]
fn commit_never_passes_an_unfinished_record() {
    let mut tracker = Tracker::resume(next(10), Marks::default());
    for offset in [10, 12, 13] {
        assert_eq!(tracker.receive(at(offset)), Receipt::New);
        tracker.start(at(offset));
    }
    tracker.finish(at(13));
    assert_eq!(tracker.committable(), next(10));
    tracker.finish(at(10));
    assert_eq!(tracker.committable(), next(12));
    tracker.finish(at(12));
    assert_eq!(tracker.committable(), next(14));
    assert!(tracker.commit(&BTreeSet::new()).1.finished.is_empty());
}

#[test]
fn marks_of_records_not_yet_read_again_are_kept() {
    let mut marks = Marks::default();
    marks.finished.insert(next(15), next(17));
    marks.attempts.insert(at(12), Attempts { count: 2, open: true });
    let mut tracker = Tracker::resume(next(10), marks.clone());
    tracker.receive(at(10));
    tracker.start(at(10));
    tracker.finish(at(10));
    assert_eq!(tracker.commit(&BTreeSet::new()), (next(11), marks));
    tracker.receive(at(12));
    assert_eq!(tracker.receive(at(15)), Receipt::Finished);
    assert_eq!(tracker.receive(at(12)), Receipt::Repeated);
}

#[test]
fn a_sparse_log_makes_one_range_of_neighbours() {
    let mut tracker = Tracker::resume(next(0), Marks::default());
    for offset in (0..1000).map(|index| index * 1000) {
        tracker.receive(at(offset));
        assert!(tracker.admits(at(offset)), "{offset}");
        tracker.start(at(offset));
        if offset > 0 {
            tracker.finish(at(offset));
        }
    }
    assert_eq!(tracker.commit(&BTreeSet::new()).1.finished.len(), 1);
}

#[test]
fn there_is_always_room_for_the_head() {
    let mut tracker = Tracker::resume(next(0), Marks::default());
    tracker.receive(at(0));
    let mut offset = 300;
    loop {
        tracker.receive(at(offset));
        if !tracker.admits(at(offset)) {
            break;
        }
        tracker.start(at(offset));
        offset += 300;
    }
    let (started, span) = (tracker.started.len(), tracker.committable().distance_to(tracker.reach));
    assert!(started > 300 && tracker.admits(at(0)));
    assert!(worst_case(started + 1, 0, tracker.finished.len(), span) <= LIMIT);
}

proptest! {
    /// Against a naive model: sets of offsets.
    #[test]
    fn the_tracker_says_what_a_naive_one_says(
        gaps in proptest::collection::vec(1_i64..5, 1..120),
        steps in proptest::collection::vec((0_usize..120, 0_u8..4), 0..300),
    ) {
        let offsets: Vec<i64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
        let mut tracker = Tracker::resume(next(0), Marks::default());
        let (mut received, mut started, mut finished) = (0, BTreeSet::new(), BTreeSet::new());
        for (pick, step) in steps {
            match step {
                0 if received < offsets.len() => {
                    prop_assert_eq!(tracker.receive(at(offsets[received])), Receipt::New);
                    received += 1;
                }
                1 if pick < received && !finished.contains(&offsets[pick]) && tracker.admits(at(offsets[pick])) => {
                    tracker.start(at(offsets[pick]));
                    started.insert(offsets[pick]);
                }
                2 if pick < received && started.remove(&offsets[pick]) => {
                    tracker.finish(at(offsets[pick]));
                    finished.insert(offsets[pick]);
                }
                3 if pick < received && started.contains(&offsets[pick]) => {
                    tracker.set_attempts(at(offsets[pick]), Some(Attempts { count: 8191, open: true }));
                }
                _ => {}
            }
            let expected = offsets[..received].iter().find(|offset| !finished.contains(offset)).copied()
                .unwrap_or_else(|| received.checked_sub(1).map_or(0, |last| offsets[last] + 1));
            let (committable, marks) = tracker.commit(&BTreeSet::new());
            prop_assert_eq!(committable, next(expected));
            for offset in &offsets[..received] {
                let marked = *offset < expected || marks.finished.contains(at(*offset));
                prop_assert_eq!(marked, finished.contains(offset), "{}", offset);
            }
            let metadata = CommitMetadata { epoch: Epoch::new(u64::MAX), sequence: TransactionSequence::new(u64::MAX), marks };
            let text = metadata.encode(committable);
            prop_assert!(text.len() <= LIMIT);
            prop_assert_eq!(CommitMetadata::decode(&text, committable), ParsedMetadata::Ours(metadata));
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// With so many records, so far apart, that there is not room for all of them.
    #[test]
    fn whatever_is_admitted_fits_and_the_head_always_is(
        seed in any::<u64>(),
        (widest, ends) in (1_u64..3000, 0_u64..8),
        inherited in proptest::collection::btree_map(0_i64..200_000, any::<bool>(), 0..250),
    ) {
        let mut numbers = crate::engine::Jitter::seeded(seed);
        let mut marks = Marks::default();
        for (offset, tried) in inherited {
            match tried {
                true => { marks.attempts.insert(at(offset), Attempts { count: 8191, open: true }); }
                false => marks.finished.insert(at(offset).position(), at(offset).next()),
            }
        }
        marks.attempts.retain(|offset, _| !marks.finished.contains(*offset));
        let mut tracker = Tracker::resume(next(0), marks);
        let (mut offset, mut running) = (0, Vec::new());
        for step in 0..2500 {
            if tracker.receive(at(offset)) == Receipt::New && tracker.admits(at(offset)) {
                tracker.start(at(offset));
                running.push(offset);
            }
            offset += i64::try_from(1 + numbers.next_number() % widest).unwrap();
            if let Some(head) = tracker.head() {
                prop_assert!(tracker.admits(head));
            }
            let end = running.len().saturating_sub(1);
            if end > 0 && numbers.next_number() % 8 >= ends {
                let index = 1 + usize::try_from(numbers.next_number()).unwrap_or(0) % end;
                match numbers.next_number() % 4 {
                    0 => tracker.set_attempts(at(running[index]), Some(Attempts { count: 8191, open: true })),
                    _ => tracker.finish(at(running.swap_remove(index))),
                }
            }
            if step % 50 == 0 {
                let (committable, marks) = tracker.commit(&BTreeSet::new());
                let (epoch, sequence) = (Epoch::new(u64::MAX), TransactionSequence::new(u64::MAX));
                let text = CommitMetadata { epoch, sequence, marks }.encode(committable);
                prop_assert!(text.len() <= LIMIT, "{} bytes", text.len());
            }
        }
    }
}

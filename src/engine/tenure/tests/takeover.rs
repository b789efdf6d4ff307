//! From nothing to delivering.

use super::*;

/// The resume that `written_by(7, _)` gives.
fn eighth() -> Resume {
    written_by(7, 3).resume()
}

#[test]
fn a_takeover_goes_step_by_step_and_delivers_only_at_its_end() {
    let mut bench = Bench::new(None);
    assert_eq!(bench.tenure.wake_at(), Some(bench.now));
    assert_eq!(bench.on(Event::Wake), [Action::Initialise]);
    assert_eq!(bench.on(Event::Initialised(Ok(()))), [Action::Read]);
    assert_eq!(bench.on(Event::Read(Ok(written_by(7, 3)))), [Action::Claim(eighth())]);
    assert_eq!(bench.on(Event::Transacted(Ok(()))), [Action::Seek(eighth())]);
    assert_eq!(bench.tenure.epoch(), None);
    assert_eq!(bench.on(Event::Sought(Ok(()))), [Action::Deliver(eighth())]);
    assert_eq!(bench.tenure.epoch(), Some(Epoch::new(8)));
    assert_eq!(bench.on(Event::Dirty { urgent: true }), [plan(1, None)]);
}

#[test]
fn a_step_that_failed_is_tried_again_at_growing_distances() {
    let steps: [fn(Result<(), Setback>) -> Event; 4] = [
        Event::Initialised,
        |result| Event::Read(result.map(|()| written_by(7, 3))),
        Event::Transacted,
        Event::Sought,
    ];
    for (step, answer) in steps.into_iter().enumerate() {
        let mut bench = Bench::at(step);
        for failures in 0..8_u32 {
            let before = bench.now;
            assert_eq!(bench.on(answer(Err(Setback::Aborted))), []);
            assert_eq!(bench.on(Event::Wake), []);
            assert_eq!(bench.wait().len(), 1);
            let whole = (Duration::from_millis(100) * 2_u32.pow(failures)).min(seconds(4));
            assert!(bench.now - before >= whole / 2 && bench.now - before <= whole);
        }
        assert_eq!(bench.on(answer(Ok(()))).len(), 1, "step {step} succeeds after all");
    }
}

#[test]
fn whatever_goes_wrong_with_initialising_reading_or_seeking_repeats_that_step() {
    for setback in ALL {
        let mut bench = Bench::at(0);
        assert_eq!(bench.on(Event::Initialised(Err(setback))), []);
        assert_eq!(bench.wait(), [Action::Initialise]);
        let mut bench = Bench::at(1);
        assert_eq!(bench.on(Event::Read(Err(setback))), []);
        assert_eq!(bench.wait(), [Action::Read]);
        let mut bench = Bench::at(3);
        assert_eq!(bench.on(Event::Sought(Err(setback))), []);
        assert_eq!(bench.wait(), [Action::Seek(eighth())]);
    }
}

#[test]
fn a_claim_that_had_no_effect_is_sent_again_as_it_was() {
    for setback in [Setback::Aborted, Setback::Refused] {
        let mut bench = Bench::at(2);
        assert_eq!(bench.on(Event::Transacted(Err(setback))), []);
        assert_eq!(bench.wait(), [Action::Claim(eighth())]);
    }
}

#[test]
fn a_claim_in_a_rebalance_waits_for_its_callback() {
    let mut bench = Bench::at(2);
    bench.on(Event::Callback(3));
    assert_eq!(bench.on(Event::Transacted(Err(Setback::Rebalancing { version: 3 }))), []);
    assert_eq!(bench.on(Event::Callback(3)), []);
    assert_eq!(bench.on(Event::Callback(4)), [Action::Claim(eighth())]);
    // The callback had come before the answer did.
    assert_eq!(
        bench.on(Event::Transacted(Err(Setback::Rebalancing { version: 3 }))),
        [Action::Claim(eighth())]
    );
}

#[test]
fn a_claim_of_which_nobody_knows_begins_again_at_the_second_step() {
    let mut bench = Bench::at(2);
    assert_eq!(bench.on(Event::Transacted(Err(Setback::Unknown))), []);
    assert_eq!(bench.wait(), [Action::Initialise]);
    assert_eq!(bench.on(Event::Initialised(Ok(()))), [Action::Read]);
    // It had taken effect: that costs a number.
    let actions = bench.on(Event::Read(Ok(written_by(8, 0))));
    let [Action::Claim(resume)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(resume.epoch, Epoch::new(9));
}

#[test]
fn a_claim_by_a_member_that_is_not_known_ends_the_tenure() {
    let mut bench = Bench::at(2);
    let evicted = over(End::Evicted { version: 3 });
    assert_eq!(bench.on(Event::Transacted(Err(Setback::UnknownMember { version: 3 }))), evicted);
    assert!(bench.tenure.is_over());
}

#[test]
fn a_tenure_after_an_eviction_waits_for_a_later_callback_and_nothing_else() {
    let mut bench = Bench::new(Some(Err(3)));
    assert_eq!((bench.tenure.wake_at(), bench.pass(seconds(100_000))), (None, vec![]));
    assert_eq!(bench.on(Event::Callback(3)), []);
    assert_eq!(bench.on(Event::Callback(5)), [Action::Initialise]);
}

#[test]
fn a_tenure_that_is_to_begin_later_does() {
    let mut bench = Bench::new(Some(Ok(seconds(3))));
    let before = bench.now;
    assert_eq!(bench.on(Event::Callback(9)), []);
    assert_eq!(bench.wait(), [Action::Initialise]);
    assert_eq!(bench.now - before, seconds(3));
}

#[test]
fn a_takeover_ends_at_every_step_when_the_bucket_goes() {
    for (event, end) in [(Event::Gone, End::Gone), (Event::GiveUp, End::GivenUp)] {
        let waiting = Bench::new(Some(Err(3)));
        for mut bench in (0..4).map(Bench::at).chain([waiting]) {
            assert_eq!(bench.on(event.clone()), over(end));
            for late in Bench::takeover().into_iter().chain([event.clone(), Event::Callback(9)]) {
                assert_eq!(bench.on(late), []);
            }
            assert_eq!((bench.tenure.is_over(), bench.tenure.wake_at()), (true, None));
        }
    }
}

#[test]
fn the_epoch_is_one_more_than_the_highest_of_claim_and_metadata() {
    for (claimed, committed, expected) in [
        (None, None, 1),
        (None, Some(4), 5),
        (Some(4), None, 5),
        (Some(3), Some(7), 8),
        (Some(7), Some(3), 8),
        (Some(7), Some(7), 8),
    ] {
        let reading = Reading {
            committed: committed.map(|epoch| (to(50), text(epoch, 2))),
            claim: claimed.map(|epoch| claim(epoch, true)),
            ..written_by(1, 1)
        };
        assert_eq!(reading.resume().epoch, Epoch::new(expected), "{claimed:?} {committed:?}");
    }
}

#[test]
fn only_a_release_by_the_last_owner_makes_caution_unnecessary() {
    let cautious_until = |claimed: Option<(u64, bool)>, committed: Option<u64>| {
        let reading = Reading {
            committed: committed.map(|epoch| (to(50), text(epoch, 2))),
            claim: claimed.map(|(epoch, released)| claim(epoch, released)),
            ..written_by(1, 1)
        };
        reading.resume().cautious_until.get()
    };
    assert_eq!(cautious_until(Some((7, true)), Some(7)), 50);
    assert_eq!(cautious_until(Some((7, false)), Some(7)), 100);
    // An older release says nothing about the one who wrote the offset.
    assert_eq!(cautious_until(Some((6, true)), Some(7)), 100);
    assert_eq!(cautious_until(None, Some(7)), 100);
    // Nobody was here before.
    assert_eq!(cautious_until(None, None), 10);
}

#[test]
fn offsets_that_are_gone_or_outside_the_log_mean_its_start() {
    let resume = |committed: Option<i64>, claimed: bool| {
        let reading = Reading {
            committed: committed.map(|offset| (to(offset), text(7, 2))),
            claim: claimed.then(|| claim(7, false)),
            ..written_by(1, 1)
        };
        let resume = reading.resume();
        (resume.offset.get(), resume.lost, resume.cautious_until.get())
    };
    assert_eq!(resume(None, false), (10, None, 10));
    assert_eq!(resume(None, true), (10, Some(OffsetsLost::Missing), 100));
    assert_eq!(resume(Some(9), true), (10, Some(OffsetsLost::BelowStart(to(9))), 100));
    assert_eq!(resume(Some(10), true), (10, None, 100));
    assert_eq!(resume(Some(100), true), (100, None, 100));
    assert_eq!(resume(Some(101), true), (10, Some(OffsetsLost::BeyondEnd(to(101))), 100));
}

#[test]
fn text_of_a_newer_version_gives_its_epoch_and_foreign_text_none() {
    for (text, epoch, unreadable) in [
        ("control-bus/2 41 3 something", 42, true),
        ("control-bus/1 41 3 !", 42, true),
        ("somebody else's", 8, true),
        ("", 8, false),
        ("control-bus/1 41 3", 42, false),
    ] {
        let reading = Reading { committed: Some((to(50), text.to_owned())), ..written_by(7, 3) };
        let resume = reading.resume();
        assert_eq!((resume.epoch, resume.unreadable), (Epoch::new(epoch), unreadable), "{text}");
        assert_eq!((resume.offset, resume.lost), (to(50), None), "the offset itself stands");
        assert_eq!(resume.cautious_until, to(100));
    }
}

#[test]
fn a_predecessors_marks_go_on() {
    let mut marks = Marks::default();
    marks.finished.insert(to(60), to(70));
    let metadata =
        CommitMetadata { epoch: Epoch::new(7), sequence: TransactionSequence::new(1), marks: marks.clone() };
    let reading = Reading { committed: Some((to(50), metadata.encode(to(50)))), ..written_by(7, 3) };
    assert_eq!(reading.resume().marks, marks);
}

#[test]
fn caution_that_a_release_hands_on_ends_where_it_began() {
    let resume = |until: Option<i64>, committed: i64| {
        let mut reading = Reading { committed: Some((to(committed), String::new())), ..written_by(7, 3) };
        reading.claim = Some(Claim { cautious_until: until, ..claim(7, true) });
        reading.resume().cautious_until
    };
    assert_eq!(resume(None, 50), to(50));
    assert_eq!(resume(Some(80), 50), to(80));
    assert_eq!(resume(Some(80), 90), to(90), "what is left lies beyond");
    assert_eq!(resume(Some(500), 50), to(100), "never beyond the log's end");
}

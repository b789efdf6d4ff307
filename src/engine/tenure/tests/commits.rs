//! Transactions while records are delivered.

use super::*;

#[test]
fn progress_is_committed_on_the_interval_and_what_is_urgent_at_once() {
    let mut bench = Bench::delivering();
    assert_eq!(bench.on(Event::Dirty { urgent: false }), []);
    let before = bench.now;
    bench.pass(Duration::from_millis(300));
    assert_eq!(bench.on(Event::Dirty { urgent: false }), [], "the interval is counted from the first");
    assert_eq!(bench.wait(), [plan(1, None)]);
    assert_eq!(bench.now - before, seconds(1));
    // One at a time; what happens meanwhile waits.
    assert_eq!(bench.on(Event::Dirty { urgent: true }), []);
    assert_eq!(bench.on(Event::Transacted(Ok(()))), [Action::Settled(true), plan(2, None)]);
    assert_eq!(bench.on(Event::Transacted(Ok(()))), [Action::Settled(true)]);
    assert_eq!(bench.on(Event::Dirty { urgent: false }), []);
    assert_eq!(bench.on(Event::Dirty { urgent: true }), [plan(3, None)]);
}

#[test]
fn without_anything_to_commit_there_is_a_transaction_a_day() {
    let mut bench = Bench::delivering();
    for day in 1..4 {
        let before = bench.now;
        assert_eq!(bench.wait(), [plan(day, None)]);
        assert_eq!(bench.now - before, seconds(86_400));
        assert_eq!(bench.on(Event::Transacted(Ok(()))), [Action::Settled(true)]);
    }
}

#[test]
fn an_aborted_transaction_is_sent_again_after_a_while_under_its_number() {
    let mut bench = Bench::committing();
    for _ in 0..4 {
        assert_eq!(bench.on(Event::Transacted(Err(Setback::Aborted))), [Action::Settled(false)]);
        assert_eq!(bench.on(Event::Dirty { urgent: true }), [], "a failure is not made better by haste");
        assert_eq!(bench.wait(), [plan(1, None)]);
    }
    let actions = bench.on(Event::Transacted(Ok(())));
    assert_eq!(actions, [Action::Settled(true)]);
}

#[test]
fn a_transaction_without_the_record_that_was_refused_goes_out_as_soon_as_it_is_wanted() {
    let mut bench = Bench::committing();
    assert_eq!(bench.on(Event::Transacted(Err(Setback::Refused))), [Action::Settled(false)]);
    let mut later = bench.clone();
    assert_eq!(bench.on(Event::Dirty { urgent: true }), [plan(1, None)]);
    assert_eq!(later.wait(), [plan(1, None)]);
}

#[test]
fn a_rebalance_never_ends_a_tenure_by_itself() {
    let mut bench = Bench::committing();
    bench.on(Event::Callback(3));
    let rebalancing = |version| Event::Transacted(Err(Setback::Rebalancing { version }));
    assert_eq!(bench.on(rebalancing(3)), [Action::Settled(false)]);
    assert_eq!(bench.on(Event::Dirty { urgent: true }), []);
    assert_eq!(bench.on(Event::Callback(4)), [plan(1, None)]);
    // Without a callback it is tried again after the longest wait, for ever.
    for _ in 0..100 {
        let before = bench.now;
        assert_eq!(bench.on(rebalancing(4)), [Action::Settled(false)]);
        let mut actions = bench.wait();
        if actions == [Action::StopIntake] {
            actions = bench.wait();
        }
        assert_eq!((actions, bench.now - before), (vec![plan(1, None)], seconds(4)));
    }
    let actions = bench.on(Event::Transacted(Ok(())));
    assert_eq!(actions, [Action::Settled(true), Action::ResumeIntake]);
}

#[test]
fn a_member_that_is_not_known_writes_nothing_more() {
    let mut bench = Bench::committing();
    let actions = bench.on(Event::Transacted(Err(Setback::UnknownMember { version: 3 })));
    assert_eq!(actions[0], Action::Settled(false));
    assert_eq!(actions[1..], over(End::Evicted { version: 3 }));
    assert_eq!(bench.on(Event::Dirty { urgent: true }), []);
}

#[test]
fn a_transaction_of_which_nobody_knows_is_never_sent_again_before_the_offset_has_told() {
    let mut bench = Bench::committing();
    assert_eq!(bench.on(Event::Transacted(Err(Setback::Unknown))), []);
    assert_eq!(bench.on(Event::Dirty { urgent: true }), []);
    assert_eq!(bench.on(Event::Callback(9)), []);
    assert_eq!(bench.wait(), [Action::Initialise]);
    assert_eq!(bench.on(Event::Initialised(Err(Setback::Aborted))), []);
    assert_eq!(bench.wait(), [Action::Initialise]);
    assert_eq!(bench.on(Event::Initialised(Ok(()))), [Action::Read]);
    assert_eq!(bench.on(Event::Read(Err(Setback::Aborted))), []);
    assert_eq!(bench.on(Event::Dirty { urgent: true }), []);
    assert_eq!(bench.wait(), [Action::Read]);
}

#[test]
fn what_the_offset_tells_decides() {
    let settled = |happened| vec![Action::Settled(happened)];
    // Its own number: it had taken effect, and what came up meanwhile goes out under the next.
    let mut bench = Bench::inquiring();
    bench.on(Event::Dirty { urgent: true });
    assert_eq!(bench.on(Event::Read(Ok(written_by(8, 1)))), [Action::Settled(true), plan(2, None)]);
    let mut bench = Bench::inquiring();
    assert_eq!(bench.on(Event::Read(Ok(written_by(8, 1)))), settled(true));
    // Its predecessor's: it had not, and is sent again.
    let mut bench = Bench::inquiring();
    assert_eq!(bench.on(Event::Read(Ok(written_by(8, 0)))), [Action::Settled(false), plan(1, None)]);
    assert_eq!(bench.on(Event::Transacted(Ok(()))), settled(true));
    // Anything else: somebody else has written. Nothing more goes out.
    let claimed_since = Reading { claim: Some(claim(9, false)), ..written_by(8, 1) };
    let gone = Reading { committed: None, ..written_by(8, 1) };
    let foreign = Reading { committed: Some((to(50), String::new())), ..written_by(8, 1) };
    let others = [written_by(9, 0), written_by(9, 1), written_by(7, 1), written_by(8, 2), written_by(8, 9)];
    for reading in others.into_iter().chain([claimed_since, gone, foreign]) {
        let mut bench = Bench::inquiring();
        assert_eq!(bench.on(Event::Read(Ok(reading.clone()))), over(End::Superseded), "{reading:?}");
        assert_eq!((bench.on(Event::Dirty { urgent: true }), bench.tenure.wake_at()), (vec![], None));
    }
}

#[test]
fn an_unknown_outcome_may_follow_another() {
    let mut bench = Bench::inquiring();
    assert_eq!(bench.on(Event::Read(Ok(written_by(8, 0)))), [Action::Settled(false), plan(1, None)]);
    assert_eq!(bench.on(Event::Transacted(Err(Setback::Unknown))), []);
    assert_eq!(bench.wait(), [Action::Initialise]);
    assert_eq!(bench.on(Event::Initialised(Ok(()))), [Action::Read]);
    assert_eq!(bench.on(Event::Read(Ok(written_by(8, 1)))), [Action::Settled(true)]);
}

#[test]
fn past_a_session_without_a_durable_transaction_intake_stops_until_there_is_one() {
    for setback in [Setback::Aborted, Setback::Rebalancing { version: 0 }, Setback::Refused] {
        let mut bench = Bench::committing();
        let began = bench.now;
        let mut stopped = None;
        while bench.now < began + seconds(30) {
            for action in bench.on(Event::Transacted(Err(setback))).into_iter().chain(bench.wait()) {
                if action == Action::StopIntake {
                    assert_eq!(stopped.replace(bench.now), None, "it is stopped once");
                }
            }
        }
        assert_eq!(stopped, Some(began + seconds(10)));
        let mut actions = bench.on(Event::Transacted(Ok(())));
        while actions.is_empty() {
            bench.wait();
            actions = bench.on(Event::Transacted(Ok(())));
        }
        assert_eq!(actions, [Action::Settled(true), Action::ResumeIntake]);
    }
}

#[test]
fn a_transaction_that_takes_longer_than_a_session_stops_intake_too() {
    let mut bench = Bench::committing();
    assert_eq!(bench.pass(seconds(9)), []);
    assert_eq!(bench.wait(), [Action::StopIntake]);
    assert_eq!(bench.tenure.wake_at(), None);
    assert_eq!(bench.on(Event::Transacted(Ok(()))), [Action::Settled(true), Action::ResumeIntake]);
    assert_eq!(bench.pass(seconds(3600)), [], "what is idle is not stalled");
}

#[test]
fn finding_out_what_became_of_a_transaction_counts_as_stalled() {
    let mut bench = Bench::inquiring();
    assert_eq!(bench.pass(seconds(10)), [Action::StopIntake]);
    let actions = bench.on(Event::Read(Ok(written_by(8, 1))));
    assert_eq!(actions, [Action::Settled(true), Action::ResumeIntake]);
}

#[test]
fn a_tenure_ends_wherever_it_stands_when_the_snapshot_has_dropped_it() {
    for setback in [None].into_iter().chain(ALL.map(Some)) {
        let mut bench = Bench::committing();
        if let Some(setback) = setback {
            bench.on(Event::Transacted(Err(setback)));
        }
        if !bench.tenure.is_over() {
            assert_eq!(bench.on(Event::Gone), over(End::Gone));
        }
        assert_eq!(bench.on(Event::Transacted(Ok(()))), []);
        assert_eq!((bench.tenure.is_over(), bench.tenure.wake_at()), (true, None));
    }
}

#[test]
fn answers_to_what_was_not_asked_are_ignored() {
    for step in 0..5 {
        for (asked, answer) in Bench::takeover().into_iter().enumerate() {
            if asked != step {
                let mut bench = Bench::at(step);
                let before = bench.tenure.clone();
                assert_eq!(bench.on(answer), []);
                assert_eq!(bench.tenure, before, "answer {asked} at step {step}");
            }
        }
    }
}

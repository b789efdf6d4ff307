//! Giving a bucket up.

use super::*;

#[test]
fn what_is_in_flight_ends_and_then_the_claim_is_marked_released() {
    let mut bench = Bench::delivering();
    assert_eq!(bench.on(Event::GiveUp), [Action::StopIntake]);
    assert_eq!(bench.on(Event::GiveUp), []);
    // Progress is committed meanwhile.
    assert_eq!(bench.on(Event::Dirty { urgent: true }), [plan(1, None)]);
    assert_eq!(bench.on(Event::Drained), []);
    assert_eq!(bench.on(Event::Transacted(Ok(()))), [Action::Settled(true), plan(2, Some(true))]);
    assert_eq!(
        bench.on(Event::Transacted(Ok(()))),
        [Action::Settled(true), Action::Over(End::Released)],
        "nothing is left to cancel"
    );
}

#[test]
fn an_idle_bucket_is_released_at_once() {
    let mut bench = Bench::delivering();
    assert_eq!(bench.on(Event::GiveUp), [Action::StopIntake]);
    assert_eq!(bench.on(Event::Drained), [plan(1, Some(true))]);
}

#[test]
fn what_does_not_end_in_time_is_cancelled_and_the_claim_is_not_marked_released() {
    let mut bench = Bench::delivering();
    let began = bench.now;
    assert_eq!(bench.on(Event::GiveUp), [Action::StopIntake]);
    assert_eq!(bench.wait(), [Action::Cancel, plan(1, Some(false))]);
    assert_eq!(bench.now - began, seconds(20));
    assert_eq!(bench.on(Event::Drained), []);
    let mut refused = bench.clone();
    assert_eq!(bench.on(Event::Transacted(Ok(()))), [Action::Settled(true), Action::Over(End::Released)]);
    refused.on(Event::Transacted(Err(Setback::Aborted)));
    assert_eq!(refused.wait(), [plan(1, Some(false))], "drained by cancelling is not drained");
}

#[test]
fn a_release_that_cannot_be_written_in_time_is_given_up() {
    for drained in [true, false] {
        for setback in
            [Setback::Aborted, Setback::Refused, Setback::Rebalancing { version: 0 }, Setback::Unknown]
        {
            let mut bench = Bench::delivering();
            let began = bench.now;
            bench.on(Event::GiveUp);
            if drained {
                bench.on(Event::Drained);
            }
            let mut actions = Vec::new();
            for _ in 0..1000 {
                let answers = [Event::Transacted(Err(setback)), Event::Initialised(Err(setback))];
                actions = answers.into_iter().flat_map(|answer| bench.on(answer)).collect();
                if bench.tenure.is_over() {
                    break;
                }
                actions = bench.wait();
                if bench.tenure.is_over() {
                    break;
                }
            }
            assert_eq!(actions, over(End::GivenUp), "{setback:?}");
            assert_eq!(bench.now - began, seconds(25));
        }
    }
}

#[test]
fn a_refused_release_is_not_sent_again_without_a_pause() {
    let mut bench = Bench::delivering();
    bench.on(Event::GiveUp);
    assert_eq!(bench.on(Event::Drained), [plan(1, Some(true))]);
    assert_eq!(bench.on(Event::Transacted(Err(Setback::Refused))), [Action::Settled(false)]);
    assert_eq!(bench.wait(), [plan(1, Some(true))]);
}

#[test]
fn an_outstanding_transaction_does_not_keep_a_bucket_past_its_end() {
    let mut bench = Bench::committing();
    assert_eq!(bench.on(Event::GiveUp), [Action::StopIntake]);
    assert_eq!(bench.wait(), [Action::Cancel]);
    assert_eq!(bench.wait(), over(End::GivenUp));
    assert_eq!(bench.on(Event::Transacted(Ok(()))), []);
}

#[test]
fn giving_up_while_an_outcome_is_found_out_releases_afterwards() {
    for (sequence, settled) in [(1, true), (0, false)] {
        let mut bench = Bench::inquiring();
        assert_eq!(bench.on(Event::GiveUp), [Action::StopIntake]);
        assert_eq!(bench.on(Event::Drained), []);
        let mut actions = bench.on(Event::Read(Ok(written_by(8, sequence))));
        assert_eq!(actions.remove(0), Action::Settled(settled));
        if !settled {
            // Sent again as it was, and then released.
            assert_eq!(actions, [plan(1, None)]);
            actions = bench.on(Event::Transacted(Ok(())));
            assert_eq!(actions.remove(0), Action::Settled(true));
        }
        assert_eq!(actions, [plan(2, Some(true))]);
    }
}

#[test]
fn a_release_of_which_nobody_knows_is_found_out_about() {
    for (sequence, released) in [(1, true), (0, false)] {
        let mut bench = Bench::delivering();
        bench.on(Event::GiveUp);
        assert_eq!(bench.on(Event::Drained), [plan(1, Some(true))]);
        assert_eq!(bench.on(Event::Transacted(Err(Setback::Unknown))), []);
        assert_eq!(bench.wait(), [Action::Initialise]);
        assert_eq!(bench.on(Event::Initialised(Ok(()))), [Action::Read]);
        let actions = bench.on(Event::Read(Ok(written_by(8, sequence))));
        if released {
            assert_eq!(actions, [Action::Settled(true), Action::Over(End::Released)]);
        } else {
            assert_eq!(actions, [Action::Settled(false), plan(1, Some(true))]);
        }
    }
}

#[test]
fn a_bucket_that_is_lost_while_it_is_given_up_ends_at_once() {
    let mut bench = Bench::delivering();
    bench.on(Event::GiveUp);
    assert_eq!(bench.on(Event::Gone), over(End::Gone));
    let mut bench = Bench::delivering();
    bench.on(Event::GiveUp);
    bench.on(Event::Drained);
    let actions = bench.on(Event::Transacted(Err(Setback::UnknownMember { version: 1 })));
    assert_eq!(actions[1..], over(End::Evicted { version: 1 }));
}

#[test]
fn intake_that_was_stopped_for_a_stall_stays_stopped_while_leaving() {
    let mut bench = Bench::committing();
    assert_eq!(bench.pass(seconds(10)), [Action::StopIntake]);
    bench.on(Event::GiveUp);
    let actions = bench.on(Event::Transacted(Ok(())));
    assert_eq!(actions, [Action::Settled(true)]);
    assert_eq!(bench.on(Event::Drained), [plan(2, Some(true))]);
}

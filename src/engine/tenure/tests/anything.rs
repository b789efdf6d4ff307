//! Any events in any order.

use proptest::prelude::*;

use super::*;

fn setback() -> impl Strategy<Value = Setback> {
    prop_oneof![
        1 => (0_u64..6).prop_map(|version| Setback::Rebalancing { version }),
        2 => Just(Setback::Aborted),
        1 => Just(Setback::Refused),
        3 => Just(Setback::Unknown),
    ]
}

fn result<T: std::fmt::Debug + Clone>(
    ok: impl Strategy<Value = T>,
) -> impl Strategy<Value = Result<T, Setback>> {
    prop_oneof![3 => ok.prop_map(Ok), 2 => setback().prop_map(Err)]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => result(Just(())).prop_map(Event::Initialised),
        6 => result((0_u64..4, 0_u64..4).prop_map(|(epoch, sequence)| written_by(epoch, sequence)))
            .prop_map(Event::Read),
        12 => result(Just(())).prop_map(Event::Transacted),
        6 => result(Just(())).prop_map(Event::Sought),
        3 => (0_u64..8).prop_map(Event::Callback),
        1 => Just(Event::Drained),
        6 => any::<bool>().prop_map(|urgent| Event::Dirty { urgent }),
        10 => Just(Event::Wake),
    ]
}

/// The rare ones, that end it.
fn ending() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::GiveUp),
        1 => Just(Event::Gone),
        1 => (0_u64..8).prop_map(|version| Event::Transacted(Err(Setback::UnknownMember { version }))),
    ]
}

/// What an observer has seen.
#[derive(Default)]
struct Seen {
    /// The action that waits for its answer.
    asked: Option<&'static str>,
    initialised: bool,
    /// Read since the last initialisation.
    read: bool,
    delivered: bool,
    intake: bool,
    /// A transaction was sent and has not been settled.
    unsettled: bool,
    /// Nobody knows what became of it.
    unknown: bool,
    durable: u64,
    over: bool,
}

impl Seen {
    /// Which of the outstanding action's answers this event is, if it is one.
    fn answer(&mut self, event: &Event) {
        let (answers, ok) = match event {
            Event::Initialised(result) => (&["initialise"][..], result.is_ok()),
            Event::Read(result) => (&["read"][..], result.is_ok()),
            Event::Transacted(result) => (&["claim", "commit"][..], result.is_ok()),
            Event::Sought(result) => (&["seek"][..], result.is_ok()),
            _ => return,
        };
        let Some(asked) = self.asked.filter(|asked| answers.contains(asked)) else { return };
        self.asked = None;
        match asked {
            "initialise" => self.initialised = ok,
            "read" => {
                self.read = ok;
                self.unknown &= !ok;
            }
            "commit" | "claim" if *event == Event::Transacted(Err(Setback::Unknown)) => {
                (self.initialised, self.read) = (false, false);
                self.unknown = asked == "commit";
            }
            _ => {}
        }
    }

    fn ask(&mut self, action: &'static str) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.asked.replace(action), None);
        Ok(())
    }

    fn see(&mut self, action: &Action) -> Result<(), TestCaseError> {
        prop_assert!(!self.over, "{:?} after the end", action);
        match action {
            Action::Initialise => self.ask("initialise")?,
            Action::Read => {
                prop_assert!(self.initialised);
                self.ask("read")?;
            }
            Action::Claim(_) => {
                prop_assert!(self.initialised && self.read && !self.delivered);
                self.ask("claim")?;
            }
            Action::Seek(_) => self.ask("seek")?,
            Action::Deliver(_) => {
                prop_assert!(!self.delivered);
                self.delivered = true;
                self.intake = true;
            }
            Action::Commit(plan) => {
                prop_assert!(self.delivered && self.initialised && !self.unknown && !self.unsettled);
                prop_assert_eq!(plan.sequence.get(), self.durable + 1);
                prop_assert!(plan.release.is_none() || !self.intake);
                self.unsettled = true;
                self.ask("commit")?;
            }
            Action::Settled(happened) => {
                prop_assert!(self.unsettled && !self.unknown);
                self.unsettled = false;
                self.durable += u64::from(*happened);
            }
            Action::StopIntake => self.intake = false,
            Action::ResumeIntake => self.intake = true,
            Action::Cancel => {}
            Action::Over(_) => self.over = true,
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_events_in_any_order_keep_what_a_tenure_promises(
        wait in proptest::option::of(prop_oneof![Just(Ok(seconds(2))), Just(Err(2))]),
        events in proptest::collection::vec((event(), 0_u64..4000), 0..120),
        end in proptest::collection::vec((prop_oneof![ending(), event()], 0_u64..9000), 0..40),
    ) {
        let mut bench = Bench::new(wait);
        let mut seen = Seen::default();
        for (event, millis) in events.into_iter().chain(end) {
            bench.now += Duration::from_millis(millis);
            seen.answer(&event);
            for action in bench.on(event) {
                seen.see(&action)?;
            }
            prop_assert_eq!(seen.over, bench.tenure.is_over());
            // Nothing is due that was not done.
            let due = bench.tenure.wake_at().is_some_and(|at| at <= bench.now);
            prop_assert!(!due, "{:?}", bench.tenure);
            // And it never waits for nothing, save for a callback that it was told to wait for.
            let waits = seen.asked.is_some() || bench.tenure.wake_at().is_some() || wait == Some(Err(2));
            prop_assert!(seen.over || waits);
        }
    }
}

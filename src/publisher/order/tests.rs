use proptest::prelude::*;

use super::*;

fn resource(name: &str) -> ResourceKey {
    format!("ns/{name}").parse().unwrap()
}

#[test]
fn those_accepted_before_a_failure_was_known_fail_and_later_ones_do_not() {
    let (mut order, a, b) = (Order::default(), resource("a"), resource("b"));
    for number in [0, 1, 2] {
        order.accepted(&a, number);
    }
    order.accepted(&b, 3);
    assert_eq!(order.finished(&a, 0), None);
    order.failed(&a, 1, "one");
    order.finished(&a, 1);
    order.accepted(&a, 4);
    assert_eq!(order.finished(&a, 2).as_deref(), Some("one"));
    assert_eq!(order.finished(&a, 4), None);
    assert_eq!(order.finished(&b, 3), None);
    assert!(order.chains.is_empty());
}

#[test]
fn the_first_of_several_culprits_is_named() {
    let (mut order, a) = (Order::default(), resource("a"));
    for number in 0..4 {
        order.accepted(&a, number);
    }
    order.failed(&a, 2, "two");
    order.failed(&a, 0, "zero");
    assert_eq!(order.finished(&a, 3).as_deref(), Some("zero"));
    assert_eq!(order.finished(&a, 1).as_deref(), Some("zero"));
}

#[test]
fn a_message_that_fails_after_another_one_failed_dooms_those_that_only_it_precedes() {
    let (mut order, a) = (Order::default(), resource("a"));
    order.accepted(&a, 0);
    order.accepted(&a, 1);
    order.failed(&a, 0, "zero");
    order.accepted(&a, 2);
    order.failed(&a, 1, "one");
    assert_eq!(order.finished(&a, 1).as_deref(), Some("zero"));
    assert_eq!(order.finished(&a, 2).as_deref(), Some("one"));
}

/// Remembers everything and looks through it all.
#[derive(Default)]
struct Naive {
    /// Resource, whether it is outstanding, and the highest number when its failure became known.
    messages: Vec<(usize, bool, Option<usize>)>,
}

impl Naive {
    fn culprit(&self, number: usize) -> Option<String> {
        let resource = self.messages[number].0;
        let earlier = self.messages[..number].iter().enumerate();
        let found = earlier
            .filter(|(_, message)| message.0 == resource)
            .find(|(_, message)| message.2.is_some_and(|newest| number <= newest));
        found.map(|(number, _)| number.to_string())
    }
}

#[derive(Debug, Clone)]
enum Step {
    Accept(usize),
    Fail(prop::sample::Index),
    Finish(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..3_usize).prop_map(Step::Accept),
        2 => any::<prop::sample::Index>().prop_map(Step::Fail),
        4 => any::<prop::sample::Index>().prop_map(Step::Finish),
    ]
}

proptest! {
    #[test]
    fn order_agrees_with_a_model_that_remembers_everything(steps in prop::collection::vec(step(), 1..200)) {
        let names = [resource("a"), resource("b"), resource("c")];
        let (mut order, mut naive) = (Order::default(), Naive::default());
        for step in steps {
            let open: Vec<usize> =
                (0..naive.messages.len()).filter(|number| naive.messages[*number].1).collect();
            match step {
                Step::Accept(resource) => {
                    order.accepted(&names[resource], naive.messages.len() as u64);
                    naive.messages.push((resource, true, None));
                }
                Step::Fail(index) if !open.is_empty() => {
                    let number = *index.get(&open);
                    let resource = naive.messages[number].0;
                    let newest = naive.messages.iter().rposition(|message| message.0 == resource);
                    if naive.messages[number].2.is_none() {
                        naive.messages[number].2 = newest;
                        order.failed(&names[resource], number as u64, &number.to_string());
                        let chain = &order.chains[&names[resource]];
                        prop_assert!(chain.doomed.len() <= chain.outstanding.len());
                    }
                }
                Step::Finish(index) if !open.is_empty() => {
                    let number = *index.get(&open);
                    naive.messages[number].1 = false;
                    let culprit = order.finished(&names[naive.messages[number].0], number as u64);
                    prop_assert_eq!(culprit.as_deref().map(str::to_owned), naive.culprit(number));
                }
                Step::Fail(_) | Step::Finish(_) => {}
            }
            let open = naive.messages.iter().filter(|message| message.1).count();
            let kept: usize = order.chains.values().map(|chain| chain.outstanding.len()).sum();
            prop_assert_eq!(kept, open);
            for chain in order.chains.values() {
                prop_assert!(!chain.outstanding.is_empty());
            }
        }
    }
}

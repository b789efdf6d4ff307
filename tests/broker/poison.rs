//! Records that cannot be handled: what they hold up, and where they end.

mod ward;
mod window;

use std::{collections::BTreeMap, time::Duration};

use self::ward::{Letter, Ward};
use crate::{
    fleet::{Random, STEP, long, pass},
    support::process::eventually,
};

#[test]
fn attempts_are_counted_over_owners_and_a_replay_has_a_new_id() {
    let mut ward = Ward::new("poison-owners", 4);
    let (first, second) = (ward.add("controller1"), ward.add("controller2"));
    ward.publish("default/poison", "bad");
    ward.publish("default/fine", "good");
    // Whoever owns the bucket is killed while the second attempt is being made, or soon after it.
    let owner = ward.until_tried("bad", 2);
    let other = if owner == "controller1" { second } else { first };
    ward.kill(&owner);
    let letters = ward.until_letters(1);
    assert_eq!(letters[0], Letter::exhausted("bad", 4, "it cannot be done"));
    let tries = ward.tries("bad");
    let numbers: Vec<i64> = tries.iter().map(|tried| tried.attempt).collect();
    assert!(numbers.is_sorted() && numbers.last() == Some(&4), "{numbers:?}");
    assert!(numbers.len() <= 5, "only the one that the kill cut off is made again: {numbers:?}");
    let owners: Vec<&str> = tries.iter().map(|tried| tried.controller.as_str()).collect();
    assert!(owners.first() != owners.last(), "{owners:?}");
    assert_eq!(ward.tries("good").len(), 1);

    ward.heal();
    let answer = ward.replay("bad");
    let new = answer["new_id"].as_str().unwrap().to_owned();
    assert_ne!(new, "bad");
    let tried = ward.until_tried(&new, 1);
    assert_eq!(tried, ward.runs[other].name());
    assert_eq!(ward.replay_of(&new).as_deref(), Some("bad"));
    assert_eq!(ward.letters(), letters, "it is handled now, and the letter stays");
}

#[test]
fn a_record_is_in_the_dead_letters_once_also_when_its_owner_is_killed_around_that_moment() {
    let mut random = Random::new("killed around a dead letter");
    let mut ward = Ward::new("poison-killed", 2);
    ward.add("controller1");
    let rounds = if long() { 20 } else { 4 };
    for round in 1..=rounds {
        ward.add(&format!("controller{}", round + 1));
        let id = format!("bad{round}");
        ward.publish("default/fine", &format!("good{round}"));
        ward.publish("default/poison", &id);
        let owner = ward.until_tried(&id, 2);
        pass(random.time(Duration::from_millis(60)));
        ward.kill(&owner);
        ward.until_letters(round);
    }
    let letters = ward.letters();
    for round in 1..=rounds {
        let id = format!("bad{round}");
        let of: Vec<&Letter> = letters.iter().filter(|letter| letter.id == id).collect();
        // Where the kill came before the last attempt's outcome was durable, that is what is known of it.
        let reasons = ["it cannot be done", "its owner ended while handling it"];
        assert!(
            of.len() == 1
                && (of[0].why.as_str(), of[0].attempts) == ("exhausted", 2)
                && reasons.iter().any(|reason| of[0].reason.contains(reason)),
            "{of:?}"
        );
        assert!(!ward.tries(&format!("good{round}")).is_empty());
    }
    assert_eq!(letters.len(), rounds, "nothing else: {letters:?}");
}

#[test]
fn a_record_that_kills_its_owners_ends_in_the_dead_letters_and_takes_nobody_with_it() {
    let mut ward = Ward::new("poison-killer", 3);
    ward.add("controller1");
    ward.add("controller2");
    for number in 0..30 {
        ward.publish(&format!("default/fine{number}"), &format!("good{number}"));
        if number == 10 {
            ward.publish("default/killer", "killer");
        }
        ward.publish("default/killer-follower", &format!("other{number}"));
    }
    let mut kills = 0;
    eventually("the killer is in the dead letters", STEP * 2, &[], || {
        kills += ward.restart_dead();
        (!ward.letters().is_empty()).then_some(())
    });
    let ids = |prefix: &'static str| (0..30).map(move |number| format!("{prefix}{number}"));
    eventually("the others are handled", STEP, &[], || {
        let mut all = ids("good").chain(ids("other"));
        all.all(|id| !ward.tries(&id).is_empty()).then_some(())
    });
    let letters = ward.letters();
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!((letters[0].id.as_str(), letters[0].why.as_str()), ("killer", "exhausted"));
    assert_eq!(letters[0].attempts, 3);
    assert!(letters[0].reason.contains("its owner ended while handling it"), "{letters:?}");
    // The first kill leaves no trace: in a tenure that began in good order attempts are not announced.
    let tries = ward.tries("killer").len();
    println!("{kills} controllers were killed by {tries} attempts");
    assert!((3..=4).contains(&tries) && kills == tries, "{kills} kills, {tries} tries");
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for id in ids("good").chain(ids("other")) {
        *counts.entry(ward.tries(&id).len()).or_default() += 1;
    }
    println!("the others' attempts: {counts:?}");
    ward.until_committed(61);
}

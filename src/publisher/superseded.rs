//! States that were handed back: a retry never puts an older value over a newer one.
//!
//! Deterministic, no I/O. A state that was given back with an error is remembered by its key and id, with
//! its acceptance number; when it comes again and a newer state of its key was accepted meanwhile, it is
//! superseded. At most [`LIMIT`] of them are remembered: beyond that the oldest is forgotten, and then a
//! retry of it is sent. That may repeat an old value until the newer one is published again, but loses none.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// How many handed-back states are remembered; with their keys and ids that is some 5 MB.
pub(super) const LIMIT: usize = 10_000;

/// The keys of states that are outstanding or were handed back.
#[derive(Debug)]
pub(super) struct Superseded {
    limit: usize,
    keys: HashMap<Arc<str>, Key>,
    /// All that were handed back, by number, with key and id.
    handed_back: BTreeMap<u64, (Arc<str>, String)>,
}

#[derive(Debug, Default)]
struct Key {
    outstanding: usize,
    /// The number of the newest state accepted; 0 for none that is known.
    newest: u64,
    /// Those that were handed back: id and number.
    handed_back: HashMap<String, u64>,
}

impl Superseded {
    /// Nothing yet; at most `limit` handed-back states will be remembered.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, keys: HashMap::new(), handed_back: BTreeMap::new() }
    }

    /// Whether the state with this id was handed back before, and a newer one of its key accepted since.
    pub(super) fn is_superseded(&self, key: &str, id: &str) -> bool {
        let Some(key) = self.keys.get(key) else { return false };
        key.handed_back.get(id).is_some_and(|number| *number < key.newest)
    }

    /// A state was accepted; `number` is higher than all before it, and not 0.
    pub(super) fn accepted(&mut self, key: &Arc<str>, id: &str, number: u64) {
        let known = self.keys.entry(Arc::clone(key)).or_default();
        known.outstanding += 1;
        known.newest = number;
        if let Some(earlier) = known.handed_back.remove(id) {
            self.handed_back.remove(&earlier);
        }
    }

    /// An accepted state was answered for good.
    pub(super) fn finished(&mut self, key: &str) {
        if let Some(known) = self.keys.get_mut(key) {
            known.outstanding = known.outstanding.saturating_sub(1);
            self.forget_if_idle(key);
        }
    }

    /// A state is given back with an error. `number` is its acceptance number, or, where it never was
    /// accepted, one of its own. One that is known already keeps its place.
    pub(super) fn hand_back(&mut self, key: &Arc<str>, id: &str, number: u64) {
        let known = self.keys.entry(Arc::clone(key)).or_default();
        if known.handed_back.contains_key(id) {
            return;
        }
        known.handed_back.insert(id.to_owned(), number);
        self.handed_back.insert(number, (Arc::clone(key), id.to_owned()));
        while self.handed_back.len() > self.limit {
            let Some((_, (key, id))) = self.handed_back.pop_first() else { return };
            if let Some(known) = self.keys.get_mut(&key) {
                known.handed_back.remove(&id);
            }
            self.forget_if_idle(&key);
        }
    }

    fn forget_if_idle(&mut self, key: &str) {
        if self.keys.get(key).is_some_and(|known| known.outstanding == 0 && known.handed_back.is_empty()) {
            self.keys.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn a_retry_is_superseded_once_a_newer_state_was_accepted() {
        let mut known = Superseded::new(LIMIT);
        known.accepted(&key("k"), "old", 1);
        known.hand_back(&key("k"), "old", 1);
        known.finished("k");
        assert!(!known.is_superseded("k", "old"));
        known.accepted(&key("k"), "new", 2);
        known.finished("k");
        assert!(known.is_superseded("k", "old"));
        assert!(!known.is_superseded("k", "newest"), "a fresh message is never superseded");
        assert!(!known.is_superseded("other", "old"));
    }

    #[test]
    fn the_newest_of_several_failed_states_may_be_retried() {
        let mut known = Superseded::new(LIMIT);
        for (id, number) in [("a", 1), ("b", 2)] {
            known.accepted(&key("k"), id, number);
        }
        for (id, number) in [("a", 1), ("b", 2)] {
            known.hand_back(&key("k"), id, number);
            known.finished("k");
        }
        assert!(known.is_superseded("k", "a"));
        assert!(!known.is_superseded("k", "b"));
    }

    #[test]
    fn a_state_refused_twice_keeps_its_first_place() {
        let mut known = Superseded::new(LIMIT);
        known.hand_back(&key("k"), "old", 1);
        known.accepted(&key("k"), "new", 2);
        known.hand_back(&key("k"), "old", 3);
        assert!(known.is_superseded("k", "old"));
    }

    #[test]
    fn past_the_limit_the_oldest_is_forgotten_and_nothing_is_kept_for_what_succeeded() {
        let mut known = Superseded::new(2);
        for (number, id) in (1..).zip(["a", "b", "c"]) {
            known.hand_back(&key(id), id, number);
        }
        known.accepted(&key("a"), "newer", 4);
        known.accepted(&key("b"), "newer", 5);
        assert!(!known.is_superseded("a", "a"), "it was forgotten");
        assert!(known.is_superseded("b", "b"));
        known.finished("a");
        assert!(!known.keys.contains_key("a"));
    }

    proptest! {
        /// Steps are (id, what); what: 0 publish and succeed, 1 publish and fail.
        #[test]
        fn an_older_value_never_goes_over_a_newer_one(steps in prop::collection::vec((0..6_usize, 0..2), 1..80)) {
            let mut known = Superseded::new(LIMIT);
            let (mut number, mut first, mut newest) = (0, [None; 6], 0);
            for (id, what) in steps {
                let (id, name) = (id, id.to_string());
                let superseded = known.is_superseded("k", &name);
                // `first` is set while the id stands handed back.
                prop_assert_eq!(superseded, first[id].is_some_and(|at| at < newest));
                if superseded {
                    continue;
                }
                number += 1;
                newest = number;
                known.accepted(&key("k"), &name, number);
                first[id] = None;
                if what == 1 {
                    known.hand_back(&key("k"), &name, number);
                    first[id] = Some(number);
                }
                known.finished("k");
                prop_assert_eq!(known.keys.is_empty(), first.iter().all(Option::is_none));
            }
        }
    }
}

//! Order per resource: when a message fails, those of its resource accepted after it fail too.
//!
//! Deterministic, no I/O. Messages are known by their acceptance numbers, which grow. A message is doomed by
//! an earlier one of its resource when it was accepted before that one's failure was known; an answer that
//! was given before stands. What is kept is bounded by what is outstanding: a resource with nothing
//! outstanding is forgotten.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::model::ResourceKey;

/// What is outstanding, by resource.
#[derive(Debug, Default)]
pub(super) struct Order {
    chains: HashMap<ResourceKey, Chain>,
}

/// One resource's outstanding messages.
#[derive(Debug, Default)]
struct Chain {
    outstanding: BTreeSet<u64>,
    /// The highest number accepted.
    newest: u64,
    /// By rising `after`, and also by rising `below`. At the latest failure each held something outstanding
    /// that those before it do not, so there are no more of them than messages were outstanding then.
    doomed: Vec<Doomed>,
}

/// The numbers between `after` and `below` fail.
#[derive(Debug)]
struct Doomed {
    /// The message that failed.
    after: u64,
    /// The first number that was accepted when the failure was known.
    below: u64,
    /// The id of the message that failed.
    culprit: Arc<str>,
}

impl Order {
    /// A message of `resource` was accepted; `number` is higher than all before it.
    pub(super) fn accepted(&mut self, resource: &ResourceKey, number: u64) {
        let chain = match self.chains.get_mut(resource) {
            Some(chain) => chain,
            None => self.chains.entry(resource.clone()).or_default(),
        };
        chain.outstanding.insert(number);
        chain.newest = number;
    }

    /// An outstanding message failed, for the first time: those after it are doomed. It stays outstanding
    /// until [`Order::finished`].
    pub(super) fn failed(&mut self, resource: &ResourceKey, number: u64, id: &str) {
        let Some(chain) = self.chains.get_mut(resource) else { return };
        let below = chain.newest.saturating_add(1);
        // An earlier failure that becomes known later reaches as far, and comes first.
        chain.doomed.retain(|range| range.after < number);
        chain.doomed.push(Doomed { after: number, below, culprit: id.into() });
        let (outstanding, mut covered) = (&chain.outstanding, 0);
        chain.doomed.retain(|range| {
            let own = covered.max(range.after.saturating_add(1));
            covered = range.below;
            outstanding.range(own..).next().is_some_and(|first| *first < range.below)
        });
    }

    /// A message was answered for good. Returns the id of the earlier message that dooms it, if one does.
    pub(super) fn finished(&mut self, resource: &ResourceKey, number: u64) -> Option<Arc<str>> {
        let chain = self.chains.get_mut(resource)?;
        chain.outstanding.remove(&number);
        let found = chain.doomed.iter().find(|range| range.below > number);
        let culprit = found.filter(|range| range.after < number).map(|range| Arc::clone(&range.culprit));
        match chain.outstanding.first() {
            None => {
                self.chains.remove(resource);
            }
            Some(oldest) if chain.doomed.first().is_some_and(|range| range.below <= *oldest) => {
                let oldest = *oldest;
                chain.doomed.retain(|range| range.below > oldest);
            }
            Some(_) => {}
        }
        culprit
    }
}

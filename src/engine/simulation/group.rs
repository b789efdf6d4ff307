//! The consumer group: members, generations, and who has been given which bucket.

use std::collections::{BTreeMap, BTreeSet};

use super::Process;
use crate::model::Bucket;

/// What the coordinator knows a member by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) id: u64,
    pub(super) generation: u64,
}

/// How the coordinator answers an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    UnknownMember,
    Generation,
}

#[derive(Debug, Default)]
struct Share {
    process: Process,
    buckets: BTreeSet<Bucket>,
    /// Those of them that it is to give up.
    revoked: BTreeSet<Bucket>,
    /// Whether it has not yet been told of this generation, or not yet given up what it was to.
    busy: bool,
}

/// Classic protocol, cooperative: a bucket goes to its next owner when the former one has given it up, or has
/// been put out.
#[derive(Debug, Default)]
pub(super) struct Group {
    generation: u64,
    members: BTreeMap<u64, Share>,
    latest: u64,
}

impl Group {
    pub(super) fn join(&mut self, process: Process) -> u64 {
        self.latest += 1;
        self.members.insert(self.latest, Share { process, ..Share::default() });
        self.latest
    }

    /// The member is out; whether it was in.
    pub(super) fn remove(&mut self, member: u64) -> bool {
        self.members.remove(&member).is_some()
    }

    pub(super) fn knows(&self, member: u64) -> bool {
        self.members.contains_key(&member)
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The coordinator's check: the member and its generation, not who owns what.
    pub(super) fn check(&self, member: Member) -> Result<(), Refused> {
        match self.members.get(&member.id) {
            None => Err(Refused::UnknownMember),
            Some(_) if member.generation != self.generation => Err(Refused::Generation),
            Some(_) => Ok(()),
        }
    }

    /// Whether a member must still be waited for.
    pub(super) fn is_busy(&self) -> bool {
        self.members.values().any(|share| share.busy)
    }

    /// Puts out all who are waited for: the rebalance time-out.
    pub(super) fn remove_busy(&mut self) -> Vec<u64> {
        let busy: Vec<u64> = self.members.iter().filter(|(_, share)| share.busy).map(|(id, _)| *id).collect();
        self.members.retain(|_, share| !share.busy);
        busy
    }

    /// A new generation; `sees` says what a process believes to have.
    pub(super) fn rebalance(
        &mut self,
        all: &[Bucket],
        sees: impl Fn(Process, Bucket) -> bool,
    ) -> Vec<(Process, u64)> {
        self.generation += 1;
        let taken: BTreeSet<Bucket> =
            self.members.values().flat_map(|share| share.buckets.iter().copied()).collect();
        for bucket in all.iter().filter(|bucket| !taken.contains(bucket)) {
            let fewest = self
                .members
                .iter()
                .min_by_key(|(_, share)| (!sees(share.process, *bucket), share.buckets.len()));
            if let Some(id) = fewest.map(|(id, _)| *id) {
                self.members.get_mut(&id).unwrap().buckets.insert(*bucket);
            }
        }
        let fewest = self.members.values().map(|share| share.buckets.len()).min().unwrap_or(0);
        for share in self.members.values_mut() {
            share.busy = true;
            share.revoked.clear();
            if share.buckets.len() > fewest + 1 {
                share.revoked.extend(share.buckets.last());
            }
        }
        self.members.iter().map(|(id, share)| (share.process, *id)).collect()
    }

    /// What a member has been given and may keep.
    pub(super) fn given(&self, member: u64) -> BTreeSet<Bucket> {
        self.members
            .get(&member)
            .map(|share| share.buckets.difference(&share.revoked).copied().collect())
            .unwrap_or_default()
    }

    /// Whether `bucket` has been given to `member`, to be given up or not.
    pub(super) fn has(&self, member: u64, bucket: Bucket) -> bool {
        self.members.get(&member).is_some_and(|share| share.buckets.contains(&bucket))
    }

    /// The member was told of this generation; `waits` when it has something to give up first.
    pub(super) fn told(&mut self, member: u64, waits: bool) {
        if let Some(share) = self.members.get_mut(&member) {
            share.busy = waits;
        }
    }

    /// The member has given something up and joins again with what it `keeps`.
    pub(super) fn given_up(&mut self, member: u64, keeps: &BTreeSet<Bucket>) {
        if let Some(share) = self.members.get_mut(&member) {
            share.buckets.retain(|bucket| keeps.contains(bucket));
            share.revoked.clear();
            share.busy = false;
        }
    }
}

//! Which tenure may write, as of the last rebalance callback.
//!
//! Group metadata read at any other time than in a callback would pass the broker's check for buckets that
//! are somebody else's by now. So it is kept here together with the buckets it speaks for: replaced in
//! every callback that is not a loss, cleared on loss, and never read apart from its buckets' tokens.

use std::collections::BTreeMap;

use crate::model::Bucket;

/// Names one tenure within this process. A bucket that comes back gets a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

/// The right to one transaction: what to show the coordinator, and as of which callback.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ticket<G> {
    /// The group metadata.
    pub group: G,
    /// The number of the callback that brought it.
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Owned {
    token: Token,
    revoking: bool,
}

/// The owned buckets, each with its tenure's token, and the group metadata that goes with them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Snapshot<G> {
    owned: BTreeMap<Bucket, Owned>,
    group: Option<G>,
    version: u64,
    tokens: u64,
}

impl<G> Default for Snapshot<G> {
    fn default() -> Self {
        Self { owned: BTreeMap::new(), group: None, version: 0, tokens: 0 }
    }
}

impl<G: Clone> Snapshot<G> {
    /// A callback added `buckets` (perhaps none).
    pub fn assigned(&mut self, buckets: &[Bucket], group: G) {
        for bucket in buckets {
            let token = self.fresh();
            self.owned.insert(*bucket, Owned { token, revoking: false });
        }
        self.replace(group);
    }

    /// A callback asked to give up `buckets`. They stay in until they are unassigned, so that their last
    /// transaction can be written.
    pub fn revoking(&mut self, buckets: &[Bucket], group: G) {
        for bucket in buckets {
            if let Some(owned) = self.owned.get_mut(bucket) {
                owned.revoking = true;
            }
        }
        self.replace(group);
    }

    /// `buckets` are no longer assigned.
    pub fn unassigned(&mut self, buckets: &[Bucket]) {
        for bucket in buckets {
            self.owned.remove(bucket);
        }
    }

    /// The group took everything away.
    pub fn lost(&mut self) {
        self.owned.clear();
        self.group = None;
        self.version += 1;
    }

    /// The tenure is over although the bucket is still assigned: a new token for the next one, `None` when the
    /// bucket is gone, being given up, or has another tenure already.
    pub fn renew(&mut self, bucket: Bucket, token: Token) -> Option<Token> {
        let fresh = self.fresh();
        let owned = self.owned.get_mut(&bucket).filter(|owned| owned.token == token && !owned.revoking)?;
        owned.token = fresh;
        Some(fresh)
    }

    /// What a transaction of this tenure needs; `None` when the tenure may not write any more.
    #[must_use]
    pub fn ticket(&self, bucket: Bucket, token: Token) -> Option<Ticket<G>> {
        let owned = self.owned.get(&bucket)?;
        let group = self.group.clone().filter(|_| owned.token == token)?;
        Some(Ticket { group, version: self.version })
    }

    /// The tenure that owns a bucket now.
    #[must_use]
    pub fn token(&self, bucket: Bucket) -> Option<Token> {
        self.owned.get(&bucket).map(|owned| owned.token)
    }

    /// Whether a bucket is to be given up.
    #[must_use]
    pub fn is_revoking(&self, bucket: Bucket) -> bool {
        self.owned.get(&bucket).is_some_and(|owned| owned.revoking)
    }

    /// The buckets that are to be given up.
    pub fn being_revoked(&self) -> impl Iterator<Item = Bucket> {
        self.owned.iter().filter(|(_, owned)| owned.revoking).map(|(bucket, _)| *bucket)
    }

    /// The owned buckets.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.owned.keys().copied()
    }

    /// The number of the last callback; 0 before the first.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    fn replace(&mut self, group: G) {
        self.group = Some(group);
        self.version += 1;
    }

    fn fresh(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(number: i32) -> Bucket {
        Bucket::from_partition(number).unwrap()
    }

    #[test]
    fn every_callback_replaces_the_metadata_of_all_buckets() {
        let mut snapshot = Snapshot::default();
        snapshot.assigned(&[bucket(0), bucket(1)], "generation 1");
        let token = snapshot.token(bucket(0)).unwrap();
        snapshot.revoking(&[bucket(1)], "generation 2");
        let ticket = snapshot.ticket(bucket(0), token).unwrap();
        assert_eq!((ticket.group, ticket.version), ("generation 2", 2));
    }

    #[test]
    fn a_bucket_being_revoked_writes_until_it_is_unassigned() {
        let mut snapshot = Snapshot::default();
        snapshot.assigned(&[bucket(0)], ());
        let token = snapshot.token(bucket(0)).unwrap();
        snapshot.revoking(&[bucket(0)], ());
        assert!(snapshot.ticket(bucket(0), token).is_some());
        assert_eq!(snapshot.renew(bucket(0), token), None);
        snapshot.unassigned(&[bucket(0)]);
        assert!(snapshot.ticket(bucket(0), token).is_none());
    }

    #[test]
    fn an_old_token_is_worth_nothing_when_the_bucket_comes_back() {
        let mut snapshot = Snapshot::default();
        snapshot.assigned(&[bucket(0)], ());
        let old = snapshot.token(bucket(0)).unwrap();
        snapshot.lost();
        assert!(snapshot.ticket(bucket(0), old).is_none());
        snapshot.assigned(&[bucket(0)], ());
        assert!(snapshot.ticket(bucket(0), old).is_none());
        let renewed = snapshot.renew(bucket(0), snapshot.token(bucket(0)).unwrap()).unwrap();
        assert!(snapshot.ticket(bucket(0), renewed).is_some());
    }

    #[test]
    fn a_new_tenure_of_a_bucket_that_stayed_has_a_new_token() {
        let mut snapshot = Snapshot::default();
        snapshot.assigned(&[bucket(0)], ());
        let old = snapshot.token(bucket(0)).unwrap();
        let renewed = snapshot.renew(bucket(0), old).unwrap();
        assert!(renewed != old && snapshot.ticket(bucket(0), old).is_none());
        assert_eq!((snapshot.renew(bucket(0), old), snapshot.token(bucket(0))), (None, Some(renewed)));
    }
}

//! What Kafka says about a bucket: who has it, who claimed it, what is committed, where its log ends.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use tokio::task::spawn_blocking;

use super::{
    Error, Row, Target, Tone,
    output::{brief, cell},
};
use crate::{
    engine::{CommitMetadata, ParsedMetadata},
    kafka::{Admin, AdminError, Committed, GroupInfo, Isolation, LogReader, OffsetReader},
    model::{Bucket, Claim, NextOffset, RecordKey},
    topics,
};

/// A bucket as its records, and the controllers' group, say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BucketStatus {
    /// The bucket, which is also its partition's number.
    pub bucket: u16,
    /// Who claimed it last; `None` where nobody has yet.
    pub owner: Option<String>,
    /// The number of that tenure.
    pub epoch: Option<u64>,
    /// Whether that owner has given the bucket up in good order. Of an owner that crashed it stays `false`
    /// until the next one claims the bucket.
    pub released: Option<bool>,
    /// When it was claimed or released, by the owner's clock, RFC 3339.
    pub time: Option<String>,
    /// Where handling goes on; `None` where nothing was committed yet.
    pub committed: Option<i64>,
    /// Where the log ends.
    pub end: i64,
    /// The offsets between: as many records at most, since compaction leaves gaps.
    pub lag: u64,
    /// The member of the group that has the bucket now, by its client's name; `None` where nobody has, or Kafka
    /// does not tell.
    pub assigned: Option<String>,
    /// How many records were tried, and are not finished.
    pub retrying: u64,
    /// Where the log starts.
    #[serde(skip)]
    pub start: i64,
    /// The first record that was tried and is not finished, and how often.
    #[serde(skip)]
    pub tried: Option<(i64, u32)>,
}

impl BucketStatus {
    /// The headings of [`Row::cells`].
    pub(super) const COLUMNS: &'static [&'static str] =
        &["bucket", "owner", "epoch", "released", "time", "committed", "end", "lag", "assigned", "retrying"];
}

impl Row for BucketStatus {
    const COLUMNS: &'static [&'static str] = Self::COLUMNS;

    fn cells(&self) -> Vec<String> {
        vec![
            self.bucket.to_string(),
            cell(self.owner.as_deref()),
            cell(self.epoch),
            cell(self.released),
            cell(self.time.as_deref().map(|time| brief(time, 0))),
            cell(self.committed),
            self.end.to_string(),
            self.lag.to_string(),
            cell(self.assigned.as_deref()),
            self.retrying.to_string(),
        ]
    }

    fn tone(&self) -> Option<(usize, Tone)> {
        const LAG: usize = 7;
        match (self.lag, &self.assigned) {
            (0, _) => None,
            (_, None) => Some((LAG, Tone::Bad)),
            (_, Some(_)) => Some((LAG, Tone::Caution)),
        }
    }
}

/// Asks Kafka about buckets, again and again if need be: its clients stay connected.
pub(super) struct Looking {
    target: Target,
    admin: Admin,
    asking: Arc<Asking>,
}

impl Looking {
    /// Connects, after verifying that the bus has as many buckets as expected.
    ///
    /// # Errors
    /// Where the topics are missing or have another number of partitions, and where Kafka does not answer.
    pub(super) async fn new(target: &Target) -> Result<Self, Error> {
        let needed = [target.bus.notifications(), target.bus.ownership()];
        topics::check_buckets(&needed, target.buckets, &target.kafka, target.timeout).await?;
        Ok(Self {
            admin: Admin::new(&target.kafka, target.timeout)?,
            asking: Arc::new(Asking::new(target)?),
            target: target.clone(),
        })
    }

    /// The controllers' group; `None` where Kafka does not tell this user, or is the embedded one.
    ///
    /// # Errors
    /// Where Kafka does not answer.
    pub(super) async fn group(&self) -> Result<Option<GroupInfo>, Error> {
        let bus = &self.target.bus;
        match self.admin.group(&bus.group(), &bus.notifications()).await {
            Ok(group) => Ok(Some(group)),
            Err(AdminError::NotAuthorized(_) | AdminError::Unsupported { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks about buckets, one after another.
    ///
    /// # Errors
    /// Where Kafka does not answer, and where a claim cannot be read.
    pub(super) async fn statuses(&self, buckets: Vec<Bucket>) -> Result<Vec<BucketStatus>, Error> {
        let group = self.group().await?;
        self.statuses_in(group.as_ref(), buckets).await
    }

    /// The same, with a group that is known already.
    pub(super) async fn statuses_in(
        &self,
        group: Option<&GroupInfo>,
        buckets: Vec<Bucket>,
    ) -> Result<Vec<BucketStatus>, Error> {
        let assignments = group.map(GroupInfo::assignments).unwrap_or_default();
        let assigned: BTreeMap<Bucket, String> =
            assignments.into_iter().map(|(bucket, member)| (bucket, member.client.clone())).collect();
        let asking = Arc::clone(&self.asking);
        let asked = spawn_blocking(move || {
            let status = |bucket| {
                let assigned = assigned.get(&bucket).cloned();
                asking.status(bucket).map(|status| BucketStatus { assigned, ..status })
            };
            buckets.into_iter().map(status).collect()
        });
        asked.await.map_err(|_| Error::Interrupted)?
    }
}

/// The readers, and what they read.
struct Asking {
    target: Target,
    reader: LogReader,
    offsets: OffsetReader,
}

impl Asking {
    fn new(target: &Target) -> Result<Self, Error> {
        let Target { kafka, bus, .. } = target;
        Ok(Self {
            reader: LogReader::new(kafka, Isolation::ReadCommitted, None)?,
            // The last stable offset at once, also where a transaction is pending.
            offsets: OffsetReader::new(kafka, &bus.group(), Isolation::ReadUncommitted, None)?,
            target: target.clone(),
        })
    }

    /// Blocks, each step for up to the target's time-out.
    fn status(&self, bucket: Bucket) -> Result<BucketStatus, Error> {
        let Target { bus, timeout, .. } = &self.target;
        let (claim, topic) = (self.claim(bucket)?, bus.notifications());
        let found = self.offsets.committed(&topic, bucket, *timeout)?;
        let (retrying, tried) = found.as_ref().map(retries).unwrap_or_default();
        let committed = found.map(|committed| committed.offset);
        let (start, end) = self.reader.bounds(&topic, bucket, *timeout)?;
        Ok(BucketStatus {
            bucket: bucket.get(),
            epoch: claim.as_ref().map(|claim| claim.epoch.get()),
            released: claim.as_ref().map(|claim| claim.released),
            time: claim.as_ref().map(|claim| claim.time.clone()),
            owner: claim.map(|claim| claim.owner),
            committed: committed.map(NextOffset::get),
            end: end.get(),
            lag: committed.unwrap_or(start).max(start).distance_to(end),
            assigned: None,
            retrying,
            start: start.get(),
            tried,
        })
    }

    /// The latest claim of a bucket.
    fn claim(&self, bucket: Bucket) -> Result<Option<Claim>, Error> {
        let (topic, timeout) = (self.target.bus.ownership(), self.target.timeout);
        let range = self.reader.bounds(&topic, bucket, timeout)?;
        let mut latest = None;
        self.reader.read((&topic, bucket), range, timeout, |record| {
            if record.key() == Some(RecordKey::CLAIM.as_bytes()) {
                latest = record.payload().map(<[u8]>::to_vec);
            }
        })?;
        let claim = latest.map(|value| Claim::decode(&value)).transpose();
        claim.map_err(|source| Error::Claim { bucket, topic, source })
    }
}

/// How many records were tried and are not finished, and the first of them with its attempts.
fn retries(committed: &Committed) -> (u64, Option<(i64, u32)>) {
    match CommitMetadata::decode(&committed.metadata, committed.offset) {
        ParsedMetadata::Ours(metadata) => {
            let attempts = &metadata.marks.attempts;
            let first = attempts.first_key_value().map(|(offset, tried)| (offset.get(), tried.count));
            (u64::try_from(attempts.len()).unwrap_or(u64::MAX), first)
        }
        ParsedMetadata::Unreadable { .. } | ParsedMetadata::Foreign => (0, None),
    }
}

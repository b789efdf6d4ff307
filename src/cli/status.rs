//! What Kafka says about a bucket: who claimed it, what is committed, where its log ends.

use serde::Serialize;
use tokio::task::spawn_blocking;

use super::{Error, Row, Target, output::cell};
use crate::{
    kafka::{Isolation, LogReader, OffsetReader},
    model::{Bucket, Claim, NextOffset, RecordKey},
    topics,
};

/// A bucket as its records say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
}

impl Row for BucketStatus {
    const COLUMNS: &'static [&'static str] =
        &["bucket", "owner", "epoch", "released", "time", "committed", "end", "lag"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.bucket.to_string(),
            cell(self.owner.as_deref()),
            cell(self.epoch),
            cell(self.released),
            cell(self.time.as_deref()),
            cell(self.committed),
            self.end.to_string(),
            self.lag.to_string(),
        ]
    }
}

/// Asks Kafka about buckets, one after another.
///
/// # Errors
/// Where the topics are missing or have another number of partitions, where Kafka does not answer, and
/// where a claim cannot be read.
pub(super) async fn statuses(target: &Target, buckets: Vec<Bucket>) -> Result<Vec<BucketStatus>, Error> {
    let needed = [target.bus.notifications(), target.bus.ownership()];
    topics::check_buckets(&needed, target.buckets, &target.kafka, target.timeout).await?;
    let target = target.clone();
    let asked = spawn_blocking(move || {
        let asking = Asking::new(&target)?;
        buckets.into_iter().map(|bucket| asking.status(bucket)).collect()
    });
    asked.await.map_err(|_| Error::Interrupted)?
}

/// The readers, and what they read.
struct Asking<'a> {
    target: &'a Target,
    reader: LogReader,
    offsets: OffsetReader,
}

impl<'a> Asking<'a> {
    fn new(target: &'a Target) -> Result<Self, Error> {
        let Target { kafka, bus, .. } = target;
        Ok(Self {
            target,
            reader: LogReader::new(kafka, Isolation::ReadCommitted, None)?,
            // The last stable offset at once, also where a transaction is pending.
            offsets: OffsetReader::new(kafka, &bus.group(), Isolation::ReadUncommitted, None)?,
        })
    }

    /// Blocks, each step for up to the target's time-out.
    fn status(&self, bucket: Bucket) -> Result<BucketStatus, Error> {
        let Target { bus, timeout, .. } = self.target;
        let (claim, topic) = (self.claim(bucket)?, bus.notifications());
        let committed = self.offsets.committed(&topic, bucket, *timeout)?;
        let committed = committed.map(|committed| committed.offset);
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

//! `route RESOURCE`: which bucket a resource belongs to, and who owns it.

use serde::Serialize;

use super::{BucketStatus, Error, Row, Target, output::cell, status::Looking};
use crate::model::ResourceKey;

/// Where a resource's notifications go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The resource.
    pub resource: String,
    /// Its bucket.
    pub bucket: u16,
    /// The partition of the notifications topic: the same number.
    pub partition: i32,
    /// Who claimed the bucket last; `None` where nobody has yet.
    pub owner: Option<String>,
    /// The number of that tenure.
    pub epoch: Option<u64>,
    /// Whether that owner has given the bucket up in good order.
    pub released: Option<bool>,
    /// Where handling goes on; `None` where nothing was committed yet.
    pub committed: Option<i64>,
    /// The offsets between there and the log's end: as many records of the bucket wait at most.
    pub lag: u64,
    /// The member of the controllers' group that has the bucket now; `None` where nobody has, or Kafka does not tell.
    pub assigned: Option<String>,
}

impl Row for Route {
    const COLUMNS: &'static [&'static str] =
        &["resource", "bucket", "partition", "owner", "epoch", "released", "committed", "lag", "assigned"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.resource.clone(),
            self.bucket.to_string(),
            self.partition.to_string(),
            cell(self.owner.as_deref()),
            cell(self.epoch),
            cell(self.released),
            cell(self.committed),
            self.lag.to_string(),
            cell(self.assigned.as_deref()),
        ]
    }
}

/// Tells which bucket a resource belongs to, and who owns it.
///
/// Writes nothing, so dropping the future has no effect on Kafka.
///
/// # Errors
/// Where the topics are missing or have another number of partitions, where Kafka does not answer, and
/// where the claim cannot be read.
pub async fn route(target: &Target, resource: &ResourceKey) -> Result<Route, Error> {
    let bucket = target.buckets.of(resource);
    let status = Looking::new(target).await?.statuses(vec![bucket]).await?.pop().ok_or(Error::Interrupted)?;
    let BucketStatus { owner, epoch, released, committed, lag, assigned, .. } = status;
    Ok(Route {
        resource: resource.to_string(),
        bucket: bucket.get(),
        partition: bucket.partition(),
        owner,
        epoch,
        released,
        committed,
        lag,
        assigned,
    })
}

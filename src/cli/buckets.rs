//! `buckets`: every bucket of the bus, by what its records say.

use super::{BucketStatus, Error, Target, status::statuses};

/// Tells about every bucket, in order.
///
/// Writes nothing, so dropping the future has no effect on Kafka.
///
/// # Errors
/// Where the topics are missing or have another number of partitions, where Kafka does not answer, and
/// where a claim cannot be read.
pub async fn buckets(target: &Target) -> Result<Vec<BucketStatus>, Error> {
    statuses(target, target.buckets.iter().collect()).await
}

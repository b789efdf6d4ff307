//! `dead-letters list`.

use std::{collections::VecDeque, time::Duration};

use tokio::task::spawn_blocking;

use super::Letter;
use crate::{
    cli::{Error, Target, dead_letters::selection::bucket_of},
    kafka::{Isolation, LogReader},
    model::{Bucket, NextOffset},
    topics,
};

/// The newest `limit` dead letters of the bus, or of one bucket, the oldest of them first.
///
/// Writes nothing, so dropping the future has no effect on Kafka. Holds `limit` letters per bucket at most.
///
/// # Errors
/// [`Error::NoBucket`]; where the topic is missing or has another number of partitions, and where Kafka does
/// not answer.
pub async fn list(target: &Target, bucket: Option<u16>, limit: usize) -> Result<Vec<Letter>, Error> {
    let buckets = match bucket {
        Some(number) => vec![bucket_of(number, target.buckets)?],
        None => target.buckets.iter().collect(),
    };
    let topic = target.bus.dead_letters();
    topics::check_buckets(std::slice::from_ref(&topic), target.buckets, &target.kafka, target.timeout)
        .await?;
    let target = target.clone();
    let read = spawn_blocking(move || {
        let reader = LogReader::new(&target.kafka, Isolation::ReadCommitted, None)?;
        let mut letters = Vec::new();
        for bucket in buckets {
            letters.extend(latest(&reader, (&topic, bucket), limit, target.timeout)?);
        }
        Ok::<_, Error>(letters)
    });
    let mut letters = read.await.map_err(|_| Error::Interrupted)??;
    letters.sort_by_key(|letter| (letter.timestamp, letter.bucket, letter.offset));
    Ok(letters.split_off(letters.len().saturating_sub(limit)))
}

/// The newest letters of one bucket. Blocks.
fn latest(
    reader: &LogReader,
    (topic, bucket): (&str, Bucket),
    limit: usize,
    timeout: Duration,
) -> Result<VecDeque<Letter>, Error> {
    let (start, end) = reader.bounds(topic, bucket, timeout)?;
    // Half of the offsets are transactions' markers, so twice the limit often is enough; else look further back.
    let mut span = u64::try_from(limit).unwrap_or(u64::MAX).saturating_mul(2);
    loop {
        let from = back(start, end, span);
        let mut letters = VecDeque::new();
        reader.read((topic, bucket), (from, end), timeout, |record| {
            if letters.len() == limit {
                letters.pop_front();
            }
            if letters.len() < limit {
                letters.push_back(Letter::of(&record));
            }
        })?;
        if letters.len() >= limit || from == start {
            return Ok(letters);
        }
        span = span.saturating_mul(4);
    }
}

/// The position `span` offsets before `end`, but not before `start`.
fn back(start: NextOffset, end: NextOffset, span: u64) -> NextOffset {
    start.advanced(start.distance_to(end).saturating_sub(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_back_ends_at_the_logs_start() {
        let at = |offset| NextOffset::new(offset).unwrap();
        assert_eq!(back(at(10), at(100), 20), at(80));
        assert_eq!(back(at(10), at(100), 90), at(10));
        assert_eq!(back(at(10), at(100), u64::MAX), at(10));
        assert_eq!(back(at(10), at(10), 5), at(10));
    }
}

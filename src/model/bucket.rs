//! Routing: which bucket a resource belongs to.
//!
//! Kafka's murmur2 over the bytes of `namespace/name`, made positive, modulo the number of buckets: what
//! the Java client's default partitioner and librdkafka's `murmur2_random` give for a record keyed by
//! the resource, so that producers in any language agree. The golden vectors were made with the Java client.

use std::fmt;

use super::ResourceKey;

/// The most buckets that a bus may have.
const LIMIT: u32 = 4096;

/// A bucket's number; equals its partition in the notifications topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(u16);

/// How many buckets a bus has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Buckets(u16);

/// A number of buckets that a bus cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found} is not a number of buckets: expected 1 to {LIMIT}")]
pub struct InvalidBuckets {
    found: u32,
}

impl Bucket {
    /// The bucket of a partition; `None` when the number is negative or beyond what a bus can have.
    #[must_use]
    pub fn from_partition(partition: i32) -> Option<Self> {
        u16::try_from(partition).ok().filter(|number| u32::from(*number) < LIMIT).map(Self)
    }

    /// The partition that this bucket is, in every topic with one partition per bucket.
    #[must_use]
    pub fn partition(self) -> i32 {
        i32::from(self.0)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl Buckets {
    /// Checks `count`.
    ///
    /// # Errors
    /// [`InvalidBuckets`] unless it is 1 to 4096.
    pub fn new(count: u32) -> Result<Self, InvalidBuckets> {
        match u16::try_from(count) {
            Ok(number) if number > 0 && count <= LIMIT => Ok(Self(number)),
            _ => Err(InvalidBuckets { found: count }),
        }
    }

    /// The number of buckets.
    #[must_use]
    pub const fn count(self) -> u16 {
        self.0
    }

    /// Every bucket, in order.
    pub fn iter(self) -> impl Iterator<Item = Bucket> {
        (0..self.0).map(Bucket)
    }

    /// The bucket numbered `number`, if there is one.
    #[must_use]
    pub fn get(self, number: u16) -> Option<Bucket> {
        (number < self.0).then_some(Bucket(number))
    }

    /// The bucket of a resource.
    #[must_use]
    pub fn of(self, resource: &ResourceKey) -> Bucket {
        self.of_bytes(resource.as_str().as_bytes())
    }

    /// The bucket of a resource that was checked with [`ResourceKey::check`], by its bytes.
    #[must_use]
    pub fn of_bytes(self, resource: &[u8]) -> Bucket {
        let positive = murmur2(resource) & 0x7fff_ffff;
        let number = positive % u32::from(self.0);
        Bucket(u16::try_from(number).unwrap_or(0)) // below a u16 by the line before
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// MurmurHash2, 32 bits, with the seed that Kafka's Java client uses.
///
/// Source of the rule: `org.apache.kafka.common.utils.Utils.murmur2`.
#[must_use]
pub fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    // Kafka defines lengths as 32-bit; a resource is at most 507 bytes.
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut hash = SEED ^ length;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with the Java client's own partitioner: `tests/kafka/vectors/make`.
    const VECTORS: &str = include_str!("../../tests/kafka/vectors/buckets.tsv");

    #[test]
    fn buckets_are_those_of_the_java_clients_partitioner() {
        let mut checked = 0;
        let mut lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
        let columns = lines.next().unwrap().split('\t').skip(4);
        let counts: Vec<u32> =
            columns.map(|name| name.strip_prefix("of_").unwrap().parse().unwrap()).collect();
        for line in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            let resource: ResourceKey = format!("{}/{}", fields[0], fields[1]).parse().unwrap();
            let hash: i32 = fields[3].parse().unwrap();
            assert_eq!(murmur2(resource.as_str().as_bytes()), hash.cast_unsigned(), "{resource}");
            for (count, expected) in counts.iter().zip(&fields[4..]) {
                let bucket = Buckets::new(*count).unwrap().of(&resource);
                assert_eq!(&bucket.to_string(), expected, "{resource} of {count}");
                checked += 1;
            }
        }
        assert!(checked >= 1000, "only {checked} vectors were found");
    }

    #[test]
    fn a_bus_has_1_to_4096_buckets() {
        assert!(Buckets::new(0).is_err());
        assert!(Buckets::new(4097).is_err());
        assert_eq!(Buckets::new(4096).unwrap().count(), 4096);
    }
}

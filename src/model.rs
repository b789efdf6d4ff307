//! Pure values: what the bus talks about, and how each of them is written in Kafka.
//!
//! Nothing here does I/O, knows a clock, or sees Kafka's client. Text and bytes become these types at the
//! edge; past that point an invalid value cannot exist.

mod bucket;
mod bus;
mod claim;
mod dead_letter;
mod envelope;
mod epoch;
mod error_kind;
mod key;
mod message;
mod notification;
mod offset;
mod pod;
mod record;
mod resource;

pub use bucket::{Bucket, Buckets, InvalidBuckets, murmur2};
pub use bus::{Bus, InvalidBusName};
pub use claim::{Claim, InvalidClaim};
pub use dead_letter::{DeadLetter, Provenance, REASON_LIMIT, Why};
pub use envelope::{Attribute, Kind};
pub use epoch::{Epoch, TransactionSequence};
pub use error_kind::{ErrorKind, chain};
pub use key::{InvalidKey, RecordKey};
pub use message::{InvalidMessage, Message, Outgoing};
pub use notification::{Decoded, Notification, Undecodable};
pub use offset::{NextOffset, RecordOffset};
pub use pod::{InvalidPodName, PodName};
pub use record::{Record, RecordBuilder};
pub use resource::{InvalidResource, ResourceKey};

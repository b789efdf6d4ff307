//! Dead letters: a record that could not be handled, with where it came from, why, and how often it was tried.
//!
//! The copy keeps the record's key, headers and payload, and adds headers of its own, all beginning with
//! `dead-letter-`. Where the payload itself does not fit, its size and SHA-256 stand in for it.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{Bucket, Epoch, Outgoing, Record, RecordOffset};

/// The most bytes of a reason that are kept.
pub const REASON_LIMIT: usize = 4096;

const PREFIX: &str = "dead-letter-";

/// The class of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// A handler refused it.
    Rejected,
    /// Its attempts were used up.
    Exhausted,
    /// It is no notification that could be delivered.
    Undecodable,
}

impl Why {
    /// The word in the header and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Exhausted => "exhausted",
            Self::Undecodable => "undecodable",
        }
    }
}

/// A dead letter to write.
#[derive(Debug, Clone, Copy)]
pub struct DeadLetter<'a> {
    /// The topic that the record came from.
    pub topic: &'a str,
    /// The record.
    pub record: &'a Record,
    /// Why it ends here.
    pub why: Why,
    /// The same, for people.
    pub reason: &'a str,
    /// How many attempts were begun.
    pub attempts: u32,
    /// The tenure that gave it up.
    pub epoch: Epoch,
    /// The controller that gave it up.
    pub owner: &'a str,
    /// When, RFC 3339.
    pub time: &'a str,
}

impl DeadLetter<'_> {
    /// The record for the dead-letters topic, same partition.
    #[must_use]
    pub fn encode(&self) -> Outgoing {
        let mut outgoing = self.without_payload();
        outgoing.payload = self.record.payload().map(Bytes::copy_from_slice);
        outgoing
    }

    /// The record without its data: the data's size and SHA-256 stand in for it.
    #[must_use]
    pub fn encode_without_data(&self) -> Outgoing {
        let mut outgoing = self.without_payload();
        let data = self.record.payload().unwrap_or_default();
        let digest: String = Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect();
        outgoing.headers.push(header("data-size", &data.len().to_string()));
        outgoing.headers.push(header("data-sha256", &digest));
        outgoing.payload = Some(Bytes::new());
        outgoing
    }

    fn without_payload(&self) -> Outgoing {
        let mut headers: Vec<_> = self
            .record
            .headers()
            .filter(|(name, _)| !name.starts_with(PREFIX))
            .map(|(name, value)| (name.to_owned(), value.map(Bytes::copy_from_slice)))
            .collect();
        headers.extend([
            header("topic", self.topic),
            header("partition", &self.record.bucket().to_string()),
            header("offset", &self.record.offset().to_string()),
            header("why", self.why.as_str()),
            header("reason", shortened(self.reason)),
            header("attempts", &self.attempts.to_string()),
            header("epoch", &self.epoch.to_string()),
            header("owner", self.owner),
            header("time", self.time),
        ]);
        Outgoing {
            bucket: self.record.bucket(),
            key: self.record.key().map(Bytes::copy_from_slice),
            payload: None,
            headers,
        }
    }
}

/// Where a dead letter came from, read back from its headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The topic of the record.
    pub topic: String,
    /// Its bucket.
    pub bucket: Bucket,
    /// Its offset.
    pub offset: RecordOffset,
    /// The class of the reason, as written.
    pub why: String,
    /// The reason, for people.
    pub reason: String,
    /// How many attempts were begun.
    pub attempts: u32,
    /// The controller that gave it up.
    pub owner: String,
    /// When, RFC 3339.
    pub time: String,
    /// Whether the payload was too large to be kept.
    pub data_missing: bool,
}

impl Provenance {
    /// Reads the headers of a record of the dead-letters topic; `None` where they are not ours.
    #[must_use]
    pub fn decode(record: &Record) -> Option<Self> {
        let text = |name: &str| {
            let value = record.other(&format!("{PREFIX}{name}"))?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        Some(Self {
            topic: text("topic")?,
            bucket: text("partition")?.parse().ok().and_then(Bucket::from_partition)?,
            offset: text("offset")?.parse().ok().and_then(RecordOffset::new)?,
            why: text("why")?,
            reason: text("reason")?,
            attempts: text("attempts")?.parse().ok()?,
            owner: text("owner").unwrap_or_default(),
            time: text("time").unwrap_or_default(),
            data_missing: text("data-sha256").is_some(),
        })
    }
}

fn header(name: &str, value: &str) -> (String, Option<Bytes>) {
    (format!("{PREFIX}{name}"), Some(Bytes::copy_from_slice(value.as_bytes())))
}

/// The reason's first [`REASON_LIMIT`] bytes, cut between characters.
fn shortened(reason: &str) -> &str {
    let mut end = reason.len().min(REASON_LIMIT);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(record: &Record) -> DeadLetter<'_> {
        DeadLetter {
            topic: "bus.notifications",
            record,
            why: Why::Rejected,
            reason: "no such trigger",
            attempts: 3,
            epoch: Epoch::new(7),
            owner: "controller1",
            time: "2026-01-01T00:00:00Z",
        }
    }

    fn record(payload: Option<&[u8]>) -> Record {
        let bucket = Bucket::from_partition(2).unwrap();
        let mut builder =
            Record::builder(bucket, RecordOffset::new(9).unwrap(), None, 0).key(Some(b"k")).payload(payload);
        builder.header("ce_id", Some(b"1"));
        builder.header("x", None);
        builder.finish()
    }

    fn read_back(outgoing: &Outgoing) -> Record {
        let mut builder = Record::builder(outgoing.bucket, RecordOffset::new(0).unwrap(), None, 0)
            .key(outgoing.key.as_deref())
            .payload(outgoing.payload.as_deref());
        for (name, value) in &outgoing.headers {
            builder.header(name, value.as_deref());
        }
        builder.finish()
    }

    #[test]
    fn a_dead_letter_says_where_it_came_from_and_keeps_the_record() {
        let record = record(Some(b"data"));
        let copy = read_back(&letter(&record).encode());
        assert_eq!((copy.key(), copy.payload()), (record.key(), record.payload()));
        assert_eq!(copy.headers().take(2).collect::<Vec<_>>(), record.headers().collect::<Vec<_>>());
        let from = Provenance::decode(&copy).unwrap();
        assert_eq!((from.bucket, from.offset, from.attempts), (record.bucket(), record.offset(), 3));
        assert_eq!((from.why.as_str(), from.reason.as_str()), ("rejected", "no such trigger"));
        assert!(!from.data_missing);
    }

    #[test]
    fn data_that_does_not_fit_is_replaced_by_its_digest() {
        let record = record(Some(b"abc"));
        let copy = read_back(&letter(&record).encode_without_data());
        assert_eq!(copy.payload(), Some(&b""[..]));
        assert_eq!(copy.other("dead-letter-data-size"), Some(&b"3"[..]));
        let sha = &b"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"[..];
        assert_eq!(copy.other("dead-letter-data-sha256"), Some(sha));
        assert!(Provenance::decode(&copy).unwrap().data_missing);
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let record = record(None);
        let reason = "é".repeat(REASON_LIMIT);
        let copy = read_back(&DeadLetter { reason: &reason, ..letter(&record) }.encode());
        assert_eq!(Provenance::decode(&copy).unwrap().reason.len(), REASON_LIMIT);
    }
}

//! One record as it was read: a single buffer, and ranges into it.
//!
//! Key, payload and headers are copied once, together, out of the client's memory; everything later is a
//! view. A record of any shape can be held here: judging it is [`Decoded`](super::Decoded)'s part.

use super::{Attribute, Bucket, RecordOffset};

/// A record of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    bucket: Bucket,
    offset: RecordOffset,
    timestamp: Option<i64>,
    buffer: Box<[u8]>,
    key: Span,
    payload: Span,
    attributes: [Span; Attribute::ALL.len()],
    others: Vec<(Span, Span)>,
}

/// A range of the buffer; Kafka's sizes are below 2^31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Stands for "null" or "not there"; never a real range, since it ends before it starts.
    const ABSENT: Self = Self { start: u32::MAX, end: 0 };
}

impl Record {
    /// Starts a record of `bucket`'s partition at `offset`.
    ///
    /// `timestamp` is Kafka's, in milliseconds since the Unix epoch; `size` is how many bytes of key, payload
    /// and headers will follow, where known (it only saves growing the buffer).
    #[must_use]
    pub fn builder(
        bucket: Bucket,
        offset: RecordOffset,
        timestamp: Option<i64>,
        size: usize,
    ) -> RecordBuilder {
        RecordBuilder {
            bucket,
            offset,
            timestamp,
            buffer: Vec::with_capacity(size),
            key: Span::ABSENT,
            payload: Span::ABSENT,
            attributes: [Span::ABSENT; Attribute::ALL.len()],
            others: Vec::new(),
        }
    }

    /// The bucket whose partition the record was read from.
    #[must_use]
    pub fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// Its offset there.
    #[must_use]
    pub fn offset(&self) -> RecordOffset {
        self.offset
    }

    /// Kafka's timestamp, in milliseconds since the Unix epoch, if it has one.
    #[must_use]
    pub fn timestamp(&self) -> Option<i64> {
        self.timestamp
    }

    /// The key, `None` where it is null.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.bytes(self.key)
    }

    /// The payload; `None` is a tombstone, an empty slice is an empty value.
    #[must_use]
    pub fn payload(&self) -> Option<&[u8]> {
        self.bytes(self.payload)
    }

    /// The value of a header that the bus knows; where it was given more than once, the last.
    #[must_use]
    pub fn attribute(&self, attribute: Attribute) -> Option<&[u8]> {
        self.attributes.get(attribute.index()).and_then(|span| self.bytes(*span))
    }

    /// An attribute's value where it is there and is UTF-8.
    #[must_use]
    pub fn text(&self, attribute: Attribute) -> Option<&str> {
        self.attribute(attribute).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The last value of a header that the bus itself does not know.
    #[must_use]
    pub fn other(&self, name: &str) -> Option<&[u8]> {
        let found = self.others.iter().rev().find(|(span, _)| self.bytes(*span) == Some(name.as_bytes()));
        found.and_then(|(_, value)| self.bytes(*value))
    }

    /// Every header, those that the bus knows first; a value of `None` is null.
    pub fn headers(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        let known = Attribute::ALL
            .into_iter()
            .filter_map(|attribute| self.attribute(attribute).map(|value| (attribute.header(), Some(value))));
        let others = self.others.iter().map(|(name, value)| {
            let name = self.bytes(*name).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or("");
            (name, self.bytes(*value))
        });
        known.chain(others)
    }

    /// What the record takes in memory, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.buffer.len() + self.others.capacity() * size_of::<(Span, Span)>()
    }

    fn bytes(&self, span: Span) -> Option<&[u8]> {
        let (start, end) = (usize::try_from(span.start).ok()?, usize::try_from(span.end).ok()?);
        self.buffer.get(start..end)
    }
}

/// Gathers one record's parts.
#[derive(Debug)]
pub struct RecordBuilder {
    bucket: Bucket,
    offset: RecordOffset,
    timestamp: Option<i64>,
    buffer: Vec<u8>,
    key: Span,
    payload: Span,
    attributes: [Span; Attribute::ALL.len()],
    others: Vec<(Span, Span)>,
}

impl RecordBuilder {
    /// The record's key; `None` for null.
    #[must_use]
    pub fn key(mut self, key: Option<&[u8]>) -> Self {
        self.key = self.copied(key);
        self
    }

    /// The record's payload; `None` for a tombstone.
    #[must_use]
    pub fn payload(mut self, payload: Option<&[u8]>) -> Self {
        self.payload = self.copied(payload);
        self
    }

    /// Adds a header. A repeated attribute keeps its last value as the attribute, earlier ones among the rest.
    pub fn header(&mut self, name: &str, value: Option<&[u8]>) {
        let known = Attribute::from_header(name).filter(|_| value.is_some());
        let value = self.copied(value);
        let earlier = match known.and_then(|attribute| self.attributes.get_mut(attribute.index())) {
            Some(slot) => std::mem::replace(slot, value),
            None => value,
        };
        if known.is_none() || earlier != Span::ABSENT {
            let name = self.copied(Some(name.as_bytes()));
            self.others.push((name, earlier));
        }
    }

    /// The record.
    #[must_use]
    pub fn finish(self) -> Record {
        Record {
            bucket: self.bucket,
            offset: self.offset,
            timestamp: self.timestamp,
            buffer: self.buffer.into_boxed_slice(),
            key: self.key,
            payload: self.payload,
            attributes: self.attributes,
            others: self.others,
        }
    }

    fn copied(&mut self, bytes: Option<&[u8]>) -> Span {
        let Some(bytes) = bytes else { return Span::ABSENT };
        let start = u32::try_from(self.buffer.len());
        self.buffer.extend_from_slice(bytes);
        match (start, u32::try_from(self.buffer.len())) {
            (Ok(start), Ok(end)) => Span { start, end },
            _ => Span::ABSENT, // unreachable: Kafka's protocol cannot carry a record of 4 GiB
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder() -> RecordBuilder {
        Record::builder(Bucket::from_partition(0).unwrap(), RecordOffset::new(5).unwrap(), None, 0)
    }

    #[test]
    fn an_empty_payload_is_not_a_tombstone() {
        assert_eq!(builder().payload(Some(b"")).finish().payload(), Some(&b""[..]));
        assert_eq!(builder().payload(None).finish().payload(), None);
        assert_eq!(builder().finish().key(), None);
    }

    #[test]
    fn a_repeated_attribute_keeps_its_last_value_and_passes_all_on() {
        let mut record = builder();
        record.header("ce_id", Some(b"first"));
        record.header("x", None);
        record.header("ce_id", Some(b"last"));
        record.header("ce_type", None);
        let record = record.finish();
        assert_eq!(record.text(Attribute::Id), Some("last"));
        assert_eq!(record.attribute(Attribute::Type), None);
        let headers: Vec<_> = record.headers().collect();
        assert_eq!(
            headers,
            [("ce_id", Some(&b"last"[..])), ("x", None), ("ce_id", Some(b"first")), ("ce_type", None)]
        );
    }
}

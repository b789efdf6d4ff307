//! What a pod publishes, and the record it becomes.

use bytes::Bytes;

use super::{Attribute, Bucket, Buckets, Kind, PodName, RecordKey, ResourceKey};

/// The most bytes that an id, a source, a type, a content type or an extension's value may have.
const TEXT_LIMIT: usize = 1024;

/// The most bytes in the name of an extension (CloudEvents recommends 20).
const NAME_LIMIT: usize = 20;

/// A notification before it is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    resource: ResourceKey,
    kind: Kind,
    ty: String,
    data: Bytes,
    id: Option<String>,
    source: Option<String>,
    content_type: Option<String>,
    extensions: Vec<(String, String)>,
}

/// A message's part that cannot be written as a CloudEvents attribute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {found:?} is refused: {why}")]
pub struct InvalidMessage {
    what: &'static str,
    found: String,
    why: &'static str,
}

/// A record ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Its partition, always given explicitly.
    pub bucket: Bucket,
    /// Its key; `None` only where the record it copies had none.
    pub key: Option<Bytes>,
    /// Its payload; `None` is a tombstone.
    pub payload: Option<Bytes>,
    /// Its headers, in order; a value of `None` is null.
    pub headers: Vec<(String, Option<Bytes>)>,
}

impl Message {
    /// A message about `resource`; `data` is opaque and may be empty.
    ///
    /// # Errors
    /// [`InvalidMessage`] when `ty` is empty, longer than 1,024 bytes, or has control characters.
    pub fn new(
        resource: ResourceKey,
        kind: Kind,
        ty: impl Into<String>,
        data: impl Into<Bytes>,
    ) -> Result<Self, InvalidMessage> {
        Ok(Self {
            resource,
            kind,
            ty: text("type", ty.into())?,
            data: data.into(),
            id: None,
            source: None,
            content_type: None,
            extensions: Vec::new(),
        })
    }

    /// Sets CloudEvents' `id`; without it the publisher takes a UUIDv7.
    ///
    /// # Errors
    /// [`InvalidMessage`] when it is empty, longer than 1,024 bytes, or has control characters.
    pub fn with_id(mut self, id: impl Into<String>) -> Result<Self, InvalidMessage> {
        self.id = Some(text("id", id.into())?);
        Ok(self)
    }

    /// Sets CloudEvents' `source`; without it the pod's name stands there.
    ///
    /// # Errors
    /// [`InvalidMessage`] when it is empty, longer than 1,024 bytes, or has control characters.
    pub fn with_source(mut self, source: impl Into<String>) -> Result<Self, InvalidMessage> {
        self.source = Some(text("source", source.into())?);
        Ok(self)
    }

    /// Sets the data's media type.
    ///
    /// # Errors
    /// [`InvalidMessage`] when it is empty, longer than 1,024 bytes, or has control characters.
    pub fn with_content_type(mut self, content_type: impl Into<String>) -> Result<Self, InvalidMessage> {
        self.content_type = Some(text("content type", content_type.into())?);
        Ok(self)
    }

    /// Adds a CloudEvents extension, for instance `traceparent`.
    ///
    /// # Errors
    /// [`InvalidMessage`] unless the name is 1 to 20 of `a-z 0-9` and none that CloudEvents or the bus
    /// uses itself, and the value is 1 to 1,024 bytes without control characters.
    pub fn with_extension(
        mut self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<Self, InvalidMessage> {
        const RESERVED: [&str; 5] = ["datacontenttype", "dataschema", "incarnation", "sequence", "epoch"];
        let name = name.into();
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let header = format!("ce_{name}");
        let why = if name.is_empty() || name.len() > NAME_LIMIT || !name.chars().all(legal) {
            Some("expected 1 to 20 of the characters a-z 0-9")
        } else if Attribute::from_header(&header).is_some() || RESERVED.contains(&name.as_str()) {
            Some("the name is used by CloudEvents or by the bus itself")
        } else {
            None
        };
        if let Some(why) = why {
            return Err(InvalidMessage { what: "extension", found: name.chars().take(80).collect(), why });
        }
        self.extensions.push((header, text("extension", value.into())?));
        Ok(self)
    }

    /// Marks the message as a replay of the dead letter with this id.
    #[must_use]
    pub(crate) fn replaying(mut self, id: &str) -> Self {
        self.extensions.push((Attribute::ReplayOf.header().to_owned(), id.to_owned()));
        self
    }

    /// What the message is about.
    #[must_use]
    pub fn resource(&self) -> &ResourceKey {
        &self.resource
    }

    /// State or event.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// CloudEvents' `id`, once it has one.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Its data.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// The id, taking `fresh`'s where there is none yet.
    pub(crate) fn id_or_insert(&mut self, fresh: impl FnOnce() -> String) -> &str {
        self.id.get_or_insert_with(fresh)
    }

    /// The record for the resource's own bucket. `time` is RFC 3339.
    #[must_use]
    pub fn encode(&self, pod: &PodName, buckets: Buckets, time: &str) -> Outgoing {
        self.record(pod, buckets.of(&self.resource), time, false)
    }

    /// One record for each bucket, all with the same key and id.
    pub fn encode_broadcast(
        &self,
        pod: &PodName,
        buckets: Buckets,
        time: &str,
    ) -> impl Iterator<Item = Outgoing> {
        buckets.iter().map(move |bucket| self.record(pod, bucket, time, true))
    }

    /// The record's key.
    #[must_use]
    pub fn key(&self, pod: &PodName) -> String {
        let source = self.source.as_deref().unwrap_or(pod.as_str());
        let last = match self.kind {
            Kind::State => self.ty.as_str(),
            Kind::Event => self.id.as_deref().unwrap_or_default(),
        };
        RecordKey::of_notification(self.kind, self.resource.as_str(), pod.as_str(), source, last)
    }

    fn record(&self, pod: &PodName, bucket: Bucket, time: &str, broadcast: bool) -> Outgoing {
        let source = self.source.as_deref().unwrap_or(pod.as_str());
        let mut headers = Vec::with_capacity(10 + self.extensions.len());
        let mut put = |name: &str, value: &str| {
            headers.push((name.to_owned(), Some(Bytes::copy_from_slice(value.as_bytes()))));
        };
        put(Attribute::SpecVersion.header(), "1.0");
        put(Attribute::Id.header(), self.id.as_deref().unwrap_or_default());
        put(Attribute::Source.header(), source);
        put(Attribute::Type.header(), &self.ty);
        put(Attribute::Subject.header(), self.resource.as_str());
        put(Attribute::Time.header(), time);
        put(Attribute::Kind.header(), self.kind.as_str());
        put(Attribute::Pod.header(), pod.as_str());
        if let Some(content_type) = &self.content_type {
            put(Attribute::ContentType.header(), content_type);
        }
        if broadcast {
            put(Attribute::Broadcast.header(), "true");
        }
        for (name, value) in &self.extensions {
            put(name, value);
        }
        let key = Some(Bytes::from(self.key(pod)));
        Outgoing { bucket, key, payload: Some(self.data.clone()), headers }
    }
}

impl Outgoing {
    /// An upper bound of the record's size on the wire when it is alone in its batch, uncompressed, in bytes.
    ///
    /// That is what the broker compares with `max.message.bytes`. Source of the numbers: Kafka's record
    /// batch format, version 2 (61 bytes a batch; lengths and counts are variable-length integers of at most 5).
    #[must_use]
    pub fn wire_size(&self) -> usize {
        const BATCH: usize = 61;
        const RECORD: usize = 5 + 1 + 10 + 5 + 5 + 5 + 5;
        let part = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
        let headers: usize = self.headers.iter().map(|(name, value)| 10 + name.len() + part(value)).sum();
        BATCH + RECORD + part(&self.key) + part(&self.payload) + headers
    }
}

fn text(what: &'static str, value: String) -> Result<String, InvalidMessage> {
    let why = if value.is_empty() {
        "it is empty"
    } else if value.len() > TEXT_LIMIT {
        "it is longer than 1,024 bytes"
    } else if value.chars().any(char::is_control) {
        "it has a control character"
    } else {
        return Ok(value);
    };
    Err(InvalidMessage { what, found: value.chars().take(80).collect(), why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Decoded, Record, RecordOffset};

    fn read_back(outgoing: &Outgoing, buckets: Buckets) -> Decoded {
        let mut builder = Record::builder(outgoing.bucket, RecordOffset::new(0).unwrap(), None, 0)
            .key(outgoing.key.as_deref())
            .payload(outgoing.payload.as_deref());
        for (name, value) in &outgoing.headers {
            builder.header(name, value.as_deref());
        }
        Decoded::judge(builder.finish(), buckets)
    }

    #[test]
    fn what_is_encoded_is_decoded_with_its_own_key() {
        let (pod, buckets) = (PodName::new("dispatcher 1").unwrap(), Buckets::new(7).unwrap());
        for kind in [Kind::State, Kind::Event] {
            let message = Message::new("ns/ü".parse().unwrap(), kind, "t", "")
                .and_then(|message| message.with_id("id/1"))
                .and_then(|message| message.with_content_type("application/json"))
                .and_then(|message| message.with_extension("traceparent", "00-1"))
                .unwrap();
            let records: Vec<_> = std::iter::once(message.encode(&pod, buckets, "2026-01-01T00:00:00Z"))
                .chain(message.encode_broadcast(&pod, buckets, "2026-01-01T00:00:00Z"))
                .collect();
            assert_eq!(records.len(), 8);
            for record in &records {
                let Decoded::Notification(found) = read_back(record, buckets) else { panic!("{record:?}") };
                assert!(found.has_own_key());
                assert_eq!((found.kind(), found.id(), found.source()), (kind, "id/1", "dispatcher 1"));
                assert_eq!((found.data(), found.content_type()), (&b""[..], Some("application/json")));
            }
        }
    }

    #[test]
    fn attributes_that_cloudevents_forbids_are_refused() {
        let message = || Message::new("a/b".parse().unwrap(), Kind::Event, "t", "").unwrap();
        assert!(Message::new("a/b".parse().unwrap(), Kind::Event, "", "").is_err());
        assert!(message().with_id("a\nb").is_err());
        assert!(message().with_source("x".repeat(1025)).is_err());
        for name in ["", "Upper", "with-dash", "pod", "kind", "id", "sequence", "aaaaaaaaaaaaaaaaaaaaa"] {
            assert!(message().with_extension(name, "v").is_err(), "{name:?}");
        }
    }
}

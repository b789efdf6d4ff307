//! A record of the notifications topic, judged: deliverable, a tombstone, or neither.

use super::{Attribute, Bucket, Buckets, Kind, Record, RecordKey, RecordOffset, ResourceKey};

/// A record that can be delivered to its bucket's owner.
///
/// Its attributes are checked: `id`, `source`, `type` and `subject` are there and UTF-8, the subject is a
/// resource, and the record stands in that resource's bucket or is a broadcast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    record: Record,
    kind: Kind,
    own_key: bool,
}

/// What a record of the notifications topic turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// Something to handle.
    Notification(Notification),
    /// A null payload: something was withdrawn or settled. Nothing to handle.
    Tombstone(Record),
    /// Something that no handler can be given; it goes to the dead letters as it is.
    Undecodable(Record, Undecodable),
}

/// Why a record cannot be delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Undecodable {
    /// A required attribute is not there.
    #[error("the record has no {0} header: expected a CloudEvents 1.0 record in binary mode")]
    Missing(&'static str),
    /// An attribute's value is not UTF-8, or is empty where that is not allowed.
    #[error("the value of header {0} is empty or not UTF-8")]
    Malformed(&'static str),
    /// Another version of CloudEvents.
    #[error("ce_specversion is {0:?}: expected \"1.0\"")]
    SpecVersion(String),
    /// A `ce_kind` that this version does not know.
    #[error("ce_kind is {0:?}: expected \"state\" or \"event\"")]
    Kind(String),
    /// The subject is not a resource.
    #[error("ce_subject is no resource")]
    Subject(#[source] super::InvalidResource),
    /// The record stands in a bucket that is not its subject's.
    #[error("the record is in bucket {found}, but its subject belongs to bucket {expected}")]
    Misrouted {
        /// Where it stands.
        found: Bucket,
        /// Where it belongs.
        expected: Bucket,
    },
}

impl Decoded {
    /// Judges a record, without copying it. Never panics, whatever it holds.
    #[must_use]
    pub fn judge(record: Record, buckets: Buckets) -> Self {
        if record.payload().is_none() {
            return Self::Tombstone(record);
        }
        match check(&record, buckets) {
            Ok(kind) => {
                let own_key = record.key() == Some(own_key(&record, kind).as_bytes());
                Self::Notification(Notification { record, kind, own_key })
            }
            Err(why) => Self::Undecodable(record, why),
        }
    }

    /// The record, whatever it is.
    #[must_use]
    pub fn record(&self) -> &Record {
        match self {
            Self::Notification(notification) => &notification.record,
            Self::Tombstone(record) | Self::Undecodable(record, _) => record,
        }
    }
}

impl Notification {
    /// State or event. A record without `ce_kind` comes from elsewhere and is an event.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// CloudEvents' `id`.
    #[must_use]
    pub fn id(&self) -> &str {
        self.text(Attribute::Id)
    }

    /// CloudEvents' `source`.
    #[must_use]
    pub fn source(&self) -> &str {
        self.text(Attribute::Source)
    }

    /// CloudEvents' `type`.
    #[must_use]
    pub fn ty(&self) -> &str {
        self.text(Attribute::Type)
    }

    /// The resource, `namespace/name`.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.text(Attribute::Subject)
    }

    /// The pod that published it; empty on a record from elsewhere.
    #[must_use]
    pub fn pod(&self) -> &str {
        self.text(Attribute::Pod)
    }

    /// CloudEvents' `time` as it was written, if it was.
    #[must_use]
    pub fn time(&self) -> Option<&str> {
        self.record.text(Attribute::Time)
    }

    /// The data's media type, if one was given.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.record.text(Attribute::ContentType)
    }

    /// The data, opaque to the bus; empty is a value like any other.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.record.payload().unwrap_or_default()
    }

    /// Whether the record's key is the one its own attributes give.
    #[must_use]
    pub fn has_own_key(&self) -> bool {
        self.own_key
    }

    /// Where it stands.
    #[must_use]
    pub fn offset(&self) -> RecordOffset {
        self.record.offset()
    }

    /// The record itself.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    fn text(&self, attribute: Attribute) -> &str {
        self.record.text(attribute).unwrap_or_default()
    }
}

/// The key that a record's own attributes give.
fn own_key(record: &Record, kind: Kind) -> String {
    let text = |attribute| record.text(attribute).unwrap_or_default();
    let last = match kind {
        Kind::State => text(Attribute::Type),
        Kind::Event => text(Attribute::Id),
    };
    RecordKey::of_notification(
        kind,
        text(Attribute::Subject),
        text(Attribute::Pod),
        text(Attribute::Source),
        last,
    )
}

fn check(record: &Record, buckets: Buckets) -> Result<Kind, Undecodable> {
    let required = |attribute: Attribute| match record.attribute(attribute) {
        None => Err(Undecodable::Missing(attribute.header())),
        Some(b"") => Err(Undecodable::Malformed(attribute.header())),
        Some(_) => record.text(attribute).ok_or(Undecodable::Malformed(attribute.header())),
    };
    let version = required(Attribute::SpecVersion)?;
    if version != "1.0" {
        return Err(Undecodable::SpecVersion(version.chars().take(20).collect()));
    }
    for attribute in [Attribute::Id, Attribute::Source, Attribute::Type] {
        required(attribute)?;
    }
    let subject = required(Attribute::Subject)?;
    ResourceKey::check(subject).map_err(Undecodable::Subject)?;
    if record.attribute(Attribute::Pod).is_some() && record.text(Attribute::Pod).is_none() {
        return Err(Undecodable::Malformed(Attribute::Pod.header()));
    }
    let kind = match record.attribute(Attribute::Kind) {
        None => Kind::Event,
        Some(kind) => Kind::parse(kind)
            .ok_or_else(|| Undecodable::Kind(String::from_utf8_lossy(kind).chars().take(20).collect()))?,
    };
    let expected = buckets.of_bytes(subject.as_bytes());
    let broadcast = record.attribute(Attribute::Broadcast).is_some();
    if record.bucket() != expected && !broadcast {
        return Err(Undecodable::Misrouted { found: record.bucket(), expected });
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SUBJECT: &str = "default/trigger1";

    fn record(headers: &[(&str, &[u8])], key: Option<&[u8]>, payload: Option<&[u8]>) -> Record {
        let bucket = Buckets::new(1).unwrap().get(0).unwrap();
        let mut builder =
            Record::builder(bucket, RecordOffset::new(0).unwrap(), None, 0).key(key).payload(payload);
        for (name, value) in headers {
            builder.header(name, Some(value));
        }
        builder.finish()
    }

    fn judge(record: Record) -> Decoded {
        Decoded::judge(record, Buckets::new(1).unwrap())
    }

    const FOREIGN: [(&str, &[u8]); 5] = [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"1"),
        ("ce_source", b"urn:elsewhere"),
        ("ce_type", b"t"),
        ("ce_subject", SUBJECT.as_bytes()),
    ];

    #[test]
    fn a_record_from_elsewhere_is_an_event_under_a_foreign_key() {
        let Decoded::Notification(found) = judge(record(&FOREIGN, Some(b"k"), Some(b""))) else {
            panic!("it was not delivered")
        };
        assert_eq!((found.kind(), found.pod(), found.resource()), (Kind::Event, "", SUBJECT));
        assert!(!found.has_own_key());
        assert_eq!(found.data(), b"");
    }

    #[test]
    fn a_null_payload_is_a_tombstone_whatever_else_it_has() {
        assert!(matches!(judge(record(&FOREIGN, Some(b"k"), None)), Decoded::Tombstone(_)));
        assert!(matches!(judge(record(&[], None, None)), Decoded::Tombstone(_)));
    }

    #[test]
    fn each_defect_has_its_own_reason() {
        let without = |name: &str| -> Vec<(&str, &[u8])> {
            FOREIGN.into_iter().filter(|(header, _)| *header != name).collect()
        };
        let with = |name: &'static str, value: &'static [u8]| {
            let mut headers = without(name);
            headers.push((name, value));
            headers
        };
        let reason = |headers: &[(&str, &[u8])]| match judge(record(headers, Some(b"k"), Some(b"x"))) {
            Decoded::Undecodable(_, why) => why,
            other => panic!("{other:?} was taken"),
        };
        for name in ["ce_specversion", "ce_id", "ce_source", "ce_type", "ce_subject"] {
            assert_eq!(reason(&without(name)), Undecodable::Missing(name));
            assert_eq!(reason(&with(name, b"")), Undecodable::Malformed(name));
            assert_eq!(reason(&with(name, b"\xff")), Undecodable::Malformed(name));
        }
        assert!(matches!(reason(&with("ce_subject", b"no-slash")), Undecodable::Subject(_)));
        assert!(matches!(reason(&with("ce_specversion", b"0.3")), Undecodable::SpecVersion(_)));
        assert!(matches!(reason(&with("ce_kind", b"future")), Undecodable::Kind(_)));
        assert!(matches!(reason(&with("ce_pod", b"\xff")), Undecodable::Malformed("ce_pod")));
    }

    #[test]
    fn a_misrouted_record_is_refused_and_a_broadcast_is_not() {
        let buckets = Buckets::new(64).unwrap();
        let home = buckets.of(&SUBJECT.parse().unwrap());
        let away = buckets.iter().find(|bucket| *bucket != home).unwrap();
        let at = |extra: Option<(&str, &[u8])>| {
            let mut builder =
                Record::builder(away, RecordOffset::new(0).unwrap(), None, 0).payload(Some(b"x"));
            for (name, value) in FOREIGN.into_iter().chain(extra) {
                builder.header(name, Some(value));
            }
            Decoded::judge(builder.finish(), buckets)
        };
        let Decoded::Undecodable(_, why) = at(None) else { panic!("it was delivered") };
        assert_eq!(why, Undecodable::Misrouted { found: away, expected: home });
        assert!(matches!(at(Some(("ce_broadcast", b"true"))), Decoded::Notification(_)));
    }

    proptest! {
        #[test]
        fn judging_never_panics(
            headers in proptest::collection::vec(
                (prop_oneof!["ce_[a-z]{1,8}", Just("ce_id".to_owned()), Just("ce_subject".to_owned()), Just("ce_kind".to_owned())],
                 proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20))), 0..12),
            key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
            payload in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
        ) {
            let bucket = Bucket::from_partition(0).unwrap();
            let mut builder = Record::builder(bucket, RecordOffset::new(1).unwrap(), Some(-5), 0)
                .key(key.as_deref()).payload(payload.as_deref());
            for (name, value) in &headers {
                builder.header(name, value.as_deref());
            }
            let judged = judge(builder.finish());
            prop_assert_eq!(judged.record().payload(), payload.as_deref());
            prop_assert_eq!(judged.record().headers().count(), headers.len());
        }
    }
}

//! The names of what a record carries besides its data: CloudEvents attributes and our extensions.
//!
//! Source of the rules: CloudEvents 1.0 and its Kafka protocol binding, binary content mode.

use std::fmt;

/// Whether a notification is the latest value of something, or one thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The latest value per key wins; older values may be superseded or compacted away.
    State,
    /// Every one is delivered.
    Event,
}

impl Kind {
    /// The value of `ce_kind`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Event => "event",
        }
    }

    /// The kind that `text` names.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        match text {
            b"state" => Some(Self::State),
            b"event" => Some(Self::Event),
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A header that the bus itself reads or writes; all others pass through untouched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Attribute {
    /// CloudEvents' `specversion`: `1.0`.
    SpecVersion,
    /// CloudEvents' `id`.
    Id,
    /// CloudEvents' `source`.
    Source,
    /// CloudEvents' `type`.
    Type,
    /// CloudEvents' `subject`: the resource.
    Subject,
    /// CloudEvents' `time`, RFC 3339.
    Time,
    /// CloudEvents' `datacontenttype`, which the binding writes as `content-type`.
    ContentType,
    /// Ours: *state* or *event*.
    Kind,
    /// Ours: the pod that published it.
    Pod,
    /// Ours: present (`true`) on a record that was written to every bucket.
    Broadcast,
    /// Ours: the id of the dead letter that this record replays.
    ReplayOf,
}

impl Attribute {
    /// Every attribute, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::SpecVersion,
        Self::Id,
        Self::Source,
        Self::Type,
        Self::Subject,
        Self::Time,
        Self::ContentType,
        Self::Kind,
        Self::Pod,
        Self::Broadcast,
        Self::ReplayOf,
    ];

    /// The name of the header.
    #[must_use]
    pub const fn header(self) -> &'static str {
        match self {
            Self::SpecVersion => "ce_specversion",
            Self::Id => "ce_id",
            Self::Source => "ce_source",
            Self::Type => "ce_type",
            Self::Subject => "ce_subject",
            Self::Time => "ce_time",
            Self::ContentType => "content-type",
            Self::Kind => "ce_kind",
            Self::Pod => "ce_pod",
            Self::Broadcast => "ce_broadcast",
            Self::ReplayOf => "ce_replayof",
        }
    }

    /// The attribute that a header's name means.
    #[must_use]
    pub fn from_header(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|attribute| attribute.header() == name)
    }

    /// This attribute's place in [`Attribute::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_is_found_by_its_header_and_stands_at_its_number() {
        for (index, attribute) in Attribute::ALL.into_iter().enumerate() {
            assert_eq!(attribute.index(), index);
            assert_eq!(Attribute::from_header(attribute.header()), Some(attribute));
        }
        assert_eq!(Attribute::from_header("ce_other"), None);
    }
}

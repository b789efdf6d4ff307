//! Record keys: readable in any Kafka tool, and unambiguous.
//!
//! Components joined by `/`, each percent-encoded on its own (all but `A-Z a-z 0-9 - . _ ~`), the resource
//! being two of them.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{Kind, ResourceKey};

/// Everything but RFC 3986's unreserved characters.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The key of a record, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordKey {
    /// A notification: the latest value of `type` that `source` on `pod` says about `resource`.
    State {
        /// What it is about.
        resource: ResourceKey,
        /// Who published it.
        pod: String,
        /// CloudEvents' `source`.
        source: String,
        /// CloudEvents' `type`.
        ty: String,
    },
    /// A notification: one event.
    Event {
        /// What it is about.
        resource: ResourceKey,
        /// Who published it.
        pod: String,
        /// CloudEvents' `source`.
        source: String,
        /// CloudEvents' `id`.
        id: String,
    },
    /// The latest claim of a bucket, in `<bus>.ownership`.
    Claim,
}

/// Bytes that are no key of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("key {found:?} is not one that the bus writes: {why}")]
pub struct InvalidKey {
    found: String,
    why: &'static str,
}

impl RecordKey {
    /// The key of a claim.
    pub const CLAIM: &str = "claim";

    /// Writes the key of a notification from its attributes; `last` is the type of a state, the id of an event.
    #[must_use]
    pub fn of_notification(kind: Kind, resource: &str, pod: &str, source: &str, last: &str) -> String {
        let (namespace, name) = resource.split_once('/').unwrap_or((resource, ""));
        let mut key = String::with_capacity(10 + resource.len() + pod.len() + source.len() + last.len());
        key.push_str(kind.as_str());
        for component in [namespace, name, pod, source, last] {
            key.push('/');
            key.extend(utf8_percent_encode(component, RESERVED));
        }
        key
    }

    /// Takes a key apart. Never panics, whatever the bytes are.
    ///
    /// # Errors
    /// [`InvalidKey`] when it is not UTF-8, has other components than its first one asks for, or a component
    /// is not encoded as this type would write it (so that a value has exactly one key).
    pub fn parse(key: &[u8]) -> Result<Self, InvalidKey> {
        let fail = |why| InvalidKey { found: String::from_utf8_lossy(key).chars().take(120).collect(), why };
        let text = std::str::from_utf8(key).map_err(|_| fail("it is not UTF-8"))?;
        if text == Self::CLAIM {
            return Ok(Self::Claim);
        }
        let components: Vec<&str> = text.split('/').collect();
        let [kind, namespace, name, pod, source, last] = components[..] else {
            return Err(fail("expected `claim`, or six components"));
        };
        let kind = Kind::parse(kind.as_bytes()).ok_or_else(|| fail("expected `state` or `event` first"))?;
        let decode = |component: &str| {
            let decoded = percent_decode_str(component).decode_utf8().map_err(|_| fail("bad encoding"))?;
            Ok::<_, InvalidKey>(decoded.into_owned())
        };
        let resource: ResourceKey = format!("{}/{}", decode(namespace)?, decode(name)?)
            .parse()
            .map_err(|_| fail("its resource is not `namespace/name`"))?;
        let (pod, source, last) = (decode(pod)?, decode(source)?, decode(last)?);
        let parsed = match kind {
            Kind::State => Self::State { resource, pod, source, ty: last },
            Kind::Event => Self::Event { resource, pod, source, id: last },
        };
        if parsed.to_string() == text { Ok(parsed) } else { Err(fail("bad encoding")) }
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State { resource, pod, source, ty } => {
                f.write_str(&Self::of_notification(Kind::State, resource.as_str(), pod, source, ty))
            }
            Self::Event { resource, pod, source, id } => {
                f.write_str(&Self::of_notification(Kind::Event, resource.as_str(), pod, source, id))
            }
            Self::Claim => f.write_str(Self::CLAIM),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_are_written_as_published() {
        let vectors = [
            (
                Kind::State,
                "default/trigger1",
                "dispatcher1",
                "dispatcher1",
                "consumers",
                "state/default/trigger1/dispatcher1/dispatcher1/consumers",
            ),
            (Kind::Event, "a b/ü", "p/1", "urn:x?y", "50%", "event/a%20b/%C3%BC/p%2F1/urn%3Ax%3Fy/50%25"),
            (Kind::Event, "n-_.~/r", "*", "s", "i", "event/n-_.~/r/%2A/s/i"),
        ];
        for (kind, resource, pod, source, last, expected) in vectors {
            assert_eq!(RecordKey::of_notification(kind, resource, pod, source, last), expected);
        }
        assert_eq!(RecordKey::parse(b"claim"), Ok(RecordKey::Claim));
    }

    #[test]
    fn a_second_spelling_of_a_key_is_refused() {
        for wrong in [
            &b"event/a/b/c/d/%65"[..],
            b"event/a/b/c/d/%2a",
            b"event/a/b/c/d",
            b"other/a/b/c/d/e",
            b"event//b/c/d/e",
            b"\xff",
        ] {
            assert!(RecordKey::parse(wrong).is_err(), "{:?}", String::from_utf8_lossy(wrong));
        }
    }

    proptest! {
        #[test]
        fn any_attributes_survive_the_key(ns in "[^/]{1,20}", name in "[^/]{1,20}", pod in ".{0,20}", source in ".{0,20}", last in ".{0,20}") {
            let resource = format!("{ns}/{name}");
            for kind in [Kind::State, Kind::Event] {
                let key = RecordKey::of_notification(kind, &resource, &pod, &source, &last);
                let parsed = RecordKey::parse(key.as_bytes()).unwrap();
                prop_assert_eq!(parsed.to_string(), key);
                match parsed {
                    RecordKey::State { resource: r, pod: p, source: s, ty: l } | RecordKey::Event { resource: r, pod: p, source: s, id: l } => {
                        prop_assert_eq!((r.as_str(), p, s, l), (resource.as_str(), pod.clone(), source.clone(), last.clone()));
                    }
                    RecordKey::Claim => prop_assert!(false),
                }
            }
        }

        #[test]
        fn parsing_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let parsed = RecordKey::parse(&bytes);
            if let Ok(key) = parsed {
                prop_assert_eq!(key.to_string().into_bytes(), bytes);
            }
        }
    }
}

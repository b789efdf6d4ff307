//! One record as it is shown, whatever it is.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    cli::{Row, output::cell},
    model::{Attribute, Buckets, Decoded, Provenance, Record, RecordKey, chain},
    pipe::json_data,
};

/// A record; what it lacks is `None`. The names are those of the lines that `run` writes.
#[derive(Debug, Clone, Serialize)]
pub(in crate::cli) struct Seen {
    /// CloudEvents' `id`.
    pub(in crate::cli) id: Option<String>,
    /// CloudEvents' `subject`.
    pub(in crate::cli) resource: Option<String>,
    /// CloudEvents' `source`.
    pub(in crate::cli) source: Option<String>,
    /// The pod that published it.
    pub(in crate::cli) pod: Option<String>,
    /// CloudEvents' `type`.
    #[serde(rename = "type")]
    pub(in crate::cli) ty: Option<String>,
    /// `state`, `event`, `tombstone` or `undecodable`.
    pub(in crate::cli) kind: &'static str,
    /// The bucket.
    pub(in crate::cli) bucket: u16,
    /// The offset there.
    pub(in crate::cli) offset: i64,
    /// When it was published, RFC 3339; of a dead letter, when it was given up.
    pub(in crate::cli) time: Option<String>,
    /// The data's media type.
    pub(in crate::cli) content_type: Option<String>,
    /// Why no controller could handle it, where it is undecodable.
    pub(in crate::cli) problem: Option<String>,
    /// Of a dead letter only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) dead_letter: Option<Given>,
    /// JSON data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) data: Option<Box<RawValue>>,
    /// All other data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) data_base64: Option<String>,
    /// The data as people read it.
    #[serde(skip)]
    pub(in crate::cli) text: String,
}

/// How a dead letter was given up.
#[derive(Debug, Clone, Serialize)]
pub(in crate::cli) struct Given {
    /// The class of the reason.
    pub(in crate::cli) why: String,
    /// The reason.
    pub(in crate::cli) reason: String,
    /// How many attempts were begun.
    pub(in crate::cli) attempts: u32,
    /// The controller that gave it up.
    pub(in crate::cli) owner: String,
    /// The offset that it had among the notifications.
    pub(in crate::cli) origin_offset: i64,
}

impl Seen {
    /// Looks at a record of the notifications, or of the dead letters.
    pub(in crate::cli) fn of(record: Record, buckets: Buckets, dead_letter: bool) -> Self {
        let from = if dead_letter { Provenance::decode(&record) } else { None };
        let decoded = Decoded::judge(record, buckets);
        let (kind, problem) = match &decoded {
            Decoded::Notification(notification) => (notification.kind().as_str(), None),
            Decoded::Tombstone(_) => ("tombstone", None),
            Decoded::Undecodable(_, why) => ("undecodable", Some(chain(why))),
        };
        let record = decoded.record();
        let mut seen = Self::attributes(record, kind);
        seen.problem = problem;
        if let Some(data) = record.payload() {
            seen.put(data);
        } else if let Some(key) = record.key() {
            seen.read_key(key);
        }
        if let Some(from) = from {
            seen.time = Some(from.time);
            seen.dead_letter = Some(Given {
                why: from.why,
                reason: from.reason,
                attempts: from.attempts,
                owner: from.owner,
                origin_offset: from.offset.get(),
            });
        }
        seen
    }

    fn attributes(record: &Record, kind: &'static str) -> Self {
        let text =
            |attribute| record.attribute(attribute).map(|value| String::from_utf8_lossy(value).into_owned());
        let kafkas = || jiff::Timestamp::from_millisecond(record.timestamp()?).ok();
        Self {
            id: text(Attribute::Id),
            resource: text(Attribute::Subject),
            source: text(Attribute::Source),
            pod: text(Attribute::Pod),
            ty: text(Attribute::Type),
            kind,
            bucket: record.bucket().get(),
            offset: record.offset().get(),
            time: text(Attribute::Time).or_else(|| kafkas().map(|time| time.to_string())),
            content_type: text(Attribute::ContentType),
            problem: None,
            dead_letter: None,
            data: None,
            data_base64: None,
            text: String::new(),
        }
    }

    fn put(&mut self, data: &[u8]) {
        self.data = json_data(self.content_type.as_deref(), data).map(|json| json.into_owned());
        self.text = match (&self.data, std::str::from_utf8(data)) {
            (Some(json), _) => json.get().to_owned(),
            (None, Ok(text)) => text.to_owned(),
            (None, Err(_)) => format!("<{} bytes>", data.len()),
        };
        if self.data.is_none() {
            self.data_base64 = Some(STANDARD.encode(data));
        }
    }

    /// A tombstone says by its key alone what it is about.
    fn read_key(&mut self, key: &[u8]) {
        match RecordKey::parse(key) {
            Ok(RecordKey::State { resource, pod, source, ty }) => {
                self.text = "withdrawn".to_owned();
                self.ty.get_or_insert(ty);
                self.named(resource.to_string(), pod, source);
            }
            Ok(RecordKey::Event { resource, pod, source, id }) => {
                self.text = "settled".to_owned();
                self.id.get_or_insert(id);
                self.named(resource.to_string(), pod, source);
            }
            Ok(_) | Err(_) => self.text = format!("key {}", String::from_utf8_lossy(key)),
        }
    }

    fn named(&mut self, resource: String, pod: String, source: String) {
        self.resource.get_or_insert(resource);
        self.pod.get_or_insert(pod);
        self.source.get_or_insert(source);
    }

    /// What there is to say besides the data.
    pub(super) fn note(&self) -> Option<String> {
        match (&self.dead_letter, &self.problem) {
            (Some(Given { why, reason, attempts, owner, .. }), _) => {
                let times = if *attempts == 1 { "attempt" } else { "attempts" };
                Some(format!("{why} by {owner} after {attempts} {times}: {reason}"))
            }
            (None, problem) => problem.clone(),
        }
    }
}

impl Row for Seen {
    const COLUMNS: &'static [&'static str] =
        &["time", "bucket", "offset", "kind", "resource", "type", "pod", "id", "note", "data"];

    fn cells(&self) -> Vec<String> {
        vec![
            cell(self.time.as_deref()),
            self.bucket.to_string(),
            self.offset.to_string(),
            self.kind.to_owned(),
            cell(self.resource.as_deref()),
            cell(self.ty.as_deref()),
            cell(self.pod.as_deref()),
            cell(self.id.as_deref()),
            cell(self.note()),
            self.text.clone(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bucket, Kind, Message, Outgoing, PodName, RecordOffset};

    fn record(outgoing: &Outgoing) -> Record {
        let mut builder = Record::builder(outgoing.bucket, RecordOffset::new(7).unwrap(), Some(1000), 0)
            .key(outgoing.key.as_deref())
            .payload(outgoing.payload.as_deref());
        for (name, value) in &outgoing.headers {
            builder.header(name, value.as_deref());
        }
        builder.finish()
    }

    fn buckets() -> Buckets {
        Buckets::new(1).unwrap()
    }

    fn outgoing(kind: Kind, content_type: &str, data: &'static [u8]) -> Outgoing {
        let message = Message::new("default/trigger1".parse().unwrap(), kind, "ready", data)
            .and_then(|message| message.with_id("1"))
            .and_then(|message| message.with_content_type(content_type))
            .unwrap();
        message.encode(&PodName::new("dispatcher1").unwrap(), buckets(), "2026-01-01T00:00:00Z")
    }

    #[test]
    fn data_is_shown_as_what_it_is() {
        let shown = |content_type, data| {
            let seen = Seen::of(record(&outgoing(Kind::Event, content_type, data)), buckets(), false);
            (seen.text, seen.data.map(|json| json.get().to_owned()), seen.data_base64)
        };
        let json = r#"{"a":[1,2.50]}"#.to_owned();
        assert_eq!(shown("application/json", b"{ \"a\": [1, 2.50] }"), (json.clone(), Some(json), None));
        assert_eq!(shown("text/plain", b"hi"), ("hi".to_owned(), None, Some("aGk=".to_owned())));
        assert_eq!(shown("application/json", b"{"), ("{".to_owned(), None, Some("ew==".to_owned())));
        assert_eq!(shown("image/png", b"\xff\x00"), ("<2 bytes>".to_owned(), None, Some("/wA=".to_owned())));
    }

    #[test]
    fn a_tombstone_is_named_by_its_key() {
        for (kind, word) in [(Kind::State, "withdrawn"), (Kind::Event, "settled")] {
            let live = outgoing(kind, "text/plain", b"x");
            let seen =
                Seen::of(record(&Outgoing { payload: None, headers: Vec::new(), ..live }), buckets(), false);
            assert_eq!((seen.kind, seen.text.as_str()), ("tombstone", word));
            assert_eq!(
                (seen.resource.as_deref(), seen.pod.as_deref()),
                (Some("default/trigger1"), Some("dispatcher1"))
            );
            assert_eq!(seen.time.as_deref(), Some("1970-01-01T00:00:01Z"), "Kafka's own time stands in");
        }
    }

    #[test]
    fn garbage_is_shown_with_what_is_wrong_with_it() {
        let (bucket, offset) = (Bucket::from_partition(0).unwrap(), RecordOffset::new(0).unwrap());
        let garbage =
            Record::builder(bucket, offset, None, 0).key(Some(b"\xff")).payload(Some(b"\xff")).finish();
        let seen = Seen::of(garbage, buckets(), false);
        assert_eq!(seen.kind, "undecodable");
        assert!(seen.problem.as_deref().unwrap().contains("ce_specversion"), "{seen:?}");
        let nameless = Record::builder(bucket, offset, None, 0).key(Some(b"\xff")).finish();
        assert_eq!(Seen::of(nameless, buckets(), false).kind, "tombstone");
    }
}

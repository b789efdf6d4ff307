//! A dead letter as it is listed.

use serde::Serialize;

use crate::{
    cli::{
        Row,
        output::{brief, cell},
    },
    model::{Attribute, Provenance, Record},
};

/// A dead letter; what a record lacks is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Letter {
    /// The bucket.
    pub bucket: u16,
    /// Its own offset in the dead letters' topic: what `replay --offset` takes.
    pub offset: i64,
    /// CloudEvents' `id`: what `replay --id` takes.
    pub id: Option<String>,
    /// CloudEvents' `subject`.
    pub resource: Option<String>,
    /// CloudEvents' `type`.
    #[serde(rename = "type")]
    pub ty: Option<String>,
    /// The class of the reason: `rejected`, `exhausted` or `undecodable`; `None` on a record that no owner wrote.
    pub why: Option<String>,
    /// The reason, for people.
    pub reason: Option<String>,
    /// How many attempts were begun.
    pub attempts: Option<u32>,
    /// The offset that it had in the notifications' topic.
    pub origin_offset: Option<i64>,
    /// The controller that gave it up.
    pub owner: Option<String>,
    /// When, RFC 3339.
    pub time: Option<String>,
    /// Whether its data was too large to be kept, so that it cannot be replayed.
    pub data_missing: bool,
    /// Kafka's timestamp, to sort by.
    #[serde(skip)]
    pub(in crate::cli) timestamp: Option<i64>,
}

impl Letter {
    /// Reads a record of the dead letters' topic, whatever it is.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        let text =
            |attribute| record.attribute(attribute).map(|value| String::from_utf8_lossy(value).into_owned());
        let from = Provenance::decode(record);
        let from = from.as_ref();
        Self {
            bucket: record.bucket().get(),
            offset: record.offset().get(),
            id: text(Attribute::Id),
            resource: text(Attribute::Subject),
            ty: text(Attribute::Type),
            why: from.map(|from| from.why.clone()),
            reason: from.map(|from| from.reason.clone()),
            attempts: from.map(|from| from.attempts),
            origin_offset: from.map(|from| from.offset.get()),
            owner: from.map(|from| from.owner.clone()),
            time: from.map(|from| from.time.clone()),
            data_missing: from.is_some_and(|from| from.data_missing),
            timestamp: record.timestamp(),
        }
    }
}

impl Row for Letter {
    const COLUMNS: &'static [&'static str] =
        &["bucket", "offset", "id", "resource", "type", "why", "reason", "attempts", "origin", "time"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.bucket.to_string(),
            self.offset.to_string(),
            cell(self.id.as_deref()),
            cell(self.resource.as_deref()),
            cell(self.ty.as_deref()),
            cell(self.why.as_deref()),
            cell(self.reason.as_deref()),
            cell(self.attempts),
            cell(self.origin_offset),
            cell(self.time.as_deref().map(|time| brief(time, 0))),
        ]
    }
}

//! What a dead letter becomes when it is published again. Pure.

use bytes::Bytes;

use crate::model::{
    Attribute, Bucket, Buckets, Decoded, InvalidMessage, InvalidPodName, InvalidResource, Kind, Message,
    Notification, Outgoing, PodName, Provenance, Record, RecordOffset, Undecodable,
};

/// Headers that belong to the old publication, or to the letter, and not to what is said.
const LEFT_BEHIND: [&str; 3] = ["ce_incarnation", "ce_sequence", "ce_epoch"];

/// What the headers of a dead letter's own begin with.
const LETTERS_OWN: &str = "dead-letter-";

/// A replay that is ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Draft {
    /// The record.
    pub(super) outgoing: Outgoing,
    /// The new id.
    pub(super) id: String,
    /// State or event.
    pub(super) kind: Kind,
    /// The bucket that the letter came from, and the record goes to.
    pub(super) bucket: Bucket,
    /// The offset that the letter's original had.
    pub(super) origin: RecordOffset,
}

/// Why a letter cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotReplayable {
    #[error("no owner wrote it: it lacks the headers of a dead letter")]
    Foreign,
    #[error(
        "its data was too large to be kept, only its size and SHA-256 are here: publish it anew from its source"
    )]
    DataMissing,
    #[error("it came from topic {found:?}, and this bus has {expected:?}")]
    OtherTopic { found: String, expected: String },
    #[error("it could not be decoded, and would not be now: {0}")]
    Undecodable(Undecodable),
    #[error("it has no data: it is a tombstone")]
    Tombstone,
    #[error(transparent)]
    Resource(#[from] InvalidResource),
    #[error(transparent)]
    Message(#[from] InvalidMessage),
    #[error(transparent)]
    Pod(#[from] InvalidPodName),
}

/// How replays are made.
#[derive(Debug, Clone)]
pub(super) struct Drafting {
    /// The topic that letters must have come from.
    pub(super) notifications: String,
    /// How many buckets there are.
    pub(super) buckets: Buckets,
    /// Stands as the pod where a letter names none.
    pub(super) fallback: PodName,
}

impl Drafting {
    /// What `record`, a dead letter, becomes under the id `id`. `now` is RFC 3339, for a letter that says no time.
    pub(super) fn draft(&self, record: Record, id: &str, now: &str) -> Result<Draft, NotReplayable> {
        let from = Provenance::decode(&record).ok_or(NotReplayable::Foreign)?;
        if from.data_missing {
            return Err(NotReplayable::DataMissing);
        }
        if from.topic != self.notifications {
            let expected = self.notifications.clone();
            return Err(NotReplayable::OtherTopic { found: from.topic, expected });
        }
        let old = match Decoded::judge(record, self.buckets) {
            Decoded::Notification(old) => old,
            Decoded::Tombstone(_) => return Err(NotReplayable::Tombstone),
            Decoded::Undecodable(_, why) => return Err(NotReplayable::Undecodable(why)),
        };
        let outgoing = self.outgoing(&old, id, now)?;
        let bucket = outgoing.bucket;
        Ok(Draft { outgoing, id: id.to_owned(), kind: old.kind(), bucket, origin: from.offset })
    }

    fn outgoing(&self, old: &Notification, id: &str, now: &str) -> Result<Outgoing, NotReplayable> {
        let data = Bytes::copy_from_slice(old.data());
        let mut message = Message::new(old.resource().parse()?, old.kind(), old.ty(), data)?
            .with_id(id)?
            .with_source(old.source())?
            .replaying(old.id());
        if let Some(content_type) = old.content_type() {
            message = message.with_content_type(content_type)?;
        }
        let pod = if old.pod().is_empty() { self.fallback.clone() } else { PodName::new(old.pod())? };
        let time = old.time().unwrap_or(now);
        let record = old.record();
        // A broadcast's letter is one owner's: only that owner has not handled it.
        let broadcast = record.attribute(Attribute::Broadcast).is_some();
        let copies = broadcast.then(|| message.encode_broadcast(&pod, self.buckets, time));
        let same = copies.and_then(|mut copies| copies.find(|copy| copy.bucket == record.bucket()));
        let mut outgoing = same.unwrap_or_else(|| message.encode(&pod, self.buckets, time));
        outgoing.headers.extend(kept(record));
        Ok(outgoing)
    }
}

/// The headers that the bus does not know and passes on as they are.
fn kept(record: &Record) -> impl Iterator<Item = (String, Option<Bytes>)> {
    record
        .headers()
        .filter(|(name, _)| Attribute::from_header(name).is_none())
        .filter(|(name, _)| !name.starts_with(LETTERS_OWN) && !LEFT_BEHIND.contains(name))
        .map(|(name, value)| (name.to_owned(), value.map(Bytes::copy_from_slice)))
}

#[cfg(test)]
mod tests;

//! Whether the bus has something newer than a dead-lettered state.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::draft::Draft;
use crate::model::{Kind, NextOffset, Record, RecordOffset};

/// The newest record under each key that was asked about.
#[derive(Debug, Default)]
pub(super) struct Newest {
    keys: BTreeMap<Bytes, Option<RecordOffset>>,
    from: Option<NextOffset>,
}

impl Newest {
    /// Asks about a draft's key; events are never superseded.
    pub(super) fn ask(&mut self, draft: &Draft) {
        if let (Kind::State, Some(key)) = (draft.kind, &draft.outgoing.key) {
            self.keys.insert(key.clone(), None);
            let after = draft.origin.next();
            self.from = Some(self.from.map_or(after, |from| from.min(after)));
        }
    }

    /// Where reading the notifications must begin to answer; `None` where nothing was asked.
    pub(super) fn from(&self) -> Option<NextOffset> {
        self.from
    }

    /// Takes note of a notification, whatever it is: a tombstone is newer as well.
    pub(super) fn note(&mut self, record: &Record) {
        if let Some(newest) = record.key().and_then(|key| self.keys.get_mut(key)) {
            *newest = Some(record.offset());
        }
    }

    /// The offset of something newer than a draft's original.
    pub(super) fn than(&self, draft: &Draft) -> Option<RecordOffset> {
        if draft.kind == Kind::Event {
            return None;
        }
        let newest = self.keys.get(draft.outgoing.key.as_ref()?).copied().flatten();
        newest.filter(|newest| *newest > draft.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bucket, Outgoing};

    fn draft(kind: Kind, key: &'static str, origin: i64) -> Draft {
        let bucket = Bucket::from_partition(0).unwrap();
        let key = Some(Bytes::from_static(key.as_bytes()));
        let outgoing = Outgoing { bucket, key, payload: None, headers: Vec::new() };
        let origin = RecordOffset::new(origin).unwrap();
        Draft { outgoing, id: "new".to_owned(), kind, bucket, origin }
    }

    fn record(key: &str, offset: i64) -> Record {
        let (bucket, offset) = (Bucket::from_partition(0).unwrap(), RecordOffset::new(offset).unwrap());
        Record::builder(bucket, offset, None, 0).key(Some(key.as_bytes())).finish()
    }

    #[test]
    fn only_a_later_record_under_the_same_key_supersedes_a_state() {
        let (first, second) = (draft(Kind::State, "a", 5), draft(Kind::State, "a", 9));
        let (other, event) = (draft(Kind::State, "b", 7), draft(Kind::Event, "a", 5));
        let mut newest = Newest::default();
        for draft in [&first, &second, &other, &event] {
            newest.ask(draft);
        }
        assert_eq!(newest.from(), NextOffset::new(6));
        for (key, offset) in [("b", 7), ("c", 8), ("a", 9)] {
            newest.note(&record(key, offset));
        }
        assert_eq!(newest.than(&first), RecordOffset::new(9));
        assert_eq!(newest.than(&second), None, "it is the newest itself");
        assert_eq!(newest.than(&other), None);
        assert_eq!(newest.than(&event), None);
    }

    #[test]
    fn nothing_is_read_for_events() {
        let mut newest = Newest::default();
        newest.ask(&draft(Kind::Event, "a", 5));
        assert_eq!(newest.from(), None);
    }
}

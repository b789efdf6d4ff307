use super::*;
use crate::model::{DeadLetter, Epoch, Why};

const NOW: &str = "2026-02-02T00:00:00Z";

fn drafting() -> Drafting {
    Drafting {
        notifications: "b.notifications".to_owned(),
        buckets: Buckets::new(4).unwrap(),
        fallback: PodName::new("operator").unwrap(),
    }
}

fn read(outgoing: &Outgoing, offset: i64) -> Record {
    let mut builder = Record::builder(outgoing.bucket, RecordOffset::new(offset).unwrap(), None, 0)
        .key(outgoing.key.as_deref())
        .payload(outgoing.payload.as_deref());
    for (name, value) in &outgoing.headers {
        builder.header(name, value.as_deref());
    }
    builder.finish()
}

fn message(kind: Kind) -> Message {
    Message::new("default/trigger1".parse().unwrap(), kind, "consumers", "data")
        .and_then(|message| message.with_id("old"))
        .and_then(|message| message.with_source("urn:s"))
        .and_then(|message| message.with_content_type("text/plain"))
        .and_then(|message| message.with_extension("traceparent", "00-1"))
        .unwrap()
}

fn published(kind: Kind) -> Outgoing {
    let pod = PodName::new("dispatcher1").unwrap();
    message(kind).encode(&pod, drafting().buckets, "2026-01-01T00:00:00Z")
}

/// What an owner makes of the record at offset 7.
fn letter(original: &Outgoing, data: bool) -> Record {
    let record = read(original, 7);
    let letter = DeadLetter {
        topic: "b.notifications",
        record: &record,
        why: Why::Exhausted,
        reason: "x",
        attempts: 10,
        epoch: Epoch::new(1),
        owner: "c1",
        time: NOW,
    };
    read(&if data { letter.encode() } else { letter.encode_without_data() }, 3)
}

#[test]
fn a_replay_is_the_same_but_for_its_id_and_what_it_replays() {
    for kind in [Kind::Event, Kind::State] {
        let mut original = published(kind);
        original.headers.push(("x-other".to_owned(), None));
        original.headers.push(("ce_sequence".to_owned(), Some(Bytes::from_static(b"9"))));
        let draft = drafting().draft(letter(&original, true), "new", NOW).unwrap();
        assert_eq!((draft.kind, draft.origin.get(), draft.bucket), (kind, 7, original.bucket));

        let changed = message(kind).with_id("new").unwrap().replaying("old");
        let mut wanted =
            changed.encode(&PodName::new("dispatcher1").unwrap(), drafting().buckets, "2026-01-01T00:00:00Z");
        wanted.headers.push(("x-other".to_owned(), None));
        let sorted = |outgoing: &Outgoing| {
            let mut headers = outgoing.headers.clone();
            headers.sort();
            headers
        };
        assert_eq!(sorted(&draft.outgoing), sorted(&wanted));
        assert_eq!((draft.outgoing.key, draft.outgoing.payload), (wanted.key, wanted.payload));
    }
}

#[test]
fn the_replay_of_a_replay_names_the_letter_before_it() {
    let first = drafting().draft(letter(&published(Kind::Event), true), "second", NOW).unwrap();
    let again = drafting().draft(letter(&first.outgoing, true), "third", NOW).unwrap();
    let record = read(&again.outgoing, 0);
    assert_eq!(record.text(Attribute::ReplayOf), Some("second"));
    assert_eq!(again.outgoing.headers.iter().filter(|(name, _)| name == "ce_replayof").count(), 1);
}

#[test]
fn a_broadcast_goes_to_the_bucket_that_gave_it_up_and_nowhere_else() {
    let pod = PodName::new("dispatcher1").unwrap();
    for copy in message(Kind::Event).encode_broadcast(&pod, drafting().buckets, NOW) {
        let draft = drafting().draft(letter(&copy, true), "new", NOW).unwrap();
        assert_eq!(draft.outgoing.bucket, copy.bucket);
        assert!(read(&draft.outgoing, 0).attribute(Attribute::Broadcast).is_some());
    }
}

#[test]
fn a_record_from_elsewhere_is_replayed_under_our_own_name() {
    let mut original = published(Kind::Event);
    original.headers.retain(|(name, _)| name != "ce_pod" && name != "ce_kind" && name != "ce_time");
    let draft = drafting().draft(letter(&original, true), "new", NOW).unwrap();
    let record = read(&draft.outgoing, 0);
    assert_eq!(record.text(Attribute::Pod), Some("operator"));
    assert_eq!(record.text(Attribute::Time), Some(NOW));
    let Decoded::Notification(found) = Decoded::judge(record, drafting().buckets) else { panic!() };
    assert!(found.has_own_key());
}

#[test]
fn what_cannot_be_delivered_cannot_be_replayed() {
    let refused = |record| drafting().draft(record, "new", NOW).unwrap_err();
    let original = published(Kind::Event);
    assert_eq!(refused(read(&original, 7)), NotReplayable::Foreign);
    assert_eq!(refused(letter(&original, false)), NotReplayable::DataMissing);

    let mut without_subject = original.clone();
    without_subject.headers.retain(|(name, _)| name != "ce_subject");
    assert!(matches!(refused(letter(&without_subject, true)), NotReplayable::Undecodable(_)));

    let mut other = drafting();
    other.notifications = "other.notifications".to_owned();
    let error = other.draft(letter(&original, true), "new", NOW).unwrap_err();
    assert!(matches!(error, NotReplayable::OtherTopic { .. }), "{error}");
}

use super::*;
use crate::{model::Kind, publisher::room::Room};

/// What a client says that knows no broker.
fn failure() -> kafka::Error {
    let settings = kafka::Settings::new("127.0.0.1:1", "test", Default::default(), false).unwrap();
    let reader = kafka::LogReader::new(&settings, kafka::Isolation::ReadCommitted, None).unwrap();
    reader.bounds("t", bucket(0), Duration::from_millis(1)).unwrap_err()
}

const TIMEOUT: Duration = Duration::from_secs(30);

struct Bench {
    ledger: Ledger,
    room: Room,
    now: Instant,
}

fn bench() -> Bench {
    Bench { ledger: Ledger::new(), room: Room::new(100, 1000), now: Instant::now() }
}

fn bucket(number: i32) -> Bucket {
    Bucket::from_partition(number).unwrap()
}

fn offset(number: i64) -> Result<RecordOffset, kafka::Error> {
    Ok(RecordOffset::new(number).unwrap())
}

fn message(resource: &str, kind: Kind, id: &str) -> Box<Message> {
    let message = Message::new(resource.parse().unwrap(), kind, "t", "data").unwrap();
    Box::new(message.with_id(id).unwrap())
}

fn key_of(message: &Message) -> Option<Arc<str>> {
    (message.kind() == Kind::State).then(|| message.resource().as_str().into())
}

impl Bench {
    fn accept(&mut self, message: Box<Message>) -> (u64, oneshot::Receiver<Result<Receipt, PublishError>>) {
        let (sender, receiver) = oneshot::channel();
        (self.accept_as(message, 1, Reply::One(sender)), receiver)
    }

    fn accept_as(&mut self, message: Box<Message>, records: usize, reply: Reply) -> u64 {
        let number = self.ledger.next();
        let (_, room) = self.room.take(records, 1).unwrap();
        let state_key = key_of(&message);
        self.ledger.accept(Accepted { message, state_key, records, bytes: 1, reply, room }, self.now);
        number
    }

    /// Returns, with a message's last record, how many were written, and the kind of its error.
    fn answer(
        &mut self,
        number: u64,
        at: i32,
        result: Result<RecordOffset, kafka::Error>,
    ) -> Option<(usize, Option<ErrorKind>)> {
        let finished = self.ledger.answer(number, bucket(at), result, TIMEOUT, self.now)?;
        let found = (finished.written, finished.failed);
        finished.tell();
        Some(found)
    }
}

#[test]
fn a_message_is_answered_once_with_where_it_stands() {
    let mut bench = bench();
    let (number, mut answer) = bench.accept(message("a/b", Kind::Event, "1"));
    assert_eq!(bench.ledger.oldest().map(|(number, _)| number), Some(number));
    assert_eq!(bench.answer(number, 3, offset(7)), Some((1, None)));
    let receipt = answer.try_recv().unwrap().unwrap();
    assert_eq!((receipt.id.as_str(), receipt.bucket, receipt.offset.get()), ("1", bucket(3), 7));
    assert!(bench.answer(number, 3, offset(7)).is_none());
    assert_eq!(bench.ledger.oldest(), None);
}

#[test]
fn a_message_after_a_failed_one_of_its_resource_fails_though_kafka_took_it() {
    let mut bench = bench();
    let (first, mut first_answer) = bench.accept(message("a/b", Kind::Event, "1"));
    let (second, mut second_answer) = bench.accept(message("a/b", Kind::Event, "2"));
    let (other, mut other_answer) = bench.accept(message("a/other", Kind::Event, "3"));
    bench.answer(first, 0, Err(failure()));
    assert_eq!(bench.answer(second, 0, offset(0)), Some((1, Some(ErrorKind::Retryable))));
    bench.answer(other, 0, offset(1));
    let error = first_answer.try_recv().unwrap().unwrap_err();
    assert_eq!((error.id(), error.kind()), ("1", ErrorKind::Retryable));
    let error = second_answer.try_recv().unwrap().unwrap_err();
    assert!(matches!(&error, PublishError::AfterFailed { failed, .. } if failed == "1"), "{error}");
    assert_eq!(error.into_message().id(), Some("2"));
    other_answer.try_recv().unwrap().unwrap();
}

#[test]
fn a_broadcast_that_missed_buckets_names_them_and_has_the_other_receipts() {
    let mut bench = bench();
    let (sender, mut answer) = oneshot::channel();
    let number = bench.accept_as(message("a/b", Kind::State, "1"), 4, Reply::All(sender));
    bench.answer(number, 3, offset(30));
    bench.answer(number, 2, Err(failure()));
    let (after, mut after_answer) = bench.accept(message("a/b", Kind::Event, "2"));
    bench.answer(number, 1, Err(failure()));
    assert_eq!(bench.answer(after, 0, offset(5)), Some((1, None)));
    after_answer.try_recv().unwrap().unwrap();
    assert!(answer.try_recv().is_err(), "it is not answered before its last record");
    assert_eq!(bench.answer(number, 0, offset(0)), Some((2, Some(ErrorKind::Retryable))));
    let error = answer.try_recv().unwrap().unwrap_err();
    assert!(error.to_string().contains("bucket 1, 2"), "{error}");
    let PublishError::PartlyFailed { failures, receipts, .. } = error else { panic!("{error}") };
    assert_eq!(failures.iter().map(|(bucket, _)| bucket.get()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(receipts.iter().map(|receipt| receipt.bucket.get()).collect::<Vec<_>>(), [0, 3]);
}

#[test]
fn a_failed_state_is_superseded_once_a_newer_one_was_accepted_and_an_event_never() {
    let mut bench = bench();
    for kind in [Kind::State, Kind::Event] {
        let (number, mut answer) = bench.accept(message("a/b", kind, "old"));
        bench.answer(number, 0, Err(failure()));
        let again = answer.try_recv().unwrap().unwrap_err().into_message();
        let key = key_of(&again);
        assert!(!bench.ledger.is_superseded(key.as_ref(), &again));
        let (newer, _answer) = bench.accept(message("a/b", kind, "new"));
        bench.answer(newer, 0, offset(0));
        assert_eq!(bench.ledger.is_superseded(key.as_ref(), &again), kind == Kind::State);
    }
}

#[test]
fn a_state_that_never_was_accepted_is_superseded_too() {
    let mut bench = bench();
    let old = message("a/b", Kind::State, "old");
    let key = key_of(&old);
    bench.ledger.refuse(key.as_ref(), &old);
    let (_newer, _answer) = bench.accept(message("a/b", Kind::State, "new"));
    assert!(bench.ledger.is_superseded(key.as_ref(), &old));
}

#[test]
fn what_is_dropped_unanswered_is_answered_as_closed() {
    let mut bench = bench();
    let (_, mut answer) = bench.accept(message("a/b", Kind::Event, "1"));
    drop(bench.ledger.abandon());
    let error = answer.try_recv().unwrap().unwrap_err();
    assert!(matches!(error, PublishError::Closed { .. }), "{error}");
    assert!(bench.room.take(100, 1000).is_ok());
}

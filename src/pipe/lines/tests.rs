use std::{io, pin::pin, sync::Arc};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, DuplexStream, duplex};

use super::*;
use crate::{
    model::{Buckets, Decoded, Record, RecordOffset},
    pipe::Writer,
};

/// A delivery in bucket 3 at offset 7, timestamp 2026-01-01T00:00:00.123Z.
pub(crate) fn delivery(headers: &[(&str, &str)], data: &[u8]) -> Delivery {
    let buckets = Buckets::new(4).unwrap();
    let bucket = buckets.get(3).unwrap();
    let time = 1_767_225_600_123;
    let mut record =
        Record::builder(bucket, RecordOffset::new(7).unwrap(), Some(time), 0).payload(Some(data));
    let required = [
        ("ce_specversion", "1.0"),
        ("ce_id", "1"),
        ("ce_source", "urn:s"),
        ("ce_type", "t"),
        ("ce_subject", "default/trigger1"),
        ("ce_pod", "p1"),
        ("ce_broadcast", "true"),
    ];
    for (name, value) in required.iter().chain(headers) {
        record.header(name, Some(value.as_bytes()));
    }
    let Decoded::Notification(notification) = Decoded::judge(record.finish(), buckets) else { panic!() };
    Delivery {
        notification: Arc::new(notification),
        bucket,
        epoch: Epoch::new(2),
        attempt: 1,
        redelivered: false,
    }
}

fn with_id(id: &str) -> Delivery {
    delivery(&[("ce_id", id)], b"x")
}

fn name() -> PodName {
    PodName::new("c1").unwrap()
}

/// A handler, its running writer, and the reading end of a pipe that holds `room` bytes.
fn started(room: usize) -> (LinesHandler, tokio::task::JoinHandle<io::Result<()>>, DuplexStream) {
    let (out, reader) = duplex(room);
    let (lines, writer) = Lines::new(out);
    (LinesHandler::new(lines, name()), tokio::spawn(writer.run()), reader)
}

fn id_of(line: &str) -> String {
    let line: serde_json::Value = serde_json::from_str(line).expect(line);
    line["id"].as_str().unwrap_or("notice").to_owned()
}

/// Lets every other task run until none can go on.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_message_is_handled_once_its_line_is_out() {
    let (handler, writer, reader) = started(64 * 1024);
    let bucket = Bucket::from_partition(3).unwrap();
    handler.acquired(bucket, Epoch::new(2)).await;
    assert_eq!(handler.handle(with_id("a")).await, Outcome::Handled);
    handler.released(bucket, Epoch::new(2), Released::Shutdown).await;
    drop(handler);
    writer.await.unwrap().unwrap();
    let mut lines = BufReader::new(reader).lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        found.push(line);
    }
    assert_eq!(found.len(), 3);
    assert_eq!(found[0], r#"{"acquired":{"bucket":3,"epoch":2,"controller":"c1"}}"#);
    assert_eq!(id_of(&found[1]), "a");
    assert_eq!(found[2], r#"{"released":{"bucket":3,"epoch":2,"controller":"c1","why":"shutdown"}}"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_many_tasks_are_whole_and_none_is_missing() {
    let (handler, writer, reader) = started(97);
    let handler = Arc::new(handler);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..20 {
        let handler = handler.clone();
        tasks.spawn(async move {
            for number in 0..50 {
                assert_eq!(handler.handle(with_id(&format!("{task}-{number}"))).await, Outcome::Handled);
            }
        });
    }
    drop(handler);
    let mut lines = BufReader::new(reader).lines();
    let mut next = [0; 20];
    while let Some(line) = lines.next_line().await.unwrap() {
        let id = id_of(&line);
        let (task, number) = id.split_once('-').unwrap();
        let next = &mut next[task.parse::<usize>().unwrap()];
        assert_eq!(number, next.to_string());
        *next += 1;
    }
    assert_eq!(next, [50; 20]);
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    writer.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_full_pipe_makes_messages_wait() {
    let (handler, _writer, mut reader) = started(16);
    let mut handling = pin!(handler.handle(with_id("a")));
    assert!(futures_pending(&mut handling).await);
    let mut some = [0; 16];
    reader.read_exact(&mut some).await.unwrap();
    assert!(futures_pending(&mut handling).await);
    tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
    assert_eq!(handling.await, Outcome::Handled);
}

/// Whether the future still waits when everything else has done what it can.
async fn futures_pending<F: Future>(future: &mut std::pin::Pin<&mut F>) -> bool {
    let polled = std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context))).await;
    settle().await;
    polled.is_pending()
}

#[tokio::test]
async fn a_message_given_up_before_its_line_was_begun_never_appears() {
    let (handler, writer, mut reader) = started(16);
    let mut begun = Box::pin(handler.handle(with_id("begun")));
    assert!(futures_pending(&mut begun.as_mut()).await);
    // These wait: one in the writer's own batch or behind it, one after another.
    let mut second = Box::pin(handler.handle(with_id("second")));
    let mut third = Box::pin(handler.handle(with_id("third")));
    assert!(futures_pending(&mut second.as_mut()).await);
    assert!(futures_pending(&mut third.as_mut()).await);
    // The first is finished although it is given up, since a part of it is out.
    drop(begun);
    drop(second);
    let reading = tokio::spawn(async move {
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        text
    });
    assert_eq!(third.await, Outcome::Handled);
    drop(handler);
    writer.await.unwrap().unwrap();
    let ids: Vec<String> = reading.await.unwrap().lines().map(id_of).collect();
    assert_eq!(ids, ["begun", "third"]);
}

#[tokio::test]
async fn a_message_given_up_within_a_blocked_batch_never_appears() {
    let (out, mut reader) = duplex(16);
    let (lines, writer) = Lines::new(out);
    let handler = LinesHandler::new(lines, name());
    // All three are queued before the writer starts, so they are one batch.
    let mut handling: Vec<_> =
        ["a", "b", "c"].into_iter().map(|id| Box::pin(handler.handle(with_id(id)))).collect();
    for future in &mut handling {
        assert!(futures_pending(&mut future.as_mut()).await);
    }
    let writer = tokio::spawn(writer.run());
    settle().await;
    drop(handling.remove(1));
    let reading = tokio::spawn(async move {
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        text
    });
    for future in handling {
        assert_eq!(future.await, Outcome::Handled);
    }
    drop(handler);
    writer.await.unwrap().unwrap();
    let ids: Vec<String> = reading.await.unwrap().lines().map(id_of).collect();
    assert_eq!(ids, ["a", "c"]);
}

#[tokio::test]
async fn a_closed_pipe_makes_the_handler_unavailable_and_is_told() {
    let (handler, writer, reader) = started(16);
    let closed = handler.lines.closed();
    drop(reader);
    let Outcome::Unavailable(reason) = handler.handle(with_id("a")).await else { panic!("it was handled") };
    assert!(reason.contains("closed"), "{reason}");
    assert_eq!(writer.await.unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(closed.await.to_string(), reason);
    assert!(matches!(handler.handle(with_id("b")).await, Outcome::Unavailable(_)));
    handler.acquired(Bucket::from_partition(0).unwrap(), Epoch::new(1)).await;
}

#[tokio::test]
async fn a_writer_that_is_gone_makes_the_handler_unavailable() {
    let (lines, writer): (Lines, Writer<DuplexStream>) = Lines::new(duplex(16).0);
    let handler = LinesHandler::new(lines, name());
    let mut waiting = pin!(handler.handle(with_id("a")));
    assert!(futures_pending(&mut waiting).await);
    drop(writer);
    assert!(matches!(waiting.await, Outcome::Unavailable(_)));
    handler.lines.closed().await;
}

//! `send`: the receipt is true, and the data is what was given.

use std::time::Duration;

use serde_json::Value;

use crate::support::{
    kafka::shared,
    process::{Bus, Config, Looked},
};

const SOON: Duration = Duration::from_secs(30);

fn bus(test: &str) -> (Bus, Config) {
    let bus = Bus::new(test, shared(), 3);
    let pod = bus.data_plane("dispatcher1");
    assert_eq!(pod.look(&["topics", "ensure"]).code, Some(0));
    (bus, pod)
}

/// Everything on the bus.
fn all(pod: &Config) -> Vec<Value> {
    let looked: Looked = pod.look(&["tail", "--no-follow", "--output", "json"]);
    assert_eq!(looked.code, Some(0), "{looked:?}");
    looked.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_message_is_where_its_receipt_says() {
    let (_bus, pod) = bus("operators-send");
    let sent = pod.look(&[
        "send",
        "default/trigger1",
        "ready",
        "--kind",
        "state",
        "--data",
        "{\"consumers\": 5}",
        "--id",
        "x1",
        "--source",
        "urn:me",
        "--output",
        "json",
    ]);
    let receipt = sent.json();
    let [found] = &all(&pod)[..] else { panic!("one message was sent") };
    for field in ["id", "resource", "bucket", "offset"] {
        assert_eq!(receipt[field], found[field], "{field}: {receipt} {found}");
    }
    assert_eq!((&found["pod"], &found["source"]), (&"dispatcher1".into(), &"urn:me".into()));
    assert_eq!((&found["kind"], &found["type"]), (&"state".into(), &"ready".into()));
    assert_eq!(
        (&found["data"]["consumers"], &found["content_type"]),
        (&5.into(), &"application/json".into())
    );
}

#[test]
fn data_comes_from_a_file_or_standard_input() {
    let (bus, pod) = bus("operators-data");
    let file = bus.dir().join("data");
    std::fs::write(&file, b"\xff\x00").unwrap();
    assert_eq!(pod.look(&["send", "a/b", "file", "--file", file.to_str().unwrap()]).code, Some(0));
    let mut process = pod.begin(&["send", "a/b", "stdin", "--file", "-", "--content-type", "text/plain"]);
    process.feed_bytes(b"hello");
    process.close_stdin();
    assert_eq!(process.exit_code(SOON), 0);
    assert_eq!(pod.look(&["send", "a/b", "nothing"]).code, Some(0));
    let found = all(&pod);
    let data: Vec<_> = found.iter().map(|line| line["data_base64"].as_str().unwrap()).collect();
    assert_eq!(data, ["/wA=", "aGVsbG8=", ""]);
    assert_eq!(found[1]["content_type"], "text/plain");
    assert_eq!(found[2]["kind"], "event", "an empty value is no tombstone");

    let missing = pod.look(&["send", "a/b", "t", "--file", "/nonexistent/data"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("/nonexistent/data"), "{missing:?}");
}

#[test]
fn every_bucket_gets_one_record_when_that_is_asked_for() {
    let (_bus, pod) = bus("operators-all");
    let sent = pod.look(&["send", "default/all", "refresh", "--all-buckets", "--output", "json"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let buckets = |lines: &[Value]| {
        let mut buckets: Vec<_> = lines.iter().map(|line| line["bucket"].as_u64().unwrap()).collect();
        buckets.sort_unstable();
        buckets
    };
    let receipts: Vec<Value> = sent.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(buckets(&receipts), [0, 1, 2]);
    let found = all(&pod);
    assert_eq!(buckets(&found), [0, 1, 2]);
    assert!(
        found.iter().all(|line| line["kind"] == "event"),
        "broadcasts are at home in every bucket: {found:?}"
    );
}

#[test]
fn what_cannot_be_sent_says_why() {
    let (bus, pod) = bus("operators-refused");
    let large = bus.dir().join("large");
    std::fs::write(&large, vec![b'x'; 2_000_000]).unwrap();
    let refused = pod.look(&["send", "a/b", "t", "--file", large.to_str().unwrap()]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("max.message.bytes"), "{refused:?}");
    let wrong = pod.look(&["send", "a/b", "t", "--id", "a\nb"]);
    assert_eq!(wrong.code, Some(64), "{wrong:?}");
    assert!(wrong.stderr.contains("control character"), "{wrong:?}");
    let away = pod.clone().set("kafka.brokers", "127.0.0.1:1").look(&["send", "a/b", "t", "--timeout", "2s"]);
    assert_eq!(away.code, Some(1));
    assert!(away.stderr.contains("127.0.0.1:1"), "{away:?}");
    assert_eq!(all(&pod).len(), 0);
}

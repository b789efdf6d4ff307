//! `tail`: what is followed is what was asked for, and nothing that never took effect.

use std::time::Duration;

use control_bus::model::{Bucket, Kind, Outgoing, Why};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::{Fixture, message, printed, write};
use crate::support::{
    kafka::shared,
    process::{Bus, Process},
};

const SOON: Duration = Duration::from_secs(30);

/// What `tail` prints as JSON for these arguments.
async fn tailed(fixture: &Fixture, arguments: &str) -> Vec<Value> {
    let (text, result) = printed(fixture, &format!("tail --no-follow --output json {arguments}")).await;
    result.unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["id"].as_str().unwrap_or("-")).collect()
}

#[test]
fn messages_are_followed_as_they_come_until_an_interrupt() {
    let bus = Bus::new("operators-follow", shared(), 2);
    let pod = bus.data_plane("dispatcher1");
    assert_eq!(pod.look(&["topics", "ensure"]).code, Some(0));
    let follow = |arguments: &[&str]| {
        let common = ["tail", "--from", "beginning", "--output", "json"];
        pod.begin(&[&common[..], arguments].concat())
    };
    let mut all = follow(&[]);
    let mut one = follow(&["--resource", "default/trigger1", "--type", "ready"]);
    for (resource, ty, id) in [
        ("default/trigger1", "other", "1"),
        ("default/trigger2", "ready", "2"),
        ("default/trigger1", "ready", "3"),
    ] {
        let sent = pod.look(&["send", resource, ty, "--id", id, "--data", "{\"n\": 5}"]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
        all.until(&format!("message {id} is followed"), SOON, |lines| {
            lines.iter().find(|line| line.text_of("id") == id).map(drop)
        });
    }
    one.until("its own message is followed", SOON, |lines| lines.first().map(drop));
    for process in [&mut all, &mut one] {
        process.signal(Signal::SIGINT);
        assert_eq!(process.exit_code(SOON), 0, "an interrupt is how following ends");
    }
    let seen: Vec<_> = one.lines().iter().map(|line| line.text_of("id").to_owned()).collect();
    assert_eq!(seen, ["3"]);
    let line = &one.lines()[0].json;
    assert_eq!(
        (&line["pod"], &line["kind"], &line["data"]["n"]),
        (&"dispatcher1".into(), &"event".into(), &5.into())
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let bus = Bus::new("operators-closed", shared(), 1);
    let pod = bus.data_plane("dispatcher1");
    assert_eq!(pod.look(&["topics", "ensure"]).code, Some(0));
    let mut tail: Process = pod.begin(&["tail", "--from", "beginning", "--output", "json"]);
    assert_eq!(pod.look(&["send", "a/b", "t"]).code, Some(0));
    tail.until("a message is followed", SOON, |lines| lines.first().map(drop));
    tail.close_stdout();
    assert_eq!(pod.look(&["send", "a/b", "t"]).code, Some(0));
    assert_eq!(tail.exit_code(SOON), 0);
    assert_eq!(tail.stderr(), "");
}

#[tokio::test]
async fn following_begins_where_it_is_told() {
    let fixture = Fixture::new().await;
    let bucket = fixture.target.buckets.of(&"a/b".parse().unwrap()).get();
    for id in ["0", "1", "2"] {
        fixture.publish(&message("a/b", Kind::Event, id)).await;
    }
    let from = async |arguments: String| {
        ids(&tailed(&fixture, &arguments).await).iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(from(String::new()).await, ["0", "1", "2"]);
    assert_eq!(from(format!("--bucket {bucket} --from 1")).await, ["1", "2"]);
    assert_eq!(from("--resource a/b --from 2".to_owned()).await, ["2"]);
    assert_eq!(from("--from 1h".to_owned()).await, ["0", "1", "2"]);
    assert_eq!(from("--from 2099-01-01T00:00:00Z".to_owned()).await, [""; 0]);
    assert_eq!(from("--from end".to_owned()).await, [""; 0]);
    assert_eq!(from("--count 2".to_owned()).await, ["0", "1"]);
    assert_eq!(from(format!("--bucket {bucket} --from 99")).await, [""; 0]);

    let (_, result) = printed(&fixture, "tail --from 1 --no-follow").await;
    let error = result.unwrap_err();
    assert_eq!(error.exit_code(), 64);
    assert!(error.to_string().contains("--bucket"), "{error}");
}

#[tokio::test]
async fn a_time_is_kafkas_own() {
    let fixture = Fixture::new().await;
    fixture.publish(&message("a/b", Kind::Event, "before")).await;
    // Kafka's timestamps have milliseconds: the next one must be another.
    let between = loop {
        let now = jiff::Timestamp::now();
        if now.subsec_millisecond() % 10 == 5 {
            break now;
        }
        tokio::task::yield_now().await;
    };
    fixture.publish(&message("a/b", Kind::Event, "after")).await;
    assert_eq!(ids(&tailed(&fixture, &format!("--from {between:.3}")).await), ["after"]);
}

#[tokio::test]
async fn records_of_any_shape_are_shown() {
    let fixture = Fixture::new().await;
    let state = fixture.publish(&message("a/b", Kind::State, "1")).await;
    let topic = fixture.target.bus.notifications();
    let bucket: Bucket = state.bucket();
    let raw = |key: Option<&[u8]>, payload: Option<&'static [u8]>| Outgoing {
        bucket,
        key: key.map(|key| key.to_vec().into()),
        payload: payload.map(Into::into),
        headers: Vec::new(),
    };
    write(&fixture.producer, &topic, &raw(state.key(), None)).await;
    write(&fixture.producer, &topic, &raw(Some(b"\xff"), Some(b"\xff\x1b[2J"))).await;
    write(&fixture.producer, &topic, &raw(Some(b"\x1b[2J"), Some(b"\x1b[2J\n"))).await;
    let lines = tailed(&fixture, "").await;
    let kinds: Vec<_> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["state", "tombstone", "undecodable", "undecodable"]);
    assert_eq!((&lines[1]["resource"], &lines[1]["pod"]), (&"a/b".into(), &"dispatcher1".into()));
    assert!(lines[2]["problem"].as_str().unwrap().contains("ce_specversion"), "{lines:?}");
    assert_eq!(lines[2]["data_base64"], "/xtbMko=");
    for format in ["plain", "table"] {
        let (text, _) = printed(&fixture, &format!("tail --no-follow --output {format}")).await;
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(!text.contains('\u{1b}'), "no record steers the terminal: {text:?}");
    }
}

#[tokio::test]
async fn dead_letters_are_followed_with_their_reasons_and_aborted_ones_are_not() {
    let fixture = Fixture::new().await;
    let record = fixture.publish(&message("a/b", Kind::Event, "1")).await;
    fixture.give_up(&record, Why::Rejected, true).await;
    let aborted = message("a/b", Kind::Event, "2").encode(
        &control_bus::model::PodName::new("dispatcher1").unwrap(),
        fixture.target.buckets,
        super::NOW,
    );
    fixture.transact(&fixture.target.bus.dead_letters(), &aborted, false).await;
    let lines = tailed(&fixture, "--dead-letters").await;
    assert_eq!(ids(&lines), ["1"]);
    let letter = &lines[0]["dead_letter"];
    assert_eq!((&letter["why"], &letter["owner"]), (&"rejected".into(), &"controller1".into()));
    assert_eq!((&letter["attempts"], &letter["origin_offset"]), (&3.into(), &record.offset().get().into()));
    let (text, _) = printed(&fixture, "tail --dead-letters --no-follow --output table").await;
    assert!(
        text.contains("[rejected by controller1 after 3 attempts: no such trigger second line] data"),
        "{text}"
    );
}

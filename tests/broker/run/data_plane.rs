//! Lines in, receipts or errors out.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{SOON, event, handled_by_a_successor, keys, publish};
use crate::support::{
    kafka::{Cluster, shared},
    process::{Bus, Line, eventually},
};

fn error(line: &Line) -> (&str, usize, Option<&str>) {
    assert!(!line.text_of("error").is_empty(), "{}", line.text);
    (
        line.text_of("error_kind"),
        line.number("line").try_into().unwrap(),
        line.json.get("id").and_then(Value::as_str),
    )
}

#[test]
fn every_line_is_answered_in_order_with_its_place_or_with_what_is_wrong() {
    let bus = Bus::new("run-answers", shared(), 2);
    let mut pod = bus.data_plane("dispatcher1").start();
    let large = "x".repeat(2_000_000);
    pod.feed([
        r#"{"resource":"default/trigger1","type":"t","kind":"event","data":{"a":1},"id":"one"}"#,
        r#"{"resource":"default/trigger2","type":"t","kind":"state","data_base64":"AAEC","id":"two"}"#,
        "",
        r#"{"resource":"default/trigger1","type":"t","kind":"neither","id":"four"}"#,
        r#"{"resource":"default/trigger1","type":"t","kind":"event","id":"five","to":"all-buckets"}"#,
        "no JSON",
        &format!(
            r#"{{"resource":"default/trigger1","type":"t","kind":"event","id":"seven","data":"{large}"}}"#
        ),
        r#"{"resource":"nowhere","type":"t","kind":"event"}"#,
        r#"{"resource":"default/trigger1","type":"t","kind":"event","data_base64":"?","id":"nine"}"#,
        r#"{"resource":"default/trigger1","type":"t","kind":"event"}"#,
    ]);
    pod.feed_bytes(event("default/trigger1", "eleven").as_bytes()); // the last line needs no end
    pod.close_stdin();
    assert_eq!(pod.exit_code(SOON), 1);
    let answers = pod.lines();
    assert_eq!(answers.len(), 11, "{}", pod.stdout());

    assert_eq!(answers[0].text, r#"{"id":"one","resource":"default/trigger1","bucket":0,"offset":0}"#);
    assert_eq!(answers[1].text, r#"{"id":"two","resource":"default/trigger2","bucket":1,"offset":0}"#);
    let all = r#""buckets":[{"bucket":0,"offset":1},{"bucket":1,"offset":1}]}"#;
    assert_eq!(answers[4].text, format!(r#"{{"id":"five","resource":"default/trigger1",{all}"#));
    let given = answers[9].text_of("id");
    assert!(!given.is_empty(), "a message without an id gets one");
    assert_eq!(
        answers[9].text,
        format!(r#"{{"id":"{given}","resource":"default/trigger1","bucket":0,"offset":2}}"#)
    );
    assert_eq!(answers[10].text, r#"{"id":"eleven","resource":"default/trigger1","bucket":0,"offset":3}"#);

    for (index, id, said) in [
        (2, None, "empty"),
        (3, Some("four"), "neither"),
        (5, None, "JSON"),
        (6, Some("seven"), "2000"), // its size
        (7, None, "\"nowhere\""),
        (8, Some("nine"), "data_base64"),
    ] {
        let line: &Line = &answers[index];
        assert_eq!(error(line), ("invalid", index + 1, id), "{}", line.text);
        assert!(line.text_of("error").contains(said), "{said:?} is not in {}", line.text);
        let expected = ["error", "error_kind", "line", "id"];
        assert_eq!(keys(&line.text), expected[..3 + usize::from(id.is_some())]);
    }
    assert!(answers[6].text_of("error").contains("seven"), "by name: {}", answers[6].text);
    assert!(pod.stderr().contains("6 of 11 input lines were not accepted"), "{}", pod.stderr());
}

#[test]
fn answers_come_while_the_input_stays_open() {
    let bus = Bus::new("run-open", shared(), 1);
    let mut pod = bus.data_plane("dispatcher1").start();
    for number in 0..3 {
        pod.feed([event("a/b", &format!("e{number}"))]);
        pod.until_count(number + 1, SOON);
    }
    assert!(pod.ready());
    pod.terminate();
    assert_eq!(pod.exit_code(SOON), 0);
}

#[test]
fn a_pod_that_is_to_stay_outlives_its_input() {
    let bus = Bus::new("run-stay", shared(), 1);
    let mut stays = bus.data_plane("stays").set("input.at_end", "stay").start();
    stays.feed([event("a/b", "1")]);
    stays.close_stdin();
    stays.until_count(1, SOON);
    // Others end at the end of theirs, with more to do and later.
    for number in 0..3 {
        publish(&bus, [event("a/b", &format!("other{number}"))]);
    }
    assert!(stays.is_running() && stays.ready());
    stays.terminate();
    assert_eq!(stays.exit_code(SOON), 0);
}

#[test]
fn with_the_broker_away_lines_are_given_back_after_the_time_out_and_never_sent_again() {
    let cluster = Cluster::start(1, &[]);
    let bus = Bus::new("run-away", cluster.bootstrap(), 1);
    let timeout = Duration::from_secs(3);
    let mut pod = bus.data_plane("dispatcher1").set("publisher.delivery_timeout", "3s").start();
    pod.feed([event("a/b", "before")]);
    pod.until_count(1, SOON);
    cluster.stop_all();
    let began = Instant::now();
    pod.feed([event("a/b", "lost1"), event("a/b", "lost2"), event("a/c", "lost3")]);
    let unready = || Some(pod.unready()).filter(|reasons| !reasons.is_empty());
    let reasons = eventually("not ready", SOON, &[&pod], unready);
    assert!(reasons[0].contains("waiting for Kafka"), "{reasons:?}");
    let (status, live) = pod.get("/livez").unwrap();
    assert_eq!(status, 200, "no restart because Kafka is away: {live}");
    pod.until_count(4, SOON);
    for (index, id) in ["lost1", "lost2", "lost3"].into_iter().enumerate() {
        let line = pod.with_lines(|lines| lines[index + 1].clone());
        assert_eq!(error(&line), ("retryable", index + 2, Some(id)));
        assert!(line.text_of("error").contains(id), "{}", line.text);
        let took = line.at - began;
        assert!(took >= timeout && took < timeout * 3, "{took:?}");
    }

    cluster.restart_all();
    pod.until_ready(SOON);
    pod.feed([event("a/b", "after"), event("a/c", "last")]);
    pod.until_count(6, SOON);
    pod.close_stdin();
    assert_eq!(pod.exit_code(SOON), 1);
    // Everything that Kafka has.
    assert_eq!(handled_by_a_successor(&bus, "last"), ["after", "before", "last"]);
}

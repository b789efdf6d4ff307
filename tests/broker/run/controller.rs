//! What a controller writes, one line per message.

use std::time::Duration;

use super::{SOON, event, handled, keys, publish};
use crate::support::{kafka::shared, process::Bus};

/// A message's members, before its data.
const FIELDS: [&str; 12] = [
    "id",
    "resource",
    "source",
    "pod",
    "type",
    "kind",
    "bucket",
    "offset",
    "epoch",
    "attempt",
    "time",
    "controller",
];

#[test]
fn a_message_is_one_line_with_exactly_the_documented_fields_in_order() {
    let bus = Bus::new("run-lines", shared(), 1);
    let controller = bus.controller("controller1").start();
    let mut pod = bus.data_plane("dispatcher1").start();
    pod.feed([
        r#"{"resource":"default/trigger1","type":"t","kind":"event","id":"1","source":"urn:s","data":{"z": [1.50, 12345678901234567890123]}}"#,
        r#"{"resource":"default/trigger1","type":"u","kind":"state","id":"2","data_base64":"AAEC"}"#,
        r#"{"resource":"default/trigger1","type":"t","kind":"event","id":"3","content_type":"application/json","data_base64":"ew=="}"#,
        r#"{"resource":"default/trigger1","type":"t","kind":"event","id":"4"}"#,
        r#"{"resource":"default/trigger1","type":"t","kind":"event","id":"5","content_type":"text/plain","data":"x"}"#,
        r#"{"resource":"default/trigger1","type":"t","kind":"event","id":"6","data":null}"#,
    ]);
    controller.until_count(6, SOON);
    let lines = controller.lines();
    assert_eq!(lines[0].text, r#"{"acquired":{"bucket":0,"epoch":1,"controller":"controller1"}}"#);
    let datas = [
        r#""data":{"z":[1.50,12345678901234567890123]}"#,
        r#""data_base64":"AAEC""#,
        r#""data_base64":"ew==""#,
        r#""data_base64":"""#,
        r#""data_base64":"Ingi""#,
        r#""data":null"#,
    ];
    for (offset, data) in datas.into_iter().enumerate() {
        let line = &lines[offset + 1];
        let name = if data.starts_with("\"data\"") { "data" } else { "data_base64" };
        let expected: Vec<&str> = FIELDS.into_iter().chain([name]).collect();
        assert_eq!(keys(&line.text), expected);
        let (source, ty) = (["urn:s", "dispatcher1"][offset.min(1)], if offset == 1 { "u" } else { "t" });
        let kind = if offset == 1 { "state" } else { "event" };
        let (id, time) = (offset + 1, line.text_of("time"));
        let text = format!(
            r#"{{"id":"{id}","resource":"default/trigger1","source":"{source}","pod":"dispatcher1","type":"{ty}","kind":"{kind}","bucket":0,"offset":{offset},"epoch":1,"attempt":1,"time":"{time}","controller":"controller1",{data}}}"#
        );
        assert_eq!(line.text, text);
        assert!(time.len() >= 20 && time.ends_with('Z') && time.contains('T'), "{time:?} is RFC 3339");
    }
}

#[test]
fn the_end_of_its_input_ends_no_controller_and_every_log_line_is_json() {
    let bus = Bus::new("run-input", shared(), 1);
    let mut controller = bus.controller("controller1").start();
    controller.feed(["what stands there is not read", r#"{"resource":"a/b","type":"t","kind":"event"}"#]);
    controller.close_stdin();
    controller.until_ready(SOON);
    let mut pod = bus.data_plane("dispatcher1").start();
    pod.feed([event("a/b", "1")]);
    controller.until_count(1, SOON);
    assert_eq!(handled(&controller), ["1"]);
    assert!(controller.metric("control_bus_rebalances_total{kind=\"assigned\"}") > 0.0);
    assert_eq!(controller.bucket_metric("handled_records_total", 0), 1.0);
    pod.close_stdin();
    assert_eq!(pod.exit_code(SOON), 0);
    controller.terminate();
    assert_eq!(controller.exit_code(SOON), 0);
    let last = controller.lines().pop().unwrap().text;
    assert_eq!(last, r#"{"released":{"bucket":0,"epoch":1,"controller":"controller1","why":"shutdown"}}"#);
    for process in [&controller, &pod] {
        let (lines, logs) = (process.stderr().lines().count(), process.logs());
        assert_eq!(logs.len(), lines, "{}", process.stderr());
        let all = ["timestamp", "level", "message", "target"];
        assert!(
            lines > 0 && logs.iter().all(|log| all.iter().all(|name| log[*name].is_string())),
            "{logs:?}"
        );
    }
}

#[test]
fn a_message_to_all_buckets_is_a_line_in_each() {
    let bus = Bus::new("run-all", shared(), 3);
    let controller = bus.controller("controller1").start();
    let mut pod = bus.data_plane("dispatcher1").start();
    pod.feed([r#"{"resource":"a/b","type":"t","kind":"state","id":"1","to":"all-buckets","data":1}"#]);
    controller.until_count(3, SOON);
    let mut buckets: Vec<i64> = controller.with_lines(|lines| {
        let messages = lines.iter().filter(|line| line.is_message());
        messages
            .inspect(|line| assert_eq!(line.text_of("id"), "1"))
            .map(|line| line.number("bucket"))
            .collect()
    });
    buckets.sort_unstable();
    assert_eq!(buckets, [0, 1, 2]);
}

#[test]
fn text_is_logged_where_no_json_is_asked_for() {
    let bus = Bus::new("run-text", shared(), 1);
    let controller = bus.controller("controller1").unset("log.format").start();
    controller.until_ready(SOON);
    let log = controller.until_logged("bucket taken over", SOON);
    assert!(log.contains("INFO") && log.contains("bucket=0") && !log.contains('\u{1b}'), "{log}");
}

#[test]
fn what_waits_in_a_bucket_is_delivered_as_soon_as_it_is_acquired() {
    let bus = Bus::new("run-prompt", shared(), 1);
    let mut waits: Vec<Duration> = (0..3)
        .map(|number| {
            publish(&bus, [event("a/b", &number.to_string())]);
            let mut controller = bus.controller("controller1").start();
            controller.until_count(1, SOON);
            let wait = controller.with_lines(|lines| lines[1].at - lines[0].at);
            controller.terminate();
            assert_eq!(controller.exit_code(SOON), 0);
            wait
        })
        .collect();
    waits.sort_unstable();
    assert!(waits[1] < Duration::from_millis(500), "{waits:?}");
}

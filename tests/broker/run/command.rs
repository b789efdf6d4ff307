//! `handler.command`: a program per message.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

use serde_json::Value;

use super::{SOON, event, publish, until_no_lag};
use crate::support::{
    kafka::shared,
    process::{Bus, Config, Process, eventually},
};

/// Writes a shell script that has the message in `$line`; it is called by the path that is returned.
fn script(bus: &Bus, name: &str, body: &str) -> PathBuf {
    let path = bus.dir().join(name);
    let written = path.with_extension("new");
    fs::write(&written, format!("#!/bin/sh\nread -r line\n{body}\n")).unwrap();
    fs::set_permissions(&written, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&written, &path).unwrap();
    path
}

/// A controller that calls a program; it tries three times, quickly.
fn caller(bus: &Bus, program: &str) -> Config {
    bus.controller("controller1")
        .set("handler.command", vec![program, bus.dir().to_str().unwrap()])
        .set("retry.attempts", 3)
        .set("retry.initial", "50ms")
        .set("retry.max", "100ms")
}

/// A message whose type says what the program does with it.
fn of_type(ty: &str) -> String {
    format!(r#"{{"resource":"a/{ty}","type":"{ty}","kind":"event","id":"{ty}","data":{{"n":1}}}}"#)
}

fn dead_letters(bus: &Bus) -> Vec<Value> {
    let looked = bus.controller("looks").look(&["dead-letters", "list", "--output", "json"]);
    looked.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn exists(pid: &str) -> bool {
    // A zombie that nobody has waited for yet has ended, too.
    fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn exit_codes_decide_and_the_last_words_are_the_reason() {
    let bus = Bus::new("run-command", shared(), 1);
    let program = script(
        &bus,
        "handle",
        r#"printf '%s\n' "$line" >> "$1/got"
echo "this is not for anybody"
case "$line" in
*'"type":"reject"'*) echo "first words" >&2; echo "not to be" >&2; exit 65 ;;
*'"type":"never"'*) echo "no use" >&2; exit 9 ;;
*'"type":"once"'*'"attempt":1'*) exit 3 ;;
*'"type":"signal"'*'"attempt":1'*) kill -9 $$ ;;
*'"type":"slow"'*'"attempt":1'*) sleep 600 & echo $! > "$1/slow"; wait ;;
esac
exit 0"#,
    );
    let controller = caller(&bus, program.to_str().unwrap()).set("handler.timeout", "1s").start();
    let types = ["ok", "reject", "never", "once", "signal", "slow"];
    publish(&bus, types.map(of_type));
    until_no_lag(&bus, &controller);

    let got = fs::read_to_string(bus.dir().join("got")).unwrap();
    let lines: Vec<Value> = got.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let attempts = |ty: &str| lines.iter().filter(|line| line["type"] == ty).count();
    assert_eq!(types.map(attempts), [1, 1, 3, 2, 2, 2], "{got}");
    let ok = got.lines().find(|line| line.contains("\"ok\"")).unwrap();
    let start =
        r#"{"id":"ok","resource":"a/ok","source":"publisher","pod":"publisher","type":"ok","kind":"event","#;
    assert!(ok.starts_with(start) && ok.ends_with(r#","controller":"controller1","data":{"n":1}}"#), "{ok}");

    let letters = dead_letters(&bus);
    let found: Vec<_> = letters
        .iter()
        .map(|letter| (letter["id"].as_str().unwrap(), letter["why"].as_str().unwrap(), &letter["attempts"]))
        .collect();
    assert_eq!(letters.len(), 2, "{letters:?}");
    assert!(found.contains(&("reject", "rejected", &1.into())), "{found:?}");
    assert!(found.contains(&("never", "exhausted", &3.into())), "{found:?}");
    for letter in &letters {
        let reason = letter["reason"].as_str().unwrap();
        match letter["id"].as_str() {
            Some("reject") => assert_eq!(reason, "not to be"),
            _ => assert!(reason.contains("no use") && reason.contains('9'), "{reason}"),
        }
        assert_eq!(
            (&letter["resource"], &letter["owner"]).0,
            &Value::from(format!("a/{}", letter["id"].as_str().unwrap()))
        );
        assert_eq!(letter["owner"], "controller1");
    }
    let slow = fs::read_to_string(bus.dir().join("slow")).unwrap();
    assert!(!exists(&slow), "what the program had started still runs");
    assert_eq!(controller.bucket_metric("dead_lettered_records_total", 0), 2.0);
    // Nothing but notices on standard output.
    assert!(controller.with_lines(|lines| lines.len() == 1 && lines[0].json["acquired"].is_object()));
}

#[test]
fn an_unavailable_handler_is_not_ready_names_itself_and_costs_no_attempt() {
    let bus = Bus::new("run-unavailable", shared(), 1);
    let program = bus.dir().join("later");
    let mut controller = caller(&bus, program.to_str().unwrap()).start();
    controller.until_ready(SOON);
    publish(&bus, ["1", "2", "3"].map(|id| event(&format!("a/{id}"), id)));
    let unready = |part: &str, controller: &Process| {
        eventually(&format!("not ready: {part}"), SOON, &[controller], || {
            Some(controller.unready()).filter(|reasons| reasons.iter().any(|reason| reason.contains(part)))
        })
    };
    let reasons = unready("later", &controller);
    assert!(reasons[0].contains("bucket 0") && reasons[0].contains("cannot be started"), "{reasons:?}");
    assert_eq!(controller.bucket_metric("unavailable", 0), 1.0);
    assert_eq!(controller.get("/livez").unwrap().0, 200);

    // It is there now, and says that something else is not; more often than there are attempts.
    let body = r#"echo x >> "$1/tries"; echo "the database is away" >&2; exit 75"#;
    script(&bus, "later", body);
    unready("the database is away", &controller);
    eventually("more tries than attempts", SOON, &[&controller], || {
        let tries = fs::read_to_string(bus.dir().join("tries")).unwrap_or_default();
        (tries.lines().count() > 5).then_some(())
    });
    script(&bus, "later", r#"printf '%s\n' "$line" >> "$1/got"; exit 0"#);
    until_no_lag(&bus, &controller);
    controller.until_ready(SOON);
    assert_eq!(controller.bucket_metric("unavailable", 0), 0.0);
    let got = fs::read_to_string(bus.dir().join("got")).unwrap();
    assert_eq!(got.matches("\"attempt\":1,").count(), 3, "{got}");
    assert_eq!(got.lines().count(), 3, "{got}");
    assert_eq!(dead_letters(&bus), [Value::Null; 0]);
    assert_eq!(controller.bucket_metric("retried_records_total", 0), 0.0);
    controller.terminate();
    assert_eq!(controller.exit_code(SOON), 0);
}

/// A controller with one message in flight, whose program runs for as long as a file is not there; the program's pid.
fn in_flight(bus: &Bus, config: Config) -> (Process, String) {
    let controller = config.start();
    controller.until_ready(SOON);
    publish(bus, [event("a/b", "1"), event("a/b", "2")]);
    let pid = eventually("the program runs", SOON, &[&controller], || {
        fs::read_to_string(bus.dir().join("pid")).ok().filter(|pid| pid.ends_with('\n'))
    });
    (controller, pid)
}

const UNTIL_DONE: &str = r#"echo $$ > "$1/pid"
while [ ! -e "$1/done" ]; do sleep 0.05; done
printf '%s\n' "$line" >> "$1/got""#;

#[test]
fn sigterm_lets_what_is_in_flight_finish_and_a_successor_goes_on_behind_it() {
    let bus = Bus::new("run-drain", shared(), 1);
    let program = script(&bus, "handle", UNTIL_DONE);
    let (mut controller, _) = in_flight(&bus, caller(&bus, program.to_str().unwrap()));
    controller.terminate();
    let shutting = || controller.unready().iter().any(|reason| reason == "shutting down").then_some(());
    eventually("not ready: shutting down", SOON, &[&controller], shutting);
    fs::write(bus.dir().join("done"), "").unwrap();
    assert_eq!(controller.exit_code(SOON), 0);
    let got = fs::read_to_string(bus.dir().join("got")).unwrap();
    assert_eq!(got.lines().count(), 1, "nothing is started any more: {got}");
    let mut successor = caller(&bus, program.to_str().unwrap()).start();
    until_no_lag(&bus, &successor);
    let got = fs::read_to_string(bus.dir().join("got")).unwrap();
    let ids: Vec<Value> =
        got.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone()).collect();
    assert_eq!(ids, ["1", "2"], "{got}");
    successor.terminate();
    assert_eq!(successor.exit_code(SOON), 0);
}

#[test]
fn what_does_not_finish_within_the_drain_time_is_ended_and_is_no_attempt() {
    let bus = Bus::new("run-cut", shared(), 1);
    let program = script(&bus, "handle", UNTIL_DONE);
    let config = caller(&bus, program.to_str().unwrap()).set("shutdown.drain", "1s");
    let (mut controller, pid) = in_flight(&bus, config.clone());
    controller.terminate();
    assert_eq!(controller.exit_code(Duration::from_secs(10)), 0);
    assert!(!exists(&pid), "the program outlived its controller");
    fs::write(bus.dir().join("done"), "").unwrap();
    let successor = config.start();
    until_no_lag(&bus, &successor);
    let got = fs::read_to_string(bus.dir().join("got")).unwrap();
    assert_eq!(got.matches("\"attempt\":1,").count(), 2, "{got}");
}

#[test]
fn a_second_signal_ends_it_at_once_with_130() {
    let bus = Bus::new("run-130", shared(), 1);
    let program = script(&bus, "handle", UNTIL_DONE);
    let (mut controller, _) = in_flight(&bus, caller(&bus, program.to_str().unwrap()));
    controller.signal(nix::sys::signal::Signal::SIGINT);
    controller.until_logged("ending in good order", SOON);
    assert!(controller.is_running());
    controller.terminate();
    assert_eq!(controller.exit_code(Duration::from_secs(3)), 130);
    fs::write(bus.dir().join("done"), "").unwrap(); // the program itself is left to end
}

//! `check`: each thing that can be wrong at night has a line that says so, and what to do.

use std::time::Duration;

use serde_json::Value;

use crate::support::{
    kafka::shared,
    process::{Bus, Config, Process, eventually},
};

const SOON: Duration = Duration::from_secs(60);

/// What a check found, and its exit code.
struct Checked {
    code: Option<i32>,
    findings: Vec<Value>,
}

impl Checked {
    fn of(config: &Config, arguments: &[&str]) -> Self {
        let looked = config.look(&[&["check", "--output", "json"], arguments].concat());
        let findings = looked.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Self { code: looked.code, findings }
    }

    /// The worst result about a thing, with what was found and what to do.
    fn about(&self, check: &str) -> (&str, String) {
        let of =
            |result: &str| self.findings.iter().find(|one| one["check"] == check && one["result"] == result);
        let worst = ["failed", "warning", "ok"].into_iter().find_map(of);
        let worst = worst.unwrap_or_else(|| panic!("nothing about {check}: {:?}", self.findings));
        let text =
            format!("{} {}", worst["found"].as_str().unwrap(), worst["todo"].as_str().unwrap_or_default());
        (worst["result"].as_str().unwrap(), text)
    }

    fn not_ok(&self) -> Vec<&Value> {
        self.findings.iter().filter(|one| one["result"] != "ok").collect()
    }
}

#[test]
fn a_bus_at_work_is_right_and_one_without_owner_is_not() {
    let bus = Bus::new("operators-check", shared(), 2);
    let (config, pod) = (bus.controller("controller1"), bus.data_plane("dispatcher1"));
    let mut controller: Process = config.start();
    for bucket in [0, 1] {
        controller.until_acquired(bucket, 0, SOON);
    }
    assert_eq!(pod.look(&["send", "a/b", "t"]).code, Some(0));
    let right = eventually("everything is right", SOON, &[&controller], || {
        let checked = Checked::of(&config, &["--transactions"]);
        checked.not_ok().is_empty().then_some(checked)
    });
    assert_eq!(right.code, Some(0));
    assert!(right.about("controllers").1.contains("controller1 (2)"), "{:?}", right.findings);
    assert!(Checked::of(&pod, &[]).not_ok().is_empty(), "a data-plane pod sees the same");

    controller.terminate();
    assert_eq!(controller.exit_code(SOON), 0);
    assert_eq!(pod.look(&["send", "a/b", "t"]).code, Some(0));
    let left = Checked::of(&config, &[]);
    assert_eq!(left.code, Some(1));
    assert!(left.about("controllers").1.contains("nobody is in group"), "{:?}", left.findings);
    assert!(left.about("buckets").1.contains("given up by controller1"), "{:?}", left.findings);
    let (result, text) = left.about("backlog");
    assert_eq!(result, "failed", "{text}");
    assert!(text.contains("up to 1 messages wait"), "{text}");
}

#[test]
fn topics_that_are_missing_or_of_another_size_are_told() {
    let bus = Bus::new("operators-check-topics", shared(), 2);
    let config = bus.controller("controller1");
    let missing = Checked::of(&config, &[]);
    assert_eq!(missing.code, Some(0), "`run` would create them: {:?}", missing.findings);
    let (result, text) = missing.about("topics");
    assert_eq!(result, "warning");
    assert!(text.contains("topics ensure") && text.contains(".dead-letters"), "{text}");
    let never = Checked::of(&config.clone().set("topics.create", false), &[]);
    assert_eq!((never.code, never.about("topics").0), (Some(1), "failed"));

    assert_eq!(config.look(&["topics", "ensure"]).code, Some(0));
    let other = Checked::of(&config.clone().set("bus.buckets", 3), &[]);
    assert_eq!(other.code, Some(1));
    let (result, text) = other.about("topics");
    assert!(result == "failed" && text.contains("has 2 partitions, `bus.buckets` is 3"), "{text}");
}

#[test]
fn brokers_that_do_not_answer_are_all_that_is_told() {
    let bus = Bus::new("operators-check-away", shared(), 2);
    for (brokers, word) in [("127.0.0.1:1", "refused"), ("nosuchhost.invalid:9092", "resolve")] {
        let config = bus.controller("controller1").set("kafka.brokers", brokers);
        let away = Checked::of(&config, &["--timeout", "3s"]);
        assert_eq!(away.code, Some(1));
        let (result, text) = away.about("brokers");
        assert!(result == "failed" && text.contains(brokers) && text.contains(word), "{text}");
        assert_eq!(away.findings.len(), 2, "{:?}", away.findings);
    }
}

#[test]
fn a_configuration_that_cannot_be_used_is_a_finding_too() {
    let bus = Bus::new("operators-check-config", shared(), 2);
    let wrong = Checked::of(&bus.controller("controller1").set("bus.buckets", 0), &[]);
    assert_eq!(wrong.code, Some(64));
    let (result, text) = wrong.about("configuration");
    assert!(result == "failed" && text.contains("bus.buckets"), "{text}");
}

#[test]
fn a_record_that_fails_again_and_again_is_named() {
    let bus = Bus::new("operators-check-retry", shared(), 1);
    let config = bus
        .controller("controller1")
        .set("handler.command", vec!["false"])
        .set("retry.attempts", 1000)
        .set("retry.initial", "1s");
    let controller = config.start();
    controller.until_acquired(0, 0, SOON);
    assert_eq!(bus.data_plane("dispatcher1").look(&["send", "a/b", "t"]).code, Some(0));
    eventually("the record is named", SOON, &[&controller], || {
        let checked = Checked::of(&config, &[]);
        let (result, text) = checked.about("backlog");
        (result == "warning" && text.contains("offset 0 was tried")).then_some(())
    });
    let status = config.look(&["buckets", "--output", "json"]).json();
    assert_eq!((&status["retrying"], &status["assigned"]), (&1.into(), &"controller1".into()));
}

//! What programs and people read, as it was agreed: help texts and results. A change is seen in `snapshots/`; to accept
//! it, run the tests with `INSTA_UPDATE=always` and look at the difference.

use std::collections::BTreeSet;

use clap::{Command, CommandFactory as _};

use super::{
    Answer, BucketStatus, Cli, Format, Letter, Outcome, Paint, Route, Row,
    buckets::Watched,
    check::{Finding, Verdict},
    help,
    send::Sent,
    tail::{Given, Seen},
    topics::Checked,
};

const TIME: &str = "2026-01-31T08:00:00Z";

/// A result in all three forms.
fn shown<R: Row>(rows: &[R]) -> String {
    let form = |format: Format| {
        let mut out = Vec::new();
        format.write(rows, Paint::OFF, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    format!(
        "table:\n{}\nplain:\n{}\njson:\n{}",
        form(Format::Table),
        form(Format::Plain).replace('\t', " | "),
        form(Format::Json)
    )
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn statuses() -> [BucketStatus; 2] {
    let owned = BucketStatus {
        owner: text("controller1"),
        epoch: Some(3),
        released: Some(false),
        time: text(TIME),
        committed: Some(40),
        end: 42,
        lag: 2,
        assigned: text("controller1"),
        retrying: 1,
        ..BucketStatus::default()
    };
    [owned, BucketStatus { bucket: 1, ..BucketStatus::default() }]
}

fn watched() -> Vec<Watched> {
    statuses().into_iter().map(|status| Watched { at: TIME.to_owned(), status }).collect()
}

fn routes() -> [Route; 1] {
    [Route {
        resource: "default/trigger1".to_owned(),
        bucket: 1,
        partition: 1,
        owner: text("controller1"),
        epoch: Some(3),
        released: Some(false),
        committed: Some(40),
        lag: 2,
        assigned: None,
    }]
}

fn letters() -> [Letter; 2] {
    let known = Letter {
        bucket: 1,
        offset: 4,
        id: text("0199"),
        resource: text("default/trigger1"),
        ty: text("ready"),
        why: text("rejected"),
        reason: text("no such trigger"),
        attempts: Some(3),
        origin_offset: Some(40),
        owner: text("controller1"),
        time: text(TIME),
        ..Letter::default()
    };
    [known, Letter { data_missing: true, ..Letter::default() }]
}

fn answers() -> [Answer; 2] {
    let replayed = Answer {
        bucket: 1,
        offset: 4,
        id: text("0199"),
        outcome: Outcome::Replayed,
        new_id: text("0200"),
        new_offset: Some(43),
        detail: None,
    };
    let refused = Answer {
        outcome: Outcome::Refused,
        new_id: None,
        new_offset: None,
        detail: text("it has no data: it is a tombstone"),
        ..replayed.clone()
    };
    [replayed, refused]
}

fn checked() -> [Checked; 1] {
    let warnings = vec!["segment.ms is 1, expected 600000: it costs time".to_owned()];
    [Checked { topic: "bus.notifications".to_owned(), partitions: 2, state: "there", warnings }]
}

fn sent() -> [Sent; 1] {
    [Sent { id: "0199".to_owned(), resource: "default/trigger1".to_owned(), bucket: 1, offset: 42 }]
}

fn findings() -> [Finding; 2] {
    [
        Finding {
            check: "brokers",
            result: Verdict::Ok,
            found: "localhost:9092 answers".to_owned(),
            todo: None,
        },
        Finding {
            check: "backlog",
            result: Verdict::Failed,
            found: "up to 2 messages wait".to_owned(),
            todo: text("start a controller"),
        },
    ]
}

fn seen() -> [Seen; 3] {
    let json = Seen {
        id: text("0199"),
        resource: text("default/trigger1"),
        source: text("dispatcher1"),
        pod: text("dispatcher1"),
        ty: text("ready"),
        kind: "state",
        bucket: 1,
        offset: 42,
        time: text(TIME),
        content_type: text("application/json"),
        problem: None,
        dead_letter: None,
        data: serde_json::value::RawValue::from_string("{\"consumers\":5}".to_owned()).ok(),
        data_base64: None,
        text: "{\"consumers\":5}".to_owned(),
    };
    let letter = Seen {
        dead_letter: Some(Given {
            why: "rejected".to_owned(),
            reason: "no such trigger".to_owned(),
            attempts: 3,
            owner: "controller1".to_owned(),
            origin_offset: 40,
        }),
        ..json.clone()
    };
    let bytes = Seen {
        id: None,
        kind: "undecodable",
        problem: text("ce_specversion is missing"),
        content_type: None,
        data: None,
        data_base64: text("/w=="),
        text: "<1 bytes>".to_owned(),
        ..json.clone()
    };
    [json, letter, bytes]
}

#[test]
fn results_are_written_as_agreed() {
    insta::assert_snapshot!("buckets", shown(&statuses()));
    insta::assert_snapshot!("buckets_watch", shown(&watched()));
    insta::assert_snapshot!("route", shown(&routes()));
    insta::assert_snapshot!("dead_letters_list", shown(&letters()));
    insta::assert_snapshot!("dead_letters_replay", shown(&answers()));
    insta::assert_snapshot!("topics", shown(&checked()));
    insta::assert_snapshot!("send", shown(&sent()));
    insta::assert_snapshot!("check", shown(&findings()));
    insta::assert_snapshot!("tail", shown(&seen()));
}

#[test]
fn a_check_is_read_by_people_line_by_line() {
    let mut out = Vec::new();
    Finding::write(&findings(), (Format::Table, Paint::OFF), &mut out).unwrap();
    insta::assert_snapshot!("check_for_people", String::from_utf8(out).unwrap());
}

/// The members that rows have, together.
fn members<R: Row>(rows: &[R]) -> BTreeSet<String> {
    let object = |row: &R| match serde_json::to_value(row).unwrap() {
        serde_json::Value::Object(object) => object.into_iter().map(|(name, _)| name).collect::<Vec<_>>(),
        other => panic!("{other} is no object"),
    };
    rows.iter().flat_map(object).collect()
}

#[test]
fn help_lists_every_member_of_the_json_and_no_other() {
    let documented = |help: &help::Help| -> BTreeSet<String> {
        let list = help.long.split_once("one object a line:\n").unwrap().1;
        list.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    assert_eq!(documented(&help::BUCKETS), members(&watched()));
    assert_eq!(documented(&help::ROUTE), members(&routes()));
    assert_eq!(documented(&help::LETTERS_LIST), members(&letters()));
    assert_eq!(documented(&help::LETTERS_REPLAY), members(&answers()));
    assert_eq!(documented(&help::TOPICS_ENSURE), members(&checked()));
    assert_eq!(documented(&help::TOPICS_VERIFY), members(&checked()));
    assert_eq!(documented(&help::SEND), members(&sent()));
    assert_eq!(documented(&help::CHECK), members(&findings()));
    assert_eq!(documented(&help::TAIL), members(&seen()));
}

/// Snapshots the long help of a command and of all below it.
fn snapshot_help(command: &mut Command, name: &str) {
    let text = command.clone().term_width(100).color(clap::ColorChoice::Never).render_long_help().to_string();
    let short = command.clone().term_width(100).render_help().to_string();
    assert!(text.contains("Examples:") && short.contains("Examples:"), "{name}: {short}");
    insta::assert_snapshot!(format!("help_{}", name.replace(['-', ' '], "_")), text);
    for one in command.get_subcommands_mut().filter(|one| !one.is_hide_set() && one.get_name() != "help") {
        let name = format!("{name} {}", one.get_name());
        snapshot_help(one, &name);
    }
}

#[test]
fn help_says_what_was_agreed_and_has_examples_for_every_command() {
    let mut root = Cli::command();
    root.build();
    snapshot_help(&mut root, "control-bus");
}

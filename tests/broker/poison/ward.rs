//! A bus of one bucket whose controllers start a program per message: it fails for `default/poison`, and kills its
//! controller for `default/killer`. What it was started for is in a file.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

use control_bus::{
    kafka::{Isolation, LogReader, Settings},
    model::{Attribute, Bucket, Bus as Names, Provenance, Record},
};
use serde_json::Value;

use crate::{
    fleet::{SESSION, STEP},
    ledger,
    support::{
        kafka::shared,
        process::{Bus, Process, eventually},
    },
};

/// The program. Its arguments are the file to write to, and a file that heals everything by being there.
const PROGRAM: &str = r#"#!/bin/sh
read -r line
printf '%s\n' "$line" >> "$1"
[ -e "$2" ] && exit 0
case $line in
*'"resource":"default/poison"'*) echo 'it cannot be done' >&2; exit 1 ;;
*'"resource":"default/killer"'*) kill -9 $PPID; exec sleep 60 ;;
esac
exit 0
"#;

/// How long one question to Kafka may take.
const ANSWER: Duration = Duration::from_secs(10);

/// An attempt, as the program was told.
#[derive(Debug, Clone)]
pub(super) struct Tried {
    pub(super) id: String,
    pub(super) attempt: i64,
    pub(super) controller: String,
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) id: String,
    pub(super) why: String,
    pub(super) reason: String,
    pub(super) attempts: u32,
}

impl Letter {
    pub(super) fn exhausted(id: &str, attempts: u32, words: &str) -> Self {
        let reason = format!("the handler ended with exit status: 1: {words}");
        Self { id: id.to_owned(), why: "exhausted".to_owned(), reason, attempts }
    }
}

pub(super) struct Ward {
    bus: Bus,
    names: Names,
    attempts: u32,
    reader: LogReader,
    pub(super) runs: Vec<Process>,
    dispatcher: Process,
    published: usize,
}

impl Ward {
    pub(super) fn new(test: &str, attempts: u32) -> Self {
        let bus = Bus::new(test, shared(), 1);
        let program = bus.dir().join("program");
        fs::write(&program, PROGRAM).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let kafka = Settings::new(shared(), test, Default::default(), false).unwrap();
        let reader = LogReader::new(&kafka, Isolation::ReadCommitted, None).unwrap();
        let dispatcher = bus.data_plane("dispatcher1").start();
        let names = Names::new(bus.name()).unwrap();
        Self { bus, names, attempts, reader, runs: Vec::new(), dispatcher, published: 0 }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.bus.dir().join(name)
    }

    fn start(&self, name: &str) -> Process {
        let files = ["program", "tried", "healed"].map(|name| self.file(name).to_str().unwrap().to_owned());
        self.bus
            .controller(name)
            .set("group.session_timeout", format!("{} ms", SESSION.as_millis()))
            .set("group.heartbeat", "200ms")
            .set("commit.interval", "20ms")
            .set("handler.command", files.to_vec())
            .set("handler.concurrency", 4)
            .set("retry.attempts", self.attempts)
            .set("retry.initial", "200ms")
            .set("retry.max", "200ms")
            .start()
    }

    /// Starts a controller; its number among the runs.
    pub(super) fn add(&mut self, name: &str) -> usize {
        let run = self.start(name);
        self.runs.push(run);
        self.runs.len() - 1
    }

    /// SIGKILL to the controller of this name.
    pub(super) fn kill(&mut self, name: &str) {
        self.runs.iter_mut().rfind(|run| run.name() == name).unwrap().kill();
    }

    /// Starts those again that have been killed; how many those were.
    pub(super) fn restart_dead(&mut self) -> usize {
        let dead: Vec<usize> = (0..self.runs.len()).filter(|run| !self.runs[*run].is_running()).collect();
        for run in &dead {
            let name = self.runs[*run].name().to_owned();
            self.runs[*run] = self.start(&name);
        }
        dead.len()
    }

    /// Publishes an event, and returns when Kafka has it.
    pub(super) fn publish(&mut self, resource: &str, id: &str) {
        let line =
            serde_json::json!({ "resource": resource, "type": "t", "kind": "event", "id": id, "data": 1 });
        self.dispatcher.feed([line.to_string()]);
        self.published += 1;
        self.dispatcher.until_count(self.published, STEP);
    }

    /// Every attempt of a message so far.
    pub(super) fn tries(&self, id: &str) -> Vec<Tried> {
        let text = fs::read_to_string(self.file("tried")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let all = lines.map(|line| Tried {
            id: line["id"].as_str().unwrap().to_owned(),
            attempt: line["attempt"].as_i64().unwrap(),
            controller: line["controller"].as_str().unwrap().to_owned(),
        });
        all.filter(|tried| tried.id == id).collect()
    }

    /// Waits until this attempt has been begun; by which controller.
    pub(super) fn until_tried(&self, id: &str, attempt: i64) -> String {
        eventually(&format!("attempt {attempt} of {id}"), STEP, &self.everyone(), || {
            self.tries(id).into_iter().find(|tried| tried.attempt == attempt).map(|tried| tried.controller)
        })
    }

    /// The program succeeds from now on, whatever it is given.
    pub(super) fn heal(&self) {
        fs::write(self.file("healed"), "").unwrap();
    }

    /// Replays a dead letter; the command's answer.
    pub(super) fn replay(&self, id: &str) -> Value {
        let operator = self.bus.controller("operator");
        operator.look(&["dead-letters", "replay", "--id", id, "--output", "json"]).json()
    }

    /// What a message of this id in the notifications replays.
    pub(super) fn replay_of(&self, id: &str) -> Option<String> {
        let mut found = None;
        self.read(&self.names.notifications(), |record| {
            if record.text(Attribute::Id) == Some(id) {
                found = record.text(Attribute::ReplayOf).map(str::to_owned);
            }
        });
        found
    }

    /// The dead letters that are committed.
    pub(super) fn letters(&self) -> Vec<Letter> {
        let mut letters = Vec::new();
        self.read(&self.names.dead_letters(), |record| {
            let from = Provenance::decode(&record).unwrap();
            letters.push(Letter {
                id: record.text(Attribute::Id).unwrap().to_owned(),
                why: from.why,
                reason: from.reason,
                attempts: from.attempts,
            });
        });
        letters
    }

    /// Waits until there are so many dead letters.
    pub(super) fn until_letters(&self, count: usize) -> Vec<Letter> {
        eventually("the dead letters", STEP, &self.everyone(), || {
            let letters = self.letters();
            (letters.len() >= count).then_some(letters)
        })
    }

    /// Waits until everything below `offset` is committed.
    pub(super) fn until_committed(&self, offset: i64) {
        eventually("everything is committed", STEP, &self.everyone(), || {
            let commits = ledger::commits(shared(), &self.names.group());
            commits.get(&0).and_then(|commits| commits.last()).filter(|last| last.offset == offset).map(drop)
        });
        ledger::assert_only_grows(shared(), &self.names.group());
    }

    fn everyone(&self) -> Vec<&Process> {
        self.runs.iter().collect()
    }

    fn read(&self, topic: &str, each: impl FnMut(Record)) {
        let bucket = Bucket::from_partition(0).unwrap();
        let bounds = self.reader.bounds(topic, bucket, ANSWER).unwrap();
        self.reader.read((topic, bucket), bounds, ANSWER, each).unwrap();
    }
}

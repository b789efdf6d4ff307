//! The contract of `control-bus run`, with the real binary: lines in, lines out, exit codes, signals, and what is said
//! when it cannot run. Programs rely on all of it.

mod command;
mod controller;
mod data_plane;
mod ends;
mod pipe;
mod refusals;

use std::time::Duration;

use serde::{Deserialize, de};
use serde_json::Value;

use crate::support::process::{Bus, Line, Process, eventually};

/// How long anything may take that takes no time of its own.
const SOON: Duration = Duration::from_secs(30);

/// The names of a JSON object's members, in their order.
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Keys;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, de::IgnoredAny)) = map.next_entry()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

fn keys(text: &str) -> Vec<String> {
    serde_json::from_str::<Keys>(text).unwrap_or_else(|error| panic!("{error}: {text}")).0
}

/// A data-plane line: an event of a resource, with an id.
fn event(resource: &str, id: &str) -> String {
    format!(r#"{{"resource":"{resource}","type":"t","kind":"event","id":"{id}","data":"{id}"}}"#)
}

/// Publishes lines and waits until Kafka has all of them.
fn publish<L: AsRef<str>>(bus: &Bus, lines: impl IntoIterator<Item = L>) {
    let mut pod = bus.data_plane("publisher").start();
    pod.feed(lines);
    pod.close_stdin();
    assert_eq!(pod.exit_code(SOON), 0, "{}", pod.stdout());
}

fn ids(lines: &[Line]) -> Vec<String> {
    lines.iter().filter(|line| line.is_message()).map(|line| line.text_of("id").to_owned()).collect()
}

/// The ids of the messages that a controller has handled, in the order of its lines.
fn handled(process: &Process) -> Vec<String> {
    process.with_lines(ids)
}

/// Starts a controller anew and waits until it has handled all that was left, the message `last` among it; the ids, sorted.
fn handled_by_a_successor(bus: &Bus, last: &str) -> Vec<String> {
    let successor = bus.controller("successor").start();
    successor.until(&format!("message {last}"), SOON, |lines| {
        lines.iter().any(|line| line.text_of("id") == last).then_some(())
    });
    until_no_lag(bus, &successor);
    let mut ids = handled(&successor);
    ids.sort_unstable();
    ids
}

/// What `buckets` says, a row per bucket.
fn buckets(bus: &Bus) -> Vec<Value> {
    let looked = bus.controller("looks").look(&["buckets", "--output", "json"]);
    assert_eq!(looked.code, Some(0), "{looked:?}");
    looked.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until everything that was published is committed as handled.
fn until_no_lag(bus: &Bus, process: &Process) {
    eventually("everything is committed", SOON, &[process], || {
        buckets(bus).iter().all(|bucket| bucket["committed"].is_i64() && bucket["lag"] == 0).then_some(())
    });
}

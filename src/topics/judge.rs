//! Whether a topic that was found is the one that was designed. Pure.

use std::fmt;

use super::{Cleanup, DEAD_LETTER_MARGIN, TopicSpec};
use crate::kafka::{Configs, Layout};

/// A topic as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its partitions and replicas.
    pub layout: Layout,
    /// Its settings; `None` towards the embedded broker, which does not tell them.
    pub configs: Option<Configs>,
}

/// A topic with which the bus could not keep its promises.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// Another number of partitions: resources would be routed differently from other processes.
    #[error(
        "topic {topic:?} has {found} partitions, but `{key}` is {expected}: every process of a bus needs the \
         same number; set `{key}` to {found}, or use another `bus.name` (partitions are never added, since \
         that would re-route resources)"
    )]
    Partitions {
        /// The topic.
        topic: String,
        /// How many it has.
        found: u32,
        /// How many it should have.
        expected: u32,
        /// The configuration key that says so.
        key: &'static str,
    },
    /// It is not compacted: latest values would be deleted with age.
    #[error(
        "topic {topic:?} has cleanup.policy={found:?}, expected \"compact\": otherwise Kafka deletes what is \
         still needed; set cleanup.policy=compact on the topic"
    )]
    NotCompacted {
        /// The topic.
        topic: String,
        /// Its cleanup policy.
        found: String,
    },
    /// It is compacted, but deletes as well.
    #[error(
        "topic {topic:?} has cleanup.policy={found:?}, which compacts but also deletes by age or size, \
         expected \"compact\" alone: otherwise Kafka deletes what is still needed; set cleanup.policy=compact \
         on the topic"
    )]
    AlsoDeletes {
        /// The topic.
        topic: String,
        /// Its cleanup policy.
        found: String,
    },
    /// A dead letter could be too large for its topic.
    #[error(
        "topic {topic:?} takes records of {found} bytes (max.message.bytes), expected at least {expected}: \
         those of {notifications:?} and {DEAD_LETTER_MARGIN} more for a dead letter's headers; set \
         max.message.bytes={expected} on {topic:?}, or less on {notifications:?}"
    )]
    DeadLettersTooSmall {
        /// The dead letters' topic.
        topic: String,
        /// Its limit, in bytes.
        found: usize,
        /// The least it should be, in bytes.
        expected: usize,
        /// The notifications' topic.
        notifications: String,
    },
}

/// A difference that breaks no promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The topic.
    pub topic: String,
    /// What differs: a setting's name, or `replication factor`, or `leaders`.
    pub what: &'static str,
    /// As found.
    pub found: String,
    /// As designed.
    pub expected: String,
    /// What it costs.
    pub effect: &'static str,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, what, found, expected, effect } = self;
        write!(f, "topic {topic:?}: {what} is {found}, expected {expected}: {effect}")
    }
}

/// Judges one topic by itself.
///
/// # Errors
/// [`Mismatch`] when the bus could not keep its promises with it.
pub fn judge(spec: &TopicSpec, found: &Found) -> Result<Vec<Warning>, Mismatch> {
    let layout = &found.layout;
    if layout.partitions != spec.partitions {
        return Err(Mismatch::Partitions {
            topic: spec.name.clone(),
            found: layout.partitions,
            expected: spec.partitions,
            key: spec.partitions_key,
        });
    }
    let Some(configs) = &found.configs else { return Ok(Vec::new()) };
    if spec.cleanup == Cleanup::Compact {
        compacted_only(spec, configs)?;
    }
    let mut warnings = Warnings { spec, found: Vec::new() };
    warnings.replicas(layout, configs);
    warnings.settings(configs);
    Ok(warnings.found)
}

/// Judges the dead letters' size limit by the notifications' one; both are a topic's name and its
/// `max.message.bytes`.
///
/// # Errors
/// [`Mismatch::DeadLettersTooSmall`].
pub fn judge_limits(notifications: (&str, usize), dead_letters: (&str, usize)) -> Result<(), Mismatch> {
    let expected = notifications.1.saturating_add(DEAD_LETTER_MARGIN);
    if dead_letters.1 >= expected {
        return Ok(());
    }
    Err(Mismatch::DeadLettersTooSmall {
        topic: dead_letters.0.to_owned(),
        found: dead_letters.1,
        expected,
        notifications: notifications.0.to_owned(),
    })
}

fn compacted_only(spec: &TopicSpec, configs: &Configs) -> Result<(), Mismatch> {
    let policy = configs.get("cleanup.policy").unwrap_or_default();
    let has = |word: &str| policy.split(',').any(|part| part.trim() == word);
    let (topic, found) = (spec.name.clone(), policy.to_owned());
    match (has("compact"), has("delete")) {
        (true, false) => Ok(()),
        (true, true) => Err(Mismatch::AlsoDeletes { topic, found }),
        (false, _) => Err(Mismatch::NotCompacted { topic, found }),
    }
}

/// Gathers what differs in one topic.
struct Warnings<'a> {
    spec: &'a TopicSpec,
    found: Vec<Warning>,
}

impl Warnings<'_> {
    fn add(
        &mut self,
        what: &'static str,
        found: impl fmt::Display,
        expected: impl fmt::Display,
        effect: &'static str,
    ) {
        let (found, expected) = (found.to_string(), expected.to_string());
        self.found.push(Warning { topic: self.spec.name.clone(), what, found, expected, effect });
    }

    fn replicas(&mut self, layout: &Layout, configs: &Configs) {
        let replicas = i64::from(layout.replication_factor);
        if let Some(expected) = self.spec.replication_factor
            && replicas != i64::from(expected)
        {
            self.add("replication factor", replicas, expected, "an existing topic keeps its own");
        }
        if layout.leaderless > 0 {
            let found = format!("missing for {} partitions", layout.leaderless);
            self.add("leaders", found, "one for each", "these buckets wait until their brokers are back");
        }
        let Some(in_sync) = configs.number("min.insync.replicas") else { return };
        if in_sync > replicas {
            let effect = "every write will be refused";
            self.add("min.insync.replicas", in_sync, format!("at most {replicas}"), effect);
        } else if replicas >= 3 && in_sync < 2 {
            let effect = "a record can be lost with a single broker";
            self.add("min.insync.replicas", in_sync, "2", effect);
        } else if replicas >= 3 && in_sync == replicas {
            self.add("min.insync.replicas", in_sync, "2", "writes stop when a single broker is away");
        }
    }

    fn settings(&mut self, configs: &Configs) {
        for (name, expected) in self.spec.settings() {
            match configs.get(name) {
                Some(found) if same(found, &expected) => {}
                Some(found) => self.add(name, found, expected, effect(name)),
                None => self.add(name, "not told by the broker", expected, effect(name)),
            }
        }
    }
}

/// Whether two values mean the same: `0.10` is `0.1`.
fn same(one: &str, other: &str) -> bool {
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one.total_cmp(&other).is_eq(),
        _ => one == other,
    }
}

/// What a setting that differs costs.
fn effect(setting: &str) -> &'static str {
    match setting {
        "unclean.leader.election.enable" => "acknowledged records can be lost when brokers fail",
        "segment.ms" | "max.compaction.lag.ms" | "min.cleanable.dirty.ratio" => {
            "how long old records stay, and so how much is read at a takeover, changes"
        }
        "min.compaction.lag.ms" => "how long a superseded value can still be seen changes",
        "delete.retention.ms" => "a process that was away for longer does not see what was withdrawn",
        "retention.ms" => "how long records are kept changes",
        "cleanup.policy" => "records are kept otherwise than by age",
        _ => "it differs from the design",
    }
}

#[cfg(test)]
mod tests;

//! The topics of a bus as they are designed.

use std::collections::BTreeMap;

use super::{Config, DEAD_LETTER_MARGIN, DEFAULT_MESSAGE_LIMIT};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// How Kafka cleans a topic up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cleanup {
    /// The latest record of each key stays, for ever.
    Compact,
    /// Records are deleted when they are older than this.
    Delete {
        /// The age in milliseconds.
        retention_ms: u64,
    },
}

/// How the size limit of a topic's records follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// Whatever the broker says.
    Brokers,
    /// The broker's limit, written out, since the dead letters' limit follows from it.
    Notifications,
    /// That of the notifications, and the margin.
    DeadLetters,
}

/// One topic as designed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSpec {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: u32,
    /// The configuration key that this number comes from.
    pub partitions_key: &'static str,
    /// How it is cleaned up.
    pub cleanup: Cleanup,
    /// How many replicas its partitions have; `None` leaves that to the broker's default.
    pub replication_factor: Option<i32>,
    limit: Limit,
}

/// What the cluster gives to a new topic where nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// How many replicas; `None` where the cluster does not tell this user.
    pub replication_factor: Option<i32>,
    /// The most bytes of a record batch in the notifications topic: as found, where it exists already.
    pub notification_limit: usize,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { replication_factor: None, notification_limit: DEFAULT_MESSAGE_LIMIT }
    }
}

/// The five topics of a bus; notifications first, dead letters last.
#[must_use]
pub fn expected(config: &Config) -> Vec<TopicSpec> {
    let bus = &config.bus;
    let per_bucket = |name, cleanup, limit| TopicSpec {
        name,
        partitions: u32::from(config.buckets.count()),
        partitions_key: "bus.buckets",
        cleanup,
        replication_factor: config.replication_factor,
        limit,
    };
    let per_slot = |name, cleanup| TopicSpec {
        partitions: config.slots,
        partitions_key: "bus.slots",
        ..per_bucket(name, cleanup, Limit::Brokers)
    };
    let hour = Cleanup::Delete { retention_ms: HOUR_MS };
    let fortnight = Cleanup::Delete { retention_ms: 14 * DAY_MS };
    vec![
        per_bucket(bus.notifications(), Cleanup::Compact, Limit::Notifications),
        per_bucket(bus.ownership(), Cleanup::Compact, Limit::Brokers),
        per_slot(bus.commands(), Cleanup::Compact),
        per_slot(bus.replies(), hour),
        per_bucket(bus.dead_letters(), fortnight, Limit::DeadLetters),
    ]
}

impl TopicSpec {
    /// The settings that do not depend on the cluster. Found otherwise, each (but `cleanup.policy`) is worth a
    /// warning.
    #[must_use]
    pub fn settings(&self) -> BTreeMap<&'static str, String> {
        let mut settings = BTreeMap::from([("unclean.leader.election.enable", "false".to_owned())]);
        let mut set = |name, value: u64| settings.insert(name, value.to_string());
        match self.cleanup {
            Cleanup::Compact => {
                // With Kafka's defaults the active segment would not be compacted for seven days, and a
                // takeover would read all of it.
                set("segment.ms", 10 * MINUTE_MS);
                set("min.compaction.lag.ms", MINUTE_MS);
                set("max.compaction.lag.ms", HOUR_MS);
                // As long as offsets live: whoever comes back by then still sees what was withdrawn.
                set("delete.retention.ms", 7 * DAY_MS);
                settings.insert("min.cleanable.dirty.ratio", "0.1".to_owned());
                settings.insert("cleanup.policy", "compact".to_owned());
            }
            Cleanup::Delete { retention_ms } => {
                set("retention.ms", retention_ms);
                // Only whole segments are deleted: a sixth more than the retention may be kept.
                set("segment.ms", (retention_ms / 6).min(DAY_MS));
                settings.insert("cleanup.policy", "delete".to_owned());
            }
        }
        settings
    }

    /// Every setting that the topic is created with.
    #[must_use]
    pub fn settings_to_create(&self, defaults: &Defaults) -> BTreeMap<&'static str, String> {
        let mut settings = self.settings();
        if self.replication_factor.or(defaults.replication_factor).is_some_and(|replicas| replicas >= 3) {
            settings.insert("min.insync.replicas", "2".to_owned());
        }
        let limit = match self.limit {
            Limit::Brokers => return settings,
            Limit::Notifications => defaults.notification_limit,
            Limit::DeadLetters => defaults.notification_limit.saturating_add(DEAD_LETTER_MARGIN),
        };
        settings.insert("max.message.bytes", limit.to_string());
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Buckets, Bus};

    fn config(replication_factor: Option<i32>) -> Config {
        Config {
            bus: Bus::new("b").unwrap(),
            buckets: Buckets::new(6).unwrap(),
            slots: 16,
            create: true,
            replication_factor,
        }
    }

    #[test]
    fn a_bus_has_five_topics_by_bucket_and_by_slot() {
        let topics: Vec<_> = expected(&config(None))
            .into_iter()
            .map(|spec| (spec.name, spec.partitions, spec.partitions_key))
            .collect();
        let wanted = [
            ("b.notifications", 6, "bus.buckets"),
            ("b.ownership", 6, "bus.buckets"),
            ("b.commands", 16, "bus.slots"),
            ("b.replies", 16, "bus.slots"),
            ("b.dead-letters", 6, "bus.buckets"),
        ];
        assert_eq!(topics, wanted.map(|(name, count, key)| (name.to_owned(), count, key)));
    }

    #[test]
    fn a_dead_letter_may_be_64_kib_larger_than_a_notification() {
        let defaults = Defaults { notification_limit: 5000, ..Defaults::default() };
        let topics = expected(&config(None));
        let limit = |spec: &TopicSpec| spec.settings_to_create(&defaults).get("max.message.bytes").cloned();
        assert_eq!(limit(&topics[0]).as_deref(), Some("5000"));
        assert_eq!(limit(&topics[1]), None);
        assert_eq!(limit(&topics[4]).as_deref(), Some("70536"));
    }

    #[test]
    fn two_replicas_must_have_a_record_where_there_are_three() {
        let in_sync = |configured, default| {
            let defaults = Defaults { replication_factor: default, ..Defaults::default() };
            let topics = expected(&config(configured));
            topics[0].settings_to_create(&defaults).get("min.insync.replicas").cloned()
        };
        assert_eq!(in_sync(Some(3), None).as_deref(), Some("2"));
        assert_eq!(in_sync(None, Some(3)).as_deref(), Some("2"));
        assert_eq!(in_sync(Some(1), Some(3)), None);
        assert_eq!(in_sync(None, None), None);
    }
}

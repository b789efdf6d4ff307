use super::*;
use crate::{
    model::{Buckets, Bus},
    topics::{Config, Defaults, expected},
};

fn specs(replication_factor: Option<i32>) -> Vec<TopicSpec> {
    expected(&Config {
        bus: Bus::new("b").unwrap(),
        buckets: Buckets::new(4).unwrap(),
        slots: 8,
        create: false,
        replication_factor,
    })
}

/// The topic as it would be created, with some settings changed.
fn found(spec: &TopicSpec, replication_factor: u32, changed: &[(&str, &str)]) -> Found {
    let defaults =
        Defaults { replication_factor: i32::try_from(replication_factor).ok(), ..Defaults::default() };
    let created =
        spec.settings_to_create(&defaults).into_iter().map(|(name, value)| (name.to_owned(), value));
    let changed = changed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Found {
        layout: Layout { partitions: spec.partitions, replication_factor, leaderless: 0 },
        configs: Some(created.chain(changed).collect()),
    }
}

fn warned(spec: &TopicSpec, found: &Found) -> Vec<&'static str> {
    judge(spec, found).unwrap().into_iter().map(|warning| warning.what).collect()
}

#[test]
fn what_was_created_as_designed_is_right_without_a_warning() {
    for spec in specs(Some(3)) {
        assert_eq!(judge(&spec, &found(&spec, 3, &[])), Ok(Vec::new()), "{}", spec.name);
    }
}

#[test]
fn another_number_of_partitions_is_refused_in_every_topic() {
    for spec in specs(None) {
        let mut found = found(&spec, 1, &[]);
        found.layout.partitions += 1;
        let error = judge(&spec, &found).unwrap_err();
        assert!(matches!(&error, Mismatch::Partitions { topic, .. } if *topic == spec.name));
        let text = error.to_string();
        for part in [&spec.name, spec.partitions_key, &spec.partitions.to_string()] {
            assert!(text.contains(part), "{text}");
        }
        found.configs = None;
        assert!(judge(&spec, &found).is_err(), "the embedded broker's partitions are judged as well");
    }
}

#[test]
fn a_compacted_topic_must_be_compacted_and_nothing_else() {
    let topics = specs(None);
    for spec in topics.iter().filter(|spec| spec.cleanup == Cleanup::Compact) {
        let judged = |policy| judge(spec, &found(spec, 1, &[("cleanup.policy", policy)]));
        assert_eq!(judged("compact"), Ok(Vec::new()));
        for policy in ["delete", "", "compaction"] {
            assert!(matches!(judged(policy), Err(Mismatch::NotCompacted { .. })), "{policy:?}");
        }
        for policy in ["compact,delete", "delete, compact"] {
            assert!(matches!(judged(policy), Err(Mismatch::AlsoDeletes { .. })), "{policy:?}");
        }
    }
    let replies = &topics[3];
    assert_eq!(warned(replies, &found(replies, 1, &[("cleanup.policy", "compact")])), ["cleanup.policy"]);
}

#[test]
fn settings_that_differ_are_warnings_that_say_both_values() {
    let topics = specs(None);
    let spec = &topics[0];
    for name in spec.settings().into_keys().filter(|name| *name != "cleanup.policy") {
        let found = found(spec, 1, &[(name, "77")]);
        let warnings = judge(spec, &found).unwrap();
        assert_eq!(warnings.len(), 1, "{name}");
        let text = warnings[0].to_string();
        assert!(text.contains(name) && text.contains("77") && text.contains(&warnings[0].expected), "{text}");
    }
    assert_eq!(warned(spec, &found(spec, 1, &[("min.cleanable.dirty.ratio", "0.10")])), [""; 0]);
}

#[test]
fn replicas_that_cannot_keep_what_was_acknowledged_are_a_warning() {
    let topics = specs(None);
    let spec = &topics[0];
    let in_sync = |replicas, value| warned(spec, &found(spec, replicas, &[("min.insync.replicas", value)]));
    assert_eq!(in_sync(3, "2"), [""; 0]);
    assert_eq!(in_sync(1, "1"), [""; 0]);
    for (replicas, value) in [(3, "1"), (3, "3"), (1, "2")] {
        assert_eq!(in_sync(replicas, value), ["min.insync.replicas"], "{value} of {replicas}");
    }
    let asked_for_three = &specs(Some(3))[0];
    let unchanged = found(asked_for_three, 1, &[("min.insync.replicas", "1")]);
    assert_eq!(warned(asked_for_three, &unchanged), ["replication factor"]);
    let mut leaderless = found(spec, 1, &[]);
    leaderless.layout.leaderless = 1;
    assert_eq!(warned(spec, &leaderless), ["leaders"]);
}

#[test]
fn dead_letters_need_64_kib_more_than_notifications() {
    assert_eq!(judge_limits(("n", 1000), ("d", 66_536)), Ok(()));
    let error = judge_limits(("n", 1000), ("d", 66_535)).unwrap_err();
    assert!(matches!(error, Mismatch::DeadLettersTooSmall { found: 66_535, expected: 66_536, .. }));
    assert!(judge_limits(("n", usize::MAX), ("d", usize::MAX)).is_ok());
}

//! Judging the topics.

use super::Finding;
use crate::{
    model::chain,
    topics::{Error, Mismatch, TopicSpec, Warning},
};

const CHECK: &str = "topics";

/// Whether the buckets cannot be looked at because of this error. A topic of the right size that is kept in a wrong
/// way still tells about them.
pub(super) fn hides_buckets(error: &Error) -> bool {
    match error {
        Error::Mismatch(mismatch) => matches!(mismatch, Mismatch::Partitions { .. }),
        // Where only the settings are hidden, the records are not.
        Error::NotAuthorized { action, .. } => *action == crate::topics::Action::Describe,
        _ => true,
    }
}

/// One line for all topics that are as designed, and one for each that is not. `created` says whether `run` would
/// create those that are missing.
pub(super) fn judge(inspected: &[(TopicSpec, Result<Vec<Warning>, Error>)], created: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut right = 0;
    let mut missing = Vec::new();
    for (spec, judged) in inspected {
        match judged {
            Ok(warnings) if warnings.is_empty() => right += 1,
            Ok(warnings) => {
                let todo = "set it so with Kafka's tools, if that was not meant; the bus works without";
                findings.extend(warnings.iter().map(|one| Finding::warning(CHECK, one.to_string(), todo)));
            }
            Err(Error::Missing { .. }) => missing.push(spec.name.as_str()),
            Err(error) => findings.push(wrong(error)),
        }
    }
    if !missing.is_empty() {
        findings.push(absent(&missing, created));
    }
    if right > 0 {
        let all = inspected.len();
        let found = if right == all {
            format!("all {all} as designed")
        } else {
            format!("{right} of {all} as designed")
        };
        findings.insert(0, Finding::ok(CHECK, found));
    }
    findings
}

fn absent(missing: &[&str], created: bool) -> Finding {
    let found = format!("missing (or hidden from this user): {}", missing.join(", "));
    let todo = "see that `bus.name` is right; then create them with `control-bus topics ensure`";
    if created {
        return Finding::warning(CHECK, found, format!("{todo}, or let `control-bus run` do it"));
    }
    Finding::failed(CHECK, found, todo)
}

fn wrong(error: &Error) -> Finding {
    match error {
        Error::Mismatch(mismatch) => mismatched(mismatch),
        Error::NotAuthorized { topic, action, .. } => {
            let found = format!("topic {topic:?}: this user may not {action}");
            let operation = if *action == crate::topics::Action::DescribeSettings {
                "DescribeConfigs"
            } else {
                "Describe"
            };
            let acl = format!(
                "kafka-acls --add --allow-principal User:NAME --topic {topic} --operation {operation}"
            );
            Finding::failed(CHECK, found, acl)
        }
        _ => Finding::failed(CHECK, chain(error), "look at the brokers, and try again"),
    }
}

fn mismatched(mismatch: &Mismatch) -> Finding {
    let set = |topic: &str, setting: &str| {
        format!("kafka-configs --alter --entity-type topics --entity-name {topic} --add-config {setting}")
    };
    let (found, todo) = match mismatch {
        Mismatch::Partitions { topic, found, expected, key } => (
            format!("topic {topic:?} has {found} partitions, `{key}` is {expected}"),
            format!("set `{key}` to {found} here, or another `bus.name`; partitions are never added"),
        ),
        Mismatch::NotCompacted { topic, found } | Mismatch::AlsoDeletes { topic, found } => (
            format!("topic {topic:?} has cleanup.policy={found:?}: Kafka deletes what is still needed"),
            set(topic, "cleanup.policy=compact"),
        ),
        Mismatch::DeadLettersTooSmall { topic, found, expected, .. } => (
            format!("topic {topic:?} takes {found} bytes, and a dead letter can have {expected}"),
            set(topic, &format!("max.message.bytes={expected}")),
        ),
    };
    Finding::failed(CHECK, found, todo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::check::Verdict,
        model::{Buckets, Bus},
        topics::{Config, expected},
    };

    fn specs() -> Vec<TopicSpec> {
        expected(&Config {
            bus: Bus::new("b").unwrap(),
            buckets: Buckets::new(2).unwrap(),
            slots: 2,
            create: true,
            replication_factor: None,
        })
    }

    fn judged(
        mut found: impl FnMut(&TopicSpec) -> Result<Vec<Warning>, Error>,
        created: bool,
    ) -> Vec<Finding> {
        let inspected: Vec<_> = specs().into_iter().map(|spec| (spec.clone(), found(&spec))).collect();
        judge(&inspected, created)
    }

    #[test]
    fn topics_that_are_right_are_one_line() {
        let findings = judged(|_| Ok(Vec::new()), true);
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].result, findings[0].found.as_str()), (Verdict::Ok, "all 5 as designed"));
    }

    #[test]
    fn missing_topics_are_one_line_and_a_failure_only_where_nobody_creates_them() {
        let missing =
            |spec: &TopicSpec| Err(Error::Missing { topic: spec.name.clone(), partitions: spec.partitions });
        for (created, expected) in [(true, Verdict::Warning), (false, Verdict::Failed)] {
            let findings = judged(missing, created);
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert_eq!(findings[0].result, expected);
            assert!(findings[0].found.contains("b.dead-letters"), "{findings:?}");
        }
    }

    #[test]
    fn a_wrong_topic_stands_beside_those_that_are_right() {
        let findings = judged(
            |spec| match spec.name.as_str() {
                "b.ownership" => {
                    Err(Mismatch::NotCompacted { topic: spec.name.clone(), found: "delete".to_owned() }
                        .into())
                }
                _ => Ok(Vec::new()),
            },
            true,
        );
        let results: Vec<_> = findings.iter().map(|finding| finding.result).collect();
        assert_eq!(results, [Verdict::Ok, Verdict::Failed]);
        assert_eq!(findings[0].found, "4 of 5 as designed");
        let todo = findings[1].todo.as_deref().unwrap();
        assert!(todo.contains("b.ownership --add-config cleanup.policy=compact"), "{todo}");
    }
}

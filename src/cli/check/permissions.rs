//! What each role must be allowed, and judging what it is.

use super::Finding;
use crate::{
    config::Role,
    kafka::{self, AdminError, Operation, Operations, TransactionError},
    model::{Bus, chain},
};

const CHECK: &str = "permissions";

/// What a role must be allowed with one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Need {
    /// The topic.
    pub(super) topic: String,
    /// The operations.
    pub(super) operations: Vec<Operation>,
}

/// Why a transaction could not be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotWritten {
    /// Kafka's own name for it, where it is Kafka's.
    code: Option<String>,
    /// For people.
    why: String,
}

impl NotWritten {
    /// A transaction failed.
    pub(super) fn by(error: &TransactionError) -> Self {
        Self { code: Some(error.cause().code()), why: chain(error) }
    }

    /// Kafka, or its client, refused.
    pub(super) fn kafkas(error: &kafka::Error) -> Self {
        Self { code: Some(error.code()), why: chain(error) }
    }

    /// It was not even begun.
    pub(super) fn other(error: &dyn std::error::Error) -> Self {
        Self { code: None, why: chain(error) }
    }
}

/// A transactional id that a permission for the bus's own covers, and no bucket has.
pub(super) fn unused_id(bus: &Bus) -> String {
    format!("{}.bucket-check", bus.name())
}

/// Everything that a role needs, topic by topic.
pub(super) fn needs(bus: &Bus, role: Role) -> Vec<Need> {
    use Operation::{DescribeConfigs, Read, Write};
    let topic = |topic, operations: &[Operation]| Need {
        topic,
        // Every process verifies every topic.
        operations: operations.iter().copied().chain([DescribeConfigs]).collect(),
    };
    match role {
        Role::Controller => vec![
            topic(bus.notifications(), &[Read, Write]),
            topic(bus.ownership(), &[Read, Write]),
            topic(bus.commands(), &[Write]),
            topic(bus.replies(), &[Write]),
            topic(bus.dead_letters(), &[Write]),
        ],
        Role::DataPlane => vec![
            topic(bus.notifications(), &[Write]),
            topic(bus.ownership(), &[]),
            topic(bus.commands(), &[Read]),
            topic(bus.replies(), &[Read]),
            topic(bus.dead_letters(), &[]),
        ],
    }
}

/// One line for all that is allowed, and one for each topic where something is not. `tried` is how
/// transactions began, where that was tried.
pub(super) fn judge(
    asked: &[(Need, Result<Option<Operations>, AdminError>)],
    bus: &Bus,
    role: Role,
    tried: Option<Result<(), NotWritten>>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut allowed, mut untold) = (0, 0);
    for (need, found) in asked {
        match found {
            Ok(Some(found)) => match lacking(need, found) {
                Some(finding) => findings.push(finding),
                None => allowed += 1,
            },
            // A topic that is missing is told elsewhere.
            Ok(None) | Err(AdminError::Missing { .. }) => untold += 1,
            Err(AdminError::NotAuthorized(_)) => findings.extend(lacking(need, &Operations::default())),
            Err(error) => {
                findings.push(Finding::warning(CHECK, chain(error), "look at the brokers, and try again"));
            }
        }
    }
    let unchecked = format!("{untold} topics not checked: they are missing, or Kafka does not tell");
    let found = match (allowed, untold) {
        (0, 0) => None,
        (0, _) => Some(unchecked),
        (_, 0) => Some(format!("all that is needed with {allowed} topics")),
        _ => Some(format!("all that is needed with {allowed} topics; {unchecked}")),
    };
    findings.splice(0..0, found.map(|found| Finding::ok(CHECK, found)));
    if role == Role::Controller {
        findings.push(transactions(bus, tried));
    }
    findings
}

fn lacking(need: &Need, found: &Operations) -> Option<Finding> {
    let lacking: Vec<Operation> = need.operations.iter().copied().filter(|one| !found.has(*one)).collect();
    if lacking.is_empty() {
        return None;
    }
    let names: Vec<&str> = lacking.iter().map(|operation| operation.as_str()).collect();
    let options: Vec<String> = names.iter().map(|name| format!("--operation {name}")).collect();
    Some(Finding::failed(
        CHECK,
        format!("topic {:?}: this user lacks {}", need.topic, names.join(", ")),
        format!("kafka-acls --add --allow-principal User:NAME --topic {} {}", need.topic, options.join(" ")),
    ))
}

fn transactions(bus: &Bus, tried: Option<Result<(), NotWritten>>) -> Finding {
    match tried {
        None => {
            let found = format!(
                "group {} and transactional ids {bus}.bucket-*: not checked, Kafka tells nobody; \
                 `check --transactions` tries them",
                bus.group()
            );
            Finding::ok(CHECK, found)
        }
        Some(Ok(())) => {
            Finding::ok(CHECK, format!("group and transactional ids: {} could write", unused_id(bus)))
        }
        Some(Err(NotWritten { code, why })) => {
            let acl = "kafka-acls --add --allow-principal User:NAME";
            let todo = match code.as_deref() {
                Some("GroupAuthorizationFailed") => format!("{acl} --group {} --operation Read", bus.group()),
                Some("TransactionalIdAuthorizationFailed") => format!(
                    "{acl} --transactional-id {bus}.bucket- --resource-pattern-type prefixed --operation Write"
                ),
                Some("TopicAuthorizationFailed") => {
                    format!("{acl} --topic {} --operation Read", bus.ownership())
                }
                _ => "look at the brokers' logs, and try again".to_owned(),
            };
            Finding::failed(CHECK, format!("a transaction cannot be written: {why}"), todo)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::Verdict;

    fn judged(role: Role, may: impl Fn(&Need) -> Option<Operations>) -> Vec<Finding> {
        let bus = Bus::new("b").unwrap();
        let asked: Vec<_> =
            needs(&bus, role).into_iter().map(|need| (need.clone(), Ok(may(&need)))).collect();
        judge(&asked, &bus, role, None)
    }

    fn everything() -> Operations {
        use Operation::{Describe, DescribeConfigs, Read, Write};
        [Read, Write, Describe, DescribeConfigs].into_iter().collect()
    }

    #[test]
    fn who_may_do_everything_may_do_what_is_needed() {
        for role in [Role::Controller, Role::DataPlane] {
            let findings = judged(role, |_| Some(everything()));
            assert!(findings.iter().all(|finding| finding.result == Verdict::Ok), "{findings:?}");
        }
    }

    #[test]
    fn each_permission_that_is_needed_is_missed_when_it_is_not_there() {
        let bus = Bus::new("b").unwrap();
        for role in [Role::Controller, Role::DataPlane] {
            for lacking in needs(&bus, role) {
                for operation in lacking.operations {
                    let less: Operations = [Operation::Read, Operation::Write, Operation::DescribeConfigs]
                        .into_iter()
                        .filter(|one| *one != operation)
                        .collect();
                    let findings = judged(role, |need| {
                        Some(if need.topic == lacking.topic { less.clone() } else { everything() })
                    });
                    let failed: Vec<_> =
                        findings.iter().filter(|finding| finding.result == Verdict::Failed).collect();
                    assert_eq!(failed.len(), 1, "{findings:?}");
                    let todo = failed[0].todo.as_deref().unwrap();
                    assert!(todo.contains(&lacking.topic) && todo.contains(operation.as_str()), "{todo}");
                }
            }
        }
    }

    #[test]
    fn what_kafka_does_not_tell_is_no_failure_and_no_success() {
        let findings = judged(Role::DataPlane, |_| None);
        assert_eq!(findings[0].result, Verdict::Ok);
        assert!(findings[0].found.contains("5 topics not checked"), "{findings:?}");
    }

    #[test]
    fn transactions_are_said_to_be_unchecked_unless_they_were_tried() {
        let bus = Bus::new("b").unwrap();
        let tried = |tried| judge(&[], &bus, Role::Controller, tried).pop().unwrap();
        assert!(tried(None).found.contains("not checked"));
        assert_eq!(tried(Some(Ok(()))).result, Verdict::Ok);
        for (code, word) in [
            (Some("TransactionalIdAuthorizationFailed"), "--transactional-id b.bucket- "),
            (Some("GroupAuthorizationFailed"), "--group b.controllers "),
            (Some("TopicAuthorizationFailed"), "--topic b.ownership "),
            (None, "logs"),
        ] {
            let not = NotWritten { code: code.map(str::to_owned), why: "it failed".to_owned() };
            let finding = tried(Some(Err(not)));
            assert_eq!(finding.result, Verdict::Failed);
            assert!(finding.todo.as_deref().unwrap().contains(word), "{finding:?}");
        }
    }
}

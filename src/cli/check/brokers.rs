//! Judging the brokers: whether they answer, and whether their settings let the bus keep its promises.

use std::time::Duration;

use super::Finding;
use crate::{
    engine::LIMIT as METADATA_LIMIT,
    kafka::{AdminError, Configs},
    model::chain,
};

const CHECK: &str = "brokers";
const SETTINGS: &str = "broker settings";

/// The oldest protocol that fences owners by the group's generation (KIP-447).
const OLDEST: (u32, u32) = (2, 5);

/// How long owners' transactions may last, in milliseconds: the brokers must allow as much.
const TRANSACTION_MS: i64 = 10_000;

/// Owners write at least one transaction a day.
const DAY_MS: i64 = 86_400_000;

/// What this process needs of the brokers' settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    /// A controller's session time-out.
    pub(super) session_timeout: Option<Duration>,
}

pub(super) fn reached(configured: &str, id: Option<&str>, brokers: &[i32]) -> Finding {
    let numbers: Vec<String> = brokers.iter().map(ToString::to_string).collect();
    let (count, many) = (brokers.len(), if brokers.len() == 1 { "" } else { "s" });
    let cluster = id.map(|id| format!(", cluster {id}")).unwrap_or_default();
    Finding::ok(
        CHECK,
        format!("{configured} answers: {count} broker{many} up ({}){cluster}", numbers.join(", ")),
    )
}

pub(super) fn unreachable(error: &AdminError) -> Finding {
    let AdminError::Unreachable { brokers, timeout, last, .. } = error else {
        return Finding::failed(CHECK, chain(error), "look at the brokers, and try again");
    };
    let last = last.as_deref().unwrap_or("nothing was refused");
    let found =
        format!("no broker of {brokers} answered within {} s; last seen: {last}", timeout.as_secs_f64());
    Finding::failed(CHECK, found, remedy(last))
}

/// What a connection's end calls for.
fn remedy(last: &str) -> &'static str {
    let last = last.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| last.contains(word));
    if has(&["authentication", "sasl"]) {
        "correct the user, its password and `sasl.mechanism` in `kafka.properties`"
    } else if has(&["ssl", "certificate", "disconnected while requesting apiversion"]) {
        "correct `security.protocol` and the certificates in `kafka.properties`: both sides must use TLS, or neither"
    } else if has(&["resolve"]) {
        "correct the host's name in `kafka.brokers`, or see why it is not known here"
    } else if has(&["refused"]) {
        "nobody listens there: start Kafka, or correct the port in `kafka.brokers`"
    } else {
        "see that Kafka runs, that the network lets this machine reach it, and that `kafka.brokers` is right"
    }
}

pub(super) fn silent(broker: i32, error: &AdminError) -> Finding {
    Finding::warning(SETTINGS, format!("broker {broker}: {}", chain(error)), "look at that broker's log")
}

pub(super) fn untold() -> Finding {
    Finding::ok(SETTINGS, "not checked: this user may not see them (DescribeConfigs on the cluster)")
}

/// Judges each broker's settings; one line where all are right.
pub(super) fn judge(configs: &[(i32, Configs)], needs: Needs) -> Vec<Finding> {
    let findings: Vec<Finding> =
        configs.iter().flat_map(|(broker, configs)| of_one(*broker, configs, needs)).collect();
    match (findings.is_empty(), configs.first()) {
        (true, Some((_, first))) => {
            vec![Finding::ok(SETTINGS, format!("{}, limits as needed", version(first)))]
        }
        _ => findings,
    }
}

fn version(configs: &Configs) -> String {
    match configs.get("inter.broker.protocol.version") {
        Some(version) => format!("the brokers speak {version} among themselves"),
        None => "Kafka 4.0 or later".to_owned(),
    }
}

fn of_one(broker: i32, configs: &Configs, needs: Needs) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut wrong = |what: String, todo: &str| {
        findings.push(Finding::failed(SETTINGS, format!("broker {broker}: {what}"), todo));
    };
    if let Some(version) = configs.get("inter.broker.protocol.version")
        && parsed(version).is_some_and(|version| version < OLDEST)
    {
        wrong(
            format!("it speaks {version}, expected 2.5 or later, which fences former owners"),
            "upgrade the brokers, or raise inter.broker.protocol.version",
        );
    }
    let number = |name: &str| configs.number(name);
    let limit = i64::try_from(METADATA_LIMIT).unwrap_or(i64::MAX);
    if let Some(found) = number("offset.metadata.max.bytes").filter(|found| *found < limit) {
        wrong(
            format!(
                "offset.metadata.max.bytes is {found}, expected at least {limit}: commits would be refused"
            ),
            "set it to its default, 4096, or more",
        );
    }
    if let Some(found) = number("transaction.max.timeout.ms").filter(|found| *found < TRANSACTION_MS) {
        wrong(
            format!("transaction.max.timeout.ms is {found}, expected at least {TRANSACTION_MS}"),
            "raise it: owners could not begin a transaction",
        );
    }
    if let Some(session) = needs.session_timeout.and_then(|time| i64::try_from(time.as_millis()).ok()) {
        let least = number("group.min.session.timeout.ms").unwrap_or(i64::MIN);
        let most = number("group.max.session.timeout.ms").unwrap_or(i64::MAX);
        if session < least || session > most {
            wrong(
                format!(
                    "it takes session time-outs from {least} to {most} ms, `group.session_timeout` is {session} ms"
                ),
                "set `group.session_timeout` within these, or change group.min.session.timeout.ms and \
                 group.max.session.timeout.ms",
            );
        }
    }
    if let Some(found) = number("transactional.id.expiration.ms").filter(|found| *found < DAY_MS) {
        findings.push(Finding::warning(
            SETTINGS,
            format!("broker {broker}: transactional.id.expiration.ms is {found}, expected at least a day"),
            "raise it: the owner of a bucket that is idle for longer has to begin anew",
        ));
    }
    findings
}

/// `3.6-IV2` is 3 and 6.
fn parsed(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(['.', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::Verdict;

    fn judged(settings: &[(&str, &str)]) -> Vec<Finding> {
        let needs = Needs { session_timeout: Some(Duration::from_secs(10)) };
        judge(&[(1, settings.iter().copied().collect())], needs)
    }

    #[test]
    fn a_broker_as_it_comes_is_right() {
        let defaults = [
            ("offset.metadata.max.bytes", "4096"),
            ("transaction.max.timeout.ms", "900000"),
            ("group.min.session.timeout.ms", "6000"),
            ("group.max.session.timeout.ms", "1800000"),
            ("transactional.id.expiration.ms", "604800000"),
        ];
        for settings in [&defaults[..], &[("inter.broker.protocol.version", "3.6-IV2")], &[]] {
            let findings = judged(settings);
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert_eq!(findings[0].result, Verdict::Ok);
        }
    }

    #[test]
    fn a_connection_that_ended_says_what_to_correct() {
        for (last, word) in [
            ("SASL authentication error: Authentication failed", "password"),
            ("SSL handshake failed: certificate verify failed", "certificates"),
            ("Failed to resolve 'nosuchhost:9092': Name or service not known", "name"),
            ("Connect to ipv4#127.0.0.1:9092 failed: Connection refused", "port"),
            ("nothing was refused", "network"),
        ] {
            assert!(remedy(last).contains(word), "{last}: {}", remedy(last));
        }
    }

    #[test]
    fn each_limit_that_the_bus_would_meet_is_told() {
        for (name, value, expected) in [
            ("inter.broker.protocol.version", "2.4-IV1", Verdict::Failed),
            ("offset.metadata.max.bytes", "4095", Verdict::Failed),
            ("transaction.max.timeout.ms", "9999", Verdict::Failed),
            ("group.min.session.timeout.ms", "10001", Verdict::Failed),
            ("group.max.session.timeout.ms", "9999", Verdict::Failed),
            ("transactional.id.expiration.ms", "60000", Verdict::Warning),
        ] {
            let findings = judged(&[(name, value)]);
            assert_eq!(findings.len(), 1, "{name}: {findings:?}");
            assert_eq!(findings[0].result, expected, "{name}");
            assert!(findings[0].todo.is_some(), "{name}");
        }
    }
}

//! Judging who is there, who has which bucket, and what waits.

use std::collections::BTreeSet;

use super::Finding;
use crate::{
    cli::{BucketStatus, Error},
    kafka::{GroupInfo, GroupState},
    model::{Buckets, chain},
};

const GROUP: &str = "controllers";
const BUCKETS: &str = "buckets";
const BACKLOG: &str = "backlog";

/// How many buckets a line names.
const NAMED: usize = 4;

const START: &str =
    "start a controller (`control-bus run`), or see why those that should run do not: their log and /readyz";

/// Nothing could be learnt about the buckets.
pub(super) fn unknown(error: &Error) -> Finding {
    match error {
        Error::Kafka(inner) if inner.is_authorization() => {
            let found = format!("not checked: {}, this user lacks the permission", inner.operation());
            Finding::ok(BUCKETS, found)
        }
        _ => Finding::failed(BUCKETS, chain(error), "look at the brokers, and try again"),
    }
}

/// Who is in the group.
pub(super) fn membership(group: Option<&GroupInfo>, name: &str, buckets: Buckets) -> Finding {
    let Some(group) = group else {
        return Finding::ok(GROUP, format!("not checked: Kafka does not tell who is in group {name:?}"));
    };
    let members: Vec<String> =
        group.members.iter().map(|one| format!("{} ({})", one.client, one.buckets.len())).collect();
    let members = members.join(", ");
    match group.state {
        GroupState::Empty => {
            Finding::warning(GROUP, format!("nobody is in group {name:?}: no bucket is handled"), START)
        }
        GroupState::Rebalancing => Finding::warning(
            GROUP,
            format!("group {name:?} is rebalancing: {members}"),
            "look again in some seconds; where it goes on for a minute, a member comes and goes: see their logs",
        ),
        GroupState::Stable | GroupState::Unknown => {
            let clients: BTreeSet<&str> = group.members.iter().map(|one| one.client.as_str()).collect();
            if clients.len() < group.members.len() {
                return Finding::warning(
                    GROUP,
                    format!("two members have the same name: {members}"),
                    "give each controller a `name` of its own",
                );
            }
            let (count, many) = (group.members.len(), if group.members.len() == 1 { "" } else { "s" });
            let each = format!("buckets of {} in brackets", buckets.count());
            Finding::ok(GROUP, format!("{count} controller{many}, {each}: {members}"))
        }
    }
}

/// Whether each bucket is somebody's, and claimed by whom it is assigned to. `comparable` says whether the group's
/// members have the names that claims have.
pub(super) fn assignments(group: Option<&GroupInfo>, statuses: &[BucketStatus], comparable: bool) -> Finding {
    let all = statuses.len();
    let unclaimed = |status: &&BucketStatus| status.owner.is_none() || status.released == Some(true);
    if group.is_none() {
        let free: Vec<_> = statuses.iter().filter(unclaimed).collect();
        if free.is_empty() {
            return Finding::ok(BUCKETS, format!("all {all} claimed"));
        }
        let found = format!("claimed by nobody, or given up: {}", named(&free, |_| String::new()));
        return Finding::warning(BUCKETS, found, START);
    }
    let nobodys: Vec<_> = statuses.iter().filter(|status| status.assigned.is_none()).collect();
    if !nobodys.is_empty() {
        let last = |status: &BucketStatus| match (&status.owner, status.released) {
            (Some(owner), Some(true)) => format!(" (given up by {owner})"),
            (Some(owner), _) => format!(" (last {owner}'s, who is gone)"),
            (None, _) => String::new(),
        };
        let found = format!("{} of {all} assigned to nobody: {}", nobodys.len(), named(&nobodys, last));
        let todo =
            "a controller takes them within seconds of its start; where one runs, see its log and /readyz";
        return Finding::warning(BUCKETS, found, todo);
    }
    let differs =
        |status: &&BucketStatus| unclaimed(status) || (comparable && status.owner != status.assigned);
    let taken: Vec<_> = statuses.iter().filter(differs).collect();
    if taken.is_empty() {
        return Finding::ok(BUCKETS, format!("all {all} assigned and claimed"));
    }
    let who = |status: &BucketStatus| {
        let assigned = status.assigned.as_deref().unwrap_or_default();
        let owner = status.owner.as_deref().unwrap_or("nobody");
        format!(" ({assigned}'s; last claim: {owner})")
    };
    Finding::warning(
        BUCKETS,
        format!("{} of {all} assigned, but not claimed yet: {}", taken.len(), named(&taken, who)),
        "a takeover takes about a second; where it does not end, see that controller's log and /readyz, and try \
         `check --transactions`",
    )
}

/// What waits to be handled.
pub(super) fn backlog(group: Option<&GroupInfo>, statuses: &[BucketStatus]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let off = |status: &&BucketStatus| {
        status.committed.is_some_and(|committed| committed < status.start || committed > status.end)
    };
    let off: Vec<_> = statuses.iter().filter(off).collect();
    if !off.is_empty() {
        let places = |status: &BucketStatus| {
            let committed = status.committed.unwrap_or_default();
            format!(" (offset {committed}, log {}..{})", status.start, status.end)
        };
        findings.push(Finding::warning(
            BACKLOG,
            format!("committed offsets outside their log: {}", named(&off, places)),
            "was the topic created anew? The next owner begins at the log's start and says so; restart a \
             controller that does not",
        ));
    }
    let waiting: Vec<_> = statuses.iter().filter(|status| status.lag > 0).collect();
    let total: u64 = waiting.iter().map(|status| status.lag).sum();
    if waiting.is_empty() {
        findings.push(Finding::ok(BACKLOG, "nothing waits"));
        return findings;
    }
    let counts = |status: &BucketStatus| match status.tried {
        Some((offset, count)) => {
            format!(" ({}; offset {offset} was tried {count} times)", status.lag)
        }
        None => format!(" ({})", status.lag),
    };
    let found = format!("up to {total} messages wait, in buckets {}", named(&waiting, counts));
    let ownerless = group.is_some() && waiting.iter().any(|status| status.assigned.is_none());
    if ownerless {
        let todo = "they are handled as soon as a controller has these buckets; nothing is lost meanwhile";
        findings.push(Finding::failed(BACKLOG, format!("{found}; not all of these have an owner"), todo));
    } else if waiting.iter().any(|status| status.tried.is_some()) {
        findings.push(Finding::warning(
            BACKLOG,
            found,
            "a handler fails: its controller's log says why; `control-bus tail --bucket N --from OFFSET` shows the \
             message",
        ));
    } else {
        let watch = "; `control-bus buckets --watch` shows whether that falls";
        findings.push(Finding::ok(BACKLOG, format!("{found}{watch}")));
    }
    findings
}

/// Buckets by their numbers, each with something about it; the first few of many.
fn named(statuses: &[&BucketStatus], about: impl Fn(&BucketStatus) -> String) -> String {
    let mut names: Vec<String> =
        statuses.iter().take(NAMED).map(|status| format!("{}{}", status.bucket, about(status))).collect();
    if statuses.len() > NAMED {
        names.push(format!("and {} more", statuses.len() - NAMED));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests;

//! `check`: what is wrong with a bus, one line for each thing that was looked at.
//!
//! Asking Kafka is here; judging what it says is in the modules below, and pure. What this user may not see is said to
//! be unchecked, and is no failure. Nothing on the bus is changed; only `--transactions` leaves something behind, under
//! an id that no bucket uses.

mod brokers;
mod finding;
mod group;
mod letters;
mod permissions;
mod topics;

use std::{path::Path, sync::Arc};

use clap::Args;
pub(super) use finding::{Finding, Verdict};

use self::{
    brokers::Needs,
    group::{assignments, backlog, membership},
    permissions::NotWritten,
};
use super::{Error, Target, list, status::Looking};
use crate::{
    config::{self, Role, Settings},
    kafka::{Admin, AdminError, GroupInfo, Isolation, OffsetReader, TransactionalProducer},
    model::{Bucket, chain},
    telemetry::Metrics,
};

/// What else to try.
#[derive(Debug, Clone, Default, Args)]
pub struct CheckArgs {
    /// Also try a transaction, as controllers do, and abort it: Kafka tells in no other way whether that is allowed. It
    /// leaves an unused transactional id, `<bus>.bucket-check`, which Kafka forgets after seven days.
    #[arg(long)]
    pub transactions: bool,
}

/// The finding about a configuration that cannot be used.
pub(super) fn unusable(error: &config::Error) -> Finding {
    let todo = match error {
        config::Error::Unreadable { .. } => "give the path of a configuration file with --config",
        _ => "correct what is named there; config/reference.toml explains every key",
    };
    Finding::failed("configuration", chain(error), todo)
}

/// Looks at everything. What can only be known after something that failed is left out.
pub(super) async fn check(
    settings: &Settings,
    target: &Target,
    path: &Path,
    args: &CheckArgs,
) -> Vec<Finding> {
    let mut findings = vec![configuration(settings, path)];
    let checking = match Checking::new(settings, target) {
        Ok(checking) => checking,
        Err(error) => {
            findings.push(Finding::failed("brokers", chain(&error), "correct `kafka.properties`"));
            return findings;
        }
    };
    let brokers = checking.brokers().await;
    let reached = brokers.iter().all(|finding| finding.result != Verdict::Failed);
    findings.extend(brokers);
    if !reached {
        return findings;
    }
    let (topics, usable) = checking.topics().await;
    findings.extend(topics);
    findings.extend(checking.permissions(args.transactions).await);
    if usable {
        findings.extend(checking.buckets().await);
    }
    findings
}

fn configuration(settings: &Settings, path: &Path) -> Finding {
    let role = match settings.role() {
        Role::Controller => "controller",
        Role::DataPlane => "data-plane pod",
    };
    let (name, bus, buckets) = (settings.name(), settings.bus(), settings.buckets().count());
    let found = format!(
        "{}: {role} {name:?} of bus {bus:?}, {buckets} buckets",
        path.display(),
        name = name.as_str(),
        bus = bus.name()
    );
    Finding::ok("configuration", found)
}

/// What asking needs.
struct Checking<'a> {
    settings: &'a Settings,
    target: &'a Target,
    admin: Admin,
}

impl<'a> Checking<'a> {
    fn new(settings: &'a Settings, target: &'a Target) -> Result<Self, AdminError> {
        Ok(Self { settings, target, admin: Admin::new(&target.kafka, target.timeout)? })
    }

    /// Whether brokers answer, which they are, and whether they are set as is needed.
    async fn brokers(&self) -> Vec<Finding> {
        if self.target.kafka.embedded() {
            let found = self.admin.brokers(&self.target.bus.notifications()).await;
            let found = found.map(|ids| brokers::reached(self.target.kafka.brokers(), None, &ids));
            return vec![found.unwrap_or_else(|error| brokers::unreachable(&error))];
        }
        let cluster = match self.admin.cluster().await {
            Ok(cluster) => cluster,
            Err(error) => return vec![brokers::unreachable(&error)],
        };
        let mut findings =
            vec![brokers::reached(self.target.kafka.brokers(), cluster.id.as_deref(), &cluster.brokers)];
        let mut configs = Vec::new();
        for broker in cluster.brokers {
            match self.admin.broker_configs(broker).await {
                Ok(found) => configs.push((broker, found)),
                Err(AdminError::NotAuthorized(_)) => return with(findings, brokers::untold()),
                Err(error) => findings.push(brokers::silent(broker, &error)),
            }
        }
        findings.extend(brokers::judge(&configs, self.needs()));
        findings
    }

    fn needs(&self) -> Needs {
        let session = self.settings.owner(0).session_timeout;
        Needs { session_timeout: (self.settings.role() == Role::Controller).then_some(session) }
    }

    /// The topics, and whether those are there that tell about buckets.
    async fn topics(&self) -> (Vec<Finding>, bool) {
        let bus = &self.target.bus;
        let (config, kafka) = (self.settings.topics(), &self.target.kafka);
        match crate::topics::inspect(&config, kafka, self.target.timeout).await {
            Ok(inspected) => {
                let needed = [bus.notifications(), bus.ownership()];
                let wrong = |(spec, judged): &(crate::topics::TopicSpec, Result<_, crate::topics::Error>)| {
                    needed.contains(&spec.name) && judged.as_ref().is_err_and(topics::hides_buckets)
                };
                let usable = !inspected.iter().any(wrong);
                (topics::judge(&inspected, config.create), usable)
            }
            Err(error) => (vec![Finding::failed("topics", chain(&error), "look at the brokers")], false),
        }
    }

    /// What this role needs to be allowed.
    async fn permissions(&self, transactions: bool) -> Vec<Finding> {
        if self.target.kafka.embedded() {
            return vec![Finding::ok("permissions", "not checked: the embedded broker knows none")];
        }
        let (bus, role) = (&self.target.bus, self.settings.role());
        let mut asked = Vec::new();
        for need in permissions::needs(bus, role) {
            let found = self.admin.operations(&need.topic).await;
            asked.push((need, found));
        }
        let tried = match (role, transactions) {
            (Role::Controller, true) => Some(self.try_transactions().await),
            _ => None,
        };
        permissions::judge(&asked, bus, role, tried)
    }

    /// Begins a transaction as an owner would, under an id of no bucket, and aborts it.
    async fn try_transactions(&self) -> Result<(), NotWritten> {
        let (target, timeout) = (self.target.clone(), self.target.timeout);
        let tried = tokio::task::spawn_blocking(move || rehearsed(&target));
        // librdkafka heeds no time-out while the group's coordinator is looked for; then its thread is left behind.
        match tokio::time::timeout(timeout.saturating_mul(3), tried).await {
            Ok(done) => done.unwrap_or_else(|error| Err(NotWritten::other(&error))),
            Err(over) => Err(NotWritten::other(&over)),
        }
    }

    /// The group, who has which bucket, what waits, and what was given up.
    async fn buckets(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        match self.looked().await {
            Ok((group, statuses)) => {
                findings.push(membership(group.as_ref(), &self.target.bus.group(), self.target.buckets));
                // Where the clients have names of their own, claims and members cannot be compared.
                let comparable = self.target.kafka.clients_have_own_name();
                findings.push(assignments(group.as_ref(), &statuses, comparable));
                findings.extend(backlog(group.as_ref(), &statuses));
            }
            Err(error) => findings.push(group::unknown(&error)),
        }
        let newest = list(self.target, None, 1).await;
        findings.push(letters::judge(newest.as_deref(), jiff::Timestamp::now()));
        findings
    }

    async fn looked(&self) -> Result<(Option<GroupInfo>, Vec<super::BucketStatus>), Error> {
        let looking = Looking::new(self.target).await?;
        let group = looking.group().await?;
        let statuses = looking.statuses_in(group.as_ref(), self.target.buckets.iter().collect()).await?;
        Ok((group, statuses))
    }
}

/// Begins a transaction with an offset, and aborts it. Blocks.
fn rehearsed(target: &Target) -> Result<(), NotWritten> {
    let Target { kafka, bus, timeout, .. } = target;
    let metrics = Arc::new(Metrics::new().map_err(|error| NotWritten::other(&error))?);
    let Some(bucket) = Bucket::from_partition(0) else { return Ok(()) };
    // The group keeps no offset of this topic, so nobody waits for one.
    let unread = (&*bus.ownership(), bucket);
    let producer = TransactionalProducer::new(kafka, &permissions::unused_id(bus), 1_000_000, metrics)
        .map_err(|error| NotWritten::kafkas(&error))?;
    producer.init(&bus.notifications(), *timeout).map_err(|error| NotWritten::by(&error))?;
    // A coordinator that has just answered is found at once.
    OffsetReader::new(kafka, &bus.group(), Isolation::ReadUncommitted, None)
        .and_then(|reader| reader.committed(unread.0, unread.1, *timeout))
        .map_err(|error| NotWritten::kafkas(&error))?;
    producer.rehearse(kafka, &bus.group(), unread).map_err(|error| NotWritten::by(&error))
}

fn with(mut findings: Vec<Finding>, one: Finding) -> Vec<Finding> {
    findings.push(one);
    findings
}

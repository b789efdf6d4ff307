//! Asking Kafka for the topics, and creating those that are missing.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{
    Action, Config, DEAD_LETTER_MARGIN, DEFAULT_MESSAGE_LIMIT, Defaults, Error, Found, Mismatch, TopicSpec,
    Verified, Warning, expected, judge, judge_limits,
};
use crate::{
    kafka::{Admin, AdminError, Configs, Created, Layout, Settings, TopicPlan},
    model::Buckets,
};

/// How long to wait before asking again whether a broker knows a new topic.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Creates what is missing, if `config.create` says so, and verifies everything.
///
/// Nothing is created beside topics that are wrong. Any number of processes may do this at once. Each call to
/// Kafka, and the wait for new topics to be known to all brokers, takes `timeout` at most. Dropping the future
/// leaves what was created; calling again goes on from there.
///
/// # Errors
/// [`Error`], for everything that would break a promise of the bus.
pub async fn ensure(config: &Config, kafka: &Settings, timeout: Duration) -> Result<Verified, Error> {
    if !config.create {
        return verify(config, kafka, timeout).await;
    }
    let admin = client(kafka, timeout)?;
    let specs = expected(config);
    let missing = missing(&admin, &specs).await?;
    let mut created = Vec::new();
    if !missing.is_empty() && !kafka.embedded() {
        let defaults = defaults(&admin, &specs, &missing).await?;
        for spec in &missing {
            if create(&admin, spec, &defaults).await? == Created::Now {
                created.push(spec.name.clone());
            }
        }
        known_to_all(&admin, &missing).await?;
    }
    let verified = verified(&admin, &specs, kafka.embedded()).await?;
    Ok(Verified { created, ..verified })
}

/// Verifies that everything is there and right, and creates nothing.
///
/// Towards the embedded broker only the numbers of partitions are verified, and the limits are Kafka's defaults.
/// Each call to Kafka takes `timeout` at most. Dropping the future has no effect on Kafka.
///
/// # Errors
/// [`Error`], for everything that would break a promise of the bus.
pub async fn verify(config: &Config, kafka: &Settings, timeout: Duration) -> Result<Verified, Error> {
    let admin = client(kafka, timeout)?;
    verified(&admin, &expected(config), kafka.embedded()).await
}

/// Looks at every topic by itself, for those who want to know all that is wrong and not only the first: each as it should
/// be, with what was found. Creates nothing.
///
/// Each call to Kafka takes `timeout` at most. Dropping the future has no effect on Kafka.
///
/// # Errors
/// [`Error::Client`] when librdkafka does not take the client's settings.
pub async fn inspect(
    config: &Config,
    kafka: &Settings,
    timeout: Duration,
) -> Result<Vec<(TopicSpec, Result<Vec<Warning>, Error>)>, Error> {
    let admin = client(kafka, timeout)?;
    let (mut inspected, mut notifications) = (Vec::new(), None);
    for spec in expected(config) {
        let found = found(&admin, &spec, kafka.embedded()).await;
        let judged = found.and_then(|found| {
            let warnings = judge(&spec, &found)?;
            let limit = found.configs.as_ref().map(limit);
            if spec.name == config.bus.notifications() {
                notifications = limit;
            } else if let (Some(one), Some(other)) = (notifications, limit)
                && spec.name == config.bus.dead_letters()
            {
                judge_limits((&config.bus.notifications(), one), (&spec.name, other))?;
            }
            Ok(warnings)
        });
        inspected.push((spec, judged));
    }
    Ok(inspected)
}

/// Verifies only that `topics` are there with one partition per bucket: for those who look at a bus without taking
/// part in it. Works with the embedded broker too.
///
/// Each call to Kafka takes `timeout` at most. Dropping the future has no effect on Kafka.
///
/// # Errors
/// [`Error::Missing`], [`Error::Mismatch`], [`Error::NotAuthorized`], [`Error::Unreachable`].
pub async fn check_buckets(
    topics: &[String],
    buckets: Buckets,
    kafka: &Settings,
    timeout: Duration,
) -> Result<(), Error> {
    let (admin, expected) = (client(kafka, timeout)?, u32::from(buckets.count()));
    for topic in topics {
        let found = admin.layout(topic).await;
        let found = found.map_err(|error| Error::of(topic, expected, Action::Describe, error))?.partitions;
        if found != expected {
            let (topic, key) = (topic.clone(), "bus.buckets");
            return Err(Mismatch::Partitions { topic, found, expected, key }.into());
        }
    }
    Ok(())
}

fn client(kafka: &Settings, timeout: Duration) -> Result<Admin, Error> {
    Admin::new(kafka, timeout).map_err(|error| match error {
        AdminError::Failed(error) => Error::Client(error),
        other => Error::of("", 0, Action::Describe, other),
    })
}

async fn verified(admin: &Admin, specs: &[TopicSpec], embedded: bool) -> Result<Verified, Error> {
    if embedded {
        tracing::info!("embedded broker: only partition counts are verified");
    }
    let (mut limits, mut warnings) = (Vec::with_capacity(specs.len()), Vec::new());
    for spec in specs {
        let found = found(admin, spec, embedded).await?;
        limits.push((spec.name.as_str(), found.configs.as_ref().map_or(DEFAULT_MESSAGE_LIMIT, limit)));
        warnings.extend(judge(spec, &found)?);
    }
    // Notifications come first, dead letters last.
    let (Some(&notifications), Some(&dead_letters)) = (limits.first(), limits.last()) else {
        return Ok(Verified::default());
    };
    let margin = if embedded { DEAD_LETTER_MARGIN } else { 0 };
    let dead_letters = (dead_letters.0, dead_letters.1.saturating_add(margin));
    judge_limits(notifications, dead_letters)?;
    let (notification_limit, dead_letter_limit) = (notifications.1, dead_letters.1);
    Ok(Verified { notification_limit, dead_letter_limit, created: Vec::new(), warnings })
}

/// The topics that are not there. Those that are must have the right number of partitions, or nothing would be
/// created beside them.
async fn missing(admin: &Admin, specs: &[TopicSpec]) -> Result<Vec<TopicSpec>, Error> {
    let mut missing = Vec::new();
    for spec in specs {
        match layout(admin, spec).await {
            Ok(layout) => drop(judge(spec, &Found { layout, configs: None })?),
            Err(Error::Missing { .. }) => missing.push(spec.clone()),
            Err(error) => return Err(error),
        }
    }
    Ok(missing)
}

/// What new topics get. The cluster may not tell this user; then Kafka's own defaults are assumed.
async fn defaults(admin: &Admin, specs: &[TopicSpec], missing: &[TopicSpec]) -> Result<Defaults, Error> {
    let mut defaults = Defaults::default();
    let Some(first) = specs.first() else { return Ok(defaults) };
    let failed = |error| Error::of(&first.name, first.partitions, Action::Describe, error);
    let brokers = admin.brokers(&first.name).await.map_err(failed)?;
    if let Some(broker) = brokers.first() {
        match admin.broker_configs(*broker).await {
            Ok(configs) => {
                let replicas = configs.number("default.replication.factor");
                defaults.replication_factor = replicas.and_then(|count| i32::try_from(count).ok());
                let limit = configs.number("message.max.bytes").and_then(|limit| usize::try_from(limit).ok());
                defaults.notification_limit = limit.unwrap_or(DEFAULT_MESSAGE_LIMIT);
            }
            Err(AdminError::NotAuthorized(_)) => {
                tracing::info!(
                    "not allowed to see the brokers' settings: new topics follow Kafka's defaults"
                );
            }
            Err(error) => return Err(failed(error)),
        }
    }
    if !missing.contains(first) {
        defaults.notification_limit = limit(&configs(admin, first).await?);
    }
    Ok(defaults)
}

async fn create(admin: &Admin, spec: &TopicSpec, defaults: &Defaults) -> Result<Created, Error> {
    let plan = TopicPlan {
        name: &spec.name,
        partitions: spec.partitions,
        replication_factor: spec.replication_factor,
        settings: &spec.settings_to_create(defaults),
    };
    let created = admin.create(&plan).await;
    created.map_err(|error| Error::of(&spec.name, spec.partitions, Action::Create, error))
}

/// Waits until every broker knows the topics: until then a client that asks the wrong one is told that they do not
/// exist.
async fn known_to_all(admin: &Admin, created: &[TopicSpec]) -> Result<(), Error> {
    let deadline = Instant::now() + admin.timeout();
    for spec in created {
        let failed = |error| Error::of(&spec.name, spec.partitions, Action::DescribeSettings, error);
        for broker in admin.brokers(&spec.name).await.map_err(failed)? {
            loop {
                match admin.is_known_by(broker, &spec.name).await {
                    Ok(true) => break,
                    // A broker that is away is waited for like one that is behind.
                    Ok(false) | Err(AdminError::Unreachable { .. }) => {}
                    Err(error) => return Err(failed(error)),
                }
                if Instant::now() >= deadline {
                    let (topic, timeout) = (spec.name.clone(), admin.timeout());
                    return Err(Error::NotYetKnown { topic, broker, timeout });
                }
                sleep(ASK_AGAIN).await;
            }
        }
    }
    Ok(())
}

async fn found(admin: &Admin, spec: &TopicSpec, embedded: bool) -> Result<Found, Error> {
    let layout = layout(admin, spec).await?;
    let configs = if embedded { None } else { Some(configs(admin, spec).await?) };
    Ok(Found { layout, configs })
}

async fn layout(admin: &Admin, spec: &TopicSpec) -> Result<Layout, Error> {
    let found = admin.layout(&spec.name).await;
    found.map_err(|error| Error::of(&spec.name, spec.partitions, Action::Describe, error))
}

async fn configs(admin: &Admin, spec: &TopicSpec) -> Result<Configs, Error> {
    let found = admin.configs(&spec.name).await;
    found.map_err(|error| Error::of(&spec.name, spec.partitions, Action::DescribeSettings, error))
}

/// The most bytes of a record batch that a topic takes.
fn limit(configs: &Configs) -> usize {
    let limit = configs.number("max.message.bytes").and_then(|limit| usize::try_from(limit).ok());
    limit.unwrap_or(DEFAULT_MESSAGE_LIMIT)
}

//! The whole configuration, valid, and what each part gets of it.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, time::Duration};

use super::{
    environment::PREFIX,
    error::Error,
    layer::{AtEnd, Layer, LogFormat, Role},
    limits, properties,
    sources::{Merged, Origins},
};
use crate::{
    kafka,
    model::{Buckets, Bus, PodName},
    owner, publisher, topics,
};

/// A process's configuration. What exists is valid as a whole; `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct Settings {
    pub(super) role: Role,
    pub(super) name: PodName,
    pub(super) bus: Bus,
    pub(super) buckets: Buckets,
    pub(super) slots: u32,
    pub(super) kafka: kafka::Settings,
    pub(super) topics_create: bool,
    pub(super) replication_factor: Option<i32>,
    pub(super) session_timeout: Duration,
    pub(super) heartbeat: Duration,
    pub(super) max_poll_interval: Duration,
    pub(super) handler_command: Option<Vec<String>>,
    pub(super) handler_timeout: Duration,
    pub(super) handler_concurrency: usize,
    pub(super) retry: owner::RetryConfig,
    pub(super) window: owner::WindowConfig,
    pub(super) commit_interval: Duration,
    pub(super) publishing: Publishing,
    pub(super) at_end: AtEnd,
    pub(super) shutdown: Shutdown,
    pub(super) monitoring: Option<SocketAddr>,
    pub(super) log: Log,
}

/// The publisher's own keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct Publishing {
    pub(super) delivery_timeout: Duration,
    pub(super) linger: Duration,
    pub(super) max_records: usize,
    pub(super) max_bytes: usize,
}

/// How long an orderly end may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shutdown {
    /// The whole of it, from the signal to the exit.
    pub grace: Duration,
    /// How much of that handlers in flight may take.
    pub drain: Duration,
}

/// How the process logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Text or JSON.
    pub format: LogFormat,
    /// Which lines are written: a level, or `tracing`'s directives, already checked.
    pub level: String,
}

impl Settings {
    /// Reads the file at `path`, lays `environment` over it, and checks everything. Files of secrets are read
    /// once, now; their paths are relative to the working directory.
    ///
    /// Only variables that begin with `CONTROL_BUS__` are looked at.
    ///
    /// # Errors
    /// [`Error`], naming the file or variable and the key, for the first thing that is wrong.
    pub fn load(path: &Path, environment: impl IntoIterator<Item = (String, String)>) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
        let Merged { layer, origins } = Merged::new(path, &text, environment)?;
        let mut settings = Self::from_layer(layer, &origins)?;
        settings.yield_defaults(&origins);
        settings.validate(&origins)?;
        Ok(settings)
    }

    /// [`Settings::load`] with this process's own environment.
    ///
    /// # Errors
    /// As [`Settings::load`], and [`Error::NotText`] for a variable of ours that is not UTF-8.
    pub fn load_here(path: &Path) -> Result<Self, Error> {
        let mut variables = Vec::new();
        for (name, value) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with(PREFIX) {
                let value = value.into_string().map_err(|_| Error::NotText { name: name.clone() })?;
                variables.push((name, value));
            }
        }
        Self::load(path, variables)
    }

    /// Turns keys into values, each by itself.
    fn from_layer(layer: Layer, origins: &Origins) -> Result<Self, Error> {
        let read = limits::Read::new(origins);
        let Layer { bus, kafka, topics, group, handler, retry, bucket, publisher, shutdown, .. } = layer;
        let name = read.parsed("name", layer.name, PodName::new)?;
        let properties = properties::resolve(kafka.properties.unwrap_or_default(), origins)?;
        let brokers = read.needed("kafka.brokers", kafka.brokers)?;
        let embedded = read.needed("kafka.embedded", kafka.embedded)?;
        Ok(Self {
            role: read.needed("role", layer.role)?,
            kafka: kafka_settings(&brokers, &name, properties, embedded, origins)?,
            name,
            bus: read.parsed("bus.name", bus.name, Bus::new)?,
            buckets: read.parsed("bus.buckets", bus.buckets, Buckets::new)?,
            slots: read.within("bus.slots", bus.slots, 1..=4096)?,
            topics_create: read.needed("topics.create", topics.create)?,
            replication_factor: read.optional(
                "topics.replication_factor",
                topics.replication_factor,
                1..=32_767,
            )?,
            session_timeout: read.time("group.session_timeout", group.session_timeout, limits::HOUR)?,
            heartbeat: read.time("group.heartbeat", group.heartbeat, limits::HOUR)?,
            max_poll_interval: read.time("group.max_poll_interval", group.max_poll_interval, limits::DAY)?,
            handler_command: read.command("handler.command", handler.command)?,
            handler_timeout: read.time("handler.timeout", handler.timeout, limits::DAY)?,
            handler_concurrency: read.count("handler.concurrency", handler.concurrency, 1..=10_000)?,
            retry: owner::RetryConfig {
                attempts: read.within("retry.attempts", retry.attempts, 1..=1_000)?,
                initial: read.time("retry.initial", retry.initial, limits::DAY)?,
                max: read.time("retry.max", retry.max, limits::DAY)?,
            },
            window: owner::WindowConfig {
                max_records: read.count("bucket.max_records", bucket.max_records, 1..=10_000_000)?,
                max_bytes: read.size("bucket.max_bytes", bucket.max_bytes)?,
            },
            commit_interval: read.time("commit.interval", layer.commit.interval, limits::HOUR)?,
            publishing: Publishing {
                delivery_timeout: read.time(
                    "publisher.delivery_timeout",
                    publisher.delivery_timeout,
                    limits::DAY,
                )?,
                linger: read.short("publisher.linger", publisher.linger)?,
                max_records: read.count("publisher.max_records", publisher.max_records, 1..=10_000_000)?,
                max_bytes: read.size("publisher.max_bytes", publisher.max_bytes)?,
            },
            at_end: read.needed("input.at_end", layer.input.at_end)?,
            shutdown: Shutdown {
                grace: read.time("shutdown.grace", shutdown.grace, limits::DAY)?,
                drain: read.time("shutdown.drain", shutdown.drain, limits::DAY)?,
            },
            monitoring: read.address("monitoring.listen", layer.monitoring.listen)?,
            log: Log {
                format: read.needed("log.format", layer.log.format)?,
                level: read.filter("log.level", layer.log.level)?,
            },
        })
    }

    /// What the process is.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The process's own name.
    #[must_use]
    pub fn name(&self) -> &PodName {
        &self.name
    }

    /// The bus.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// How many buckets the bus has.
    #[must_use]
    pub fn buckets(&self) -> Buckets {
        self.buckets
    }

    /// How many partitions the topics that are read by pods have; 1 to 4096.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// What the bus asks of its topics.
    #[must_use]
    pub fn topics(&self) -> topics::Config {
        topics::Config {
            bus: self.bus.clone(),
            buckets: self.buckets,
            slots: self.slots,
            create: self.topics_create,
            replication_factor: self.replication_factor,
        }
    }

    /// How Kafka is reached.
    #[must_use]
    pub fn kafka(&self) -> kafka::Settings {
        self.kafka.clone()
    }

    /// What a controller works by. `dead_letter_limit` is the dead letters' topic's own limit for a record
    /// batch, in bytes.
    #[must_use]
    pub fn owner(&self, dead_letter_limit: usize) -> owner::Config {
        owner::Config {
            bus: self.bus.clone(),
            buckets: self.buckets,
            name: self.name.clone(),
            session_timeout: self.session_timeout,
            heartbeat: self.heartbeat,
            max_poll_interval: self.max_poll_interval,
            handler_timeout: self.handler_timeout,
            handler_concurrency: self.handler_concurrency,
            retry: self.retry,
            window: self.window,
            commit_interval: self.commit_interval,
            drain: self.shutdown.drain,
            dead_letter_limit,
        }
    }

    /// What a publisher works by. `max_message_bytes` is the notifications topic's own limit for a record
    /// batch, in bytes.
    #[must_use]
    pub fn publisher(&self, max_message_bytes: usize) -> publisher::Config {
        publisher::Config {
            bus: self.bus.clone(),
            buckets: self.buckets,
            name: self.name.clone(),
            delivery_timeout: self.publishing.delivery_timeout,
            linger: self.publishing.linger,
            max_records: self.publishing.max_records,
            max_bytes: self.publishing.max_bytes,
            max_message_bytes,
        }
    }

    /// The program that handles messages, and its arguments; never empty. `None`: messages go to standard
    /// output as lines.
    #[must_use]
    pub fn handler_command(&self) -> Option<&[String]> {
        self.handler_command.as_deref()
    }

    /// What a data-plane pod does when its standard input ends.
    #[must_use]
    pub fn input_at_end(&self) -> AtEnd {
        self.at_end
    }

    /// How long an orderly end may take.
    #[must_use]
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown
    }

    /// Where metrics and probes are served; `None`: nowhere. Port 0 takes a free one.
    #[must_use]
    pub fn monitoring(&self) -> Option<SocketAddr> {
        self.monitoring
    }

    /// How the process logs.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }
}

/// Checks the properties, and says where a wrong one was set.
fn kafka_settings(
    brokers: &str,
    name: &PodName,
    properties: BTreeMap<String, String>,
    embedded: bool,
    origins: &Origins,
) -> Result<kafka::Settings, Error> {
    let names: Vec<String> = properties.keys().cloned().collect();
    kafka::Settings::new(brokers, name.as_str(), properties, embedded).map_err(|error| {
        let text = error.to_string();
        // The longest name that the message mentions in quotes, as librdkafka refuses one at a time.
        let culprit =
            names.iter().filter(|name| text.contains(&format!("\"{name}\""))).max_by_key(|name| name.len());
        match (error, culprit) {
            (kafka::InvalidProperty::NoBrokers, _) => origins.key("kafka.brokers", text),
            (_, Some(name)) => origins.key(&format!("{}{name}", properties::PREFIX), text),
            (_, None) => origins.key("kafka.properties", text),
        }
    })
}

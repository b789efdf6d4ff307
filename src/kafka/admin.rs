//! Administration: what topics are there, how they are set, creating and deleting them.
//!
//! Every call is asynchronous, bounded by the client's time-out, and asks Kafka anew: nothing is remembered.
//! Dropping a future leaves a request that was already sent to be carried out by the broker. Nothing here
//! knows which topics a bus needs; that is `topics`'.

mod client;
mod describe;
mod error;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use client::Served;
pub use describe::{ClusterInfo, GroupInfo, GroupState, Member, Operation, Operations};
pub use error::AdminError;
use rdkafka::{
    admin::{AdminOptions, NewTopic, TopicReplication},
    error::{KafkaError, RDKafkaErrorCode as Code},
    metadata::{Metadata, MetadataBroker},
};
use tokio::task::spawn_blocking;

use super::{
    Error, Settings,
    ffi::{Resource, describe_configs},
};

/// A client for administration.
///
/// Dropping the last clone blocks for up to 200 ms, until its threads have ended.
#[derive(Clone)]
pub struct Admin {
    client: Arc<Served>,
    brokers: String,
    embedded: bool,
    timeout: Duration,
}

/// How a topic is laid out over the brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// How many partitions it has.
    pub partitions: u32,
    /// How many replicas the partition with the fewest of them has.
    pub replication_factor: u32,
    /// How many partitions have no leader at the moment.
    pub leaderless: u32,
}

/// The settings in force for a topic or a broker, by name; secret ones are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configs(BTreeMap<String, String>);

/// A topic to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPlan<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many partitions.
    pub partitions: u32,
    /// How many replicas each has; `None` takes the broker's default.
    pub replication_factor: Option<i32>,
    /// Its settings; all others follow the broker's.
    pub settings: &'a BTreeMap<&'static str, String>,
}

/// Whether a topic was there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It was created by this call.
    Now,
    /// Somebody else had created it.
    Before,
}

impl Configs {
    /// The value of a setting.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A setting's value as a number; `None` also where it is none.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Configs {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(settings: I) -> Self {
        Self(settings.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl Admin {
    /// A client; it does not connect yet. Each of its calls takes `timeout` at most.
    ///
    /// # Errors
    /// [`AdminError::Failed`] when librdkafka does not take its settings.
    pub fn new(settings: &Settings, timeout: Duration) -> Result<Self, AdminError> {
        let client = Served::new(settings)
            .map_err(|error| AdminError::Failed(Error::new("creating a client for administration", error)))?;
        Ok(Self {
            client: Arc::new(client),
            brokers: settings.brokers().to_owned(),
            embedded: settings.embedded(),
            timeout,
        })
    }

    /// How long each call may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How a topic is laid out. Works with the embedded broker too.
    ///
    /// # Errors
    /// [`AdminError::Missing`], [`AdminError::NotAuthorized`] (to describe the topic),
    /// [`AdminError::Unreachable`].
    pub async fn layout(&self, topic: &str) -> Result<Layout, AdminError> {
        let operation = format!("describing topic {topic:?}");
        let answer = self.metadata(topic, layout).await;
        answer.map_err(|error| self.sorted(operation, topic, error))
    }

    /// Every broker that is up, by its number. Only `topic` is asked for on the way, whether it exists or not:
    /// Kafka would otherwise send all topics there are.
    ///
    /// # Errors
    /// [`AdminError::Unreachable`].
    pub async fn brokers(&self, topic: &str) -> Result<Vec<i32>, AdminError> {
        let ids =
            |metadata: &Metadata, _: &str| Ok(metadata.brokers().iter().map(MetadataBroker::id).collect());
        let answer = self.metadata(topic, ids).await;
        answer.map_err(|error| self.sorted("asking for the brokers".to_owned(), topic, error))
    }

    /// The settings in force for a topic, as any broker sees them.
    ///
    /// # Errors
    /// [`AdminError::Missing`], [`AdminError::NotAuthorized`] (to describe the topic's settings),
    /// [`AdminError::Unreachable`], [`AdminError::Unsupported`].
    pub async fn configs(&self, topic: &str) -> Result<Configs, AdminError> {
        let operation = format!("describing the settings of topic {topic:?}");
        self.described(operation, topic, None, None).await
    }

    /// Whether one broker already knows a topic. A new topic takes a moment to be known by all.
    ///
    /// # Errors
    /// [`AdminError::NotAuthorized`] (to describe the topic's settings), [`AdminError::Unreachable`],
    /// [`AdminError::Unsupported`].
    pub async fn is_known_by(&self, broker: i32, topic: &str) -> Result<bool, AdminError> {
        let operation = format!("asking broker {broker} for topic {topic:?}");
        match self.described(operation, topic, None, Some(broker)).await {
            Ok(_) => Ok(true),
            Err(AdminError::Missing { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The settings in force for a broker.
    ///
    /// # Errors
    /// [`AdminError::NotAuthorized`] (to describe the cluster's settings), [`AdminError::Unreachable`],
    /// [`AdminError::Unsupported`].
    pub async fn broker_configs(&self, broker: i32) -> Result<Configs, AdminError> {
        let operation = format!("describing the settings of broker {broker}");
        self.described(operation, "", Some(broker), None).await
    }

    /// Creates a topic. That somebody else has created it in the meantime is no error, whatever theirs is
    /// like: verify it.
    ///
    /// # Errors
    /// [`AdminError::NotAuthorized`] (to create the topic), [`AdminError::Unreachable`],
    /// [`AdminError::Unsupported`], and [`AdminError::Failed`] for a plan that the broker refuses.
    pub async fn create(&self, plan: &TopicPlan<'_>) -> Result<Created, AdminError> {
        let operation = format!("creating topic {:?}", plan.name);
        self.supported(&operation)?;
        let topic = NewTopic {
            name: plan.name,
            num_partitions: i32::try_from(plan.partitions).unwrap_or(i32::MAX),
            replication: TopicReplication::Fixed(plan.replication_factor.unwrap_or(-1)),
            config: plan.settings.iter().map(|(name, value)| (*name, value.as_str())).collect(),
        };
        let options = self.options().operation_timeout(Some(self.timeout));
        match self.client.get().create_topics([&topic], &options).await.map(one) {
            Ok(Some(Ok(_))) => Ok(Created::Now),
            Ok(Some(Err((_, Code::TopicAlreadyExists)))) => Ok(Created::Before),
            Ok(Some(Err((_, code)))) => Err(self.sorted(operation, plan.name, KafkaError::AdminOp(code))),
            Ok(None) => Err(self.sorted(operation, plan.name, KafkaError::Canceled)),
            Err(error) => Err(self.sorted(operation, plan.name, error)),
        }
    }

    /// Deletes a topic with everything in it.
    ///
    /// # Errors
    /// [`AdminError::Missing`], [`AdminError::NotAuthorized`] (to delete the topic),
    /// [`AdminError::Unreachable`], [`AdminError::Unsupported`].
    pub async fn delete(&self, topic: &str) -> Result<(), AdminError> {
        let operation = format!("deleting topic {topic:?}");
        self.supported(&operation)?;
        let options = self.options().operation_timeout(Some(self.timeout));
        let error = match self.client.get().delete_topics(&[topic], &options).await.map(one) {
            Ok(Some(Ok(_))) => return Ok(()),
            Ok(Some(Err((_, code)))) => KafkaError::AdminOp(code),
            Ok(None) => KafkaError::Canceled,
            Err(error) => error,
        };
        Err(self.sorted(operation, topic, error))
    }

    async fn metadata<T: Send + 'static>(
        &self,
        topic: &str,
        read: impl FnOnce(&Metadata, &str) -> Result<T, KafkaError> + Send + 'static,
    ) -> Result<T, KafkaError> {
        let (client, topic, timeout) = (Arc::clone(&self.client), topic.to_owned(), self.timeout);
        let answer = spawn_blocking(move || {
            let metadata = client.get().inner().fetch_metadata(Some(&topic), timeout)?;
            read(&metadata, &topic)
        });
        // A blocking task that was never started ends only with the runtime.
        answer.await.unwrap_or(Err(KafkaError::Canceled))
    }

    /// The settings of a broker, or else of the topic, as the broker `asked` sees them.
    async fn described(
        &self,
        operation: String,
        topic: &str,
        described: Option<i32>,
        asked: Option<i32>,
    ) -> Result<Configs, AdminError> {
        self.supported(&operation)?;
        let (client, name, timeout) = (Arc::clone(&self.client), topic.to_owned(), self.timeout);
        let answer = spawn_blocking(move || {
            let resource = described.map_or(Resource::Topic(&name), Resource::Broker);
            describe_configs(client.get().inner(), resource, asked, timeout)
        });
        let answer = answer.await.unwrap_or(Err(KafkaError::Canceled));
        match answer {
            Ok(entries) => Ok(entries.into_iter().collect()),
            Err(error) => Err(self.sorted(operation, topic, error)),
        }
    }

    fn options(&self) -> AdminOptions {
        AdminOptions::new().request_timeout(Some(self.timeout))
    }

    fn supported(&self, operation: &str) -> Result<(), AdminError> {
        if self.embedded {
            return Err(AdminError::Unsupported { operation: operation.to_owned() });
        }
        Ok(())
    }

    /// Sorts an error by what can be done about it.
    fn sorted(&self, operation: String, topic: &str, error: KafkaError) -> AdminError {
        // rdkafka shows the code of an administrative error to nobody.
        let error = if let KafkaError::AdminOp(code) = error { KafkaError::Global(code) } else { error };
        let code = error.rdkafka_error_code();
        let source = Error::new(operation, error);
        match code {
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => {
                AdminError::Missing { topic: topic.to_owned() }
            }
            _ if source.is_authorization() => AdminError::NotAuthorized(source),
            Some(code) if error::is_unreachable(code) => AdminError::Unreachable {
                brokers: self.brokers.clone(),
                timeout: self.timeout,
                last: self.client.last_error(),
                source: Box::new(source),
            },
            _ => AdminError::Failed(source),
        }
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin")
            .field("brokers", &self.brokers)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// The answer to a request that was about one thing.
fn one<T>(answers: Vec<T>) -> Option<T> {
    answers.into_iter().next()
}

fn layout(metadata: &Metadata, topic: &str) -> Result<Layout, KafkaError> {
    let missing = KafkaError::MetadataFetch(Code::UnknownTopicOrPartition);
    let found = metadata.topics().iter().find(|found| found.name() == topic).ok_or(missing)?;
    if let Some(error) = found.error() {
        return Err(KafkaError::MetadataFetch(error.into()));
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let partitions = found.partitions();
    Ok(Layout {
        partitions: count(partitions.len()),
        replication_factor: count(partitions.iter().map(|one| one.replicas().len()).min().unwrap_or(0)),
        leaderless: count(partitions.iter().filter(|one| one.leader() < 0).count()),
    })
}

//! A Kafka inside this process: librdkafka's mock cluster, for the demo and for quick tests.
//!
//! Other processes can connect to it. It lives as long as its [`EmbeddedBroker`]. It keeps at most 5 MiB or
//! 100,000 batches per partition, and knows no compaction, no real transactions and no topic administration,
//! so nothing that rests on those can be shown with it.

use std::{sync::Arc, time::Duration};

use rdkafka::{
    ClientConfig, ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode as Code},
    message::DeliveryResult,
    mocking::MockCluster,
    producer::{Producer as _, ProducerContext, ThreadedProducer},
    types::{RDKafkaApiKey, RDKafkaRespErr},
};

use super::Error;

/// A running mock cluster. Clones are handles of the same one; the last to be dropped ends it.
#[derive(Clone)]
pub struct EmbeddedBroker {
    /// The client that owns the cluster. Nothing is ever sent through it.
    host: Arc<ThreadedProducer<Host>>,
    bootstrap: String,
}

/// How the cluster can be made to answer the requests that write records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProduceFault {
    /// The record is too large for its topic; it is not written.
    TooLarge,
    /// The writer has no permission; it is not written.
    NotAllowed,
    /// Too few replicas; it is not written, and clients try again by themselves.
    NotEnoughReplicas,
    /// The connection breaks; clients try again by themselves.
    Disconnected,
}

impl EmbeddedBroker {
    /// Starts `brokers` brokers on free ports of 127.0.0.1. They have the numbers 1 to `brokers`.
    ///
    /// # Errors
    /// When librdkafka cannot start them, for instance for want of file descriptors.
    pub fn start(brokers: i32) -> Result<Self, Error> {
        let failed =
            |error| Error::new(format!("starting an embedded cluster of {brokers} broker(s)"), error);
        let mut config = ClientConfig::new();
        config.set("test.mock.num.brokers", brokers.to_string());
        let host: ThreadedProducer<Host> = config.create_with_context(Host).map_err(failed)?;
        let bootstrap = match host.client().mock_cluster() {
            Some(cluster) => cluster.bootstrap_servers(),
            None => return Err(failed(KafkaError::MockCluster(Code::Fail))),
        };
        Ok(Self { host: Arc::new(host), bootstrap })
    }

    /// The addresses of all brokers, as `kafka.brokers` takes them.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Creates a topic of `partitions` partitions, each on `replication` brokers.
    ///
    /// # Errors
    /// When it exists already, or there are fewer brokers than `replication`.
    pub fn create_topic(&self, name: &str, partitions: i32, replication: i32) -> Result<(), Error> {
        self.ask(&format!("creating topic {name}"), |cluster| {
            cluster.create_topic(name, partitions, replication)
        })
    }

    /// Ends a broker's connections and takes no new ones; its leaderships stay. -1 stands for all brokers.
    ///
    /// # Errors
    /// When there is no such broker.
    pub fn broker_down(&self, id: i32) -> Result<(), Error> {
        self.ask(&format!("taking embedded broker {id} down"), |cluster| cluster.broker_down(id))
    }

    /// Lets a broker take connections again. -1 stands for all brokers.
    ///
    /// # Errors
    /// When there is no such broker.
    pub fn broker_up(&self, id: i32) -> Result<(), Error> {
        self.ask(&format!("bringing embedded broker {id} up"), |cluster| cluster.broker_up(id))
    }

    /// Makes every answer of every broker this late; whole milliseconds.
    ///
    /// # Errors
    /// When the cluster does not take it.
    pub fn set_round_trip_time(&self, time: Duration) -> Result<(), Error> {
        self.ask("delaying the embedded cluster", |cluster| cluster.broker_round_trip_time(-1, time))
    }

    /// Answers the next `times` requests that write records with `fault`.
    ///
    /// # Errors
    /// When the cluster is gone.
    pub fn fail_produce(&self, fault: ProduceFault, times: usize) -> Result<(), Error> {
        let error = match fault {
            ProduceFault::TooLarge => RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
            ProduceFault::NotAllowed => RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
            ProduceFault::NotEnoughReplicas => RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            ProduceFault::Disconnected => RDKafkaRespErr::RD_KAFKA_RESP_ERR__TRANSPORT,
        };
        self.ask("making the embedded cluster fail", |cluster| {
            cluster.request_errors(RDKafkaApiKey::Produce, &vec![error; times]);
            Ok(())
        })
    }

    fn ask(
        &self,
        operation: &str,
        call: impl FnOnce(&MockCluster<'_, Host>) -> Result<(), KafkaError>,
    ) -> Result<(), Error> {
        let result = match self.host.client().mock_cluster() {
            Some(cluster) => call(&cluster),
            None => Err(KafkaError::MockCluster(Code::Fail)),
        };
        result.map_err(|error| Error::new(operation, error))
    }
}

impl std::fmt::Debug for EmbeddedBroker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedBroker").field("bootstrap", &self.bootstrap).finish_non_exhaustive()
    }
}

/// The callbacks of the client that owns the cluster. Its brokers being "down" is a test's own doing, so
/// nothing of it is worth more than a debug line.
struct Host;

impl ClientContext for Host {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "librdkafka", facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, reason, "embedded cluster");
    }
}

impl ProducerContext for Host {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

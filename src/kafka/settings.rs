//! How to reach Kafka, and which of librdkafka's properties are ours alone.

use std::{collections::BTreeMap, fmt};

use rdkafka::{ClientConfig, error::KafkaError};

/// Properties that the bus sets itself, since its promises rest on them, and what to use instead.
const OURS: &[(&str, &str)] = &[
    ("bootstrap.servers", "set `kafka.brokers`"),
    ("metadata.broker.list", "set `kafka.brokers`"),
    ("group.id", "it follows from `bus.name`"),
    ("group.instance.id", "static members hand over more slowly"),
    ("group.protocol", "the classic protocol keeps captured group metadata valid"),
    ("group.remote.assignor", "the classic protocol is used"),
    ("partition.assignment.strategy", "handover needs cooperative-sticky"),
    ("session.timeout.ms", "set `group.session_timeout`"),
    ("heartbeat.interval.ms", "set `group.heartbeat`"),
    ("max.poll.interval.ms", "set `group.max_poll_interval`"),
    ("enable.auto.commit", "offsets are committed in transactions"),
    ("auto.commit.enable", "offsets are committed in transactions"),
    ("enable.auto.offset.store", "offsets are committed in transactions"),
    ("auto.offset.reset", "a takeover decides where reading starts"),
    ("isolation.level", "aborted records must stay invisible"),
    ("enable.partition.eof", "readers rely on it"),
    ("enable.idempotence", "order and exactly-once writes need it"),
    ("enable.gapless.guarantee", "the publisher itself keeps order per resource"),
    ("acks", "a receipt means that all in-sync replicas have the record"),
    ("request.required.acks", "a receipt means that all in-sync replicas have the record"),
    ("max.in.flight", "order needs it"),
    ("max.in.flight.requests.per.connection", "order needs it"),
    ("retries", "set `publisher.delivery_timeout`"),
    ("message.send.max.retries", "set `publisher.delivery_timeout`"),
    ("delivery.timeout.ms", "set `publisher.delivery_timeout`"),
    ("message.timeout.ms", "set `publisher.delivery_timeout`"),
    ("transactional.id", "it follows from the bucket"),
    ("transaction.timeout.ms", "takeover times rest on it"),
    ("partitioner", "the partition is always the bucket"),
    ("message.max.bytes", "it follows from the topic's own limit"),
    ("message.copy.max.bytes", "the client owns what it sends"),
    ("queue.buffering.max.messages", "set `publisher.max_records`"),
    ("queue.buffering.max.kbytes", "set `publisher.max_bytes`"),
    ("allow.auto.create.topics", "topics are created by `topics.create` only"),
    ("test.mock.num.brokers", "use `control-bus demo`"),
];

/// Words in a property's name that mark its value as a secret.
const SECRET_WORDS: [&str; 5] = ["password", "passphrase", "secret", "key.pem", "token"];

/// Where the brokers are, and librdkafka's properties as given by the user.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    brokers: String,
    client_id: String,
    properties: BTreeMap<String, String>,
    embedded: bool,
}

/// A property that cannot be passed through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProperty {
    /// The bus sets it itself.
    #[error("librdkafka property {name:?} cannot be set here: {instead}")]
    Ours {
        /// The property.
        name: String,
        /// Why, or what to set.
        instead: &'static str,
    },
    /// librdkafka does not take it.
    #[error("librdkafka refuses its properties: {reason}")]
    Refused {
        /// In librdkafka's words.
        reason: String,
    },
    /// No brokers were named.
    #[error("`kafka.brokers` is empty: expected host:port, several separated by commas")]
    NoBrokers,
}

impl Settings {
    /// Checks the properties.
    ///
    /// `embedded` says that the brokers are librdkafka's mock cluster, which forgets the offsets of
    /// transactions: then they are committed plainly as well.
    ///
    /// # Errors
    /// [`InvalidProperty`] for a property that the bus sets itself, or that librdkafka does not know.
    pub fn new(
        brokers: impl Into<String>,
        client_id: impl Into<String>,
        properties: BTreeMap<String, String>,
        embedded: bool,
    ) -> Result<Self, InvalidProperty> {
        let brokers = brokers.into();
        if brokers.trim().is_empty() {
            return Err(InvalidProperty::NoBrokers);
        }
        for name in properties.keys() {
            // librdkafka also takes topic properties with a prefix.
            let bare = name.strip_prefix("topic.").unwrap_or(name);
            if let Some((_, instead)) = OURS.iter().find(|(ours, _)| *ours == bare) {
                return Err(InvalidProperty::Ours { name: name.clone(), instead });
            }
        }
        let settings = Self { brokers, client_id: client_id.into(), properties, embedded };
        settings
            .client()
            .create_native_config()
            .map_err(|error| InvalidProperty::Refused { reason: without_value(error) })?;
        Ok(settings)
    }

    /// Whether the value of the property `name` is a secret, which is never shown.
    #[must_use]
    pub fn is_secret(name: &str) -> bool {
        SECRET_WORDS.iter().any(|word| name.contains(word))
    }

    /// The brokers, as given.
    #[must_use]
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    /// Whether this process's clients are known to the brokers by its own name: not where the property `client.id`
    /// says otherwise.
    #[must_use]
    pub fn clients_have_own_name(&self) -> bool {
        !self.properties.contains_key("client.id")
    }

    /// Whether the brokers are librdkafka's mock cluster.
    #[must_use]
    pub fn embedded(&self) -> bool {
        self.embedded
    }

    /// A client's configuration: the user's properties, and what all our clients share.
    pub(super) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.brokers);
        if !self.properties.contains_key("client.id") {
            config.set("client.id", &self.client_id);
        }
        config.set("allow.auto.create.topics", "false");
        // The default is 100 s; where a broker comes back, it is found within a second.
        if !self.properties.contains_key("reconnect.backoff.max.ms") {
            config.set("reconnect.backoff.max.ms", "1000");
        }
        config
    }
}

/// Why librdkafka refuses a property; rdkafka's own text ends with the value, which may be a secret.
fn without_value(error: KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, _, name, _) if Settings::is_secret(&name) => {
            format!("the value of property {name:?}, or the property itself, is not known to it")
        }
        KafkaError::ClientConfig(_, description, ..) => description,
        other => other.to_string(),
    }
}

impl fmt::Debug for Settings {
    /// Shows secrets as `***`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: BTreeMap<&str, &str> = self
            .properties
            .iter()
            .map(|(name, value)| (name.as_str(), if Self::is_secret(name) { "***" } else { value.as_str() }))
            .collect();
        f.debug_struct("Settings")
            .field("brokers", &self.brokers)
            .field("client_id", &self.client_id)
            .field("properties", &shown)
            .field("embedded", &self.embedded)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<Settings, InvalidProperty> {
        let properties = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        Settings::new("localhost:9092", "test", properties, false)
    }

    #[test]
    fn properties_that_promises_rest_on_are_refused() {
        for (name, _) in OURS {
            assert!(matches!(with(name, "1"), Err(InvalidProperty::Ours { .. })), "{name}");
        }
        assert!(matches!(with("topic.acks", "1"), Err(InvalidProperty::Ours { .. })));
    }

    #[test]
    fn others_pass_and_unknown_ones_are_refused_in_librdkafkas_words() {
        assert!(with("compression.codec", "zstd").is_ok());
        let error = with("compresion.codec", "zstd").unwrap_err();
        assert!(error.to_string().contains("compresion.codec"), "{error}");
    }

    #[test]
    fn secrets_are_never_shown() {
        let shown = format!("{:?}", with("sasl.password", "hunter2").unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
        for unknown in ["sasl.password2", "sasl.pasword"] {
            let error = with(unknown, "hunter2").unwrap_err().to_string();
            assert!(!error.contains("hunter2") && error.contains(unknown), "{error}");
        }
    }
}

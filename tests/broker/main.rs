//! Tests on a real Kafka broker.

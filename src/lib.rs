//! A Kafka-backed control bus: data-plane pods reach the controller that owns a resource's bucket, at least
//! once, while owners come and go.
//!
//! The layers, lowest first; a module imports only from those above it in this list. ARCHITECTURE.md tells
//! how they work together.

pub mod model;

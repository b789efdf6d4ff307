//! A Kafka-backed control bus: data-plane pods reach the controller that owns a resource's bucket, at least
//! once, while owners come and go.
//!
//! The layers, lowest first; a module imports only from those above it in this list. ARCHITECTURE.md tells
//! how they work together.

pub mod bridge;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod demo;
pub mod engine;
pub mod kafka;
pub mod model;
pub mod owner;
pub mod pipe;
pub mod publisher;
pub mod telemetry;
pub mod topics;

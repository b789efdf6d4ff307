//! A Kafka-backed control bus: data-plane pods reach the controller that owns a resource's bucket, at least
//! once, while owners come and go.
//!
//! The layers, lowest first; a module imports only from those above it in this list. ARCHITECTURE.md tells
//! how they work together.
//!
//! A pod publishes:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use control_bus::{
//!     kafka,
//!     model::{Kind, Message},
//!     publisher::{Config, Publisher},
//!     telemetry::Metrics,
//! };
//!
//! # async fn publish(config: Config, kafka: kafka::Settings) -> Result<(), Box<dyn std::error::Error>> {
//! let publisher = Publisher::start(config, &kafka, Arc::new(Metrics::new()?))?;
//! let resource = "default/trigger1".parse()?;
//! let message = Message::new(resource, Kind::State, "ready", r#"{"consumers":5}"#)?;
//! let receipt = publisher.publish(message).await?; // all in-sync replicas have it
//! println!("{} is in bucket {} at {}", receipt.id, receipt.bucket, receipt.offset);
//! # Ok(())
//! # }
//! ```
//!
//! A controller handles what its buckets bring:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use control_bus::{
//!     kafka,
//!     owner::{Config, Delivery, Error, Handler, Outcome, Owner},
//!     telemetry::Metrics,
//! };
//! use tokio_util::sync::CancellationToken;
//!
//! struct Reconciler;
//!
//! impl Handler for Reconciler {
//!     async fn handle(&self, delivery: Delivery) -> Outcome {
//!         println!("{} says {:?}", delivery.notification.pod(), delivery.notification.data());
//!         Outcome::Handled
//!     }
//! }
//!
//! # async fn own(config: Config, kafka: kafka::Settings, metrics: Arc<Metrics>) -> Result<(), Error> {
//! let shutdown = CancellationToken::new();
//! Owner::new(config, kafka, metrics, Arc::new(Reconciler))?.run(shutdown).await
//! # }
//! ```

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

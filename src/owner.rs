//! The owner's side: a controller's process, from the consumer group to the handler.
//!
//! The deciding is `engine`'s; here its decisions are carried out.

mod config;
mod handler;

pub use config::{Config, RetryConfig, WindowConfig};
pub use handler::{Delivery, Handler, Outcome, Released};

//! Files and environment, checked, and turned into each part's own configuration.
//!
//! Three sources, each stronger than the one before: defaults, a TOML file, environment variables
//! (`CONTROL_BUS__SECTION__KEY`). Each is checked alone, so that a message names the file or the variable
//! that is wrong; then they are merged, and the limits across keys are checked. `config/reference.toml`
//! lists every key.
//!
//! Invariants: a [`Settings`] that exists is valid as a whole; no secret is ever printed, neither by `Debug`
//! nor by an error. It does not ask Kafka anything: what the topics need is `topics`' to find out.

mod defaults;
mod environment;
mod error;
mod layer;
mod limits;
mod properties;
mod settings;
mod sources;
mod value;

#[cfg(test)]
mod tests;

pub use error::{Error, Given, Origin};
pub use layer::{AtEnd, LogFormat, Role};
pub use settings::{Log, Settings, Shutdown};

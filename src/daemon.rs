//! daemon

pub mod logging;

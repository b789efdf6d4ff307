//! What tests against real brokers share. A test binary includes it with
//!
//! ```ignore
//! #[path = "../support/support.rs"]
//! mod support;
//! ```
//!
//! It knows nothing of the library under test: what it has to do with is its binary and its brokers.

pub(crate) mod checker;
pub(crate) mod kafka;
pub(crate) mod process;

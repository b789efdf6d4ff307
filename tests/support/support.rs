//! What tests against real brokers share. A test binary includes it with
//!
//! ```ignore
//! #[path = "../support/support.rs"]
//! mod support;
//! ```
//!
//! It depends on std, `nix` and `tempfile` only, and knows nothing of the crate under test.

pub(crate) mod kafka;

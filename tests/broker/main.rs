//! Tests on a real Kafka broker.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "what fails in a helper fails its test"
)]

mod demo;
mod fencing;
mod flapping;
mod fleet;
mod ledger;
mod operators;
mod owners;
mod poison;
mod publisher;
mod run;
mod stops;
#[path = "../support/support.rs"]
mod support;
mod the_case;
mod topics;

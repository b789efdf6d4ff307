//! What the process shows of itself to those who run it.

pub mod monitoring;

//! Pods' writes.

mod config;

pub use config::Config;

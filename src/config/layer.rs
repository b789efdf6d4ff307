//! What one source may say: every key, none of them required.
//!
//! The same form serves for checking a source alone and for reading the merged result.

use serde::{Deserialize, Serialize};

use super::{
    properties::Properties,
    value::{Interval, Size},
};

/// What the process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A controller: owns buckets and handles what is in them.
    Controller,
    /// A data-plane pod: publishes.
    DataPlane,
}

/// What a data-plane pod does when its standard input ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtEnd {
    /// It flushes and exits.
    Exit,
    /// It stays until it is told to stop.
    Stay,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A section: an all-optional struct that takes no other key.
macro_rules! section {
    ($name:ident { $($key:ident: $type:ty),+ $(,)? }) => {
        #[derive(Default, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct $name {
            $(pub(super) $key: Option<$type>,)+
        }
    };
}

/// One source's values, or all sources' merged.
#[derive(Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Layer {
    pub(super) role: Option<Role>,
    pub(super) name: Option<String>,
    pub(super) bus: Bus,
    pub(super) kafka: Kafka,
    pub(super) topics: Topics,
    pub(super) group: Group,
    pub(super) handler: Handler,
    pub(super) retry: Retry,
    pub(super) bucket: Bucket,
    pub(super) commit: Commit,
    pub(super) publisher: Publisher,
    pub(super) input: Input,
    pub(super) shutdown: Shutdown,
    pub(super) monitoring: Monitoring,
    pub(super) log: Log,
}

section!(Bus { name: String, buckets: u32, slots: u32 });
section!(Kafka { brokers: String, properties: Properties, embedded: bool });
section!(Topics { create: bool, replication_factor: i32 });
section!(Group { session_timeout: Interval, heartbeat: Interval, max_poll_interval: Interval });
section!(Handler { command: Vec<String>, timeout: Interval, concurrency: u64 });
section!(Retry { attempts: u32, initial: Interval, max: Interval });
section!(Bucket { max_records: u64, max_bytes: Size });
section!(Commit { interval: Interval });
section!(Publisher { delivery_timeout: Interval, linger: Interval, max_records: u64, max_bytes: Size });
section!(Input { at_end: AtEnd });
section!(Shutdown { grace: Interval, drain: Interval });
section!(Monitoring { listen: String });
section!(Log { format: LogFormat, level: String });

//! The weakest source: what holds where nothing else is said.

use std::time::Duration;

use super::{
    layer::{
        AtEnd, Bucket, Bus, Commit, Group, Handler, Input, Kafka, Layer, Log, LogFormat, Publisher, Retry,
        Shutdown, Topics,
    },
    value::{Interval, Size},
};

const MIB: u64 = 1024 * 1024;

/// Every default. Keys that are not here are required, or have none.
pub(super) fn layer() -> Layer {
    Layer {
        bus: Bus { slots: Some(16), ..Bus::default() },
        kafka: Kafka { embedded: Some(false), ..Kafka::default() },
        topics: Topics { create: Some(true), ..Topics::default() },
        group: Group {
            session_timeout: seconds(10),
            heartbeat: millis(500),
            max_poll_interval: seconds(300),
        },
        handler: Handler { timeout: seconds(30), concurrency: Some(16), ..Handler::default() },
        retry: Retry { attempts: Some(10), initial: seconds(1), max: seconds(300) },
        bucket: Bucket { max_records: Some(10_000), max_bytes: Some(Size(16 * MIB)) },
        commit: Commit { interval: millis(200) },
        publisher: Publisher {
            delivery_timeout: seconds(30),
            linger: millis(1),
            max_records: Some(100_000),
            max_bytes: Some(Size(64 * MIB)),
        },
        input: Input { at_end: Some(AtEnd::Exit) },
        shutdown: Shutdown { grace: seconds(30), drain: seconds(10) },
        log: Log { format: Some(LogFormat::Text), level: Some("info".to_owned()) },
        ..Layer::default()
    }
}

fn seconds(count: u64) -> Option<Interval> {
    Some(Interval(Duration::from_secs(count)))
}

fn millis(count: u64) -> Option<Interval> {
    Some(Interval(Duration::from_millis(count)))
}

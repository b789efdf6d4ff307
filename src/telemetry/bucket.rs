//! One bucket's handles.

use prometheus::{IntCounter, IntGauge};

use super::Buckets;
use crate::model::Bucket;

/// The metrics of one bucket, resolved.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "each says what the metric's own help text says")]
pub struct BucketMetrics {
    pub owned: IntGauge,
    pub ready: IntGauge,
    pub epoch: IntGauge,
    pub lag_records: IntGauge,
    pub in_flight_records: IntGauge,
    pub window_records: IntGauge,
    pub window_bytes: IntGauge,
    pub window_full: IntGauge,
    pub unavailable: IntGauge,
    pub handled: IntCounter,
    pub retried: IntCounter,
    pub rejected: IntCounter,
    pub dead_lettered: IntCounter,
    pub superseded: IntCounter,
    pub redelivered: IntCounter,
    pub tombstones: IntCounter,
    pub foreign_keys: IntCounter,
    pub offsets_lost: IntCounter,
}

impl BucketMetrics {
    pub(super) fn new(families: &Buckets, bucket: Bucket) -> Self {
        let bucket = bucket.to_string();
        let label = [bucket.as_str()];
        Self {
            owned: families.owned.with_label_values(&label),
            ready: families.ready.with_label_values(&label),
            epoch: families.epoch.with_label_values(&label),
            lag_records: families.lag_records.with_label_values(&label),
            in_flight_records: families.in_flight_records.with_label_values(&label),
            window_records: families.window_records.with_label_values(&label),
            window_bytes: families.window_bytes.with_label_values(&label),
            window_full: families.window_full.with_label_values(&label),
            unavailable: families.unavailable.with_label_values(&label),
            handled: families.handled.with_label_values(&label),
            retried: families.retried.with_label_values(&label),
            rejected: families.rejected.with_label_values(&label),
            dead_lettered: families.dead_lettered.with_label_values(&label),
            superseded: families.superseded.with_label_values(&label),
            redelivered: families.redelivered.with_label_values(&label),
            tombstones: families.tombstones.with_label_values(&label),
            foreign_keys: families.foreign_keys.with_label_values(&label),
            offsets_lost: families.offsets_lost.with_label_values(&label),
        }
    }

    /// Sets what describes a tenure to zero; the counters stay.
    pub fn clear(&self) {
        for gauge in [
            &self.ready,
            &self.lag_records,
            &self.in_flight_records,
            &self.window_records,
            &self.window_bytes,
            &self.window_full,
            &self.unavailable,
        ] {
            gauge.set(0);
        }
    }
}

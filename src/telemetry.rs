//! Metric handles: registered once, resolved once, held by whoever counts. No server here.
//!
//! Names follow Prometheus' rules: `control_bus_<subject>_<unit>[_total]`, base units, labels with few
//! values (a bucket, never a resource).

mod bucket;

pub use bucket::BucketMetrics;
use prometheus::{
    Encoder as _, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder,
};

/// Upper bounds of the time histograms, in seconds.
const SECONDS: [f64; 16] =
    [0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 120.0];

/// Every metric of a process.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    /// Seconds a handler took, by its outcome.
    pub handler_seconds: HistogramVec,
    /// Seconds from Kafka's timestamp of a record until it was handled.
    pub record_to_handled_seconds: Histogram,
    /// Seconds a bucket's transaction took, by how it ended.
    pub transaction_seconds: HistogramVec,
    /// Seconds from a bucket's assignment until its first record could be delivered.
    pub takeover_seconds: Histogram,
    /// Seconds from accepting a message until Kafka had it.
    pub publish_seconds: Histogram,
    /// Messages that Kafka has.
    pub published: IntCounter,
    /// Messages that were given back with an error, by kind.
    pub publish_failed: IntCounterVec,
    /// Messages accepted and not yet answered.
    pub publish_outstanding_records: IntGauge,
    /// Their bytes.
    pub publish_outstanding_bytes: IntGauge,
    /// Rebalance callbacks, by kind.
    pub rebalances: IntCounterVec,
    /// Results, commands and takeover steps that were dropped because the tenure was over.
    pub fenced: IntCounter,
    /// Ends of tenures, by reason.
    pub tenures_ended: IntCounterVec,
    /// Errors that librdkafka reported, by code.
    pub kafka_errors: IntCounterVec,
    buckets: Buckets,
}

/// The families that have a bucket as their label.
#[derive(Debug, Clone)]
struct Buckets {
    owned: IntGaugeVec,
    ready: IntGaugeVec,
    epoch: IntGaugeVec,
    lag_records: IntGaugeVec,
    in_flight_records: IntGaugeVec,
    window_records: IntGaugeVec,
    window_bytes: IntGaugeVec,
    window_full: IntGaugeVec,
    unavailable: IntGaugeVec,
    handled: IntCounterVec,
    retried: IntCounterVec,
    rejected: IntCounterVec,
    dead_lettered: IntCounterVec,
    superseded: IntCounterVec,
    redelivered: IntCounterVec,
    tombstones: IntCounterVec,
    foreign_keys: IntCounterVec,
    offsets_lost: IntCounterVec,
}

impl Metrics {
    /// Registers every metric in a registry of its own.
    ///
    /// # Errors
    /// Only when two metrics collide, which the unit test below rules out.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let new = Register { registry: &registry };
        Ok(Self {
            handler_seconds: new.times("control_bus_handler_seconds", "Time a handler took.", "outcome")?,
            record_to_handled_seconds: new.time(
                "control_bus_record_to_handled_seconds",
                "Time from a record's timestamp to its end.",
            )?,
            transaction_seconds: new.times(
                "control_bus_transaction_seconds",
                "Time of a bucket's transaction.",
                "outcome",
            )?,
            takeover_seconds: new
                .time("control_bus_takeover_seconds", "Time from assignment to the first delivery.")?,
            publish_seconds: new
                .time("control_bus_publish_seconds", "Time from accepting a message until Kafka had it.")?,
            published: new.counter("control_bus_published_records_total", "Records that Kafka has.")?,
            publish_failed: new.counters(
                "control_bus_publish_failed_records_total",
                "Records given back with an error.",
                "kind",
            )?,
            publish_outstanding_records: new
                .gauge("control_bus_publish_outstanding_records", "Records accepted and not yet answered.")?,
            publish_outstanding_bytes: new
                .gauge("control_bus_publish_outstanding_bytes", "Bytes accepted and not yet answered.")?,
            rebalances: new.counters("control_bus_rebalances_total", "Rebalance callbacks.", "kind")?,
            fenced: new
                .counter("control_bus_fenced_total", "Results dropped because the tenure was over.")?,
            tenures_ended: new.counters("control_bus_tenures_ended_total", "Ends of tenures.", "reason")?,
            kafka_errors: new.counters(
                "control_bus_kafka_errors_total",
                "Errors reported by librdkafka.",
                "code",
            )?,
            buckets: Buckets::new(&new)?,
            registry,
        })
    }

    /// The resolved handles of one bucket.
    #[must_use]
    pub fn bucket(&self, bucket: crate::model::Bucket) -> BucketMetrics {
        BucketMetrics::new(&self.buckets, bucket)
    }

    /// All metrics in Prometheus' text format.
    ///
    /// # Errors
    /// When a metric family cannot be written, which would be a defect.
    pub fn render(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

impl Buckets {
    fn new(new: &Register<'_>) -> Result<Self, prometheus::Error> {
        let gauge =
            |name: &str, help: &str| new.gauges(&format!("control_bus_bucket_{name}"), help, "bucket");
        let count = |name: &str, help: &str| {
            new.counters(&format!("control_bus_bucket_{name}_total"), help, "bucket")
        };
        Ok(Self {
            owned: gauge("owned", "1 while this process has the bucket assigned.")?,
            ready: gauge("ready", "1 while the bucket delivers.")?,
            epoch: gauge("epoch", "The epoch of this process's latest tenure.")?,
            lag_records: gauge("lag_records", "Offsets between the committed offset and the log's end.")?,
            in_flight_records: gauge("in_flight_records", "Records being handled.")?,
            window_records: gauge("window_records", "Records read and not finished.")?,
            window_bytes: gauge("window_bytes", "Bytes of records read and not finished.")?,
            window_full: gauge("window_full", "1 while reading waits because the window is full.")?,
            unavailable: gauge("unavailable", "1 while the bucket waits for its handler to be available.")?,
            handled: count("handled_records", "Records handled.")?,
            retried: count("retried_records", "Attempts that ended in a retry.")?,
            rejected: count("rejected_records", "Records that a handler rejected.")?,
            dead_lettered: count("dead_lettered_records", "Records whose dead letter is durable.")?,
            superseded: count("superseded_records", "States skipped for a newer one.")?,
            redelivered: count("redelivered_records", "Deliveries that may be repeats.")?,
            tombstones: count("tombstone_records", "Tombstones passed.")?,
            foreign_keys: count("foreign_key_records", "Records whose key is not their attributes' own.")?,
            offsets_lost: count(
                "offsets_lost",
                "Takeovers that found the committed offset gone or invalid.",
            )?,
        })
    }
}

/// Creates and registers.
struct Register<'a> {
    registry: &'a Registry,
}

impl Register<'_> {
    fn put<C: prometheus::core::Collector + Clone + 'static>(
        &self,
        collector: C,
    ) -> Result<C, prometheus::Error> {
        self.registry.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        self.put(IntCounter::new(name, help)?)
    }

    fn counters(&self, name: &str, help: &str, label: &str) -> Result<IntCounterVec, prometheus::Error> {
        self.put(IntCounterVec::new(Opts::new(name, help), &[label])?)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        self.put(IntGauge::new(name, help)?)
    }

    fn gauges(&self, name: &str, help: &str, label: &str) -> Result<IntGaugeVec, prometheus::Error> {
        self.put(IntGaugeVec::new(Opts::new(name, help), &[label])?)
    }

    fn time(&self, name: &str, help: &str) -> Result<Histogram, prometheus::Error> {
        self.put(Histogram::with_opts(HistogramOpts::new(name, help).buckets(SECONDS.to_vec()))?)
    }

    fn times(&self, name: &str, help: &str, label: &str) -> Result<HistogramVec, prometheus::Error> {
        let opts = HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
        self.put(HistogramVec::new(opts, &[label])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_registers_and_renders() {
        let metrics = Metrics::new().unwrap();
        metrics.bucket(crate::model::Bucket::from_partition(3).unwrap()).handled.inc();
        let text = String::from_utf8(metrics.render().unwrap()).unwrap();
        assert!(text.contains("control_bus_bucket_handled_records_total{bucket=\"3\"} 1"), "{text}");
    }
}

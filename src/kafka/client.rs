//! What every client shares: librdkafka's log lines and errors go to `tracing` and the metrics.

use std::{collections::BTreeMap, sync::Arc};

use rdkafka::{
    ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
};

use crate::telemetry::Metrics;

/// What librdkafka's statistics say about the partitions of one topic: the log's end by partition.
pub type Statistics = BTreeMap<i32, i64>;

/// The callbacks that every client has.
#[derive(Debug, Clone)]
pub(super) struct Context {
    metrics: Option<Arc<Metrics>>,
}

impl Context {
    /// Errors are counted in `metrics`, where there are any.
    pub(super) fn new(metrics: Option<Arc<Metrics>>) -> Self {
        Self { metrics }
    }

    /// Counts and logs an error that concerns the whole client.
    pub(super) fn report(&self, error: &KafkaError, reason: &str) {
        // Readers ask to be told of a log's end; it comes by this way, too.
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::PartitionEOF) {
            return;
        }
        let code = error.rdkafka_error_code().map_or_else(|| "Client".to_owned(), |code| format!("{code:?}"));
        if let Some(metrics) = &self.metrics {
            metrics.kafka_errors.with_label_values(&[code.as_str()]).inc();
        }
        tracing::warn!(code, reason, "kafka client error");
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.report(&error, reason);
    }

    fn stats_raw(&self, _: &[u8]) {}
}

/// librdkafka's own log lines. It repeats as "errors" what its callbacks already report, so nothing here is
/// above a warning: an `error` line means that a person must act.
pub(super) fn log(level: RDKafkaLogLevel, facility: &str, message: &str) {
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error
        | RDKafkaLogLevel::Warning => tracing::warn!(target: "librdkafka", facility, "{message}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            tracing::info!(target: "librdkafka", facility, "{message}");
        }
        RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", facility, "{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_code_and_a_logs_end_is_none() {
        let metrics = Arc::new(Metrics::new().unwrap());
        let context = Context::new(Some(Arc::clone(&metrics)));
        context.error(KafkaError::Global(RDKafkaErrorCode::PartitionEOF), "the end");
        context.error(KafkaError::Global(RDKafkaErrorCode::AllBrokersDown), "all down");
        let text = String::from_utf8(metrics.render().unwrap()).unwrap();
        let counted: Vec<&str> =
            text.lines().filter(|line| line.starts_with("control_bus_kafka_errors_total{")).collect();
        assert_eq!(counted, ["control_bus_kafka_errors_total{code=\"AllBrokersDown\"} 1"]);
    }
}

//! Records on their way from the poll loop to their bucket's task.
//!
//! Bounded by the bucket's window: what is read and not finished, here or in the scheduler, is counted, and
//! the poll loop pauses the partition when that is full. One record always fits.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicI64, Ordering},
};

use tokio::sync::Notify;

use super::WindowConfig;
use crate::{model::Record, telemetry::BucketMetrics};

/// One bucket's mailbox.
pub(super) struct Mailbox {
    window: WindowConfig,
    inner: Mutex<Inner>,
    arrived: Notify,
    /// The log's end as last reported; -1 when not known.
    end: AtomicI64,
    /// Up to where everything is durably finished; -1 when not known.
    durable: AtomicI64,
    metrics: BucketMetrics,
}

#[derive(Default)]
struct Inner {
    records: Vec<Record>,
    bytes: usize,
    /// Records and bytes that the bucket's task holds.
    held: (usize, usize),
}

impl Mailbox {
    pub(super) fn new(window: WindowConfig, metrics: BucketMetrics) -> Self {
        Self {
            window,
            inner: Mutex::default(),
            arrived: Notify::new(),
            end: AtomicI64::new(-1),
            durable: AtomicI64::new(-1),
            metrics,
        }
    }

    /// Adds a record, and says whether the window is full now.
    pub(super) fn push(&self, record: Record) -> bool {
        let mut inner = self.lock();
        inner.bytes += record.size();
        inner.records.push(record);
        let full = self.fill(&inner) >= 1.0;
        drop(inner);
        self.arrived.notify_one();
        full
    }

    /// Takes all records. The caller reports what it holds of them by [`Mailbox::hold`].
    pub(super) fn take(&self) -> Vec<Record> {
        let mut inner = self.lock();
        let records = std::mem::take(&mut inner.records);
        // Until the caller reports, they count as held.
        inner.held.0 += records.len();
        inner.held.1 += std::mem::take(&mut inner.bytes);
        records
    }

    /// How many records, and bytes of them, the bucket's task holds now.
    pub(super) fn hold(&self, held: (usize, usize)) {
        let mut inner = self.lock();
        inner.held = held;
        let (records, bytes) = (inner.records.len() + held.0, inner.bytes + held.1);
        drop(inner);
        self.metrics.window_records.set(i64::try_from(records).unwrap_or(i64::MAX));
        self.metrics.window_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Whether enough of the window is free to read on: half of it, so that reading does not stutter.
    pub(super) fn has_room(&self) -> bool {
        self.fill(&self.lock()) <= 0.5
    }

    /// Waits until there are records. Cancel safe.
    pub(super) async fn arrived(&self) {
        loop {
            let notified = self.arrived.notified();
            if !self.lock().records.is_empty() {
                return;
            }
            notified.await;
        }
    }

    /// Forgets everything; the records come again.
    pub(super) fn clear(&self) {
        *self.lock() = Inner::default();
        self.durable.store(-1, Ordering::Relaxed);
    }

    /// Shows whether the bucket is assigned to this process.
    pub(super) fn show_owned(&self, owned: bool) {
        self.metrics.owned.set(i64::from(owned));
    }

    /// Shows whether reading waits for the window.
    pub(super) fn show_full(&self, full: bool) {
        self.metrics.window_full.set(i64::from(full));
    }

    /// Notes where the log ends.
    pub(super) fn set_end(&self, end: i64) {
        self.end.fetch_max(end, Ordering::Relaxed);
        self.show_lag();
    }

    /// Notes up to where everything is durably finished.
    pub(super) fn set_durable(&self, durable: i64) {
        self.durable.store(durable, Ordering::Relaxed);
        self.show_lag();
    }

    fn show_lag(&self) {
        let (end, durable) = (self.end.load(Ordering::Relaxed), self.durable.load(Ordering::Relaxed));
        if end >= 0 && durable >= 0 {
            self.metrics.lag_records.set((end - durable).max(0));
        }
    }

    /// How much of the window is used, 1 being all of it.
    fn fill(&self, inner: &Inner) -> f64 {
        let share = |used: usize, of: usize| {
            let (used, of) = (u32::try_from(used).unwrap_or(u32::MAX), u32::try_from(of).unwrap_or(u32::MAX));
            f64::from(used) / f64::from(of.max(1))
        };
        let records = share(inner.records.len() + inner.held.0, self.window.max_records);
        records.max(share(inner.bytes + inner.held.1, self.window.max_bytes))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{Bucket, RecordOffset},
        telemetry::Metrics,
    };

    fn record(offset: i64, size: usize) -> Record {
        let bucket = Bucket::from_partition(0).unwrap();
        Record::builder(bucket, RecordOffset::new(offset).unwrap(), None, 0)
            .payload(Some(&vec![0; size]))
            .finish()
    }

    fn mailbox(max_records: usize, max_bytes: usize) -> Mailbox {
        let metrics = Metrics::new().unwrap().bucket(Bucket::from_partition(0).unwrap());
        Mailbox::new(WindowConfig { max_records, max_bytes }, metrics)
    }

    #[test]
    fn the_window_counts_what_is_queued_and_what_is_held() {
        let mailbox = mailbox(4, 1 << 20);
        assert!(!mailbox.push(record(0, 1)));
        assert_eq!(mailbox.take().len(), 1);
        mailbox.hold((2, 100));
        assert!(!mailbox.push(record(1, 1)));
        assert!(mailbox.push(record(2, 1)));
        assert!(!mailbox.has_room());
        mailbox.hold((0, 0));
        assert!(mailbox.has_room());
    }

    #[test]
    fn one_record_fits_however_large_and_fills_the_window() {
        let mailbox = mailbox(100, 1000);
        assert!(mailbox.push(record(0, 5000)));
        mailbox.take();
        assert!(!mailbox.has_room());
        mailbox.hold((0, 0));
        assert!(mailbox.has_room());
    }
}

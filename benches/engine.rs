//! What the deterministic parts cost: routing, judging a record, tracking, commit metadata, scheduling.

#![allow(clippy::unwrap_used, clippy::missing_docs_in_private_items, missing_docs, reason = "a benchmark")]

use std::{collections::BTreeSet, hint::black_box, sync::Arc, time::Duration};

use control_bus::{
    engine::{Backoff, CommitMetadata, Incoming, Limits, Marks, Order, Outcome, Resume, Scheduler, Tracker},
    model::{
        Bucket, Buckets, Decoded, Epoch, Kind, Message, NextOffset, Outgoing, PodName, Record, RecordOffset,
        TransactionSequence,
    },
};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn at(offset: usize) -> RecordOffset {
    RecordOffset::new(i64::try_from(offset).unwrap()).unwrap()
}

fn hash(c: &mut Criterion) {
    let mut group = c.benchmark_group("bucket_of");
    for size in [8, 32, 128, 507] {
        let resource = "n".repeat(size);
        group.throughput(Throughput::Bytes(u64::try_from(size).unwrap()));
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            let buckets = Buckets::new(64).unwrap();
            b.iter(|| buckets.of_bytes(black_box(resource.as_bytes())));
        });
    }
}

fn outgoing(size: usize) -> Outgoing {
    let message = Message::new("default/trigger1".parse().unwrap(), Kind::Event, "t", vec![b'x'; size])
        .and_then(|message| message.with_id("01a231f2-e59a-70f3-aef0-16e499bb3ad9"))
        .unwrap();
    let pod = PodName::new("dispatcher1").unwrap();
    message.encode(&pod, Buckets::new(1).unwrap(), "2026-01-01T00:00:00Z")
}

fn record(outgoing: &Outgoing) -> Record {
    let mut builder = Record::builder(Bucket::from_partition(0).unwrap(), at(0), Some(0), 512)
        .key(outgoing.key.as_deref())
        .payload(outgoing.payload.as_deref());
    for (name, value) in &outgoing.headers {
        builder.header(name, value.as_deref());
    }
    builder.finish()
}

fn envelope(c: &mut Criterion) {
    let mut group = c.benchmark_group("envelope");
    for size in [0, 256, 4096] {
        group.bench_function(BenchmarkId::new("encode", size), |b| b.iter(|| outgoing(black_box(size))));
        let outgoing = outgoing(size);
        group.bench_function(BenchmarkId::new("copy_and_judge", size), |b| {
            b.iter(|| Decoded::judge(record(black_box(&outgoing)), Buckets::new(1).unwrap()));
        });
    }
}

/// A tracker whose first record is stuck and of whose others every second one is finished.
fn tracker(records: usize) -> Tracker {
    let mut tracker = Tracker::resume(NextOffset::ZERO, Marks::default());
    for offset in 0..records {
        tracker.receive(at(offset));
        tracker.start(at(offset));
        if offset % 2 == 1 {
            tracker.finish(at(offset));
        }
    }
    tracker
}

fn metadata(c: &mut Criterion) {
    let mut group = c.benchmark_group("commit_metadata");
    for records in [10, 100, 1000, 10_000] {
        let (offset, marks) = tracker(records).commit(&BTreeSet::new());
        let metadata = CommitMetadata { epoch: Epoch::new(7), sequence: TransactionSequence::new(9), marks };
        let text = metadata.encode(offset);
        group.bench_function(BenchmarkId::new("encode", records), |b| b.iter(|| metadata.encode(offset)));
        group.bench_function(BenchmarkId::new("decode", records), |b| {
            b.iter(|| CommitMetadata::decode(black_box(&text), offset));
        });
    }
}

fn tracking(c: &mut Criterion) {
    let mut group = c.benchmark_group("tracker");
    for records in [100, 10_000] {
        group.throughput(Throughput::Elements(u64::try_from(records).unwrap()));
        group.bench_function(BenchmarkId::from_parameter(records), |b| b.iter(|| tracker(records)));
    }
}

fn scheduler() -> Scheduler<()> {
    let wait = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(1) };
    let limits = Limits { concurrency: 64, attempts: 10, retry: wait, unavailable: wait };
    let resume = Resume {
        epoch: Epoch::new(1),
        offset: NextOffset::ZERO,
        marks: Marks::default(),
        cautious_until: NextOffset::ZERO,
        lost: None,
        unreadable: false,
    };
    Scheduler::resume(limits, &resume, 1)
}

fn scheduling(c: &mut Criterion) {
    let mut group = c.benchmark_group("scheduler");
    let records: usize = 10_000;
    group.throughput(Throughput::Elements(u64::try_from(records).unwrap()));
    for resources in [1, 100, 10_000] {
        let names: Vec<Arc<str>> = (0..resources).map(|n| Arc::from(format!("default/r{n}"))).collect();
        group.bench_function(BenchmarkId::new("receive_start_finish", resources), |b| {
            b.iter_batched(
                scheduler,
                |mut scheduler| {
                    for (offset, resource) in (0..records).zip(names.iter().cycle()) {
                        let order = Order::Handle { resource: Arc::clone(resource), state: None };
                        scheduler.receive(Incoming { offset: at(offset), bytes: 512, order, item: () });
                        while let Some(start) = scheduler.next(Duration::ZERO) {
                            scheduler.conclude(Duration::ZERO, start.offset, Outcome::Handled);
                        }
                    }
                    scheduler
                },
                BatchSize::LargeInput,
            );
        });
    }
}

criterion_group!(benches, hash, envelope, metadata, tracking, scheduling);
criterion_main!(benches);

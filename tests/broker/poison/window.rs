//! What a poison record holds up: its resource, and when the window is full of its followers, the bucket.

use std::{
    sync::Arc,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use control_bus::owner::{Delivery, Handler, Outcome, WindowConfig};

use crate::owners::{Fixture, PATIENCE, Recorder, until};

/// Fails for one resource, until it is healed; otherwise it records.
struct Sick {
    resource: String,
    healed: AtomicBool,
    recorder: Arc<Recorder>,
}

impl Handler for Sick {
    async fn handle(&self, delivery: Delivery) -> Outcome {
        let sick = delivery.notification.resource() == self.resource && !self.healed.load(Ordering::SeqCst);
        if sick { Outcome::Retry("sick".to_owned()) } else { self.recorder.handle(delivery).await }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poison_record_blocks_its_resource_until_the_window_is_full_of_its_followers() {
    const WINDOW: usize = 20;
    let fixture = Fixture::new("poison-window", 1).await;
    let bucket = fixture.bucket(0);
    let (poison, other) = (fixture.resource(bucket, 0), fixture.resource(bucket, 1));
    let recorder = Recorder::new(Duration::ZERO);
    let handler = Arc::new(Sick {
        resource: poison.to_string(),
        healed: AtomicBool::new(false),
        recorder: Arc::clone(&recorder),
    });
    let mut config = fixture.config("owner");
    config.window = WindowConfig { max_records: WINDOW, max_bytes: 1 << 24 };
    config.retry.attempts = 1000;
    let owner = fixture.start_with(config, &handler);
    let counts = owner.metrics.bucket(bucket);
    let mut expected = Vec::new();

    fixture.publish(&poison, "poison").await;
    for number in 0..3 * WINDOW {
        expected.push(fixture.publish(&other, &format!("other{number}")).await.get());
    }
    until("others are handled, many windows of them", PATIENCE, || recorder.ended(bucket) == expected).await;
    assert_eq!(counts.window_full.get(), 0);
    assert!(counts.retried.get() > 1);

    let mut followers = Vec::new();
    for number in 1..WINDOW {
        followers.push(fixture.publish(&poison, &format!("follower{number}")).await.get());
    }
    until("the window is full", PATIENCE, || counts.window_full.get() == 1).await;
    assert_eq!(counts.window_records.get(), i64::try_from(WINDOW).unwrap());
    let late = fixture.publish(&other, "late").await.get();
    let tried = counts.retried.get();
    until("the poison is tried on", PATIENCE, || counts.retried.get() > tried + 5).await;
    assert_eq!(recorder.ended(bucket), expected, "the bucket waits");
    assert_eq!(counts.window_full.get(), 1);

    handler.healed.store(true, Ordering::SeqCst);
    let all = expected.len() + 1 + followers.len() + 1;
    until("all is handled", PATIENCE, || recorder.ended(bucket).len() == all).await;
    until("the window is empty", PATIENCE, || counts.window_full.get() == 0).await;
    let ended = recorder.ended(bucket);
    let of_poison: Vec<i64> =
        ended.iter().copied().filter(|offset| !expected.contains(offset) && *offset != late).collect();
    assert_eq!(of_poison, [&[0], &followers[..]].concat(), "in order");
    owner.stop().await;
}

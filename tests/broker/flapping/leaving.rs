//! Buckets that are given up while something else happens.

use std::time::Duration;

use crate::owners::{Fixture, PATIENCE, Recorder, Running, What, until};

/// How often the group took something away from a controller, or asked it to give it up.
fn rebalances(owner: &Running, kind: &str) -> u64 {
    owner.metrics.rebalances.with_label_values(&[kind]).get()
}

/// It has buckets to give up, and is told to end before it could.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_ends_in_the_middle_of_a_revocation_leaves_at_once() {
    let fixture = Fixture::new("leaving-revocation", 2).await;
    let handler = Recorder::new(Duration::from_secs(2));
    let first = fixture.start("first", &handler);
    for number in 0..2 {
        let bucket = fixture.bucket(number);
        first.until_ready(bucket).await;
        fixture.publish(&fixture.resource(bucket, 0), "slow").await;
    }
    until("both handlers run", PATIENCE, || handler.told().len() == 4).await;
    let second = fixture.start("second", &Recorder::new(Duration::ZERO));
    until("a bucket is asked back", PATIENCE, || rebalances(&first, "revoked") > 0).await;
    first.stop().await;
    let handled = handler.told().into_iter().filter(|told| matches!(told.what, What::Ended(_)));
    let last = handled.map(|told| told.at).max().unwrap();
    let took = last.elapsed();
    second.until_ready(fixture.bucket(0)).await;
    second.until_ready(fixture.bucket(1)).await;
    let ready = last.elapsed();
    println!("it ended {took:?} after its last handler, both buckets are the other's after {ready:?}");
    assert!(took < Duration::from_millis(1500), "it waited for its handlers, and for nothing else: {took:?}");
    assert!(ready < Duration::from_secs(4), "{ready:?}");
    assert_eq!(handler.ended(fixture.bucket(0)).len() + handler.ended(fixture.bucket(1)).len(), 2);
    second.stop().await;
}

/// The metric that says who owns a bucket says so whatever came before.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_comes_back_at_once_is_shown_as_owned() {
    let fixture = Fixture::new("leaving-back", 2).await;
    let handler = Recorder::slow_to_release(Duration::ZERO, Duration::from_millis(4500));
    let first = fixture.start("first", &handler);
    for number in 0..2 {
        first.until_ready(fixture.bucket(number)).await;
    }
    let second = fixture.start("second", &Recorder::new(Duration::ZERO));
    until("a bucket is asked back", PATIENCE, || rebalances(&first, "revoked") > 0).await;
    until("the other owns it", PATIENCE, || (0..2).any(|number| second.owns(fixture.bucket(number)))).await;
    let shown: i64 = (0..2).map(|number| first.metrics.bucket(fixture.bucket(number)).ready.get()).sum();
    assert_eq!(shown, 1, "the one that was given up is not ready");
    let before = rebalances(&first, "assigned");
    second.stop().await;
    until("it comes back", PATIENCE, || rebalances(&first, "assigned") > before).await;
    let released = || handler.told().iter().any(|told| matches!(told.what, What::Released(_)));
    assert!(!released(), "it came back before the end of the tenure before was told");
    until("it is taken over", PATIENCE, || {
        let acquired = handler.told().into_iter().filter(|told| told.what == What::Acquired);
        acquired.count() == 3
    })
    .await;
    for number in 0..2 {
        let bucket = fixture.bucket(number);
        assert!(first.is_ready(bucket) && first.owns(bucket), "bucket {bucket}");
    }
    first.stop().await;
}

/// Ending the task that runs it is a crash; what its threads hold is given up all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_whose_task_is_dropped_holds_nothing_back() {
    let fixture = Fixture::new("leaving-dropped", 1).await;
    let (bucket, handler) = (fixture.bucket(0), Recorder::new(Duration::ZERO));
    let first = fixture.start("first", &handler);
    first.until_ready(bucket).await;
    first.abort().await;
    let second = fixture.start("second", &handler);
    second.until_ready(bucket).await;
    let at = fixture.publish(&fixture.resource(bucket, 0), "1").await;
    until("it is handled", PATIENCE, || handler.ended(bucket) == [at.get()]).await;
    second.stop().await;
}

use super::*;
use crate::{
    model::{Buckets, Bus, PodName},
    owner::{RetryConfig, WindowConfig},
};

fn shared(metrics: &Metrics) -> Shared {
    let config = Config {
        bus: Bus::new("bus").unwrap(),
        buckets: Buckets::new(3).unwrap(),
        name: PodName::new("owner").unwrap(),
        session_timeout: Duration::from_secs(10),
        heartbeat: Duration::from_secs(1),
        max_poll_interval: Duration::from_secs(60),
        handler_timeout: Duration::from_secs(10),
        handler_concurrency: 1,
        retry: RetryConfig { attempts: 1, initial: Duration::ZERO, max: Duration::ZERO },
        window: WindowConfig { max_records: 1, max_bytes: 1 },
        commit_interval: Duration::ZERO,
        drain: Duration::ZERO,
        dead_letter_limit: 1 << 20,
    };
    Shared::new(&config, metrics)
}

fn buckets(numbers: &[i32]) -> Vec<Bucket> {
    numbers.iter().map(|number| Bucket::from_partition(*number).unwrap()).collect()
}

fn owned(metrics: &Metrics) -> Vec<i64> {
    buckets(&[0, 1, 2]).into_iter().map(|bucket| metrics.bucket(bucket).owned.get()).collect()
}

#[test]
fn a_tenure_that_ended_long_before_its_bucket_is_asked_back_holds_nothing_up() {
    let shared = shared(&Metrics::new().unwrap());
    let (all, group) = (buckets(&[0, 1]), GroupMetadata::of_nobody());
    shared.snapshot().assigned(&all, group.clone());
    let tokens: Vec<Token> = all.iter().map(|bucket| shared.snapshot().token(*bucket).unwrap()).collect();
    shared.give_up(tokens[1]); // it is shutting down; the other one drains yet
    shared.snapshot().revoking(&all[..1], group.clone());
    assert!(!shared.all_given_up());
    shared.give_up(tokens[0]);
    assert!(shared.all_given_up());
    shared.unassigned();
    shared.snapshot().revoking(&all[1..], group);
    assert!(shared.all_given_up());
}

#[test]
fn a_bucket_that_goes_before_anybody_looked_is_not_shown_as_owned() {
    let metrics = Arc::new(Metrics::new().unwrap());
    let shared = Arc::new(shared(&metrics));
    let (callbacks, group) = (Callbacks::new(&shared, &metrics), GroupMetadata::of_nobody());
    callbacks.assigned(&buckets(&[0, 2]), group.clone());
    assert_eq!(owned(&metrics), [1, 0, 1]);
    callbacks.lost(&buckets(&[0, 2]));
    assert_eq!(owned(&metrics), [0, 0, 0]);
    callbacks.assigned(&buckets(&[0, 1]), group.clone());
    callbacks.revoking(&buckets(&[1]), group);
    assert_eq!(owned(&metrics), [1, 1, 0]);
    shared.unassigned();
    assert_eq!(owned(&metrics), [1, 0, 0]);
    callbacks.left(&buckets(&[0]));
    assert_eq!(owned(&metrics), [0, 0, 0]);
}

//! Handlers end with their tenure, and nothing of it reaches into a later one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use control_bus::model::{Bucket, Epoch};

use crate::{
    fleet::{Random, long},
    owners::{Fixture, PATIENCE, Recorder, Running, Told, What, until},
};

const BUCKETS: u16 = 3;

/// A controller and what its handler was told.
struct Member {
    running: Option<Running>,
    handler: Arc<Recorder>,
}

/// Handlers take longer than they are given when a bucket is given up, so that many are cancelled.
fn member(fixture: &Fixture, name: &str, handler: &Arc<Recorder>) -> Running {
    let mut config = fixture.config(name);
    config.drain = Duration::from_millis(150);
    fixture.start_with(config, handler)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_handler_of_an_earlier_tenure_finishes_into_a_later_one() {
    let mut random = Random::new("tenures");
    let fixture = Fixture::new("flapping-tenures", BUCKETS.into()).await;
    let mut members: Vec<Member> = (0..3)
        .map(|_| Member { running: None, handler: Recorder::new(Duration::from_millis(250)) })
        .collect();
    let mut published: BTreeMap<Bucket, BTreeSet<i64>> = BTreeMap::new();
    for round in 0..if long() { 60 } else { 12 } {
        for bucket in (0..BUCKETS).map(|number| fixture.bucket(number)) {
            for resource in 0..4 {
                let resource = fixture.resource(bucket, resource);
                let at = fixture.publish(&resource, &format!("{round}-{resource}")).await;
                published.entry(bucket).or_default().insert(at.get());
            }
        }
        let which = random.below(members.len());
        let handler = Arc::clone(&members[which].handler);
        match members[which].running.take() {
            Some(running) if random.below(4) == 0 => running.abort().await,
            Some(running) => drop(running.stop().await),
            None => members[which].running = Some(member(&fixture, &format!("member{which}"), &handler)),
        }
        tokio::time::sleep(random.time(Duration::from_millis(1500))).await; // the schedule
    }
    let handler = Recorder::new(Duration::ZERO);
    let last = member(&fixture, "last", &handler);
    let handlers = || members.iter().map(|member| &member.handler).chain([&handler]);
    until("everything is handled", PATIENCE, || {
        published.iter().all(|(bucket, offsets)| {
            let ended = handlers().flat_map(|handler| handler.ended(*bucket));
            ended.collect::<BTreeSet<_>>() == *offsets
        })
    })
    .await;
    let all: Vec<Vec<Told>> = handlers().map(|handler| handler.told()).collect();
    for told in &all {
        judge_member(told);
    }
    judge_together(all.concat());
    for running in members.into_iter().filter_map(|member| member.running).chain([last]) {
        running.stop().await;
    }
}

/// In one process: a tenure begins when the one before it has been told to be over, and its handlers are gone by then.
fn judge_member(told: &[Told]) {
    let mut tenures: BTreeMap<Bucket, (Epoch, bool)> = BTreeMap::new();
    let mut running: BTreeMap<(Bucket, Epoch), usize> = BTreeMap::new();
    for told in told {
        let of = (told.bucket, told.epoch);
        let (epoch, over) = tenures.entry(told.bucket).or_insert((Epoch::NONE, true));
        match told.what {
            What::Acquired => {
                assert!(told.epoch > *epoch, "{told:?} after epoch {epoch}");
                // One whose task was dropped was told nothing; its handlers are gone all the same.
                let left =
                    running.range((told.bucket, Epoch::NONE)..of).map(|(_, count)| *count).sum::<usize>();
                assert_eq!(left, 0, "handlers of earlier tenures run yet: {told:?}");
                (*epoch, *over) = (told.epoch, false);
            }
            What::Released(_) => {
                assert_eq!((*epoch, running.get(&of).copied().unwrap_or(0)), (told.epoch, 0), "{told:?}");
                *over = true;
            }
            What::Begun(_) | What::Ended(_) | What::Gone(_) => {
                assert_eq!((*epoch, *over), (told.epoch, false), "outside of its tenure: {told:?}");
                let count = running.entry(of).or_default();
                match told.what {
                    What::Begun(_) => *count += 1,
                    What::Gone(_) => *count -= 1,
                    _ => {}
                }
            }
        }
    }
}

/// Over all processes: who finishes something has no successor yet.
fn judge_together(mut told: Vec<Told>) {
    told.sort_by_key(|told| told.at);
    let mut newest: BTreeMap<Bucket, (Epoch, Instant)> = BTreeMap::new();
    let mut tenures = 0;
    for told in told {
        let (epoch, since) = newest.entry(told.bucket).or_insert((told.epoch, told.at));
        match told.what {
            What::Acquired => {
                tenures += 1;
                (*epoch, *since) = (told.epoch.max(*epoch), told.at);
            }
            What::Ended(_) => assert!(
                told.epoch >= *epoch,
                "{told:?} although epoch {epoch} had begun {:?} before",
                told.at - *since
            ),
            _ => {}
        }
    }
    println!("{tenures} tenures");
    assert!(tenures > usize::from(BUCKETS));
}

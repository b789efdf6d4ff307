//! What the dispatchers have to say: the load of the show.
//!
//! trigger1 has eleven consumers, on three dispatchers; trigger2 has one, on dispatcher2. Each consumer tells events,
//! and now and then its state; each dispatcher now and then tells something to all buckets.

use std::time::Duration;

use serde::Serialize;
use tokio::{
    io::AsyncWriteExt as _,
    process::ChildStdin,
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::process::Happening;

/// The resource with eleven consumers, in bucket 0 of 2.
pub(super) const TRIGGER1: &str = "default/trigger1";

/// The resource with one consumer, in bucket 1 of 2.
pub(super) const TRIGGER2: &str = "default/trigger2";

/// How many buckets there are: one for each trigger.
pub(super) const BUCKETS: u64 = 2;

/// The dispatchers: a name, and which consumers of trigger1 and trigger2 it has.
pub(super) const DISPATCHERS: [(&str, &[u32], &[u32]); 3] = [
    ("dispatcher1", &[1, 2, 3, 4, 5], &[]),
    ("dispatcher2", &[6], &[1]),
    ("dispatcher3", &[7, 8, 9, 10, 11], &[]),
];

/// All consumers there are: each gets the same share of the rate.
const CONSUMERS: u32 = 12;

/// How often what is due is sent.
const TICK: Duration = Duration::from_millis(20);

/// The most that is sent at one tick, when some were missed.
const BURST: u64 = 200;

/// Every so many rounds, a consumer tells its state instead of an event.
const STATE_EVERY: u64 = 8;

/// Every so many messages, one goes to all buckets.
const BROADCAST_EVERY: u64 = 100;

/// A message that is being sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) dispatcher: &'static str,
    pub(super) id: String,
    /// How many records it becomes: one, or one for each bucket.
    pub(super) records: u64,
    /// For a state, what it is the state of.
    pub(super) state: Option<String>,
}

#[derive(Serialize)]
struct Message<'a> {
    id: &'a str,
    resource: &'a str,
    r#type: &'a str,
    kind: &'a str,
    source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a str>,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    dispatcher: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer: Option<u32>,
    position: u64,
}

/// One dispatcher's messages, one after another.
#[derive(Debug)]
pub(super) struct Load {
    dispatcher: &'static str,
    consumers: Vec<(&'static str, u32)>,
    count: u64,
}

impl Load {
    pub(super) fn new(dispatcher: &'static str, of_trigger1: &[u32], of_trigger2: &[u32]) -> Self {
        let consumers = of_trigger1.iter().map(|consumer| (TRIGGER1, *consumer));
        let consumers = consumers.chain(of_trigger2.iter().map(|consumer| (TRIGGER2, *consumer))).collect();
        Self { dispatcher, consumers, count: 0 }
    }

    /// This dispatcher's share of `rate` messages a second.
    fn share(&self, rate: u32) -> f64 {
        let consumers = u32::try_from(self.consumers.len()).unwrap_or(0);
        f64::from(rate) * f64::from(consumers) / f64::from(CONSUMERS)
    }

    /// The next message, and its line.
    fn next(&mut self) -> Result<(Sent, String), serde_json::Error> {
        self.count += 1;
        let (dispatcher, number) = (self.dispatcher, self.count);
        let id = format!("{dispatcher}-{number}");
        if number.is_multiple_of(BROADCAST_EVERY) {
            let line = serde_json::to_string(&Message {
                id: &id,
                resource: &format!("default/{dispatcher}"),
                r#type: "demo.dispatcher.alive",
                kind: "event",
                source: dispatcher,
                to: Some("all-buckets"),
                data: Data { dispatcher, consumer: None, position: number },
            })?;
            return Ok((Sent { dispatcher, id, records: BUCKETS, state: None }, line));
        }
        let consumers = u64::try_from(self.consumers.len()).unwrap_or(1).max(1);
        let place = usize::try_from(number % consumers).unwrap_or(0);
        let (resource, consumer) = self.consumers.get(place).copied().unwrap_or((TRIGGER1, 0));
        let is_state = (number / consumers).is_multiple_of(STATE_EVERY);
        let source = format!("{dispatcher}/{resource}/consumer-{consumer}");
        let line = serde_json::to_string(&Message {
            id: &id,
            resource,
            r#type: if is_state { "demo.consumer.status" } else { "demo.consumer.progress" },
            kind: if is_state { "state" } else { "event" },
            source: &source,
            to: None,
            data: Data { dispatcher, consumer: Some(consumer), position: number },
        })?;
        Ok((Sent { dispatcher, id, records: 1, state: is_state.then_some(source) }, line))
    }

    /// Feeds a dispatcher until `stop`, then closes its input. Each message is told before it is sent.
    pub(super) async fn feed(
        mut self,
        mut input: ChildStdin,
        rate: u32,
        happenings: mpsc::Sender<Happening>,
        stop: CancellationToken,
    ) {
        let share = self.share(rate);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last, mut due) = (Instant::now(), 0.0);
        loop {
            let now = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                now = ticks.tick() => now,
            };
            due += (now - last).as_secs_f64() * share;
            last = now;
            let mut lines = String::new();
            for _ in 0..BURST {
                if due < 1.0 {
                    break;
                }
                due -= 1.0;
                let Ok((sent, line)) = self.next() else { return };
                lines.push_str(&line);
                lines.push('\n');
                if happenings.send(Happening::Sent(sent)).await.is_err() {
                    return;
                }
            }
            due = due.min(1.0);
            // A dispatcher that is gone is noticed by its end.
            if input.write_all(lines.as_bytes()).await.is_err() || input.flush().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::{Buckets, ResourceKey};

    fn loads() -> Vec<Load> {
        DISPATCHERS.iter().map(|(name, one, two)| Load::new(name, one, two)).collect()
    }

    #[test]
    fn the_two_triggers_are_in_the_two_buckets() {
        let bucket = |name: &str| Buckets::new(2).unwrap().of(&name.parse::<ResourceKey>().unwrap()).get();
        assert_eq!((bucket(TRIGGER1), bucket(TRIGGER2)), (0, 1));
    }

    #[test]
    fn eleven_consumers_of_trigger1_and_one_of_trigger2_share_the_rate() {
        let loads = loads();
        let consumers: Vec<_> = loads.iter().flat_map(|load| load.consumers.iter().copied()).collect();
        let of = |name| consumers.iter().filter(|(resource, _)| *resource == name).count();
        assert_eq!((of(TRIGGER1), of(TRIGGER2)), (11, 1));
        assert_eq!(consumers.iter().collect::<BTreeSet<_>>().len(), usize::try_from(CONSUMERS).unwrap());
        let shares: Vec<f64> = loads.iter().map(|load| load.share(120)).collect();
        assert_eq!(shares, [50.0, 20.0, 50.0]);
    }

    #[test]
    fn a_load_has_events_states_and_broadcasts_each_with_an_id_of_its_own() {
        for mut load in loads() {
            let (mut ids, mut kinds) = (BTreeSet::new(), BTreeSet::new());
            for _ in 0..300 {
                let (sent, line) = load.next().unwrap();
                let line: serde_json::Value = serde_json::from_str(&line).unwrap();
                assert_eq!(line["id"].as_str(), Some(sent.id.as_str()));
                assert_eq!(line["kind"] == "state", sent.state.is_some());
                kinds.insert((line["kind"].to_string(), line["to"].to_string()));
                assert!(ids.insert(sent.id));
            }
            assert_eq!(kinds.len(), 3, "{kinds:?}");
        }
    }
}

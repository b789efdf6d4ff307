//! The thread that reads: from where it was told, to the end or for ever.

use std::{
    collections::BTreeMap,
    io::Write as _,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use super::Start;
use crate::{
    cli::{Error, Target, output::harmless},
    kafka::{Followed, Follower, Isolation, LogReader},
    model::{Bucket, NextOffset, Record, chain},
};

/// How long one look for records takes: so late is it noticed that nobody listens any more.
const LOOK: Duration = Duration::from_millis(100);

/// How often the same trouble is told at most.
const COMPLAIN: Duration = Duration::from_secs(10);

/// A bucket with where to begin in it, and where its log ends.
type Span = (Bucket, NextOffset, NextOffset);

/// What the thread found.
pub(super) enum Event {
    /// A record.
    Record(Record),
    /// Something that passes by itself.
    Trouble(String),
}

/// What to read.
pub(super) struct Following {
    pub(super) target: Target,
    pub(super) topic: String,
    pub(super) buckets: Vec<Bucket>,
    pub(super) start: Start,
    /// Whether to stop at the logs' ends as they are at the beginning.
    pub(super) to_end: bool,
}

impl Following {
    /// Reads until nobody listens, or the end is reached if there is one. Blocks.
    pub(super) fn run(self, events: &mpsc::Sender<Event>) -> Result<(), Error> {
        let Self { target, topic, to_end, .. } = &self;
        let spans = self.spans()?;
        let starts: Vec<_> = spans.iter().map(|(bucket, from, _)| (*bucket, *from)).collect();
        let mut ends: BTreeMap<Bucket, NextOffset> = spans
            .into_iter()
            .filter(|(_, from, end)| *to_end && from < end)
            .map(|(bucket, _, end)| (bucket, end))
            .collect();
        if *to_end && ends.is_empty() {
            return Ok(());
        }
        let follower = Follower::new(&target.kafka, topic, &starts)?;
        let mut told: Option<Instant> = None;
        while !events.is_closed() {
            match follower.poll(LOOK) {
                Followed::Record(record) => {
                    let (bucket, next) = (record.bucket(), record.offset().next());
                    let end = ends.get(&bucket).copied();
                    if (!to_end || end.is_some_and(|end| end.is_past(record.offset())))
                        && events.blocking_send(Event::Record(record)).is_err()
                    {
                        return Ok(());
                    }
                    if end.is_some_and(|end| next >= end) {
                        ends.remove(&bucket);
                    }
                }
                Followed::End(bucket) => drop(ends.remove(&bucket)),
                Followed::Nothing => continue,
                Followed::Trouble(error) => {
                    if told.is_none_or(|told| told.elapsed() >= COMPLAIN) {
                        told = Some(Instant::now());
                        if events.blocking_send(Event::Trouble(chain(&error))).is_err() {
                            return Ok(());
                        }
                    }
                }
                Followed::Failed(error) => return Err(error.into()),
            }
            if *to_end && ends.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Where to begin in each bucket, and where its log ends now.
    fn spans(&self) -> Result<Vec<Span>, Error> {
        let reader = LogReader::new(&self.target.kafka, Isolation::ReadCommitted, None)?;
        let timeout = self.target.timeout;
        let span = |bucket| {
            let (start, end) = reader.bounds(&self.topic, bucket, timeout)?;
            let at = |time| -> Result<NextOffset, Error> {
                Ok(reader.position_at(&self.topic, bucket, time, timeout)?.unwrap_or(end))
            };
            let from = match self.start {
                Start::Beginning => start,
                Start::End => end,
                Start::Offset(offset) => {
                    NextOffset::new(offset).unwrap_or(start).clamp(start, end.max(start))
                }
                Start::Time(time) => at(time)?,
                Start::Ago(ago) => at(before(jiff::Timestamp::now(), ago))?,
            };
            Ok((bucket, from, end))
        };
        self.buckets.iter().copied().map(span).collect()
    }
}

/// So long before `now`, in milliseconds since the Unix epoch, but not before it began.
fn before(now: jiff::Timestamp, ago: Duration) -> i64 {
    let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
    now.as_millisecond().saturating_sub(ago).max(0)
}

/// Tells of trouble on standard error.
pub(super) fn complain(what: &str) {
    // When standard error is closed, nobody wants to know.
    drop(writeln!(std::io::stderr(), "control-bus: {}; still trying", harmless(what)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_before_the_first() {
        let now = jiff::Timestamp::from_millisecond(5000).unwrap();
        assert_eq!(before(now, Duration::from_secs(2)), 3000);
        assert_eq!(before(now, Duration::MAX), 0);
    }
}

//! `tail`: following the messages of the bus, or its dead letters, beside the controllers.

mod follow;
mod printer;
mod seen;
mod start;

use std::io::Write;

use clap::Args;
#[cfg(test)]
pub(super) use seen::Given;
pub(super) use seen::Seen;
pub use start::{InvalidStart, Start};
use tokio::{sync::mpsc, task::JoinHandle};

use self::{
    follow::{Event, Following},
    printer::Printer,
};
use super::{Error, Format, Paint, Target, dead_letters::bucket_of};
use crate::{
    model::{Bucket, ResourceKey},
    topics,
};

/// How many records may wait to be written; following waits then.
const WAITING: usize = 256;

/// What to follow.
#[derive(Debug, Clone, Default, Args)]
pub struct TailArgs {
    /// Only this bucket.
    #[arg(long, value_name = "BUCKET")]
    pub bucket: Option<u16>,
    /// Only messages about this resource, in its bucket.
    #[arg(long, value_name = "RESOURCE")]
    pub resource: Option<ResourceKey>,
    /// Only messages of this pod.
    #[arg(long, value_name = "POD")]
    pub pod: Option<String>,
    /// Only messages of this CloudEvents type.
    #[arg(long = "type", value_name = "TYPE")]
    pub ty: Option<String>,
    /// Where to begin: `beginning`, `end`, an offset (of one bucket), a time such as `2026-01-31T08:00:00Z`, or how
    /// long ago, such as `15m`. Without it the end; with --no-follow the beginning.
    #[arg(long, value_name = "FROM")]
    pub from: Option<Start>,
    /// Stop at the log's end as it is now.
    #[arg(long)]
    pub no_follow: bool,
    /// Stop after so many.
    #[arg(long, value_name = "COUNT")]
    pub count: Option<u64>,
    /// Write the whole data, however long (JSON always has it).
    #[arg(long)]
    pub full: bool,
    /// What could not be handled, with the reasons, instead of the messages.
    #[arg(long)]
    pub dead_letters: bool,
}

impl TailArgs {
    /// Whether a record is asked for.
    fn takes(&self, seen: &Seen) -> bool {
        let is = |wanted: Option<&str>, found: &Option<String>| {
            wanted.is_none_or(|wanted| found.as_deref() == Some(wanted))
        };
        is(self.resource.as_ref().map(ResourceKey::as_str), &seen.resource)
            && is(self.pod.as_deref(), &seen.pod)
            && is(self.ty.as_deref(), &seen.ty)
    }

    /// The buckets to follow.
    fn buckets(&self, target: &Target) -> Result<Vec<Bucket>, Error> {
        Ok(match (self.bucket, &self.resource) {
            (Some(number), _) => vec![bucket_of(number, target.buckets)?],
            (None, Some(resource)) => vec![target.buckets.of(resource)],
            (None, None) => target.buckets.iter().collect(),
        })
    }

    /// Where to begin.
    fn start(&self, buckets: &[Bucket]) -> Result<Start, Error> {
        match (self.from, buckets) {
            (Some(Start::Offset(found)), [_, _, ..]) => Err(Error::NoBucketForOffset { found }),
            (Some(start), _) => Ok(start),
            (None, _) => Ok(if self.no_follow { Start::Beginning } else { Start::End }),
        }
    }
}

/// Writes what comes, until it is dropped, the end was reached (where that was asked for), or `out` is closed. Trouble
/// with Kafka that passes is told on standard error.
///
/// # Errors
/// Wrong arguments; where the topic is missing or has another number of partitions, and where Kafka refuses.
pub(super) async fn tail(
    target: &Target,
    args: &TailArgs,
    (format, paint): (Format, Paint),
    out: &mut impl Write,
) -> Result<(), Error> {
    let buckets = args.buckets(target)?;
    let start = args.start(&buckets)?;
    let bus = &target.bus;
    let topic = if args.dead_letters { bus.dead_letters() } else { bus.notifications() };
    let needed = std::slice::from_ref(&topic);
    topics::check_buckets(needed, target.buckets, &target.kafka, target.timeout).await?;
    let following = Following { target: target.clone(), topic, buckets, start, to_end: args.no_follow };
    let (sender, receiver) = mpsc::channel(WAITING);
    let thread = tokio::task::spawn_blocking(move || following.run(&sender));
    let mut printer = Printer::new(format, paint, args.full);
    printer.begin(out)?;
    print(
        receiver,
        thread,
        |record| Seen::of(record, target.buckets, args.dead_letters),
        args,
        |seen| printer.print(seen, out),
    )
    .await
}

/// Prints what the thread finds, as far as it is asked for.
async fn print(
    mut events: mpsc::Receiver<Event>,
    thread: JoinHandle<Result<(), Error>>,
    see: impl Fn(crate::model::Record) -> Seen,
    args: &TailArgs,
    mut each: impl FnMut(Option<&Seen>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(event) = events.recv().await else { break };
        match event {
            Event::Trouble(what) => follow::complain(&what),
            Event::Record(record) => {
                let seen = see(record);
                if args.takes(&seen) {
                    each(Some(&seen))?;
                    left -= 1;
                }
            }
        }
        if events.is_empty() {
            each(None)?;
        }
    }
    each(None)?;
    // The thread sees that nobody listens any more.
    drop(events);
    thread.await.map_err(|_| Error::Interrupted)?
}

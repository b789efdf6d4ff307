//! A bucket's thread: everything of a tenure that blocks.
//!
//! It lives as long as the bucket's task, so that what a former tenure left unfinished ends before the next
//! one's steps begin: an initialisation that comes late would shut out our own producer.

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{readers::Readers, shared::answer};
use crate::{
    engine::{Reading, Setback, Ticket},
    kafka::{
        Committed, GroupMetadata, Refusal, Settings, Transaction, TransactionError, TransactionalProducer,
    },
    model::{Bucket, Outgoing, chain},
    telemetry::Metrics,
};

/// How long an initialisation may take. The broker ends an open transaction within a second of it.
const INIT: Duration = Duration::from_secs(15);

/// What the thread is made with.
pub(super) struct Writer {
    pub(super) bucket: Bucket,
    pub(super) kafka: Settings,
    pub(super) transactional_id: String,
    pub(super) topic: String,
    pub(super) batch_limit: usize,
    pub(super) metrics: Arc<Metrics>,
    pub(super) readers: Arc<Readers>,
}

/// What to write in one transaction.
pub(super) struct Write {
    pub(super) ticket: Ticket<GroupMetadata>,
    pub(super) committed: Committed,
    pub(super) records: Vec<(String, Outgoing)>,
}

/// How a transaction failed, and which of its records is to blame.
#[derive(Debug)]
pub(super) struct WriteError {
    pub(super) setback: Setback,
    pub(super) refused: Option<(usize, Refusal, String)>,
}

/// Something to do.
pub(super) enum Job {
    /// A fresh producer.
    Initialise(oneshot::Sender<Result<(), Setback>>),
    /// The committed offset, the claim, the log's bounds.
    Read(oneshot::Sender<Result<Reading, Setback>>),
    /// A transaction.
    Write(Box<Write>, oneshot::Sender<Result<(), WriteError>>),
    /// The tenure is over: let the producer go.
    Retire,
}

impl Writer {
    /// Starts the thread; it ends when the sender is dropped. One job waits at most, besides a `Retire`.
    pub(super) fn start(self) -> std::io::Result<mpsc::SyncSender<Job>> {
        let (jobs, inbox) = mpsc::sync_channel(4);
        std::thread::Builder::new()
            .name(format!("bucket-{}", self.bucket))
            .spawn(move || self.run(&inbox))?;
        Ok(jobs)
    }

    fn run(self, inbox: &mpsc::Receiver<Job>) {
        let mut producer = None;
        // A reply that nobody waits for belongs to a tenure that is over.
        while let Ok(job) = inbox.recv() {
            match job {
                Job::Initialise(reply) if !reply.is_closed() => {
                    producer = None;
                    let result = self.initialise();
                    answer(reply, result.map(|fresh| producer = Some(fresh)));
                }
                Job::Read(reply) if !reply.is_closed() => answer(reply, self.read()),
                Job::Write(write, reply) if !reply.is_closed() => {
                    let result = self.write(producer.as_ref(), &write);
                    if result.as_ref().is_err_and(|error| error.setback == Setback::Unknown) {
                        producer = None;
                    }
                    answer(reply, result);
                }
                Job::Initialise(_) | Job::Read(_) | Job::Write(..) => {}
                Job::Retire => producer = None,
            }
        }
    }

    fn initialise(&self) -> Result<TransactionalProducer, Setback> {
        let created = TransactionalProducer::new(
            &self.kafka,
            &self.transactional_id,
            self.batch_limit,
            Arc::clone(&self.metrics),
        );
        let producer = created.map_err(|error| self.log("creating a producer", &error, Setback::Aborted))?;
        producer
            .init(&self.topic, INIT)
            .map_err(|error| self.log("initialising a producer", &error, Setback::Aborted))?;
        Ok(producer)
    }

    fn read(&self) -> Result<Reading, Setback> {
        self.readers
            .read(self.bucket)
            .map_err(|error| self.log("reading the bucket's state", &error, Setback::Aborted))
    }

    fn write(&self, producer: Option<&TransactionalProducer>, write: &Write) -> Result<(), WriteError> {
        let Some(producer) = producer else {
            return Err(WriteError { setback: Setback::Unknown, refused: None });
        };
        let began = Instant::now();
        let result = producer.run(&Transaction {
            topic: &self.topic,
            bucket: self.bucket,
            committed: write.committed.clone(),
            group: &write.ticket.group,
            records: &write.records,
        });
        let outcome = match &result {
            Ok(()) => "committed",
            Err(TransactionError::Unknown { .. }) => "unknown",
            Err(_) => "aborted",
        };
        let seconds = self.metrics.transaction_seconds.with_label_values(&[outcome]);
        seconds.observe(began.elapsed().as_secs_f64());
        result.map_err(|error| self.failed(&error, write.ticket.version))
    }

    fn failed(&self, error: &TransactionError, version: u64) -> WriteError {
        let setback = match error {
            TransactionError::Rebalancing(_) => Setback::Rebalancing { version },
            TransactionError::UnknownMember(_) => Setback::UnknownMember { version },
            TransactionError::Refused { .. } => Setback::Refused,
            TransactionError::Unknown { .. } => Setback::Unknown,
            TransactionError::Aborted(_) => Setback::Aborted,
        };
        if matches!(
            error,
            TransactionError::Unknown { fenced: true, .. } | TransactionError::UnknownMember(_)
        ) {
            self.metrics.fenced.inc();
        }
        if let TransactionError::Rebalancing(_) = error {
            // Normal for some milliseconds around nearly every rebalance.
            tracing::info!(bucket = %self.bucket, "a transaction waits for the rebalance");
        } else {
            self.log("a transaction", error, ());
        }
        let refused = match error {
            TransactionError::Refused { index, refusal, error } => {
                Some((*index, refusal.clone(), chain(error)))
            }
            _ => None,
        };
        WriteError { setback, refused }
    }

    fn log<T>(&self, what: &str, error: &dyn std::error::Error, result: T) -> T {
        tracing::warn!(bucket = %self.bucket, what, error = chain(error), "a step did not succeed");
        result
    }
}

//! The owner's side: a controller's process, from the consumer group to the handler.
//!
//! The deciding is [`engine`](crate::engine)'s; here its decisions are carried out:
//! - one thread polls the group and nothing else (`poll`);
//! - one task per bucket runs that bucket's tenures (`bucket`), each with a thread of its own for what
//!   blocks (`writer`);
//! - what they share is the snapshot and a mailbox per bucket (`shared`, `mailbox`), both looked at rather
//!   than listened to, so that no event can be missed.

mod bucket;
mod config;
mod delivering;
mod handler;
mod health;
mod mailbox;
mod poll;
mod readers;
mod shared;
mod writer;

use std::{sync::Arc, time::Duration};

use tokio::{sync::oneshot, task::JoinSet};
use tokio_util::sync::CancellationToken;

use self::{bucket::BucketTask, poll::PollLoop, readers::Readers, shared::Shared};
pub use self::{
    config::{Config, RetryConfig, WindowConfig},
    handler::{Delivery, Handler, Outcome, Released},
    health::Health,
};
use crate::{
    kafka::{self, GroupConsumer, GroupSettings, Settings},
    model::ErrorKind,
    telemetry::Metrics,
};

/// How long leaving the group may take once everything else has ended.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Why a controller cannot work, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A client could not be created.
    #[error("the controller's Kafka clients could not be created; check `kafka.properties`")]
    Client(#[source] kafka::Error),
    /// The group member will never work again.
    #[error("the group member has failed for good; restart the process")]
    Member(#[source] kafka::Error),
    /// A thread could not be started, or ended.
    #[error("{what} ended unexpectedly; restart the process")]
    Ended {
        /// Which.
        what: String,
    },
}

impl Error {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Client(_) => ErrorKind::Invalid,
            Self::Member(_) | Self::Ended { .. } => ErrorKind::Fatal,
        }
    }
}

/// A controller, before it runs.
pub struct Owner<H> {
    config: Arc<Config>,
    kafka: Settings,
    metrics: Arc<Metrics>,
    handler: Arc<H>,
    shared: Arc<Shared>,
    readers: Arc<Readers>,
}

impl<H: Handler> Owner<H> {
    /// Creates a controller; it joins the group when it runs.
    ///
    /// # Errors
    /// [`Error::Client`] when librdkafka does not take its settings.
    pub fn new(
        config: Config,
        kafka: Settings,
        metrics: Arc<Metrics>,
        handler: Arc<H>,
    ) -> Result<Self, Error> {
        let readers = Readers::new(&kafka, &config.bus, &metrics).map_err(Error::Client)?;
        let shared = Shared::new(&config, &metrics);
        Ok(Self {
            config: Arc::new(config),
            kafka,
            metrics,
            handler,
            shared: Arc::new(shared),
            readers: Arc::new(readers),
        })
    }

    /// What `/readyz` and `/livez` ask.
    #[must_use]
    pub fn health(&self) -> Health {
        Health::new(Arc::clone(&self.shared))
    }

    /// Joins the group and handles what its buckets bring, until `shutdown` is cancelled; then gives every bucket
    /// up in good order and leaves.
    ///
    /// The orderly end takes at most the drain time and a few seconds. Dropping the future instead is like a
    /// crash: nothing is lost, handlers are cancelled, and what was finished since the last commit comes again.
    ///
    /// # Errors
    /// When the group member fails for good, or a part of the controller ended by itself.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let (poll, mut poll_ended) = self.start_polling()?;
        // Or the thread of a dropped controller would keep buckets that nobody serves.
        let _polling = poll.clone().drop_guard();
        let mut buckets = JoinSet::new();
        let stop = shutdown.child_token();
        for bucket in self.config.buckets.iter() {
            let task = BucketTask::new(bucket, &self, stop.clone());
            buckets.spawn(task.run());
        }
        let result = tokio::select! {
            biased;
            () = shutdown.cancelled() => Ok(()),
            ended = &mut poll_ended => Err(ended.unwrap_or_else(|_| Error::Ended { what: "the poll loop".to_owned() })),
            ended = buckets.join_next() => {
                tracing::error!(?ended, "a bucket's task ended by itself");
                Err(Error::Ended { what: "a bucket's task".to_owned() })
            }
        };
        self.shared.begin_shutdown();
        stop.cancel();
        while buckets.join_next().await.is_some() {}
        poll.cancel();
        if result.is_ok() && tokio::time::timeout(LEAVE_TIMEOUT, poll_ended).await.is_err() {
            tracing::warn!("the group could not be left in time; others wait for the session time-out");
        }
        result
    }

    /// Starts the thread that polls. Cancelling the token ends it; it sends only when it ends by itself.
    fn start_polling(&self) -> Result<(CancellationToken, oneshot::Receiver<Error>), Error> {
        let group = GroupSettings {
            group: self.config.bus.group(),
            topic: self.config.bus.notifications(),
            session_timeout: self.config.session_timeout,
            heartbeat: self.config.heartbeat,
            max_poll_interval: self.config.max_poll_interval,
        };
        let callbacks = shared::Callbacks::new(&self.shared, &self.metrics);
        let consumer = GroupConsumer::join(&self.kafka, &group, callbacks, Arc::clone(&self.metrics))
            .map_err(Error::Client)?;
        let (ended, poll_ended) = oneshot::channel();
        let stop = CancellationToken::new();
        let poll = PollLoop::new(consumer, Arc::clone(&self.shared), stop.clone());
        std::thread::Builder::new()
            .name("poll".to_owned())
            .spawn(move || {
                if let Err(error) = poll.run() {
                    // The receiver is gone only when the controller has ended already.
                    drop(ended.send(error));
                }
            })
            .map_err(|_| Error::Ended { what: "starting the poll loop's thread".to_owned() })?;
        Ok((stop, poll_ended))
    }
}

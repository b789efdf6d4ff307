//! One process of the bus: start, wire, stop.
//!
//! The monitoring listener comes first, so that what keeps a process from starting can be asked for. The topics
//! are verified before anything is consumed or published. Every task belongs to the process, and one that ends
//! by itself ends it.

mod controller;
mod data_plane;
mod error;
pub mod logging;
mod signals;
mod status;

use std::{sync::Arc, time::Duration};

use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

pub use self::{error::Error, signals::shutdown_on_signals, status::Status};
use crate::{
    bridge::monitoring,
    config::{Role, Settings},
    model::{ErrorKind, chain},
    telemetry::Metrics,
    topics::{self, Verified},
};

/// How long each question about the topics may take.
const TOPICS_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait before asking about the topics again, while Kafka cannot be reached.
const TOPICS_AGAIN: Duration = Duration::from_secs(2);

/// What both roles are given.
struct Process {
    settings: Settings,
    metrics: Arc<Metrics>,
    status: Arc<Status>,
    shutdown: CancellationToken,
}

/// Runs a process until `shutdown` is cancelled, or until its work is done (a data-plane process at the end of
/// its input). Then it ends in good order, within `shutdown.grace`.
///
/// # Errors
/// [`Error`]: what kept it from starting or going on, or that the grace period was too short.
pub async fn run(settings: Settings, shutdown: CancellationToken) -> Result<(), Error> {
    let grace = settings.shutdown().grace;
    tokio::select! {
        result = serve(settings, shutdown.clone()) => result,
        () = grace_over(&shutdown, grace) => Err(Error::GraceOver { grace }),
    }
}

async fn grace_over(shutdown: &CancellationToken, grace: Duration) {
    shutdown.cancelled().await;
    tokio::time::sleep(grace).await;
}

async fn serve(settings: Settings, shutdown: CancellationToken) -> Result<(), Error> {
    let metrics = Arc::new(Metrics::new().map_err(Error::Metrics)?);
    let status = Arc::new(Status::default());
    let mut tasks = JoinSet::new();
    let monitoring_stop = CancellationToken::new();
    if let Some(address) = settings.monitoring() {
        let listener =
            TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
        let bound = listener.local_addr().map_err(|source| Error::Listen { address, source })?;
        tracing::info!(address = %bound, "monitoring is served");
        let (ready, live) = (Arc::clone(&status), Arc::clone(&status));
        tasks.spawn(monitoring::serve(
            listener,
            Arc::clone(&metrics),
            move || ready.unready(),
            move || live.dead(),
            monitoring_stop.clone(),
        ));
    }
    let process = Process { settings, metrics, status, shutdown };
    let result = tokio::select! {
        result = process.work() => result,
        Some(_) = tasks.join_next() => Err(Error::Ended { what: "the monitoring listener" }),
    };
    monitoring_stop.cancel();
    while tasks.join_next().await.is_some() {}
    result
}

impl Process {
    async fn work(self) -> Result<(), Error> {
        let Some(verified) = self.topics().await? else { return Ok(()) };
        match self.settings.role() {
            Role::Controller => controller::run(self, &verified).await,
            Role::DataPlane => data_plane::run(self, &verified).await,
        }
    }

    /// Creates or verifies the topics; `None` when it was told to end meanwhile. Waits for as long as Kafka cannot
    /// be reached, since a restart would not help.
    async fn topics(&self) -> Result<Option<Verified>, Error> {
        let kafka = self.settings.kafka();
        loop {
            let config = self.settings.topics();
            let asked = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return Ok(None),
                asked = topics::ensure(&config, &kafka, TOPICS_TIMEOUT) => asked,
            };
            match asked {
                Ok(verified) => {
                    for warning in &verified.warnings {
                        tracing::warn!(%warning, "a topic differs from what the bus would create");
                    }
                    tracing::info!(created = ?verified.created, "topics verified");
                    return Ok(Some(verified));
                }
                Err(error) if error.kind() == ErrorKind::Retryable => {
                    let error = chain(&error);
                    tracing::warn!(error, "the topics cannot be verified yet");
                    self.status.starting(&format!("the topics cannot be verified yet: {error}"));
                }
                Err(error) => return Err(Error::Topics(error)),
            }
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return Ok(None),
                () = tokio::time::sleep(TOPICS_AGAIN) => {}
            }
        }
    }
}

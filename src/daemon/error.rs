//! Why a process could not start, or did not end well.

use std::{net::SocketAddr, time::Duration};

use crate::{model::ErrorKind, owner, pipe, publisher, topics};

/// Why a process could not start, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The metrics could not be registered, which is a defect.
    #[error("the metrics could not be registered")]
    Metrics(#[source] prometheus::Error),
    /// The monitoring address cannot be listened on.
    #[error("`monitoring.listen` {address} cannot be listened on; choose another address, or port 0")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The topics are not what the bus needs.
    #[error("the topics of the bus are not as they must be")]
    Topics(#[source] topics::Error),
    /// The controller could not start, or failed.
    #[error("the controller failed")]
    Owner(#[source] owner::Error),
    /// The publisher could not start.
    #[error("the publisher could not be started; check `kafka.properties`")]
    Publisher(#[source] publisher::Error),
    /// Standard output is closed; what was flushed is committed.
    #[error("standard output is closed")]
    OutputClosed(#[source] pipe::Closed),
    /// Standard input or output of a data-plane process failed.
    #[error("the data-plane process ended early")]
    Pipe(#[source] pipe::data_plane::Error),
    /// Some input lines were not accepted.
    #[error("{refused} of {lines} input lines were not accepted; each was answered with its error")]
    NotAllAccepted {
        /// How many.
        refused: u64,
        /// Of how many.
        lines: u64,
    },
    /// A part of the process ended by itself.
    #[error("{what} ended unexpectedly; restart the process")]
    Ended {
        /// Which.
        what: &'static str,
    },
    /// The orderly end took too long.
    #[error(
        "the process did not end within `shutdown.grace` ({grace:?}); nothing is lost, but others wait for the session time-out"
    )]
    GraceOver {
        /// The time.
        grace: Duration,
    },
}

impl Error {
    /// The exit code: 64 for what must be changed in the configuration, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Owner(error) if error.kind() == ErrorKind::Invalid => 64,
            Self::Publisher(_) => 64,
            _ => 1,
        }
    }
}

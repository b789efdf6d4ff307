//! Why a show could not be played to its end.

use std::{io, path::PathBuf, process::ExitStatus, time::Duration};

use crate::{config, kafka, topics};

/// Why a show could not be played to its end. A promise of the bus that was seen broken is none of these: that is
/// a verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder of the show could not be written.
    #[error(
        "{path:?} cannot be written; the show's files go below the folder for temporary files (`TMPDIR`)"
    )]
    Files {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The embedded broker could not be started.
    #[error("the embedded broker could not be started")]
    Broker(#[source] kafka::Error),
    /// The brokers or properties are not such that a configuration can be made of them.
    #[error("the show cannot be configured; check `--brokers` and `--property`")]
    Config(#[source] config::Error),
    /// The topics could not be created.
    #[error("the topics could not be created")]
    Topics(#[source] topics::Error),
    /// A child process could not be started.
    #[error("{name} could not be started from {program:?}")]
    Start {
        /// The child.
        name: String,
        /// The program, which is this one.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A child process ended by itself, or badly.
    #[error("{name} ended with {status}, {when}; its last words: {words}")]
    Ended {
        /// The child.
        name: String,
        /// How.
        status: ExitStatus,
        /// `although nobody had told it to`, for instance.
        when: &'static str,
        /// The end of its log.
        words: String,
    },
    /// A child process wrote something that is no line of ours.
    #[error("{name} wrote a line that cannot be read: {line:?}")]
    Line {
        /// The child.
        name: String,
        /// What it wrote.
        line: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// Something that the script waits for did not happen.
    #[error("{what} did not happen within {limit:?}")]
    Stuck {
        /// What.
        what: String,
        /// How long was waited.
        limit: Duration,
    },
    /// Standard output is closed.
    #[error("standard output cannot be written")]
    Output(#[source] io::Error),
    /// A signal ended the show before its verdict.
    #[error("interrupted before there was a verdict")]
    Interrupted,
}

impl Error {
    /// The exit code: 64 for what must be changed in the arguments, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) => 64,
            _ => 1,
        }
    }

    /// Whether the children's logs can help to understand it.
    pub(super) fn needs_logs(&self) -> bool {
        matches!(self, Self::Ended { .. } | Self::Line { .. } | Self::Stuck { .. })
    }
}

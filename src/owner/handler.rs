//! What an application gives the owner: something that handles notifications.

use std::{fmt, future::Future, time::Duration};

pub use crate::engine::Outcome;
use crate::model::{Bucket, Epoch, Notification};

/// One attempt to handle one notification.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The notification.
    pub notification: std::sync::Arc<Notification>,
    /// The bucket it stands in.
    pub bucket: Bucket,
    /// The tenure in which it is delivered.
    pub epoch: Epoch,
    /// 1 for the first attempt; counted over all owners.
    pub attempt: u32,
    /// Whether it may have been delivered before: a repeat is certain only by the application's own record.
    pub redelivered: bool,
}

/// Why a tenure ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Released {
    /// The group gave the bucket to another member, and it was handed over in good order.
    Revoked,
    /// The process is shutting down, and the bucket was handed over in good order.
    Shutdown,
    /// The group took the bucket away without asking, or another owner was found.
    Lost,
}

impl Released {
    /// The word in JSON lines and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Revoked => "revoked",
            Self::Shutdown => "shutdown",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Handles notifications.
///
/// Notifications of one resource come one after another; of different resources concurrently. Each may come
/// more than once (after a crash, a lost bucket, or a retry), so handling must be idempotent.
pub trait Handler: Send + Sync + 'static {
    /// Handles one notification.
    ///
    /// The future is dropped when the tenure ends or [`Config::handler_timeout`](super::Config) passes (see
    /// [`is_timed`](Self::is_timed)), so whatever it started must end with it: a child process is killed, output not yet written is discarded.
    fn handle(&self, delivery: Delivery) -> impl Future<Output = Outcome> + Send;

    /// Whether an attempt that takes longer than [`Config::handler_timeout`](super::Config) has failed. Not where
    /// waiting is backpressure, which is nobody's failure: then an attempt takes as long as its tenure lasts.
    fn is_timed(&self) -> bool {
        true
    }

    /// Told before the first delivery of a tenure.
    fn acquired(&self, bucket: Bucket, epoch: Epoch) -> impl Future<Output = ()> + Send {
        let _ = (bucket, epoch);
        async {}
    }

    /// Told after the last delivery of a tenure, when no handler of it runs any more.
    fn released(&self, bucket: Bucket, epoch: Epoch, why: Released) -> impl Future<Output = ()> + Send {
        let _ = (bucket, epoch, why);
        async {}
    }

    /// The longest time that [`Handler::released`] is waited for.
    fn release_timeout(&self) -> Duration {
        Duration::from_secs(5)
    }
}

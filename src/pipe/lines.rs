//! A controller's messages as JSON lines on standard output: a message is handled once its line is flushed.

use super::{
    line,
    writer::{Lines, Text},
};
use crate::{
    model::{Bucket, Epoch, PodName},
    owner::{Delivery, Handler, Outcome, Released},
};

/// Writes one line per message.
///
/// A full pipe makes every message wait; a closed one makes every message [`Outcome::Unavailable`], and
/// [`Lines::closed`] resolves.
#[derive(Debug)]
pub struct LinesHandler {
    lines: Lines,
    controller: PodName,
}

impl LinesHandler {
    /// Writes to `lines`, in the name of `controller`.
    #[must_use]
    pub fn new(lines: Lines, controller: PodName) -> Self {
        Self { lines, controller }
    }

    /// Writes a line that is no message. Where the output is closed, the daemon learns it from
    /// [`Lines::closed`].
    async fn tell(&self, line: Vec<u8>) {
        if let Err(error) = self.lines.write(Text::Line(line)).await {
            tracing::debug!(%error, "a line about a bucket was not written");
        }
    }
}

impl Handler for LinesHandler {
    async fn handle(&self, delivery: Delivery) -> Outcome {
        let message = Text::Message(Box::new((delivery, self.controller.clone())));
        match self.lines.write(message).await {
            Ok(()) => Outcome::Handled,
            Err(closed) => Outcome::Unavailable(closed.to_string()),
        }
    }

    /// A pipe that nobody reads is backpressure, however long: it costs no attempts.
    fn is_timed(&self) -> bool {
        false
    }

    async fn acquired(&self, bucket: Bucket, epoch: Epoch) {
        self.tell(line::acquired(bucket, epoch, &self.controller)).await;
    }

    async fn released(&self, bucket: Bucket, epoch: Epoch, why: Released) {
        self.tell(line::released(bucket, epoch, &self.controller, why)).await;
    }
}

#[cfg(test)]
pub(super) mod tests;

//! The data plane's pipe: one JSON line in is one message, and is answered by one JSON line.
//!
//! Answers come in the order of the input lines, one for each, also for empty and for bad ones. A line is
//! published without waiting for the answers to those before it; how many may be unanswered is bounded by
//! the publisher's own room, and by [`UNANSWERED`]. A bad line never ends it, and nothing is published again
//! by itself.
//!
//! Input: `{"resource": "default/trigger1", "type": "…", "kind": "event"|"state", "data": any JSON |
//! "data_base64": "…"}`, optional `id`, `source`, `content_type`, `"to": "all-buckets"`; other keys are errors.
//! `data` passes through as it is written, unparsed. Without either, the data is empty.
//!
//! Output: `{"id", "resource", "bucket", "offset"}`, or `{"id", "resource", "buckets": [{"bucket", "offset"}…]}`
//! for all, or `{"error", "error_kind": "invalid"|"retryable"|"fatal", "line": n, "id"}`, where lines are counted
//! from 1 and `id` is there when it is known.

mod input;
mod lines;
mod output;
#[cfg(test)]
mod tests;

use std::io;

use tokio::{
    io::{AsyncBufRead, AsyncWrite},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use self::{
    input::{Bad, Input},
    lines::{Line, Lines},
    output::{Slot, Waiting},
};
use crate::{
    model::ErrorKind,
    publisher::{Config, Publisher},
};

/// The most lines that are read and not yet answered on the output. It bounds what a reader of the output
/// that does not read can make this process hold; it is some times what keeps Kafka busy.
pub const UNANSWERED: usize = 4096;

/// A line may have this much at least, in bytes, whatever a message may.
const MIN_LINE_LIMIT: usize = 1024 * 1024;

/// How the pipe works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// What to do at the end of the input.
    pub at_end: AtEnd,
}

/// What to do at the end of the input, when everything is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// Return.
    Exit,
    /// Wait for the shutdown.
    Stay,
}

/// What came of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Lines that were read and answered.
    pub lines: u64,
    /// Those of them that Kafka has.
    pub accepted: u64,
}

impl Summary {
    /// Whether Kafka has every line.
    #[must_use]
    pub fn all_accepted(&self) -> bool {
        self.accepted == self.lines
    }
}

/// Why the pipe ended early. What had been accepted was answered by Kafka before, one way or the other.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input could not be read. Every line before was answered.
    #[error("reading input line {line} failed")]
    Input {
        /// The line, from 1.
        line: u64,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The output is closed, or could not be written.
    #[error(
        "writing the answer to input line {line} failed; messages read meanwhile may have been published"
    )]
    Output {
        /// The line, from 1.
        line: u64,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Publishes every line of `input`, and answers each on `output`.
///
/// It ends at the end of the input (see [`AtEnd`]), or when `shutdown` is cancelled: then nothing more is read
/// (a line that was begun is left), and what was read is answered, which takes at most the publisher's delivery
/// time-out; a caller in a hurry drops the future. The publisher is flushed at the end, not closed. A line is
/// refused, without being held, when it is longer than four times the largest message, and than 1 MiB.
///
/// Cancel safety: dropped, it loses the answers that were not written; accepted messages go out all the same.
///
/// # Errors
/// [`Error`], when the input cannot be read or the output not be written.
pub async fn run(
    publisher: &Publisher,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin,
    options: Options,
    shutdown: CancellationToken,
) -> Result<Summary, Error> {
    let lines = Lines::new(input, line_limit(publisher.config()));
    let (sender, slots) = mpsc::channel(UNANSWERED);
    let stop = shutdown.child_token();
    let reading = read(publisher, lines, sender, &stop);
    let writing = async {
        let written = output::write(slots, output).await;
        // Without anybody to answer, nothing more is to be published.
        if written.is_err() {
            stop.cancel();
        }
        written
    };
    let (read, written) = tokio::join!(reading, writing);
    publisher.flush().await;
    let summary = written?;
    read?;
    if options.at_end == AtEnd::Stay {
        shutdown.cancelled().await;
    }
    Ok(summary)
}

fn line_limit(config: &Config) -> usize {
    config.max_message_bytes.saturating_mul(4).max(MIN_LINE_LIMIT)
}

/// Reads and publishes, until the input's end, `stop`, or the end of those who take the slots.
async fn read(
    publisher: &Publisher,
    mut lines: Lines<impl AsyncBufRead + Unpin>,
    slots: mpsc::Sender<Slot>,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let limit = lines.limit();
    for number in 1.. {
        let line = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            line = lines.next() => line.map_err(|source| Error::Input { line: number, source })?,
        };
        let waiting = match line {
            None => return Ok(()),
            Some(Line::Whole(line)) => match input::parse(line) {
                Ok(input) => publish(publisher, input, stop).await,
                Err(bad) => Waiting::Bad(bad),
            },
            Some(Line::TooLong(size)) => Waiting::Bad(Bad::invalid(format!(
                "the line has {size} bytes: expected at most {limit}, four times the largest message"
            ))),
        };
        if slots.send(Slot { line: number, waiting }).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Waits for room and publishes one line's message.
async fn publish(publisher: &Publisher, input: Input, stop: &CancellationToken) -> Waiting {
    let Input { message, to_all } = input;
    let resource = message.resource().clone();
    let id = message.id().map(str::to_owned);
    let accepting = async {
        if to_all {
            publisher.enqueue_to_all_buckets(message).await.map(|pending| Waiting::All(resource, pending))
        } else {
            publisher.enqueue(message).await.map(|pending| Waiting::One(resource, pending))
        }
    };
    tokio::select! {
        biased;
        accepted = accepting => accepted.unwrap_or_else(|error| Waiting::Failed(Box::new(error))),
        () = stop.cancelled() => Waiting::Bad(Bad {
            error: "shutting down: the message was read and not accepted; send it again".to_owned(),
            kind: ErrorKind::Retryable,
            id,
        }),
    }
}

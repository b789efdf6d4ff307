//! Many tasks' lines into one pipe: whole, in the order in which they were given, and answered once flushed.
//!
//! Invariants: a line is never torn, whoever gives up meanwhile; a line whose task gave up before the pipe took
//! its first byte is never written; after an error nothing is written any more. What the pipe has taken
//! cannot be called back: with standard output that is up to 16 KiB and the line that goes beyond them,
//! beside what is in the pipe.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::{mpsc, oneshot},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::line;
use crate::{model::PodName, owner::Delivery};

/// How many lines may wait: enough to fill a chunk while the one before is written. Messages wait as what they
/// are, not as text, so waiting costs no memory beside the bucket's own window.
const WAITING: usize = 256;

/// How many bytes are given to the pipe at a time.
const CHUNK: usize = 16 * 1024;

/// Where lines are given. Cheap to clone; all clones feed the same pipe.
#[derive(Debug, Clone)]
pub struct Lines {
    queue: mpsc::Sender<Item>,
    closed: CancellationToken,
    failure: Arc<OnceLock<String>>,
}

/// The pipe is closed, or its writer has ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the output is closed: {reason}")]
pub struct Closed {
    reason: String,
}

/// The task that owns the pipe.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    queue: mpsc::Receiver<Item>,
    pending: VecDeque<Pending>,
    failure: Arc<OnceLock<String>>,
    _closes: DropGuard,
}

/// What is written.
#[derive(Debug)]
pub(super) enum Text {
    /// A message's line, made when its turn comes.
    Message(Box<(Delivery, PodName)>),
    /// A line with its newline.
    Line(Vec<u8>),
}

#[derive(Debug)]
struct Item {
    text: Text,
    done: oneshot::Sender<()>,
}

/// A line whose turn has come.
#[derive(Debug)]
struct Pending {
    text: Vec<u8>,
    /// How many of its bytes the pipe has.
    sent: usize,
    done: oneshot::Sender<()>,
}

impl Lines {
    /// Lines for `out`, and the task that writes them. Nothing is written until [`Writer::run`] runs.
    pub fn new<W: AsyncWrite + Unpin>(out: W) -> (Self, Writer<W>) {
        let (sender, queue) = mpsc::channel(WAITING);
        let closed = CancellationToken::new();
        let failure = Arc::new(OnceLock::new());
        let _closes = closed.clone().drop_guard();
        let writer = Writer { out, queue, pending: VecDeque::new(), failure: failure.clone(), _closes };
        (Self { queue: sender, closed, failure }, writer)
    }

    /// Resolves when nothing can be written any more: the pipe is closed, a write failed, or the writer ended.
    /// May be awaited any number of times; safe to drop.
    pub fn closed(&self) -> impl Future<Output = Closed> + Send + use<> {
        let (closed, failure) = (self.closed.clone(), self.failure.clone());
        async move {
            closed.cancelled().await;
            Closed::new(&failure)
        }
    }

    /// Writes one line; returns when it is flushed. A full pipe makes it wait.
    ///
    /// Cancel safety: a line of which the pipe has nothing yet is discarded; one that was begun is finished.
    pub(super) async fn write(&self, text: Text) -> Result<(), Closed> {
        let (done, flushed) = oneshot::channel();
        let sent = self.queue.send(Item { text, done }).await;
        match sent {
            Ok(()) => flushed.await.map_err(|_| Closed::new(&self.failure)),
            Err(_) => Err(Closed::new(&self.failure)),
        }
    }
}

impl Closed {
    fn new(failure: &OnceLock<String>) -> Self {
        let reason = failure.get().map_or("the task that writes it has ended", String::as_str);
        Self { reason: reason.to_owned() }
    }
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    /// Writes until every [`Lines`] is gone and what they gave is written.
    ///
    /// Cancel safety: none; a line may be torn. End it by dropping the handlers.
    ///
    /// # Errors
    /// The pipe's own, for instance `BrokenPipe` where its reader has gone. All that waits is then answered
    /// with [`Closed`].
    pub async fn run(mut self) -> io::Result<()> {
        let ended = self.write_all().await;
        if let Err(error) = &ended {
            // Nobody else sets it, so it cannot be set already.
            self.failure.get_or_init(|| error.to_string());
        }
        ended
    }

    async fn write_all(&mut self) -> io::Result<()> {
        loop {
            if self.pending.is_empty() {
                let Some(item) = self.queue.recv().await else { return Ok(()) };
                self.admit(item);
            }
            let mut size: usize = self.pending.iter().map(|line| line.text.len()).sum();
            while size < CHUNK
                && let Ok(item) = self.queue.try_recv()
            {
                size += self.admit(item);
            }
            let mut chunk = Vec::with_capacity(size.min(2 * CHUNK));
            let (out, pending) = (&mut self.out, &mut self.pending);
            let taken = poll_fn(|context| offer(out, pending, &mut chunk, context)).await?;
            self.out.flush().await?;
            self.answer(taken);
        }
    }

    /// Takes a line in, unless whoever gave it has given up. Its size in bytes.
    fn admit(&mut self, Item { text, done }: Item) -> usize {
        if done.is_closed() {
            return 0;
        }
        let text = match text {
            Text::Message(message) => line::message(&message.0, &message.1),
            Text::Line(line) => line,
        };
        let size = text.len();
        self.pending.push_back(Pending { text, sent: 0, done });
        size
    }

    /// Tells those whose line the pipe has as a whole.
    fn answer(&mut self, mut taken: usize) {
        while let Some(mut line) = self.pending.pop_front() {
            let rest = line.text.len() - line.sent;
            if taken < rest {
                line.sent += taken;
                self.pending.push_front(line);
                return;
            }
            taken -= rest;
            line.done.send(()).ok(); // it may have given up meanwhile
        }
    }
}

/// Offers the pipe what is still wanted. A pipe that is not ready takes nothing, so that at the next offer lines
/// given up meanwhile are left out.
fn offer<W: AsyncWrite + Unpin>(
    out: &mut W,
    pending: &mut VecDeque<Pending>,
    chunk: &mut Vec<u8>,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    pending.retain(|line| line.sent > 0 || !line.done.is_closed());
    chunk.clear();
    for line in pending.iter() {
        chunk.extend(line.text.iter().skip(line.sent));
        if chunk.len() >= CHUNK {
            break;
        }
    }
    if chunk.is_empty() {
        return Poll::Ready(Ok(0));
    }
    match Pin::new(out).poll_write(context, chunk) {
        Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        other => other,
    }
}

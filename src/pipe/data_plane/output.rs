//! The answers, as lines, in the order of the input.

use std::{future::Future, io, task::Poll};

use serde::Serialize;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _, BufWriter},
    sync::mpsc,
};

use super::{Error, Summary, input::Bad};
use crate::{
    model::{ErrorKind, ResourceKey, chain},
    publisher::{Pending, PublishError, Receipt},
};

/// How much is written at once.
const BUFFER: usize = 64 * 1024;

/// An input line that is to be answered.
#[derive(Debug)]
pub(super) struct Slot {
    /// From 1.
    pub(super) line: u64,
    pub(super) waiting: Waiting,
}

/// What its answer waits for.
#[derive(Debug)]
pub(super) enum Waiting {
    /// One bucket.
    One(ResourceKey, Pending),
    /// All buckets.
    All(ResourceKey, Pending<Vec<Receipt>>),
    /// Nothing: it was not accepted.
    Failed(Box<PublishError>),
    /// Nothing: it is no message, or was left.
    Bad(Bad),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    One { id: &'a str, resource: &'a str, bucket: u16, offset: i64 },
    All { id: &'a str, resource: &'a str, buckets: Vec<Place> },
    Failed(Failed<'a>),
}

#[derive(Serialize)]
struct Place {
    bucket: u16,
    offset: i64,
}

#[derive(Serialize)]
struct Failed<'a> {
    error: String,
    error_kind: &'static str,
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

/// Answers every slot, until there are no more. What is ready is flushed before anything is waited for.
pub(super) async fn write(
    mut slots: mpsc::Receiver<Slot>,
    output: impl AsyncWrite + Unpin,
) -> Result<Summary, Error> {
    let mut output = BufWriter::with_capacity(BUFFER, output);
    let mut summary = Summary::default();
    loop {
        let failed = |source| Error::Output { line: summary.lines + 1, source };
        let Some(slot) = flushed(&mut output, slots.recv()).await.map_err(failed)? else {
            output.flush().await.map_err(failed)?;
            return Ok(summary);
        };
        let mut line = Vec::with_capacity(256);
        let accepted = answer(slot, &mut output, &mut line).await.map_err(failed)?;
        line.push(b'\n');
        output.write_all(&line).await.map_err(failed)?;
        summary.lines += 1;
        summary.accepted += u64::from(accepted);
    }
}

/// Waits for one slot's answer and writes it to `line`. Returns whether Kafka has the message.
async fn answer(
    slot: Slot,
    output: &mut BufWriter<impl AsyncWrite + Unpin>,
    line: &mut Vec<u8>,
) -> io::Result<bool> {
    let result = match slot.waiting {
        Waiting::One(resource, pending) => {
            flushed(output, pending).await?.map(|receipt| (resource, vec![receipt], false))
        }
        Waiting::All(resource, pending) => {
            flushed(output, pending).await?.map(|receipts| (resource, receipts, true))
        }
        Waiting::Failed(error) => Err(*error),
        Waiting::Bad(Bad { error, kind, id }) => {
            let failed = Failed { error, error_kind: word(kind), line: slot.line, id: id.as_deref() };
            serde_json::to_writer(line, &Answer::Failed(failed))?;
            return Ok(false);
        }
    };
    match result {
        Ok((resource, receipts, to_all)) => {
            serde_json::to_writer(line, &accepted(resource.as_str(), &receipts, to_all))?;
            Ok(true)
        }
        Err(error) => {
            let (kind, id) = (word(error.kind()), Some(error.id()));
            let failed = Failed { error: chain(&error), error_kind: kind, line: slot.line, id };
            serde_json::to_writer(line, &Answer::Failed(failed))?;
            Ok(false)
        }
    }
}

fn accepted<'a>(resource: &'a str, receipts: &'a [Receipt], to_all: bool) -> Answer<'a> {
    let place = |receipt: &Receipt| Place { bucket: receipt.bucket.get(), offset: receipt.offset.get() };
    match receipts {
        [receipt] if !to_all => {
            let Place { bucket, offset } = place(receipt);
            Answer::One { id: &receipt.id, resource, bucket, offset }
        }
        _ => Answer::All {
            id: receipts.first().map_or("", |receipt| receipt.id.as_str()),
            resource,
            buckets: receipts.iter().map(place).collect(),
        },
    }
}

/// Waits for `future`; where it is not ready, what was written is flushed first.
async fn flushed<F: Future>(
    output: &mut BufWriter<impl AsyncWrite + Unpin>,
    future: F,
) -> io::Result<F::Output> {
    let mut future = std::pin::pin!(future);
    let first = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
    match first {
        Poll::Ready(ready) => Ok(ready),
        Poll::Pending => {
            output.flush().await?;
            Ok(future.await)
        }
    }
}

/// The three words of the contract.
fn word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "invalid",
        ErrorKind::Retryable => "retryable",
        ErrorKind::Fatal | ErrorKind::Fenced => "fatal",
    }
}

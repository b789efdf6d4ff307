//! What Kafka has acknowledged, and waiting for it.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use super::PublishError;
use crate::model::{Bucket, RecordOffset};

/// Where a message stands: all in-sync replicas have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The message's id.
    pub id: String,
    /// The bucket, which is the partition.
    pub bucket: Bucket,
    /// The record's offset there.
    pub offset: RecordOffset,
}

/// The answer to a message that was accepted: a [`Receipt`], or one per bucket, or an error.
///
/// It is answered within the delivery time-out and about a second. Dropping it does not withdraw the message;
/// if that fails then, nobody is told. It can be polled again after having been dropped out of a `select!`.
#[derive(Debug)]
#[must_use = "the message is accepted, but whether Kafka has it is only known by awaiting this"]
pub struct Pending<T = Receipt> {
    answer: oneshot::Receiver<Result<T, PublishError>>,
}

impl<T> Pending<T> {
    pub(super) fn new(answer: oneshot::Receiver<Result<T, PublishError>>) -> Self {
        Self { answer }
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, PublishError>;

    #[expect(clippy::expect_used, reason = "a message that is dropped unanswered is answered by its drop")]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(|answer| answer.expect("every message is answered"))
    }
}

//! The controller role: the owner, and lines on standard output or a program per message.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{Error, Process};
use crate::{
    owner::{Handler, Owner},
    pipe::{Closed, CommandHandler, Lines, LinesHandler},
    topics::Verified,
};

/// Runs until the shutdown. Where messages go to standard output, a closed one ends it too, after what was
/// flushed is committed; a program per message needs nobody to read there.
pub(super) async fn run(process: Process, verified: &Verified) -> Result<(), Error> {
    let (lines, writer) = Lines::new(tokio::io::stdout());
    let mut output = JoinSet::new();
    output.spawn(writer.run());
    let name = process.settings.name().clone();
    let result = match process.settings.handler_command().and_then(<[String]>::split_first) {
        None => {
            let closed = lines.closed();
            own(process, verified, LinesHandler::new(lines, name), closed).await
        }
        Some((program, arguments)) => {
            let handler = CommandHandler::new(program, arguments, lines, name);
            own(process, verified, handler, std::future::pending()).await
        }
    };
    // What was given to the pipe is written before the process ends.
    while output.join_next().await.is_some() {}
    result
}

async fn own<H: Handler>(
    process: Process,
    verified: &Verified,
    handler: H,
    closed: impl Future<Output = Closed>,
) -> Result<(), Error> {
    let owner = Owner::new(
        process.settings.owner(verified.dead_letter_limit),
        process.settings.kafka(),
        Arc::clone(&process.metrics),
        Arc::new(handler),
    )
    .map_err(Error::Owner)?;
    process.status.controller(owner.health());
    let stop = process.shutdown.child_token();
    let mut running = std::pin::pin!(owner.run(stop.clone()));
    let (result, closed) = tokio::select! {
        biased;
        result = &mut running => (result, None),
        closed = closed => {
            tracing::error!(error = %closed, "standard output is closed; ending");
            stop.cancel();
            (running.await, Some(closed))
        }
    };
    process.status.stopping();
    result.map_err(Error::Owner)?;
    closed.map_or(Ok(()), |closed| Err(Error::OutputClosed(closed)))
}

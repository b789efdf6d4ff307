//! What a person calls: the program's arguments, and the commands that look at a bus without taking part in it.
//!
//! A command reads, decides and returns values; writing them down for people or programs is [`Format`]'s part.
//! None joins the consumer group. Only `topics ensure`, `dead-letters replay`, `send` and `check --transactions` write
//! to Kafka. Loading the configuration file is the caller's: a command gets a [`Target`].

mod append;
mod args;
mod buckets;
mod check;
mod dead_letters;
mod error;
mod help;
mod output;
mod program;
mod route;
mod send;
mod shell;
#[cfg(test)]
mod snapshots;
mod status;
mod tail;
mod topics;

use std::{io::Write, time::Duration};

pub use args::{Cli, Command, Common, DeadLettersAction, TopicsAction};
pub use buckets::buckets;
pub use check::CheckArgs;
pub use dead_letters::{Answer, Append, Letter, Outcome, ReplayArgs, Selection, list, replay};
pub use error::Error;
pub use output::{Format, Paint, Row, Tone};
pub use program::main;
pub use route::{Route, route};
pub use send::{KindArg, SendArgs};
pub use status::BucketStatus;
pub use tail::{InvalidStart, Start, TailArgs};

use crate::{
    kafka::Settings,
    model::{Buckets, Bus, PodName},
};

/// The bus that a command looks at.
#[derive(Debug, Clone)]
pub struct Target {
    /// How Kafka is reached.
    pub kafka: Settings,
    /// The bus.
    pub bus: Bus,
    /// How many buckets it has.
    pub buckets: Buckets,
    /// How many partitions the topics towards pods have.
    pub slots: u32,
    /// How many replicas a new topic gets; `None` leaves that to the broker's default.
    pub replication_factor: Option<i32>,
    /// This process's name: it stands as the pod in a replay of what no pod of the bus had published.
    pub name: PodName,
    /// How long each step may wait for Kafka.
    pub timeout: Duration,
}

/// Carries a command out and writes its result to `out`; only those that need nothing but a [`Target`]. `append` writes
/// to Kafka for `dead-letters replay`, and is only called then.
///
/// Returns whether everything that was asked for was done: `false` where some letter could not be replayed.
/// Dropping the future leaves what was written to Kafka until then.
///
/// # Errors
/// [`Error`], with its exit code.
pub async fn execute<A: Append>(
    command: &Command,
    target: &Target,
    append: impl AsyncFnOnce() -> Result<A, Error>,
    out: &mut impl Write,
) -> Result<bool, Error> {
    let (format, paint) = style(command);
    match command {
        Command::Topics { action } => {
            let create = matches!(action, TopicsAction::Ensure { .. });
            format.write(&topics::checked(target, create).await?, paint, out)?;
        }
        Command::Route { resource, .. } => format.write(&[route(target, resource).await?], paint, out)?,
        Command::Buckets { watch: None, .. } => format.write(&buckets(target).await?, paint, out)?,
        Command::Buckets { watch: Some(seconds), .. } => {
            buckets::watch(target, Duration::from_secs(*seconds), (format, paint), out).await?;
        }
        Command::Tail { args, .. } => tail::tail(target, args, (format, paint), out).await?,
        Command::DeadLetters { action: DeadLettersAction::List { bucket, limit, .. } } => {
            format.write(&list(target, *bucket, *limit).await?, paint, out)?;
        }
        Command::DeadLetters { action: DeadLettersAction::Replay { which, .. } } => {
            let selection = which.selection(target.buckets)?;
            let append = append().await?;
            let mut answers = Vec::new();
            let replayed = replay(target, &selection, &append, &mut answers).await;
            // Before an error only what was done is worth a line.
            if replayed.is_ok() || !answers.is_empty() {
                format.write(&answers, paint, out)?;
            }
            replayed?;
            return Ok(answers.iter().all(Answer::is_settled));
        }
        _ => return Err(Error::NotHere),
    }
    Ok(true)
}

/// How a command's result is written: as asked for, or as fits standard output.
fn style(command: &Command) -> (Format, Paint) {
    let format = command.common().and_then(|common| common.output).unwrap_or_else(Format::of_stdout);
    (format, Paint::of_stdout())
}

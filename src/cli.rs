//! What a person calls: the program's arguments, and the commands that look at a bus without taking part in it.
//!
//! A command reads, decides and returns values; writing them down for people or programs is [`Format`]'s part.
//! None joins the consumer group. Only `topics ensure` and `dead-letters replay` write to Kafka. Loading the
//! configuration file is the caller's: a command gets a [`Target`].

mod append;
mod buckets;
mod dead_letters;
mod error;
mod output;
mod program;
mod route;
mod status;
mod topics;

use std::{io::Write, path::PathBuf, time::Duration};

pub use buckets::buckets;
use clap::{Args, Parser, Subcommand};
pub use dead_letters::{Answer, Append, Letter, Outcome, ReplayArgs, Selection, list, replay};
pub use error::Error;
pub use output::{Format, Row};
pub use program::main;
pub use route::{Route, route};
pub use status::BucketStatus;

use crate::{
    demo,
    kafka::Settings,
    model::{Buckets, Bus, PodName, ResourceKey},
};

/// A Kafka-backed control bus: data-plane pods reach the controller that owns a resource's bucket.
#[derive(Debug, Parser)]
#[command(name = "control-bus", version, about, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Run a controller or a data-plane pod, as the file's `role` says.
    Run {
        /// The configuration file.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Show the bus at work, without any set-up: controllers come and go, and no message is lost.
    ///
    /// It takes about a minute. The exit code is 0 for a good verdict, 3 for a bad one, 1 when there is none.
    Demo {
        /// How.
        #[command(flatten)]
        options: demo::Options,
    },
    /// Ends what a demo leaves behind when it is killed; the demo starts it by itself.
    #[command(hide = true, name = demo::GUARD_COMMAND)]
    DemoGuard {
        /// The demo's folder.
        folder: PathBuf,
    },
    /// Create or verify the topics of the bus.
    Topics {
        /// Which of both.
        #[command(subcommand)]
        action: TopicsAction,
    },
    /// Tell which bucket a resource belongs to, and who owns it.
    Route {
        /// The resource: namespace/name.
        #[arg(value_name = "RESOURCE")]
        resource: ResourceKey,
        /// Where to look.
        #[command(flatten)]
        common: Common,
    },
    /// List every bucket: its owner, epoch, committed offset, end and lag.
    Buckets {
        /// Where to look.
        #[command(flatten)]
        common: Common,
    },
    /// List what could not be handled, or publish it again.
    DeadLetters {
        /// Which of both.
        #[command(subcommand)]
        action: DeadLettersAction,
    },
}

/// What to do with the topics.
#[derive(Debug, Subcommand)]
pub enum TopicsAction {
    /// Create the topics that are missing, whatever `topics.create` says, and verify all.
    Ensure {
        /// Where to look.
        #[command(flatten)]
        common: Common,
    },
    /// Verify the topics; create nothing.
    Verify {
        /// Where to look.
        #[command(flatten)]
        common: Common,
    },
}

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub enum DeadLettersAction {
    /// List the newest dead letters, oldest first.
    List {
        /// Only those of this bucket.
        #[arg(long, value_name = "BUCKET")]
        bucket: Option<u16>,
        /// How many at most.
        #[arg(long, value_name = "COUNT", default_value_t = 100)]
        limit: usize,
        /// Where to look.
        #[command(flatten)]
        common: Common,
    },
    /// Publish dead letters again, each under a new id.
    ///
    /// A state is only published again while the bus has nothing newer under its key. A letter stays where it
    /// is and can be replayed more than once.
    Replay {
        /// Which letters.
        #[command(flatten)]
        which: ReplayArgs,
        /// Where to look.
        #[command(flatten)]
        common: Common,
    },
}

/// What every command but `run` and `demo` takes.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// The configuration file; any process's of the bus will do.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// How to write the result: `table` on a terminal, else `plain` (columns between tabs), or `json` (one object a
    /// line).
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// How long to wait for Kafka at each step.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime_serde::re::humantime::parse_duration)]
    pub timeout: Duration,
}

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

impl Command {
    /// Where the command's configuration is.
    #[must_use]
    pub fn common(&self) -> Option<&Common> {
        match self {
            Self::Run { .. } | Self::Demo { .. } | Self::DemoGuard { .. } => None,
            Self::Topics { action: TopicsAction::Ensure { common } | TopicsAction::Verify { common } }
            | Self::Route { common, .. }
            | Self::Buckets { common }
            | Self::DeadLetters {
                action: DeadLettersAction::List { common, .. } | DeadLettersAction::Replay { common, .. },
            } => Some(common),
        }
    }
}

/// Carries a command out and writes its result to `out`; `run` and `demo` are none of these. `append` writes to Kafka
/// for `dead-letters replay`, and is only called then.
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
    let format = command.common().and_then(|common| common.output).unwrap_or_else(Format::of_stdout);
    match command {
        Command::Run { .. } | Command::Demo { .. } | Command::DemoGuard { .. } => return Err(Error::NotHere),
        Command::Topics { action } => {
            let create = matches!(action, TopicsAction::Ensure { .. });
            format.write(&topics::checked(target, create).await?, out)?;
        }
        Command::Route { resource, .. } => format.write(&[route(target, resource).await?], out)?,
        Command::Buckets { .. } => format.write(&buckets(target).await?, out)?,
        Command::DeadLetters { action: DeadLettersAction::List { bucket, limit, .. } } => {
            format.write(&list(target, *bucket, *limit).await?, out)?;
        }
        Command::DeadLetters { action: DeadLettersAction::Replay { which, .. } } => {
            let selection = which.selection(target.buckets)?;
            let append = append().await?;
            let mut answers = Vec::new();
            let replayed = replay(target, &selection, &append, &mut answers).await;
            // Before an error only what was done is worth a line.
            if replayed.is_ok() || !answers.is_empty() {
                format.write(&answers, out)?;
            }
            replayed?;
            return Ok(answers.iter().all(Answer::is_settled));
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_resource_is_checked_before_anything_is_asked() {
        assert!(parse("control-bus route default/trigger1 --config f").is_ok());
        let error = parse("control-bus route trigger1 --config f").unwrap_err().to_string();
        assert!(error.contains("namespace/name"), "{error}");
    }

    #[test]
    fn a_replay_says_which_letters_and_only_one_way() {
        let replay = "control-bus dead-letters replay --config f";
        for right in ["--all", "--all --bucket 3", "--id x", "--bucket 3 --offset 4"] {
            assert!(parse(&format!("{replay} {right}")).is_ok(), "{right}");
        }
        for wrong in [
            "",
            "--bucket 3",
            "--offset 4",
            "--all --id x",
            "--bucket 3 --offset 4 --all",
            "--id x --offset 1",
        ] {
            assert!(parse(format!("{replay} {wrong}").trim()).is_err(), "{wrong:?} was taken");
        }
    }
}

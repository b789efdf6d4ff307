//! The program's arguments, and what they are checked for before anything is asked.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::{CheckArgs, Format, ReplayArgs, SendArgs, TailArgs, help};
use crate::{demo, model::ResourceKey};

/// A Kafka-backed control bus: data-plane pods reach the controller that owns a resource's bucket.
#[derive(Debug, Parser)]
#[command(name = "control-bus", version, about, arg_required_else_help = true)]
#[command(after_help = help::PROGRAM, max_term_width = 110)]
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
    #[command(after_help = help::RUN)]
    Run {
        /// The configuration file.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Show the bus at work, without any set-up: controllers come and go, and no message is lost.
    ///
    /// It takes about a minute. The exit code is 0 for a good verdict, 3 for a bad one, 1 when there is none.
    #[command(after_help = help::DEMO)]
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
    /// Tell what is wrong: configuration, brokers, topics, permissions, controllers, messages that wait.
    ///
    /// One line for each thing that is looked at: ok, warning or failed, what was found, and what to do. It
    /// changes nothing on the bus. The exit code is 0 where nothing failed, 1 where something did, 64 for a
    /// configuration that cannot be used.
    #[command(after_help = help::CHECK.short, after_long_help = help::CHECK.long)]
    Check {
        /// What else to try.
        #[command(flatten)]
        args: CheckArgs,
        /// Where to look.
        #[command(flatten)]
        common: Common,
    },
    /// List every bucket: its owner, epoch, committed offset, end and lag.
    #[command(after_help = help::BUCKETS.short, after_long_help = help::BUCKETS.long)]
    Buckets {
        /// Look again every so many seconds until Ctrl-C (2 unless said otherwise): on a terminal in the same
        /// place, else line after line.
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
        watch: Option<u64>,
        /// Where to look.
        #[command(flatten)]
        common: Common,
    },
    /// Tell which bucket a resource belongs to, and who owns it.
    #[command(after_help = help::ROUTE.short, after_long_help = help::ROUTE.long)]
    Route {
        /// The resource: namespace/name.
        #[arg(value_name = "RESOURCE")]
        resource: ResourceKey,
        /// Where to look.
        #[command(flatten)]
        common: Common,
    },
    /// Follow the messages of the bus, or what could not be handled, until Ctrl-C.
    ///
    /// It reads beside the controllers and disturbs nobody. Each line is one record: when it was published,
    /// bucket/offset, kind, resource, type, pod, id, and its data, shortened. A tombstone withdraws a state, or
    /// marks an event as settled.
    #[command(after_help = help::TAIL.short, after_long_help = help::TAIL.long)]
    Tail {
        /// What to follow.
        #[command(flatten)]
        args: TailArgs,
        /// Where to look.
        #[command(flatten)]
        common: Common,
    },
    /// Publish one message, as the pod that the configuration names.
    ///
    /// It returns when all in-sync replicas have it, and says where it is. A state replaces the latest one of the
    /// same resource, pod, source and type.
    #[command(after_help = help::SEND.short, after_long_help = help::SEND.long)]
    Send {
        /// The message.
        #[command(flatten)]
        args: SendArgs,
        /// Where to send it.
        #[command(flatten)]
        common: Common,
    },
    /// Create or verify the topics of the bus.
    #[command(after_help = help::TOPICS)]
    Topics {
        /// Which of both.
        #[command(subcommand)]
        action: TopicsAction,
    },
    /// List what could not be handled, or publish it again.
    #[command(after_help = help::DEAD_LETTERS)]
    DeadLetters {
        /// Which of both.
        #[command(subcommand)]
        action: DeadLettersAction,
    },
    /// Write the completions of a shell to standard output.
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write a manual page to standard output.
    #[command(after_help = help::MAN)]
    Man {
        /// The command that it is about, such as `buckets` or `dead-letters list`; without it, the whole program.
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
    },
}

/// What to do with the topics.
#[derive(Debug, Subcommand)]
pub enum TopicsAction {
    /// Create the topics that are missing, whatever `topics.create` says, and verify all.
    #[command(after_help = help::TOPICS_ENSURE.short, after_long_help = help::TOPICS_ENSURE.long)]
    Ensure {
        /// Where to look.
        #[command(flatten)]
        common: Common,
    },
    /// Verify the topics; create nothing.
    #[command(after_help = help::TOPICS_VERIFY.short, after_long_help = help::TOPICS_VERIFY.long)]
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
    #[command(after_help = help::LETTERS_LIST.short, after_long_help = help::LETTERS_LIST.long)]
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
    #[command(after_help = help::LETTERS_REPLAY.short, after_long_help = help::LETTERS_REPLAY.long)]
    Replay {
        /// Which letters.
        #[command(flatten)]
        which: ReplayArgs,
        /// Where to look.
        #[command(flatten)]
        common: Common,
    },
}

/// What every command takes that looks at a bus.
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

impl Command {
    /// Where the command's configuration is.
    #[must_use]
    pub fn common(&self) -> Option<&Common> {
        match self {
            Self::Run { .. }
            | Self::Demo { .. }
            | Self::DemoGuard { .. }
            | Self::Completions { .. }
            | Self::Man { .. } => None,
            Self::Topics { action: TopicsAction::Ensure { common } | TopicsAction::Verify { common } }
            | Self::Check { common, .. }
            | Self::Route { common, .. }
            | Self::Buckets { common, .. }
            | Self::Tail { common, .. }
            | Self::Send { common, .. }
            | Self::DeadLetters {
                action: DeadLettersAction::List { common, .. } | DeadLettersAction::Replay { common, .. },
            } => Some(common),
        }
    }

    /// Whether it goes on until it is interrupted, so that an interrupt is its ordinary end.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        matches!(self, Self::Tail { .. } | Self::Buckets { watch: Some(_), .. })
    }
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

    #[test]
    fn watching_needs_no_number() {
        let watch =
            |line: &str| match parse(&format!("control-bus buckets --config f{line}")).unwrap().command {
                Command::Buckets { watch, .. } => watch,
                other => panic!("{other:?}"),
            };
        assert_eq!([watch(""), watch(" --watch"), watch(" --watch 7")], [None, Some(2), Some(7)]);
        assert!(parse("control-bus buckets --config f --watch 0").is_err());
    }

    #[test]
    fn one_message_has_one_source_of_data() {
        let send = "control-bus send a/b t --config f";
        for right in ["", " --data x", " --file -", " --kind state --all-buckets --id 1 --source s"] {
            assert!(parse(&format!("{send}{right}")).is_ok(), "{right}");
        }
        for wrong in [" --data x --file y", " --kind other", " --id"] {
            assert!(parse(&format!("{send}{wrong}")).is_err(), "{wrong:?} was taken");
        }
    }
}

//! A program per message: the message's line on its standard input, the outcome in its exit code.
//!
//! | exit | outcome |
//! |---|---|
//! | 0 | handled |
//! | 65 (`EX_DATAERR`) | rejected |
//! | 75 (`EX_TEMPFAIL`), or it cannot be started | unavailable |
//! | any other, or a signal | tried again |
//!
//! The reason is the last line that the program wrote on its standard error. What it writes on its standard
//! output is discarded: ours has only the lines about buckets.
//!
//! Each program has a process group of its own, so that a signal from the terminal does not reach it while
//! this process drains, and so that what it started ends with it when the attempt is given up. It does not
//! outlive an attempt, except where this process itself is killed.

mod tail;

use std::{
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, ChildStdin, Command},
    time::timeout,
};

use self::tail::Tail;
use super::{
    line,
    writer::{Lines, Text},
};
use crate::{
    model::{Bucket, Epoch, PodName},
    owner::{Delivery, Handler, Outcome, Released},
};

/// The message can never be handled.
const REJECT: i32 = 65;

/// The program cannot work now, whatever the message.
const UNAVAILABLE: i32 = 75;

/// How long the end of standard error is waited for once the program has exited: something it left behind may
/// hold it open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long a line about a bucket may wait for standard output, which nobody need read here.
const NOTICE: Duration = Duration::from_secs(2);

/// Starts a program for each message.
#[derive(Debug)]
pub struct CommandHandler {
    program: String,
    arguments: Vec<String>,
    lines: Lines,
    controller: PodName,
}

impl CommandHandler {
    /// Starts `program` with `arguments` for each message, in the name of `controller`; lines about buckets go
    /// to `lines`.
    #[must_use]
    pub fn new(program: &str, arguments: &[String], lines: Lines, controller: PodName) -> Self {
        Self { program: program.to_owned(), arguments: arguments.to_owned(), lines, controller }
    }

    fn start(&self) -> std::io::Result<Running> {
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Ok(Running { group: Group(id.map(Pid::from_raw)), child })
    }

    /// Writes a line about a bucket, or gives it up where nobody reads.
    async fn tell(&self, line: Vec<u8>) {
        match timeout(NOTICE, self.lines.write(Text::Line(line))).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a line about a bucket was not written"),
            Err(_) => tracing::warn!("a line about a bucket was not written: standard output is full"),
        }
    }
}

impl Handler for CommandHandler {
    async fn handle(&self, delivery: Delivery) -> Outcome {
        let message = line::message(&delivery, &self.controller);
        let program = &self.program;
        match self.start() {
            Ok(running) => running.finish(message).await,
            Err(error) => Outcome::Unavailable(format!("{program:?} cannot be started: {error}")),
        }
    }

    async fn acquired(&self, bucket: Bucket, epoch: Epoch) {
        self.tell(line::acquired(bucket, epoch, &self.controller)).await;
    }

    async fn released(&self, bucket: Bucket, epoch: Epoch, why: Released) {
        self.tell(line::released(bucket, epoch, &self.controller, why)).await;
    }
}

/// A program at work. Dropping it kills the program and what it started.
struct Running {
    // Before the child, so that it is dropped first: until then the group's number is surely ours.
    group: Group,
    child: Child,
}

/// The process group of a program that has not been waited for.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0
            && let Err(error) = killpg(group, Signal::SIGKILL)
        {
            tracing::debug!(%error, "a handler's process group could not be killed");
        }
    }
}

impl Running {
    /// Gives it the message, and waits for its end.
    async fn finish(mut self, message: Vec<u8>) -> Outcome {
        let (stdin, stderr) = (self.child.stdin.take(), self.child.stderr.take());
        let mut tail = Tail::default();
        let ended = {
            let mut talk = std::pin::pin!(async { tokio::join!(feed(stdin, message), tail.read(stderr)) });
            let mut talking = true;
            let ended = tokio::select! {
                ended = self.child.wait() => ended,
                _ = &mut talk => {
                    talking = false;
                    self.child.wait().await
                }
            };
            if ended.is_ok() {
                self.group.0 = None; // it has been waited for: the number may soon be another's
            }
            if talking && timeout(LAST_WORDS, talk).await.is_err() {
                tracing::debug!("a handler left something behind that holds its standard error open");
            }
            ended
        };
        match ended {
            Ok(status) => outcome(status, tail.last_line()),
            Err(error) => Outcome::Retry(format!("the handler's end could not be learnt: {error}")),
        }
    }
}

/// Gives the program its message. One that does not read it is within its rights.
async fn feed(stdin: Option<ChildStdin>, message: Vec<u8>) {
    if let Some(mut stdin) = stdin
        && let Err(error) = stdin.write_all(&message).await
    {
        tracing::trace!(%error, "a handler did not read its message");
    }
}

fn outcome(status: ExitStatus, words: Option<String>) -> Outcome {
    match (status.code(), words) {
        (Some(0), _) => Outcome::Handled,
        (Some(REJECT), words) => Outcome::Reject(words.unwrap_or_else(|| without_words(status))),
        (Some(UNAVAILABLE), words) => Outcome::Unavailable(words.unwrap_or_else(|| without_words(status))),
        (_, Some(words)) => Outcome::Retry(format!("the handler ended with {status}: {words}")),
        (_, None) => Outcome::Retry(without_words(status)),
    }
}

fn without_words(status: ExitStatus) -> String {
    format!("the handler ended with {status} and wrote nothing on its standard error")
}

#[cfg(test)]
mod tests;

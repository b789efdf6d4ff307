//! Real processes of the real binary: controllers and data-plane pods with a generated configuration, their lines, their
//! logs, their probes, and the signals to be sent to them.
//!
//! A [`Bus`] is one test's own: a name that no other test has, and a directory for its configuration files. What it
//! starts is known by its lines only, each with the time at which it arrived. Nothing here sleeps for a fixed time:
//! conditions are waited for until a deadline, and a failure tells the last words of the processes.
//!
//! A process is killed when its [`Process`] is dropped.

#![allow(dead_code, reason = "a test binary that includes this module need not use all of it")]
#![allow(clippy::expect_used, clippy::panic, reason = "test support: what fails here fails the test")]

mod config;
mod probes;

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Write as _},
    os::{fd::OwnedFd, unix::process::ExitStatusExt as _},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use serde_json::Value;
use tokio::{io::AsyncBufReadExt as _, net::unix::pipe, sync::watch};

#[allow(unused_imports, reason = "a test binary that includes this module need not name all of it")]
pub(crate) use self::config::{Bus, Config, Looked};

/// How often a condition is looked at that nothing announces.
const LOOK: Duration = Duration::from_millis(20);

/// How long a probe, or a command that looks at a bus, may take.
const ANSWER: Duration = Duration::from_secs(30);

/// How much of a process's log a failure shows.
const TAIL: usize = 40;

/// A line of a process's standard output.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// When it was read.
    pub(crate) at: Instant,
    /// Without its end.
    pub(crate) text: String,
    /// `Null` where the line is no JSON.
    pub(crate) json: Value,
}

impl Line {
    /// Whether this is a handled message, rather than a notice about a bucket.
    pub(crate) fn is_message(&self) -> bool {
        self.json.get("id").is_some()
    }

    /// One of its fields as text; empty when it has none of that name.
    pub(crate) fn text_of(&self, field: &str) -> &str {
        self.json.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// One of its fields as a number; -1 when it has none of that name.
    pub(crate) fn number(&self, field: &str) -> i64 {
        self.json.get(field).and_then(Value::as_i64).unwrap_or(-1)
    }
}

/// What the reader of a process's output is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Read,
    Wait,
    Close,
}

/// What a process has written so far.
#[derive(Debug, Default)]
struct Written {
    lines: Vec<Line>,
    /// The highest offset in them, by resource.
    newest: HashMap<String, i64>,
    /// What stood after the last line's end when the output ended.
    torn: Vec<u8>,
    stderr: String,
    /// How many of the two streams have ended.
    ended: u8,
}

impl Written {
    fn push(&mut self, line: Line) {
        let offset = line.number("offset");
        match self.newest.get_mut(line.text_of("resource")) {
            Some(newest) => *newest = offset.max(*newest),
            None => drop(self.newest.insert(line.text_of("resource").to_owned(), offset)),
        }
        self.lines.push(line);
    }
}

/// How far a process has come, for other threads.
#[derive(Debug, Clone)]
pub(crate) struct Progress(Arc<Shared>);

impl Progress {
    /// The highest offset of a resource in its lines; -1 when there is none.
    pub(crate) fn newest(&self, resource: &str) -> i64 {
        self.0.written().newest.get(resource).copied().unwrap_or(-1)
    }
}

#[derive(Debug, Default)]
struct Shared {
    written: Mutex<Written>,
    changed: Condvar,
}

impl Shared {
    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, change: impl FnOnce(&mut Written)) {
        change(&mut self.written());
        self.changed.notify_all();
    }
}

/// A running process of the binary.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    pid: Pid,
    child: Child,
    stdin: Option<ChildStdin>,
    shared: Arc<Shared>,
    gate: watch::Sender<Gate>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a command of any kind; all three standard streams are piped.
    pub(crate) fn start(name: &str, mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary can be started");
        let pid = Pid::from_raw(child.id().try_into().expect("a process number is small"));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let shared = Arc::new(Shared::default());
        let gate = watch::Sender::new(Gate::Read);
        let (lines, orders) = (Arc::clone(&shared), gate.subscribe());
        thread::spawn(move || read_stdout(stdout.expect("standard output is piped"), orders, &lines));
        let log = Arc::clone(&shared);
        thread::spawn(move || read_stderr(stderr.expect("standard error is piped"), &log));
        let stdin = child.stdin.take();
        Self { name: name.to_owned(), pid, child, stdin, shared, gate, status: None }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress(Arc::clone(&self.shared))
    }

    /// Writes lines to its standard input, each with an end; waits where the pipe is full.
    pub(crate) fn feed<L: AsRef<str>>(&mut self, lines: impl IntoIterator<Item = L>) {
        let mut text = String::new();
        for line in lines {
            text.push_str(line.as_ref());
            text.push('\n');
        }
        self.feed_bytes(text.as_bytes());
    }

    /// Writes bytes to its standard input as they are.
    pub(crate) fn feed_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("standard input was not closed");
        if let Err(error) = stdin.write_all(bytes) {
            panic!("{} takes no more input: {error}\n{}", self.name, self.last_words());
        }
    }

    /// Takes its standard input out, for a thread that writes there.
    pub(crate) fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().expect("standard input was not closed")
    }

    /// Ends its standard input.
    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Reads nothing more from its standard output, so that the pipe fills; some lines may be read yet.
    pub(crate) fn stop_reading(&self) {
        self.gate.send_replace(Gate::Wait);
    }

    /// Reads on.
    pub(crate) fn read_on(&self) {
        self.gate.send_replace(Gate::Read);
    }

    /// Closes the reading end of its standard output, and returns when it is closed.
    pub(crate) fn close_stdout(&self) {
        self.gate.send_replace(Gate::Close);
        let deadline = Instant::now() + ANSWER;
        while self.gate.receiver_count() > 0 {
            assert!(Instant::now() < deadline, "the reader of {} does not end", self.name);
            thread::sleep(LOOK);
        }
    }

    /// The lines of its standard output so far.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.shared.written().lines.clone()
    }

    /// Looks at the lines so far, without copying them.
    pub(crate) fn with_lines<T>(&self, look: impl FnOnce(&[Line]) -> T) -> T {
        look(&self.shared.written().lines)
    }

    /// Its standard output as one text.
    pub(crate) fn stdout(&self) -> String {
        let written = self.shared.written();
        let mut text: String = written.lines.iter().flat_map(|line| [line.text.as_str(), "\n"]).collect();
        text.push_str(&String::from_utf8_lossy(&written.torn));
        text
    }

    /// What stood behind the last line's end when its output ended: empty, save after a kill.
    pub(crate) fn torn(&self) -> Vec<u8> {
        self.shared.written().torn.clone()
    }

    /// Its standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.shared.written().stderr.clone()
    }

    /// Its log lines so far that are JSON.
    pub(crate) fn logs(&self) -> Vec<Value> {
        self.stderr().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The end of its standard error, for people.
    pub(crate) fn last_words(&self) -> String {
        let stderr = self.stderr();
        let lines: Vec<&str> = stderr.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(TAIL)..).unwrap_or_default();
        format!("--- {} (process {}), end of standard error:\n{}\n", self.name, self.pid, tail.join("\n"))
    }

    /// Waits until `look` finds in the lines what it looks for; called again whenever a line arrives.
    pub(crate) fn until<T>(
        &self,
        what: &str,
        deadline: Duration,
        mut look: impl FnMut(&[Line]) -> Option<T>,
    ) -> T {
        let end = Instant::now() + deadline;
        let mut written = self.shared.written();
        loop {
            if let Some(found) = look(&written.lines) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let last: Vec<&str> =
                    written.lines.iter().rev().take(5).map(|line| line.text.as_str()).collect();
                let (count, last) = (written.lines.len(), last.join("\n"));
                drop(written);
                panic!(
                    "{what}: not within {deadline:?} in the {count} lines of {}; the latest first:\n{last}\n{}",
                    self.name,
                    self.last_words()
                );
            }
            let waited = self.shared.changed.wait_timeout(written, left);
            written = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until there are `count` messages among its lines (or answers, of a data-plane process).
    pub(crate) fn until_count(&self, count: usize, deadline: Duration) {
        self.until(&format!("{count} lines that are no notices"), deadline, |lines| {
            (lines.iter().filter(|line| !is_notice(line)).count() >= count).then_some(())
        });
    }

    /// Waits until it has acquired `bucket`, after the first `after` lines; the epoch.
    pub(crate) fn until_acquired(&self, bucket: i64, after: usize, deadline: Duration) -> i64 {
        self.until(&format!("bucket {bucket} acquired"), deadline, |lines| {
            let notices = lines.get(after..)?.iter().filter_map(|line| line.json.get("acquired"));
            let mut ours =
                notices.filter(|notice| notice.get("bucket").and_then(Value::as_i64) == Some(bucket));
            ours.next_back()?.get("epoch")?.as_i64()
        })
    }

    /// Waits until a log line has `part` in it; that line.
    pub(crate) fn until_logged(&self, part: &str, deadline: Duration) -> String {
        let found = || self.stderr().lines().find(|line| line.contains(part)).map(str::to_owned);
        eventually(&format!("{:?} logged by {}", part, self.name), deadline, &[self], found)
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, what: Signal) {
        if let Err(error) = signal::kill(self.pid, what) {
            panic!("cannot send {what} to {}: {error}\n{}", self.name, self.last_words());
        }
    }

    /// SIGKILL; returns when it is gone and its lines are read.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait(ANSWER);
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// SIGSTOP: it freezes, as a whole, and its connections stay open.
    pub(crate) fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.ended().is_none()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("a child can be waited for");
        }
        self.status
    }

    /// Whether its output has ended and is read.
    pub(crate) fn is_read(&self) -> bool {
        self.shared.written().ended == 2
    }

    /// Waits for its end, and until all that it wrote is read.
    pub(crate) fn wait(&mut self, deadline: Duration) -> ExitStatus {
        let end = Instant::now() + deadline;
        loop {
            let status = self.ended();
            // A program that a killed controller left behind may hold its standard error open.
            let all_read = self.shared.written().ended == 2
                || status
                    .is_some_and(|status| status.signal().is_some() || *self.gate.borrow() != Gate::Read);
            match status {
                Some(status) if all_read => return status,
                _ => {}
            }
            assert!(
                Instant::now() < end,
                "{} has not ended within {deadline:?}\n{}",
                self.name,
                self.last_words()
            );
            thread::sleep(LOOK);
        }
    }

    /// Waits for its end; its exit code.
    pub(crate) fn exit_code(&mut self, deadline: Duration) -> i32 {
        let status = self.wait(deadline);
        status.code().unwrap_or_else(|| panic!("{} ended with {status}\n{}", self.name, self.last_words()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            // It may have ended meanwhile; either way it is waited for.
            self.child.kill().ok();
            self.child.wait().ok();
        }
        if thread::panicking() {
            eprintln!("{}", self.last_words());
        }
    }
}

/// Waits until `look` finds something; a failure shows the last words of `processes`.
pub(crate) fn eventually<T>(
    what: &str,
    deadline: Duration,
    processes: &[&Process],
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + deadline;
    loop {
        if let Some(found) = look() {
            return found;
        }
        if Instant::now() >= end {
            let words: String = processes.iter().map(|process| process.last_words()).collect();
            panic!("{what}: not within {deadline:?}\n{words}");
        }
        thread::sleep(LOOK);
    }
}

/// Whether a line is a controller's notice: one top-level key.
fn is_notice(line: &Line) -> bool {
    line.json.as_object().is_some_and(|object| object.len() == 1)
}

/// Reads lines, as the gate says, until the end. Closes the pipe when it returns.
fn read_stdout(stdout: ChildStdout, mut gate: watch::Receiver<Gate>, shared: &Shared) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a small runtime");
    runtime.block_on(async {
        let pipe = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout)).expect("a pipe");
        let mut pipe = tokio::io::BufReader::new(pipe);
        let mut line = Vec::new();
        loop {
            let order = *gate.borrow_and_update();
            tokio::select! {
                biased;
                changed = gate.changed() => if changed.is_err() { return },
                read = pipe.read_until(b'\n', &mut line), if order == Gate::Read => {
                    let read = read.expect("a pipe can be read");
                    if read == 0 || line.last() != Some(&b'\n') {
                        break;
                    }
                    line.pop();
                    shared.add(|written| written.push(parsed(&line)));
                    line.clear();
                }
                () = std::future::ready(()), if order == Gate::Close => break,
            }
        }
        drop(pipe);
        shared.add(|written| {
            written.torn = line;
            written.ended += 1;
        });
    });
}

fn parsed(line: &[u8]) -> Line {
    let text = String::from_utf8_lossy(line).into_owned();
    let json = serde_json::from_str(&text).unwrap_or_default();
    Line { at: Instant::now(), text, json }
}

fn read_stderr(stderr: ChildStderr, shared: &Shared) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while stderr.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        shared.add(|written| written.stderr.push_str(&String::from_utf8_lossy(&line)));
        line.clear();
    }
    shared.add(|written| written.ended += 1);
}

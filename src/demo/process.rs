//! The show's child processes: controllers and dispatchers, each this same program with a file of its own.
//!
//! A child's lines and its end come as [`Happening`]s, in order; its log goes to a file. Children take no
//! `CONTROL_BUS__*` variables from this process's environment, which might lead them to another Kafka.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Instant,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdin, Command},
    sync::mpsc,
    task::JoinSet,
};

use super::{error::Error, guard::Guard, load::Sent};

/// What may wait for the show: enough to take in some pipes' worth of lines at once. Full means that children
/// wait in turn.
const HAPPENINGS: usize = 4096;

/// Orders that may wait for a child; the script gives one at a time.
const ORDERS: usize = 4;

/// How much of a log is shown as a child's last words, in lines.
const LAST_WORDS: usize = 3;

/// One run of a child process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ProcessId(pub(super) usize);

/// Something that happened.
#[derive(Debug)]
pub(super) enum Happening {
    /// A dispatcher is about to be given a message.
    Sent(Sent),
    /// A child wrote a line.
    Said(ProcessId, Instant, String),
    /// A child has ended; everything it wrote came before.
    Ended(ProcessId, std::io::Result<ExitStatus>),
}

/// What a child is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// SIGTERM: end in good order.
    Stop,
    /// SIGKILL.
    Kill,
}

/// A child, as the show holds it.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) name: String,
    pid: Option<u32>,
    log: PathBuf,
    orders: mpsc::Sender<Order>,
}

/// All children that were ever started.
pub(super) struct Crew {
    program: PathBuf,
    folder: PathBuf,
    guard: Guard,
    processes: Vec<Process>,
    happenings: mpsc::Sender<Happening>,
    pub(super) tasks: JoinSet<()>,
}

impl Crew {
    /// A crew that is still empty, and where its happenings come.
    pub(super) fn new(program: PathBuf, folder: &Path) -> Result<(Self, mpsc::Receiver<Happening>), Error> {
        let started = Guard::start(&program, folder);
        let guard = started.map_err(|source| {
            let (name, program) = ("the guard".to_owned(), program.clone());
            Error::Start { name, program, source }
        })?;
        let (sender, happenings) = mpsc::channel(HAPPENINGS);
        let crew = Self {
            program,
            folder: folder.to_owned(),
            guard,
            processes: Vec::new(),
            happenings: sender,
            tasks: JoinSet::new(),
        };
        Ok((crew, happenings))
    }

    /// Starts `run` with the file `<name>.toml`. Its input is returned where it is to have one.
    pub(super) fn start(
        &mut self,
        name: &str,
        input: bool,
    ) -> Result<(ProcessId, Option<ChildStdin>), Error> {
        let id = ProcessId(self.processes.len());
        let log = self.folder.join(format!("{name}.log"));
        let failed = |source| Error::Start { name: name.to_owned(), program: self.program.clone(), source };
        let stderr = File::options().create(true).append(true).open(&log).map_err(failed)?;
        let mut command = Command::new(&self.program);
        command
            .arg("run")
            .arg("--config")
            .arg(self.folder.join(format!("{name}.toml")))
            .stdin(if input { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(stderr)
            .process_group(self.guard.group())
            .kill_on_drop(true);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("CONTROL_BUS__") {
                command.env_remove(variable);
            }
        }
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, pid) = (child.stdin.take(), child.id());
        let (orders, given) = mpsc::channel(ORDERS);
        self.tasks.spawn(attend(id, child, given, self.happenings.clone()));
        self.processes.push(Process { name: name.to_owned(), pid, log, orders });
        Ok((id, stdin))
    }

    pub(super) fn happenings(&self) -> mpsc::Sender<Happening> {
        self.happenings.clone()
    }

    /// Gives an order; one that has ended meanwhile does not hear it.
    pub(super) async fn order(&self, id: ProcessId, order: Order) {
        if let Some(process) = self.processes.get(id.0) {
            process.orders.send(order).await.ok(); // fails when it has ended
        }
    }

    /// The name of a child.
    pub(super) fn name(&self, id: ProcessId) -> &str {
        self.processes.get(id.0).map_or("?", |process| &process.name)
    }

    /// The process id that a child had when it was started, for people.
    pub(super) fn pid(&self, id: ProcessId) -> Option<u32> {
        self.processes.get(id.0)?.pid
    }

    /// The last lines of a child's log.
    pub(super) fn last_words(&self, id: ProcessId) -> String {
        let log = self.processes.get(id.0).and_then(|process| std::fs::read_to_string(&process.log).ok());
        let log = log.unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(LAST_WORDS).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    /// Ends the guard, and with it every child that is left.
    pub(super) fn end(self, keep: bool) -> std::io::Result<()> {
        self.guard.end(keep)
    }
}

/// Brings a child's lines and its end, and carries orders out.
async fn attend(
    id: ProcessId,
    mut child: Child,
    mut orders: mpsc::Receiver<Order>,
    happenings: mpsc::Sender<Happening>,
) {
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::with_capacity(64 * 1024, stdout).lines();
        loop {
            tokio::select! {
                biased;
                Some(order) = orders.recv() => carry_out(&mut child, order),
                line = lines.next_line() => {
                    let Ok(Some(line)) = line else { break };
                    if happenings.send(Happening::Said(id, Instant::now(), line)).await.is_err() {
                        return; // the show is over; the child is killed
                    }
                }
            }
        }
    }
    let status = loop {
        tokio::select! {
            biased;
            Some(order) = orders.recv() => carry_out(&mut child, order),
            status = child.wait() => break status,
        }
    };
    drop(happenings.send(Happening::Ended(id, status)).await);
}

/// Sends the signal. The child has not been waited for, so the number is surely its own.
fn carry_out(child: &mut Child, order: Order) {
    let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) else { return };
    let signal = match order {
        Order::Stop => Signal::SIGTERM,
        Order::Kill => Signal::SIGKILL,
    };
    if let Err(error) = kill(Pid::from_raw(id), signal) {
        tracing::debug!(%error, "a signal could not be sent");
    }
}

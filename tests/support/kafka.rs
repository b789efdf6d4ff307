//! Real Kafka brokers for tests: a cluster of one's own to break, or the one that a whole test run shares.
//!
//! The brokers are started by `tests/kafka/up`, which describes them. They end with the value that started them, and
//! with the test process however that ends: `up` reads from a pipe that only this process holds.
//!
//! Brokers have the numbers 1 to 3, which are their `node.id`s. Every function here panics when it cannot do what it
//! says: there is nothing that a test could do about it.

#![allow(dead_code, reason = "a test binary that includes this module need not use all of it")]
#![expect(clippy::expect_used, clippy::panic, reason = "test support: what fails here fails the test")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

/// The variable that names brokers to use instead of starting one for [`shared`].
pub(crate) const BOOTSTRAP_VARIABLE: &str = "CONTROL_BUS_TEST_BOOTSTRAP";

/// How long a process may take to be gone after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a broker may take for an orderly stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// The bootstrap list of the brokers that all tests of a run share: those that `CONTROL_BUS_TEST_BOOTSTRAP` names, or
/// else one broker that is started at the first call and lives as long as this process.
///
/// Tests that use it have topics and groups of their own, and leave the brokers alone.
pub(crate) fn shared() -> &'static str {
    static BOOTSTRAP: OnceLock<String> = OnceLock::new();
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    BOOTSTRAP.get_or_init(|| match std::env::var(BOOTSTRAP_VARIABLE) {
        Ok(given) if !given.is_empty() => given,
        _ => CLUSTER.get_or_init(|| Cluster::start(1, &[])).bootstrap().to_owned(),
    })
}

/// One or three brokers of a test's own, with their data in a temporary directory. Dropping it kills the brokers and
/// deletes the directory.
#[derive(Debug)]
pub(crate) struct Cluster {
    brokers: usize,
    bootstrap: String,
    dir: PathBuf,
    up: Mutex<Up>,
}

/// The running `up`, and the two ends of the conversation with it.
#[derive(Debug)]
struct Up {
    process: Child,
    /// Ends `up` when it is closed; an `Option` because dropping the cluster must close it before it waits.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Cluster {
    /// Starts `brokers` brokers, 1 or 3, and returns once all of them answer. `settings` are lines for every broker's
    /// `server.properties`, in place of the defaults that `tests/kafka/serve` writes.
    pub(crate) fn start(brokers: usize, settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("control-bus-kafka.")
            .tempdir()
            .expect("a temporary directory for the brokers")
            .keep(); // `up` deletes it, also when this process is killed
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kafka/up"));
        command.arg("--foreground").arg("--brokers").arg(brokers.to_string());
        command.arg("--dir").arg(&dir).arg("--temporary");
        for (key, value) in settings {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("tests/kafka/up can be run");
        let commands = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("the output of tests/kafka/up is piped"));
        let mut up = Up { process, commands, answers };
        let bootstrap = up.answer();
        if bootstrap.is_empty() {
            let status = up.process.wait().expect("tests/kafka/up can be waited for");
            panic!("tests/kafka/up failed with {status}; it wrote the reason to stderr");
        }
        Self { brokers, bootstrap, dir, up: Mutex::new(up) }
    }

    /// The addresses of all brokers, as `bootstrap.servers` takes them: `127.0.0.1:PORT`, with commas between.
    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// The address of one broker, `127.0.0.1:PORT`. It is the same after a restart.
    pub(crate) fn address(&self, broker: usize) -> &str {
        self.check(broker);
        self.bootstrap.split(',').nth(broker - 1).expect("the bootstrap list names every broker")
    }

    /// What one broker has logged since its latest start.
    pub(crate) fn log(&self, broker: usize) -> String {
        let log = fs::read(self.broker_dir(broker).join("log")).expect("a broker has a log");
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Kills one broker with SIGKILL, paused or not, and returns when it is gone.
    pub(crate) fn kill(&self, broker: usize) {
        let pid = self.pid(broker);
        send(pid, Signal::SIGKILL);
        await_end(pid, KILL_TIMEOUT);
    }

    /// Stops one broker in an orderly way, and returns when it is gone: it gives up its leaderships first, which needs
    /// the others. Not for a paused broker.
    pub(crate) fn stop(&self, broker: usize) {
        let pid = self.pid(broker);
        send(pid, Signal::SIGTERM);
        await_end(pid, STOP_TIMEOUT);
    }

    /// Kills every broker that runs, as in an outage of all; [`restart_all`](Self::restart_all) heals it.
    pub(crate) fn stop_all(&self) {
        let running: Vec<Pid> =
            (1..=self.brokers).map(|broker| self.pid(broker)).filter(|pid| is_alive(*pid)).collect();
        for pid in &running {
            send(*pid, Signal::SIGKILL);
        }
        for pid in running {
            await_end(pid, KILL_TIMEOUT);
        }
    }

    /// Starts one broker again, on its port and with its data, and returns when it answers; kills it first if it still
    /// runs. A killed broker is let in only when its session has expired, 3 s after its end. It needs a majority of the
    /// brokers: when that is gone, use [`restart_all`](Self::restart_all).
    pub(crate) fn restart(&self, broker: usize) {
        if is_alive(self.pid(broker)) {
            self.kill(broker);
        }
        self.start_again(&broker.to_string());
    }

    /// Starts all brokers again, on their ports and with their data, and returns when all answer; kills first what still
    /// runs.
    pub(crate) fn restart_all(&self) {
        self.stop_all();
        let all: Vec<String> = (1..=self.brokers).map(|broker| broker.to_string()).collect();
        self.start_again(&all.join(" "));
    }

    /// Freezes one broker with SIGSTOP: its connections stay open, and nothing is answered.
    pub(crate) fn pause(&self, broker: usize) {
        send(self.pid(broker), Signal::SIGSTOP);
    }

    /// Lets a broker that was paused go on.
    pub(crate) fn resume(&self, broker: usize) {
        send(self.pid(broker), Signal::SIGCONT);
    }

    fn start_again(&self, brokers: &str) {
        let mut up = self.up.lock().unwrap_or_else(PoisonError::into_inner);
        let commands = up.commands.as_mut().expect("the pipe to tests/kafka/up is open until the drop");
        writeln!(commands, "start {brokers}").expect("tests/kafka/up takes commands");
        let answer = up.answer();
        assert_eq!(answer, format!("started {brokers}"), "tests/kafka/up could not start a broker again");
    }

    fn broker_dir(&self, broker: usize) -> PathBuf {
        self.check(broker);
        self.dir.join(format!("broker-{broker}"))
    }

    fn pid(&self, broker: usize) -> Pid {
        let pid = fs::read_to_string(self.broker_dir(broker).join("pid")).expect("a broker has a pid file");
        Pid::from_raw(pid.trim().parse().expect("a pid is a number"))
    }

    fn check(&self, broker: usize) {
        assert!((1..=self.brokers).contains(&broker), "there is no broker {broker} of {}", self.brokers);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let up = self.up.get_mut().unwrap_or_else(PoisonError::into_inner);
        up.commands = None;
        if let Err(error) = up.process.wait() {
            eprintln!("cannot wait for tests/kafka/up: {error}");
        }
    }
}

impl Up {
    /// The next line that `up` prints, without its end; empty when it has ended.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the output of tests/kafka/up is readable text");
        line.trim_end().to_owned()
    }
}

fn send(pid: Pid, what: Signal) {
    signal::kill(pid, what).unwrap_or_else(|error| panic!("cannot send {what} to the broker {pid}: {error}"));
}

fn await_end(pid: Pid, timeout: Duration) {
    let deadline = Instant::now() + timeout;
    while is_alive(pid) {
        assert!(
            Instant::now() < deadline,
            "the broker {pid} still runs {timeout:?} after it was told to end"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process is there. `up` reaps its brokers at once, so a dead one is soon gone.
fn is_alive(pid: Pid) -> bool {
    signal::kill(pid, None) != Err(Errno::ESRCH)
}

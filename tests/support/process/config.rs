//! A bus of a test's own, and the configurations of its processes.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use tempfile::TempDir;

use super::{ANSWER, Process};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_control-bus");

/// One test's own bus.
#[derive(Debug)]
pub(crate) struct Bus {
    name: String,
    brokers: String,
    buckets: u16,
    dir: TempDir,
}

/// One process's configuration, before it is written.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    name: String,
    dir: PathBuf,
    keys: BTreeMap<String, Value>,
    environment: Vec<(String, String)>,
}

impl Bus {
    /// A bus of `buckets` buckets that nobody else has; `test` begins its name.
    pub(crate) fn new(test: &str, brokers: &str, buckets: u16) -> Self {
        let dir =
            tempfile::Builder::new().prefix("control-bus-test.").tempdir().expect("a temporary directory");
        let name = format!("{test}-{}", uuid::Uuid::now_v7());
        Self { name, brokers: brokers.to_owned(), buckets, dir }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A directory that is deleted with the bus.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn controller(&self, name: &str) -> Config {
        self.config("controller", name)
    }

    pub(crate) fn data_plane(&self, name: &str) -> Config {
        self.config("data-plane", name)
    }

    fn config(&self, role: &str, name: &str) -> Config {
        let config = Config {
            name: name.to_owned(),
            dir: self.dir().into(),
            keys: BTreeMap::new(),
            environment: vec![],
        };
        config
            .set("role", role)
            .set("name", name)
            .set("bus.name", self.name.as_str())
            .set("bus.buckets", self.buckets)
            .set("bus.slots", 4)
            .set("kafka.brokers", self.brokers.as_str())
            .set("monitoring.listen", "127.0.0.1:0")
            .set("log.format", "json")
    }
}

impl Config {
    /// Sets a key, by its dotted name: text, a number, a truth value or a list of texts.
    pub(crate) fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.keys.insert(key.to_owned(), value.into());
        self
    }

    /// Leaves a key out.
    pub(crate) fn unset(mut self, key: &str) -> Self {
        self.keys.remove(key);
        self
    }

    /// Sets one of librdkafka's properties.
    pub(crate) fn property(self, name: &str, value: &str) -> Self {
        self.set(&format!("kafka.properties.\"{name}\""), value)
    }

    /// Sets an environment variable of the process.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes the file, and says where it is.
    pub(crate) fn write(&self) -> PathBuf {
        let mut text = String::new();
        for (key, value) in &self.keys {
            // JSON's texts, numbers and lists of them are TOML's as well.
            writeln!(text, "{key} = {value}").expect("memory takes text");
        }
        let path = self.dir.join(format!("{}.toml", self.name));
        // A process that was begun before may just be reading it.
        let new = path.with_extension("new");
        fs::write(&new, text).expect("the configuration file can be written");
        fs::rename(&new, &path).expect("the configuration file can be replaced");
        path
    }

    /// Starts `control-bus run`.
    pub(crate) fn start(&self) -> Process {
        let mut command = self.command();
        command.arg("run").arg("--config").arg(self.write());
        Process::start(&self.name, command)
    }

    /// Runs one of the commands that look at a bus, with this configuration, to its end.
    pub(crate) fn look(&self, arguments: &[&str]) -> Looked {
        let mut command = self.command();
        command.args(arguments).arg("--config").arg(self.write());
        Looked::run(&self.name, command)
    }

    /// Begins one of the commands that look at a bus, and leaves it running.
    pub(crate) fn begin(&self, arguments: &[&str]) -> Process {
        let mut command = self.command();
        command.args(arguments).arg("--config").arg(self.write());
        Process::start(&self.name, command)
    }

    fn command(&self) -> Command {
        let mut command = program();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Process {
    /// Calls the program with these arguments only, and waits for its end.
    pub(crate) fn call(arguments: &[&str]) -> Looked {
        let mut command = program();
        command.args(arguments);
        Looked::run("control-bus", command)
    }
}

/// The program, in an environment that configures nothing.
fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CONTROL_BUS__") {
            command.env_remove(name);
        }
    }
    command
}

/// What a command that looks at a bus said.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Looked {
    fn run(name: &str, command: Command) -> Self {
        let mut process = Process::start(name, command);
        process.close_stdin();
        let status = process.wait(ANSWER);
        Self { code: status.code(), stdout: process.stdout(), stderr: process.stderr() }
    }

    /// What it wrote, as one JSON value; it must have succeeded.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

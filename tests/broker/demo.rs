//! `control-bus demo`, as a person starts it: with an embedded broker and on a real one, kept and killed.

use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use control_bus::kafka::{Admin, AdminError, Settings};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::support::{
    kafka::shared,
    process::{Process, eventually},
};

/// "A minute or so", and more for a machine that does other things too.
const SHOW: Duration = Duration::from_secs(240);

/// How long a moment may take.
const SOON: Duration = Duration::from_secs(30);

/// A demo whose temporary files are in a folder of the test's own.
struct Demo {
    files: tempfile::TempDir,
    process: Process,
}

/// The numbers of a verdict's line.
#[derive(Debug)]
struct Verdict {
    good: bool,
    counts: BTreeMap<String, usize>,
}

impl Demo {
    fn start(arguments: &[&str]) -> Self {
        let files = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_control-bus"));
        command.arg("demo").args(arguments).env("TMPDIR", files.path());
        // Of no concern to the demo's processes: nothing would work.
        command.env("CONTROL_BUS__KAFKA__BROKERS", "127.0.0.1:1");
        Self { process: Process::start("demo", command), files }
    }

    /// Waits for a line with `part` in it.
    fn until(&self, part: &str, deadline: Duration) -> String {
        self.process.until(part, deadline, |lines| {
            lines.iter().find(|line| line.text.contains(part)).map(|line| line.text.clone())
        })
    }

    fn verdict(&self) -> Verdict {
        let line = self.until("verdict: ", SHOW);
        let (_, line) = line.split_once("verdict: ").unwrap();
        let (word, counts) = line.split_once(": ").unwrap();
        let counts = counts.split(", ").map(|part| {
            let part = part.split(" (").next().unwrap();
            let (name, count) = part.rsplit_once(' ').unwrap();
            (name.to_owned(), count.parse().unwrap())
        });
        Verdict { good: word == "good", counts: counts.collect() }
    }

    /// The demo's processes, by its folder among their arguments.
    fn children(&self) -> Vec<i32> {
        self.children_with("")
    }

    /// Those with an argument in that folder that ends so.
    fn children_with(&self, end: &str) -> Vec<i32> {
        let folder = self.files.path().to_str().unwrap();
        let has_file = |id: &i32| {
            let arguments = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let arguments = String::from_utf8_lossy(&arguments);
            arguments.split('\0').any(|argument| argument.starts_with(folder) && argument.ends_with(end))
        };
        let ids =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        ids.filter(has_file).collect()
    }

    /// The folder with the demo's files.
    fn folder(&self) -> Option<String> {
        let entry = fs::read_dir(self.files.path()).unwrap().next()?;
        Some(entry.unwrap().path().to_str().unwrap().to_owned())
    }

    fn assert_nothing_is_left(&self) {
        assert_eq!(self.children(), [0; 0]);
        assert_eq!(self.folder(), None);
    }
}

impl Verdict {
    fn assert_good(&self) {
        assert!(self.good, "{self:?}");
        for fault in ["lost", "out of order", "other faults"] {
            assert_eq!(self.counts[fault], 0, "{self:?}");
        }
        let (sent, handled) = (self.counts["sent"], self.counts["handled"]);
        assert_eq!(sent, handled + self.counts["superseded"], "{self:?}");
        assert!(handled > 2000, "{self:?}");
    }
}

/// Runs a line as a shell does, in `folder`.
fn typed(folder: &Path, line: &str) -> String {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).current_dir(folder);
    let mut process = Process::start("sh", command);
    process.close_stdin();
    assert_eq!(process.exit_code(SOON), 0, "{line}\n{}", process.last_words());
    process.stdout()
}

#[test]
fn the_demo_needs_nothing_and_ends_with_a_good_verdict_in_about_a_minute() {
    let mut demo = Demo::start(&[]);
    assert_eq!(demo.process.exit_code(SHOW), 0, "{}", demo.process.stdout());
    demo.verdict().assert_good();
    let shown = demo.process.stdout();
    for part in ["[1/6]", "[6/6]", "(SIGKILL)", "(SIGTERM)", "controller3 owns bucket"] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    let step = |one: &str, next: &str| shown.split(one).nth(1).unwrap().split(next).next().unwrap();
    assert!(!step("[2/6]", "[3/6]").contains("has given up"), "it was not killed:\n{shown}");
    assert!(step("[4/6]", "[5/6]").contains("has given up"), "it was not stopped in good order:\n{shown}");
    assert!(!shown.contains('\u{1b}'), "a pipe is no terminal:\n{shown}");
    demo.assert_nothing_is_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_on_a_real_broker_leaves_no_topics_there() {
    let mut demo = Demo::start(&["--brokers", shared()]);
    assert_eq!(demo.process.exit_code(SHOW), 0, "{}", demo.process.stdout());
    demo.verdict().assert_good();
    demo.assert_nothing_is_left();
    let line = demo.until("Bus: ", SOON);
    let bus = line.split_whitespace().nth(1).unwrap().trim_end_matches(',');
    let kafka = Settings::new(shared(), "demo-test", BTreeMap::new(), false).unwrap();
    let admin = Admin::new(&kafka, SOON).unwrap();
    for topic in ["notifications", "ownership", "commands", "replies", "dead-letters"] {
        // A deleted topic may be known for a moment longer.
        let end = Instant::now() + SOON;
        let topic = format!("{bus}.{topic}");
        while !matches!(admin.layout(&topic).await, Err(AdminError::Missing { .. })) {
            assert!(Instant::now() < end, "{topic} is still there");
        }
    }
}

#[test]
fn a_demo_that_stays_says_what_works_and_ends_on_sigterm() {
    let mut demo = Demo::start(&["--stay", "--rate", "60"]);
    demo.until("Ctrl-C here ends", SHOW);
    let said: Vec<String> =
        demo.process.lines().into_iter().map(|line| line.text.trim().to_owned()).collect();
    let command = |part: &str| said.iter().find(|line| line.contains(part)).unwrap().as_str();
    let folder = command("cd ").strip_prefix("cd ").unwrap();
    assert_eq!(demo.folder().as_deref(), Some(folder));
    let folder = Path::new(folder);

    let buckets = typed(folder, command(" buckets --config"));
    assert_eq!(buckets.lines().skip(1).filter(|line| line.contains("\tcontroller")).count(), 2, "{buckets}");
    let route = typed(folder, command(" route "));
    assert!(route.contains("default/trigger1\t0\t0\tcontroller"), "{route}");
    let answer = typed(folder, command("echo "));
    assert!(answer.contains(r#""resource":"default/trigger2","bucket":1"#), "{answer}");
    demo.until("received default/trigger2 from visitor", SOON);
    // The next controller gets what the killed one had.
    let mut next = Command::new("sh");
    next.arg("-c").arg(format!("exec {}", command("controller4.toml"))).current_dir(folder);
    let mut next = Process::start("controller4", next);
    next.until_logged("topics verified", SOON);
    typed(folder, command("kill -9 "));
    demo.until("has ended with signal: 9", SOON);
    next.until("a bucket", SOON, |lines| {
        lines.iter().find(|line| line.text.contains("acquired")).map(|_| ())
    });
    next.terminate();
    assert_eq!(next.exit_code(SOON), 0);

    demo.process.terminate();
    assert_eq!(demo.process.exit_code(SOON), 0);
    demo.assert_nothing_is_left();
}

#[test]
fn a_demo_that_is_interrupted_or_killed_leaves_nothing_behind() {
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let mut demo = Demo::start(&[]);
        demo.until("owns bucket", SOON);
        assert_eq!(demo.children().len(), 6, "a guard, two controllers, three dispatchers");
        if signal == Signal::SIGKILL {
            // Frozen, they cannot notice anything, and must be ended all the same.
            demo.children_with(".toml")
                .iter()
                .for_each(|id| kill(Pid::from_raw(*id), Signal::SIGSTOP).unwrap());
        }
        demo.process.signal(signal);
        let status = demo.process.wait(SOON);
        if signal == Signal::SIGINT {
            assert_eq!(status.code(), Some(1));
            demo.assert_nothing_is_left();
        }
        eventually("an end of all children and files", SOON, &[], || {
            (demo.children().is_empty() && demo.folder().is_none()).then_some(())
        });
    }
}

#[test]
fn a_controller_that_ends_by_itself_is_trouble_and_its_log_is_left() {
    let mut demo = Demo::start(&[]);
    demo.until("owns bucket", SOON);
    kill(Pid::from_raw(demo.children_with("/controller2.toml")[0]), Signal::SIGKILL).unwrap();
    assert_eq!(demo.process.exit_code(SOON), 1);
    let error = demo.process.stderr();
    assert!(error.contains("controller2 ended with signal: 9"), "{error}");
    assert_eq!(demo.children(), [0; 0]);
    let line = demo.until("logs are left in", SOON);
    let folder = demo.folder().unwrap();
    assert!(line.ends_with(&folder), "{line}");
    assert!(Path::new(&folder).join("controller2.log").is_file());
}

#[test]
fn a_message_that_no_dispatcher_sent_makes_the_verdict_bad() {
    let mut demo = Demo::start(&["--rate", "60"]);
    demo.until("owns bucket", SOON);
    let folder = demo.folder().unwrap();
    let message = r#"{"resource":"default/trigger1","type":"t","kind":"event"}"#;
    let program = env!("CARGO_BIN_EXE_control-bus");
    typed(Path::new(&folder), &format!("echo '{message}' | '{program}' run --config visitor.toml"));
    assert_eq!(demo.process.exit_code(SHOW), 3, "{}", demo.process.stdout());
    let verdict = demo.verdict();
    assert!(!verdict.good && verdict.counts["other faults"] > 0, "{verdict:?}");
    assert_eq!(verdict.counts["lost"], 0, "{verdict:?}");
    demo.until("where no receipt has it", SOON);
    demo.until("logs are left in", SOON);
    assert_eq!(demo.folder(), Some(folder));
    assert_eq!(demo.children(), [0; 0]);
}

#[test]
fn the_guard_ends_whoever_joined_its_group_and_deletes_only_a_demos_folder() {
    for (marker, deleted) in [(".control-bus-demo", true), ("other", false)] {
        let files = tempfile::tempdir().unwrap();
        let folder = files.path().join("show");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(marker), "").unwrap();
        let mut guard = Command::new(env!("CARGO_BIN_EXE_control-bus"));
        guard.arg("demo-guard").arg(&folder).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guard = guard.spawn().unwrap();
        let mut ready = [0];
        guard.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let id = Pid::from_raw(guard.id().try_into().unwrap());
        // Nothing but a signal ends it within this test.
        let mut member = Command::new("sleep");
        let mut member = member.arg("100").process_group(id.as_raw()).stdout(Stdio::null()).spawn().unwrap();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            kill(id, signal).unwrap();
        }
        assert_eq!((guard.try_wait().unwrap(), member.try_wait().unwrap()), (None, None));
        drop(guard.stdin.take());
        let ended = eventually("the member's end", SOON, &[], || member.try_wait().unwrap());
        assert_eq!(ended.signal(), Some(9));
        assert_eq!(guard.wait().unwrap().signal(), Some(9));
        assert_eq!(!folder.exists(), deleted);
    }
}

//! The whole program: arguments in, exit code out.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use super::{
    CheckArgs, Cli, Command, Common, Error, Target,
    append::Appender,
    check::{self, Finding, Verdict},
    execute,
    send::{self, SendArgs},
    shell, style,
};
use crate::{
    config::{self, Settings},
    daemon, demo,
    model::chain,
};

/// The exit code of wrong usage or configuration.
const USAGE: u8 = 64;

/// The exit code of a demo in which a promise was broken.
const BAD_VERDICT: u8 = 3;

/// The exit code of a command that was interrupted.
const INTERRUPTED: u8 = 130;

/// Carries out what was called for. Exit codes: 0, 1 run time, 64 usage or configuration, 3 a demo's bad
/// verdict, 130 second signal.
#[must_use]
pub fn main(cli: Cli) -> ExitCode {
    if let Command::DemoGuard { folder } = cli.command {
        return guard(folder); // without the runtime's threads
    }
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().enable_all().build() else {
        return failed("the runtime's threads could not be started", 1);
    };
    let code = runtime.block_on(async {
        match cli.command {
            Command::Run { config } => run(&config).await,
            Command::Demo { options } => show(options).await,
            Command::Completions { shell } => ended(shell::completions(shell, &mut std::io::stdout())),
            Command::Man { command } => ended(shell::man(&command, &mut std::io::stdout())),
            command => look(&command).await,
        }
    });
    // A thread may be waiting for standard input, which nobody can interrupt.
    runtime.shutdown_background();
    code
}

/// `run`.
async fn run(path: &Path) -> ExitCode {
    let settings = match Settings::load_here(path) {
        Ok(settings) => settings,
        Err(error) => return failed(&chain(&error), USAGE),
    };
    if let Err(error) = daemon::logging::init(settings.log()) {
        return failed(&chain(&error), USAGE);
    }
    let shutdown = match daemon::shutdown_on_signals() {
        Ok(shutdown) => shutdown,
        Err(error) => return failed(&format!("signals cannot be listened for: {error}"), 1),
    };
    match daemon::run(settings, shutdown).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = chain(&error), "ended with an error");
            ExitCode::from(error.exit_code())
        }
    }
}

/// `demo`.
async fn show(options: demo::Options) -> ExitCode {
    let shutdown = match daemon::shutdown_on_signals() {
        Ok(shutdown) => shutdown,
        Err(error) => return failed(&format!("signals cannot be listened for: {error}"), 1),
    };
    match demo::run(options, shutdown).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(BAD_VERDICT),
        Err(error) => failed(&chain(&error), error.exit_code()),
    }
}

/// What a demo starts by itself.
fn guard(folder: PathBuf) -> ExitCode {
    match demo::stand_guard(folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&format!("the guard of a demo: {error}"), USAGE),
    }
}

/// The commands that look at a bus, or say something to it.
async fn look(command: &Command) -> ExitCode {
    let Some(common) = command.common() else { return failed("the command has no configuration", USAGE) };
    let settings = match Settings::load_here(&common.config) {
        Ok(settings) => settings,
        Err(error) => return unusable(command, &error),
    };
    let target = target(&settings, common);
    let interrupted = if command.is_endless() { ExitCode::SUCCESS } else { ExitCode::from(INTERRUPTED) };
    let work = async {
        match command {
            Command::Check { args, .. } => check(command, &settings, &target, args).await,
            Command::Send { args, .. } => ended(send(command, &settings, &target, args).await),
            _ => {
                let append = async || Appender::new(&target).await;
                match execute(command, &target, append, &mut std::io::stdout()).await {
                    Ok(false) => ExitCode::FAILURE,
                    done => ended(done.map(drop)),
                }
            }
        }
    };
    // Nothing has to be put in order.
    tokio::select! {
        code = work => code,
        _ = tokio::signal::ctrl_c() => interrupted,
    }
}

fn target(settings: &Settings, common: &Common) -> Target {
    Target {
        kafka: settings.kafka(),
        bus: settings.bus().clone(),
        buckets: settings.buckets(),
        slots: settings.slots(),
        replication_factor: settings.topics().replication_factor,
        name: settings.name().clone(),
        timeout: common.timeout,
    }
}

/// The configuration cannot be used: for `check` that is its result.
fn unusable(command: &Command, error: &config::Error) -> ExitCode {
    if matches!(command, Command::Check { .. }) {
        let finding = check::unusable(error);
        match Finding::write(&[finding], style(command), &mut std::io::stdout()) {
            Ok(()) => return ExitCode::from(USAGE),
            Err(error) => return ended(Err(error)),
        }
    }
    failed(&chain(error), USAGE)
}

/// `check`.
async fn check(command: &Command, settings: &Settings, target: &Target, args: &CheckArgs) -> ExitCode {
    let Some(common) = command.common() else { return failed("the command has no configuration", USAGE) };
    let findings = check::check(settings, target, &common.config, args).await;
    let written = Finding::write(&findings, style(command), &mut std::io::stdout());
    let good = findings.iter().all(|finding| finding.result != Verdict::Failed);
    match written {
        Ok(()) if !good => ExitCode::FAILURE,
        written => ended(written),
    }
}

/// `send`.
async fn send(command: &Command, settings: &Settings, target: &Target, args: &SendArgs) -> Result<(), Error> {
    let sent = send::send(settings, target, args).await?;
    let (format, paint) = style(command);
    format.write(&sent, paint, &mut std::io::stdout())
}

/// The exit code of a command that is done, after what there is to say.
fn ended(done: Result<(), Error>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            failed(&format!("{}{hint}", chain(&error)), error.exit_code())
        }
    }
}

/// Says what went wrong, on standard error.
fn failed(what: &str, code: u8) -> ExitCode {
    // When standard error is closed, the exit code has to do.
    drop(writeln!(std::io::stderr(), "control-bus: {what}"));
    ExitCode::from(code)
}

//! The whole program: arguments in, exit code out.

use std::{
    future::Future,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use super::{Cli, Command, Target, append::Appender, execute};
use crate::{config::Settings, daemon, demo, model::chain};

/// The exit code of wrong usage or configuration.
const USAGE: u8 = 64;

/// The exit code of a demo in which a promise was broken.
const BAD_VERDICT: u8 = 3;

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

/// The commands that look at a bus.
async fn look(command: &Command) -> ExitCode {
    let Some(common) = command.common() else { return failed("the command has no configuration", USAGE) };
    let settings = match Settings::load_here(&common.config) {
        Ok(settings) => settings,
        Err(error) => return failed(&chain(&error), USAGE),
    };
    let topics = settings.topics();
    let target = Target {
        kafka: settings.kafka(),
        bus: settings.bus().clone(),
        buckets: settings.buckets(),
        slots: settings.slots(),
        replication_factor: topics.replication_factor,
        name: settings.name().clone(),
        timeout: common.timeout,
    };
    let append = async || Appender::new(&target).await;
    let mut out = std::io::stdout();
    interruptible(async {
        match execute(command, &target, append, &mut out).await {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => failed(&chain(&error), error.exit_code()),
        }
    })
    .await
}

/// Ends at the first interrupt: nothing has to be put in order.
async fn interruptible(work: impl Future<Output = ExitCode>) -> ExitCode {
    tokio::select! {
        code = work => code,
        _ = tokio::signal::ctrl_c() => ExitCode::from(130),
    }
}

/// Says what went wrong, on standard error.
fn failed(what: &str, code: u8) -> ExitCode {
    // When standard error is closed, the exit code has to do.
    drop(writeln!(std::io::stderr(), "control-bus: {what}"));
    ExitCode::from(code)
}

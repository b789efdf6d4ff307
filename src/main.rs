//! The `control-bus` program.

use std::process::ExitCode;

use clap::Parser as _;
use control_bus::cli::{self, Cli};

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => cli::main(cli),
        Err(error) => {
            // Help and version are no errors; all else is wrong usage. Nobody is left to tell when this fails.
            if error.print().is_err() || error.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS }
        }
    }
}

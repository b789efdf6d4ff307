//! The guard: a small process that ends the show's children when the show itself is gone, whatever ended it.
//!
//! It leads a process group which all children join, and reads a pipe that only the show holds. When that is
//! closed (by the show, or by the kernel, also after SIGKILL) it deletes the show's folder and kills its group,
//! itself included. No process ids are remembered, so none can be mistaken for another's.
//!
//! The group also keeps a Ctrl-C on the terminal away from the children: the show ends them in its own order.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use std::os::unix::process::CommandExt as _;

use nix::{
    sys::signal::{Signal, killpg},
    unistd::{getpgrp, getpid},
};

/// The hidden command that becomes the guard.
pub const COMMAND: &str = "demo-guard";

/// The file that marks a folder as one that a guard may delete.
pub(super) const MARKER: &str = ".control-bus-demo";

/// Said through the pipe when the folder is to stay.
const KEEP: u8 = b'k';

/// A running guard.
#[derive(Debug)]
pub(super) struct Guard {
    process: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts it for the show's folder.
    pub(super) fn start(program: &Path, folder: &Path) -> io::Result<Self> {
        let mut process = Command::new(program)
            .arg(COMMAND)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe = process.stdin.take();
        Ok(Self { process, pipe })
    }

    /// The group that the children join.
    pub(super) fn group(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap_or(0)
    }

    /// Ends the guard, and with it what is left of the children. The show's folder is deleted unless `keep`.
    pub(super) fn end(mut self, keep: bool) -> io::Result<()> {
        use std::io::Write as _;
        let mut pipe = self.pipe.take();
        if let Some(pipe) = pipe.as_mut().filter(|_| keep) {
            pipe.write_all(&[KEEP])?;
        }
        drop(pipe);
        self.process.wait()?;
        Ok(())
    }
}

/// What the guard does. It returns only where it was not started as one.
///
/// # Errors
/// When it does not lead its process group, which the group's end would hit others, or when its input cannot be
/// read.
pub fn stand(folder: PathBuf) -> io::Result<()> {
    if getpgrp() != getpid() {
        return Err(io::Error::other("it is a part of `demo`, and of no use by itself"));
    }
    let mut said = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut said);
    if !said.contains(&KEEP) && folder.join(MARKER).is_file() {
        // Before the children, since the guard does not survive their end. They open no new files here.
        remove(&folder);
    }
    killpg(getpgrp(), Signal::SIGKILL)?;
    read.map(drop)
}

/// Deletes the folder with what is in it. Nobody is left to tell when that fails.
fn remove(folder: &Path) {
    drop(std::fs::remove_dir_all(folder));
}

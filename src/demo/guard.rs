//! The guard: a small process that ends the show's children when the show itself is gone, whatever ended it.
//!
//! It leads a process group which all children join, and reads a pipe that only the show holds. When that is
//! closed (by the show, or by the kernel, also after SIGKILL) it deletes the show's folder and kills its group,
//! itself included. No process ids are remembered, so none can be mistaken for another's.
//!
//! The group also keeps a Ctrl-C on the terminal away from the children: the show ends them in its own order. The
//! guard itself blocks every signal that can be blocked: among them SIGHUP, which the kernel sends to a group that
//! nobody is left for if one of its members is stopped.

use std::{
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use std::os::unix::process::CommandExt as _;

use nix::{
    sys::signal::{SigSet, Signal, killpg},
    unistd::{getpgrp, getpid},
};

/// The hidden command that becomes the guard.
pub const COMMAND: &str = "demo-guard";

/// The file that marks a folder as one that a guard may delete.
pub(super) const MARKER: &str = ".control-bus-demo";

/// Said by the guard when it stands.
const READY: u8 = b'r';

/// Said through the pipe when the folder is to stay.
const KEEP: u8 = b'k';

/// A running guard.
#[derive(Debug)]
pub(super) struct Guard {
    process: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts it for the show's folder; returns when it stands, some milliseconds later.
    pub(super) fn start(program: &Path, folder: &Path) -> io::Result<Self> {
        let mut process = Command::new(program)
            .arg(COMMAND)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe = process.stdin.take();
        let mut said = [0];
        if let Some(stdout) = &mut process.stdout {
            stdout.read_exact(&mut said)?;
        }
        if said == [READY] { Ok(Self { process, pipe }) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// The group that the children join.
    pub(super) fn group(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap_or(0)
    }

    /// Ends the guard, and with it what is left of the children. The show's folder is deleted unless `keep`.
    pub(super) fn end(mut self, keep: bool) -> io::Result<()> {
        let mut pipe = self.pipe.take();
        if let Some(pipe) = pipe.as_mut().filter(|_| keep) {
            pipe.write_all(&[KEEP])?;
        }
        drop(pipe);
        self.process.wait()?;
        Ok(())
    }
}

/// What the guard does. It returns only where it was not started as one. To be called in a process with a single
/// thread: others would take the signals.
///
/// # Errors
/// When it does not lead its process group, which the group's end would hit others, or when its input cannot be
/// read.
pub fn stand(folder: PathBuf) -> io::Result<()> {
    if getpgrp() != getpid() {
        return Err(io::Error::other("it is a part of `demo`, and of no use by itself"));
    }
    SigSet::all().thread_block()?;
    io::stdout().write_all(&[READY]).and_then(|()| io::stdout().flush())?;
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

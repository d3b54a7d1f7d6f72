//! The wrapper process between a runner and one stage or target.

use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::{
    Cancel, Command, END_SIGNALS, Error, FdThree, Input, Output, Spawner, Status, become_reaper, cancel_on_signals,
    kill_descendants,
};

/// Runs one program and ends with it: the whole body of a wrapper process.
///
/// The wrapper is the program's reaper, so no process that the program starts can escape. It asks the kernel for SIGTERM at the
/// end of its own parent, which must be the process `parent`; the program in turn gets SIGKILL at the end of the wrapper. The
/// program has the wrapper's input, outputs and descriptor 3, regardless of the command. The first SIGTERM or SIGINT is passed on
/// to it once, and after `grace` it is killed; if the parent is gone it is killed at once. When it has ended, all processes below
/// the wrapper have ended too: then its status is returned, for the wrapper to exit with ([`Status::exit_code`]).
///
/// The caller that starts the wrapper sets its [`Command::death_signal`] to SIGTERM and gives it a longer grace period than it
/// gives its program: a wrapper that is killed cannot clean up.
pub fn supervise(parent: i32, command: Command, grace: Duration) -> Result<Status, Error> {
    become_reaper()?;
    let cancel = cancel_on_signals(&END_SIGNALS).map_err(Error::system("handle signals"))?;
    follow_parent(parent)?;
    let ended = run(parent, command, grace, &cancel);
    // This also runs if waiting failed: no process may outlive the wrapper.
    let _ = kill_descendants()?;
    ended
}

fn run(parent: i32, command: Command, grace: Duration, cancel: &Cancel) -> Result<Status, Error> {
    let spawner = Spawner::start().map_err(Error::system("start the spawner thread"))?;
    let child = spawner.spawn(with_own_descriptors(command, grace))?;
    let ended = child.wait_then(None, cancel, |cancel| match cancel.signal() {
        // No parent is left for which an orderly end would matter, and a new run must not find the old program still at work.
        _ if !is_parent(parent) => Signal::KILL,
        Some(signal) => signal,
        None => Signal::TERM,
    })?;
    Ok(ended.status)
}

fn with_own_descriptors(command: Command, grace: Duration) -> Command {
    Command {
        stdin: Input::Inherit,
        stdout: Output::Inherit,
        stderr: Output::Inherit,
        fd_three: FdThree::Inherited,
        death_signal: Signal::KILL,
        grace,
        ..command
    }
}

/// Asks for SIGTERM at the end of the parent. If the parent ended before that, the parent's process id has changed.
fn follow_parent(parent: i32) -> Result<(), Error> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).map_err(Error::system("follow the parent process"))?;
    if is_parent(parent) { Ok(()) } else { Err(Error::ParentGone { expected: parent }) }
}

fn is_parent(pid: i32) -> bool {
    rustix::process::getppid().map(Pid::as_raw_nonzero).map(std::num::NonZeroI32::get) == Some(pid)
}

//! A running child process and its exit.

use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::spawner::{Spawner, StartedChild};
use crate::{Cancel, Error, Usage, poll, reaper, tree};

/// The longest wait for a killed child to end: longer than any orderly exit of a large process, so that only a hang in the kernel
/// exceeds it.
pub const KILL_LIMIT: Duration = Duration::from_secs(30);

/// The number of looks at a stopped child after which it is reported again: it may have been continued and stopped between two looks.
const STOPPED_LOOKS: u32 = 12;

/// A running child. If it is dropped without [`Child::wait`] or [`Child::stop`], it is killed with its whole process group.
#[derive(Debug)]
#[must_use = "a child that is dropped is killed"]
pub struct Child {
    pid: Pid,
    pidfd: OwnedFd,
    started: Instant,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    grace: Duration,
    reaped: bool,
    // The parent-death signal follows the spawner's thread, which therefore has to outlive the child.
    _spawner: Spawner,
}

/// The exit of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildExit {
    /// Its exit code, or the signal that ended it.
    pub status: Status,
    /// True if it was ended because of its time limit.
    pub timed_out: bool,
    /// True if it was ended because of a cancellation.
    pub cancelled: bool,
    /// The number of descendants that were still running when it ended, and were ended with it. Counted in a reaper only.
    pub leftovers: u32,
    /// The resource usage of the child and its descendants: those it waited for, and in a reaper (see [`crate::become_reaper`])
    /// also the orphans that were ended with it. While another child runs whose orphans are adopted by this process too
    /// ([`crate::Orphans`]), the orphans stay, and are counted for the last child.
    pub usage: Usage,
    /// Wall time from just before the fork until its end was observed, in nanoseconds.
    pub wall_ns: u64,
}

/// An exit code or a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The child exited with this code.
    Exited(i32),
    /// This signal ended the child.
    Signaled(i32),
}

impl Status {
    /// Converts the raw status that `wait4` returns for a child that has ended.
    pub(crate) fn from_raw(raw: i32) -> Self {
        if libc::WIFSIGNALED(raw) { Self::Signaled(libc::WTERMSIG(raw)) } else { Self::Exited(libc::WEXITSTATUS(raw)) }
    }

    /// Returns true if the child exited with code 0.
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }

    /// Returns the exit code that a shell would return for it: the exit code, or 128 plus the signal's number.
    pub fn exit_code(self) -> u8 {
        let code = match self {
            Self::Exited(code) => code,
            Self::Signaled(signal) => 128 + signal,
        };
        (code & 0xff) as u8
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Signaled(signal) => match signal_hook::low_level::signal_name(*signal) {
                Some(name) => write!(f, "signal {signal} ({name})"),
                None => write!(f, "signal {signal}"),
            },
        }
    }
}

/// The reason why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WakeReason {
    Ended,
    Cancelled,
    TimedOut,
    Exceeded,
}

impl Child {
    pub(crate) fn new(started: StartedChild, grace: Duration, spawner: Spawner) -> Self {
        let StartedChild { pid, pidfd, at, stdout, stderr } = started;
        Self { pid, pidfd, started: at, stdout, stderr, grace, reaped: false, _spawner: spawner }
    }

    /// Returns the process id, which is also the id of its process group.
    pub fn pid(&self) -> i32 {
        reaper::raw_pid(self.pid)
    }

    /// Returns true if the child has ended. Its descendants may still run until [`Child::wait`].
    pub fn has_ended(&self) -> bool {
        reaper::has_ended(self.pid)
    }

    /// Returns the read end of stdout, once, if the command has [`crate::Output::Pipe`].
    pub fn take_stdout(&mut self) -> Option<File> {
        self.stdout.take().map(File::from)
    }

    /// Returns the read end of stderr, once, if the command has [`crate::Output::Pipe`].
    pub fn take_stderr(&mut self) -> Option<File> {
        self.stderr.take().map(File::from)
    }

    /// Waits until the child has ended, by itself or because of the limit (counted from its start) or a cancellation.
    ///
    /// At the limit or at a cancellation its group gets SIGTERM, and after the command's grace period the group and all of its
    /// descendants get SIGKILL. Remaining processes of its group are killed as well once it has ended; so are orphans, in a
    /// reaper, as soon as no other child runs that they could come from.
    pub fn wait(self, limit: Option<Duration>, cancel: &Cancel) -> Result<ChildExit, Error> {
        self.wait_then(limit, cancel, |_| Signal::TERM)
    }

    /// Waits like [`Child::wait`], and calls `is_exceeded` at this interval: once it returns true, the child and all of its
    /// descendants get SIGKILL. The exit then shows that signal, and neither a time limit nor a cancellation.
    pub fn wait_within(
        mut self,
        limit: Option<Duration>,
        cancel: &Cancel,
        interval: Duration,
        mut is_exceeded: impl FnMut() -> bool,
    ) -> Result<ChildExit, Error> {
        let deadline = poll::deadline(self.started, limit);
        loop {
            let next = poll::deadline(Instant::now(), Some(interval));
            let is_last = deadline.is_some_and(|deadline| next.is_none_or(|next| deadline <= next));
            match self.sleep(if is_last { deadline } else { next }, Some(cancel))? {
                WakeReason::TimedOut if is_exceeded() => {
                    self.kill()?;
                    return self.finish(WakeReason::Exceeded);
                }
                WakeReason::TimedOut if !is_last => {}
                woken => {
                    if woken != WakeReason::Ended {
                        self.terminate(Signal::TERM)?;
                    }
                    return self.finish(woken);
                }
            }
        }
    }

    /// Waits like [`Child::wait`], and looks at this interval whether a signal has stopped the child or one of its own children. If so,
    /// `on_stopped` is called with the process id, and again from time to time while it stays stopped. Nothing continues it.
    pub fn wait_and_tell_stops(
        self,
        limit: Option<Duration>,
        cancel: &Cancel,
        interval: Duration,
        mut on_stopped: impl FnMut(i32),
    ) -> Result<ChildExit, Error> {
        let (pid, mut looks) = (self.pid, 0_u32);
        self.wait_within(limit, cancel, interval, || {
            match tree::stopped_of(pid).map(reaper::raw_pid) {
                Some(stopped) => {
                    if looks % STOPPED_LOOKS == 0 {
                        on_stopped(stopped);
                    }
                    looks = looks.wrapping_add(1);
                }
                None => looks = 0,
            }
            false
        })
    }

    /// Ends the child now: SIGTERM to its group, SIGKILL after the command's grace period. A child that has ended already is
    /// reported as it ended, and not as cancelled.
    pub fn stop(mut self) -> Result<ChildExit, Error> {
        let woken = if self.has_ended() { WakeReason::Ended } else { WakeReason::Cancelled };
        if woken == WakeReason::Cancelled {
            self.terminate(Signal::TERM)?;
        }
        self.finish(woken)
    }

    /// Waits like [`Child::wait`]; `signal` chooses the signal that the group gets at a cancellation.
    pub(crate) fn wait_then(
        mut self,
        limit: Option<Duration>,
        cancel: &Cancel,
        signal: impl FnOnce(&Cancel) -> Signal,
    ) -> Result<ChildExit, Error> {
        let woken = self.sleep(poll::deadline(self.started, limit), Some(cancel))?;
        match woken {
            WakeReason::Ended => {}
            WakeReason::Cancelled => self.terminate(signal(cancel))?,
            WakeReason::TimedOut | WakeReason::Exceeded => self.terminate(Signal::TERM)?,
        }
        self.finish(woken)
    }

    /// Sleeps until the child has ended, the deadline has passed, or a cancellation comes. If the child has ended already, that
    /// takes precedence.
    fn sleep(&self, deadline: Option<Instant>, cancel: Option<&Cancel>) -> Result<WakeReason, Error> {
        let mut fds = vec![self.pidfd.as_fd()];
        fds.extend(cancel.map(Cancel::fd));
        let readable = poll::wait_readable(&fds, deadline).map_err(Error::system("wait for a child process"))?;
        Ok(match readable {
            Some(0) => WakeReason::Ended,
            Some(_) => WakeReason::Cancelled,
            None => WakeReason::TimedOut,
        })
    }

    /// Sends the signal to the group, and kills it after the grace period.
    fn terminate(&mut self, signal: Signal) -> Result<(), Error> {
        self.signal_group(signal);
        if self.sleep(poll::deadline(Instant::now(), Some(self.grace)), None)? == WakeReason::Ended {
            return Ok(());
        }
        self.kill()
    }

    /// Kills the child, all of its descendants, and its group.
    fn kill(&mut self) -> Result<(), Error> {
        tree::kill_tree(self.pid);
        self.signal_group(Signal::KILL);
        match self.sleep(poll::deadline(Instant::now(), Some(KILL_LIMIT)), None)? {
            WakeReason::Ended => Ok(()),
            _ => Err(Error::Unkillable { pid: self.pid(), waited: KILL_LIMIT }),
        }
    }

    /// Signals the whole group. Its id cannot have been reused, because the leader is not reaped.
    fn signal_group(&self, signal: Signal) {
        // It fails only if the group has no process left.
        let _ = rustix::process::kill_process_group(self.pid, signal);
    }

    /// Reaps the ended child, and ends its leftover descendants.
    fn finish(&mut self, woken: WakeReason) -> Result<ChildExit, Error> {
        let wall = self.started.elapsed();
        self.signal_group(Signal::KILL);
        let mut family = reaper::lock_registry();
        self.reaped = true;
        let (status, mut usage) = family.reap_awaited(self.pid).map_err(Error::system("reap a child process"))?;
        let swept = family.sweep_orphans();
        usage += swept.usage;
        Ok(ChildExit {
            status,
            timed_out: woken == WakeReason::TimedOut,
            cancelled: woken == WakeReason::Cancelled,
            leftovers: u32::try_from(swept.killed).unwrap_or(u32::MAX),
            usage,
            wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
        })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        if let Err(error) = self.kill().and_then(|()| self.finish(WakeReason::Cancelled)) {
            tracing::warn!(pid = self.pid(), %error, "a child process was left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_passed_on_as_a_shell_does() {
        assert_eq!(Status::Exited(0).exit_code(), 0);
        assert_eq!(Status::Exited(50).exit_code(), 50);
        assert_eq!(Status::Signaled(15).exit_code(), 143);
        assert!(Status::Exited(0).is_success());
        assert!(!Status::Signaled(9).is_success());
    }

    #[test]
    fn a_status_names_its_signal() {
        assert_eq!(Status::Exited(3).to_string(), "exit code 3");
        assert_eq!(Status::Signaled(9).to_string(), "signal 9 (SIGKILL)");
        assert_eq!(Status::Signaled(99).to_string(), "signal 99");
    }
}

//! Ending of processes that children left behind.
//!
//! A process whose parent ends is adopted by its nearest ancestor that is a reaper. In a reaper the tree below therefore
//! flattens: it kills every child, and adopts that child's children. Repeating that until none is left needs no knowledge of the
//! tree, and no process escapes it by forking twice, by leaving its group, or by leaving its session.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use crate::{Error, Orphans, Status, Usage, poll, sys, tree};

/// The time limit of a sweep, so that a fork bomb or a process that hangs in the kernel does not block the caller.
pub const SWEEP_LIMIT: Duration = Duration::from_secs(10);

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct SweepResult {
    /// The number of processes that were still running, and were killed.
    pub killed: usize,
    /// The number of processes that could not be ended within [`SWEEP_LIMIT`] (or at all, if they belong to another user).
    pub left: usize,
    /// The resource usage of the orphans among them, including those that had ended by themselves.
    pub usage: Usage,
}

/// The children of this process. Forking, reaping and sweeping happen under one lock, so that a child that is just being created
/// is never taken for an orphan, and no process id is signalled after it was freed.
#[derive(Default)]
pub(crate) struct ChildRegistry {
    /// The children that their [`crate::Child`] will wait for, and the process that adopts their orphans.
    pub(crate) awaited: BTreeMap<i32, Orphans>,
    /// True if this process adopts orphans.
    pub(crate) reaper: bool,
}

static REGISTRY: Mutex<ChildRegistry> = Mutex::new(ChildRegistry { awaited: BTreeMap::new(), reaper: false });

pub(crate) fn lock_registry() -> MutexGuard<'static, ChildRegistry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this process the reaper of its orphaned descendants, for the rest of its life.
///
/// From then on every child of this process must be started by a [`crate::Spawner`]: any other one is taken for an orphan.
pub fn become_reaper() -> Result<(), Error> {
    let mut family = lock_registry();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(Error::system("become a child subreaper"))?;
    family.reaper = true;
    Ok(())
}

/// Kills all descendants of this process, and waits until they have ended, but no longer than [`SWEEP_LIMIT`].
///
/// Becomes a reaper first, because only then no process escapes. A child that the caller still holds as a [`crate::Child`] is
/// killed like any other; its `wait` reports that.
pub fn kill_descendants() -> Result<SweepResult, Error> {
    become_reaper()?;
    Ok(lock_registry().sweep(SweepScope::Everything))
}

/// The children that a sweep ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SweepScope {
    Everything,
    Orphans,
}

impl ChildRegistry {
    /// Ends the orphans that this process has adopted, but only if every awaited child keeps its own orphans: an orphan's lineage
    /// is unknown, so it may belong to another living child. A process that is no reaper has no orphans.
    pub(crate) fn sweep_orphans(&self) -> SweepResult {
        let lends_none = self.awaited.values().all(|orphans| *orphans == Orphans::AdoptedByChild);
        if self.reaper && lends_none { self.sweep(SweepScope::Orphans) } else { SweepResult::default() }
    }

    fn sweep(&self, which: SweepScope) -> SweepResult {
        let deadline = Instant::now() + SWEEP_LIMIT;
        let mut swept = SweepResult::default();
        while has_children() && Instant::now() < deadline {
            let (done, running): (Vec<_>, Vec<_>) = self.targets(which).into_iter().partition(|pid| has_ended(*pid));
            // All are killed before any is waited for, so that they end in parallel.
            let killed: Vec<_> = running.into_iter().filter(|pid| kill(*pid)).collect();
            let ended: Vec<_> = killed.into_iter().filter(|pid| has_ended_by(*pid, deadline)).collect();
            // Some were gone already; those that ended by SIGKILL were ended by the signal to their group.
            let reaped = self.reap_orphans(&done, &mut swept.usage);
            swept.killed +=
                ended.len() + reaped.iter().filter(|status| **status == Status::Signaled(Signal::KILL.as_raw())).count();
            let reaped = reaped.len() + self.reap_orphans(&ended, &mut swept.usage).len();
            if reaped == 0 && ended.is_empty() {
                break;
            }
        }
        swept.left = self.count_running(which);
        if swept.left > 0 {
            tracing::warn!(left = swept.left, "processes could not be ended");
        }
        swept
    }

    fn targets(&self, which: SweepScope) -> Vec<Pid> {
        let mut children = tree::children();
        children.retain(|pid| which == SweepScope::Everything || !self.is_awaited(*pid));
        children
    }

    /// Returns the number of children that still run. At least one if the kernel reports children that `/proc` does not show.
    fn count_running(&self, which: SweepScope) -> usize {
        let running = self.targets(which).into_iter().filter(|pid| !has_ended(*pid)).count();
        running.max(usize::from(self.awaited.is_empty() && has_children()))
    }

    fn is_awaited(&self, pid: Pid) -> bool {
        self.awaited.contains_key(&raw_pid(pid))
    }

    /// Reaps ended orphans and returns the status of each. Awaited children are left to their [`crate::Child`].
    fn reap_orphans(&self, ended: &[Pid], usage: &mut Usage) -> Vec<Status> {
        let reaped = ended.iter().filter(|pid| !self.is_awaited(**pid)).filter_map(|pid| sys::reap(*pid).ok());
        let add = |(status, used)| {
            *usage += used;
            status
        };
        reaped.map(add).collect()
    }

    /// Reaps a child that has ended.
    pub(crate) fn reap_awaited(&mut self, pid: Pid) -> io::Result<(Status, Usage)> {
        let reaped = sys::reap(pid);
        self.awaited.remove(&raw_pid(pid));
        reaped
    }
}

pub(crate) fn raw_pid(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

/// Returns true if this process has any child, running or ended. The kernel itself reports it, so there is no race.
fn has_children() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(rustix::process::waitid(WaitId::All, look), Err(rustix::io::Errno::CHILD))
}

/// Returns true if a child has ended. Does not reap it.
pub(crate) fn has_ended(pid: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::Pid(pid), look), Ok(Some(_)) | Err(rustix::io::Errno::CHILD))
}

/// Kills a child; returns true if that was allowed.
fn kill(pid: Pid) -> bool {
    rustix::process::kill_process(pid, Signal::KILL).is_ok()
}

/// Waits until a child has ended, but no longer than the deadline; returns true if it has.
fn has_ended_by(pid: Pid, deadline: Instant) -> bool {
    // Without a pidfd to wait on, the next round checks again.
    let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return has_ended(pid) };
    matches!(poll::wait_readable(&[pidfd.as_fd()], Some(deadline)), Ok(Some(_)))
}

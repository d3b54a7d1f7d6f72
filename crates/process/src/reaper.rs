//! Ending what children left behind.
//!
//! A process whose parent ends is adopted by the nearest reaper above it. In a process that is one, the tree below therefore
//! flattens: kill every child, and its children become ours. Repeating that until none is left needs no knowledge of the tree,
//! and no process escapes it by forking twice, by leaving its group, or by leaving its session.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use crate::{Error, Orphans, Status, Usage, poll, sys, tree};

/// How long a sweep goes on: a fork bomb or a process that hangs in the kernel ends the sweep's patience, not the caller's.
pub const SWEEP_LIMIT: Duration = Duration::from_secs(10);

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Swept {
    /// How many processes were still running, and were killed.
    pub killed: usize,
    /// How many could not be ended within [`SWEEP_LIMIT`] (or at all, when they belong to another user).
    pub left: usize,
    /// What the orphans among them had used, those that had ended by themselves included.
    pub usage: Usage,
}

/// What this process knows of its children. One lock holds it, and forking, reaping and sweeping happen under that lock: a
/// child that is just being made is never taken for an orphan, and no number is signalled after it was freed.
#[derive(Default)]
pub(crate) struct Family {
    /// The children whose [`crate::Child`] will wait for them, and where their orphans come to.
    pub(crate) awaited: BTreeMap<i32, Orphans>,
    /// Whether orphans come back to this process.
    pub(crate) reaper: bool,
}

static FAMILY: Mutex<Family> = Mutex::new(Family { awaited: BTreeMap::new(), reaper: false });

pub(crate) fn family() -> MutexGuard<'static, Family> {
    FAMILY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this process the one to which orphaned descendants come back, for the rest of its life.
///
/// From then on every child of this process must be started by a [`crate::Spawner`]: any other one is taken for an orphan.
pub fn become_reaper() -> Result<(), Error> {
    let mut family = family();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(Error::system("become a child subreaper"))?;
    family.reaper = true;
    Ok(())
}

/// Kills everything below this process, and waits until it has ended, but no longer than [`SWEEP_LIMIT`].
///
/// Becomes a reaper first, since only then does nothing slip away. A child that somebody still holds as a [`crate::Child`] is
/// killed like any other; its `wait` reports that.
pub fn kill_descendants() -> Result<Swept, Error> {
    become_reaper()?;
    Ok(family().sweep(Sweep::Everything))
}

/// Which children a sweep ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sweep {
    Everything,
    Orphans,
}

impl Family {
    /// Ends the orphans that came back to this process. Only when every awaited child keeps its own: an orphan has no lineage,
    /// so while another child lives this one may be its. In a process that is no reaper there are none.
    pub(crate) fn sweep_orphans(&self) -> Swept {
        let lends_none = self.awaited.values().all(|orphans| *orphans == Orphans::StayBelow);
        if self.reaper && lends_none { self.sweep(Sweep::Orphans) } else { Swept::default() }
    }

    fn sweep(&self, which: Sweep) -> Swept {
        let deadline = Instant::now() + SWEEP_LIMIT;
        let mut swept = Swept::default();
        while has_children() && Instant::now() < deadline {
            let (done, running): (Vec<_>, Vec<_>) = self.targets(which).into_iter().partition(|pid| has_ended(*pid));
            // All are killed before any is waited for, so that they end side by side.
            let killed: Vec<_> = running.into_iter().filter(|pid| kill(*pid)).collect();
            let ended: Vec<_> = killed.into_iter().filter(|pid| has_ended_by(*pid, deadline)).collect();
            // Of those that were gone already, the signal to their group had ended the ones that SIGKILL ended.
            let reaped = self.reap_orphans(&done, &mut swept.usage);
            swept.killed +=
                ended.len() + reaped.iter().filter(|status| **status == Status::Signaled(Signal::KILL.as_raw())).count();
            let reaped = reaped.len() + self.reap_orphans(&ended, &mut swept.usage).len();
            if reaped == 0 && ended.is_empty() {
                break;
            }
        }
        swept.left = self.left(which);
        if swept.left > 0 {
            tracing::warn!(left = swept.left, "processes could not be ended");
        }
        swept
    }

    fn targets(&self, which: Sweep) -> Vec<Pid> {
        let mut children = tree::children();
        children.retain(|pid| which == Sweep::Everything || !self.is_awaited(*pid));
        children
    }

    /// How many children still run. At least one where the kernel says that there are some and `/proc` does not show them.
    fn left(&self, which: Sweep) -> usize {
        let running = self.targets(which).into_iter().filter(|pid| !has_ended(*pid)).count();
        running.max(usize::from(self.awaited.is_empty() && has_children()))
    }

    fn is_awaited(&self, pid: Pid) -> bool {
        self.awaited.contains_key(&raw(pid))
    }

    /// Takes ended orphans out of the process table: how each ended. What is awaited stays, for whoever awaits it.
    fn reap_orphans(&self, ended: &[Pid], usage: &mut Usage) -> Vec<Status> {
        let reaped = ended.iter().filter(|pid| !self.is_awaited(**pid)).filter_map(|pid| sys::reap(*pid).ok());
        let add = |(status, used)| {
            *usage += used;
            status
        };
        reaped.map(add).collect()
    }

    /// Takes a child that has ended out of the process table.
    pub(crate) fn reap_awaited(&mut self, pid: Pid) -> io::Result<(Status, Usage)> {
        let reaped = sys::reap(pid);
        self.awaited.remove(&raw(pid));
        reaped
    }
}

pub(crate) fn raw(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

/// Whether this process has any child, running or ended: the kernel's own answer, which no race can blur.
fn has_children() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(rustix::process::waitid(WaitId::All, look), Err(rustix::io::Errno::CHILD))
}

/// Whether a child has ended. Leaves it to be reaped.
pub(crate) fn has_ended(pid: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::Pid(pid), look), Ok(Some(_)) | Err(rustix::io::Errno::CHILD))
}

/// Kills a child: whether that was allowed.
fn kill(pid: Pid) -> bool {
    rustix::process::kill_process(pid, Signal::KILL).is_ok()
}

/// Waits until a child has ended, but no longer than the deadline: whether it has.
fn has_ended_by(pid: Pid, deadline: Instant) -> bool {
    // Without a descriptor to wait on, the next round looks again.
    let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return has_ended(pid) };
    matches!(poll::first_readable(&[pidfd.as_fd()], Some(deadline)), Ok(Some(_)))
}

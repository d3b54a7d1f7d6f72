//! The system calls that no safe wrapper offers. All `unsafe` of the workspace is in this file.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal};

use crate::{Status, Usage};

/// The descriptor number at which a child finds the descriptor that it was passed.
pub(crate) const FD_THREE: RawFd = 3;

/// The settings that a child applies between fork and exec. Plain data: the child may neither allocate nor lock here.
#[derive(Clone, Copy)]
pub(crate) struct BeforeExec {
    /// The process that forks; a child that finds another parent was orphaned before its death signal was set.
    pub(crate) parent: Pid,
    /// The signal that the child gets when the thread that forked it ends.
    pub(crate) death_signal: Signal,
    /// The file for descriptor 3.
    pub(crate) fd_three: PassedFd,
}

/// The content of a child's descriptor 3.
#[derive(Clone, Copy)]
pub(crate) enum PassedFd {
    /// Nothing.
    Closed,
    /// The descriptor that this process inherited under that number.
    Inherited,
    /// The descriptor `from`. Descriptor 3 of this process was `occupant` before the fork.
    From { from: RawFd, occupant: FileIdentity },
}

/// The identity of an open file: device and inode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity(u64, u64);

/// Returns the identity of the file that is descriptor 3 of this process now.
#[expect(unsafe_code, reason = "descriptor 3 is borrowed by number, for one fstat")]
pub(crate) fn identity_of_fd_three() -> io::Result<FileIdentity> {
    // SAFETY: the borrow lasts for one system call, which returns EBADF for a closed descriptor.
    let three = unsafe { BorrowedFd::borrow_raw(FD_THREE) };
    let stat = rustix::fs::fstat(three)?;
    Ok(FileIdentity(stat.st_dev, stat.st_ino))
}

/// Registers the work of the child between fork and exec.
#[expect(unsafe_code, reason = "the parent-death signal can only be set by the child itself, between fork and exec")]
pub(crate) fn before_exec(command: &mut std::process::Command, plan: BeforeExec) {
    // SAFETY: after a fork in a program with threads only async-signal-safe calls are allowed. `prepare` makes bare system
    // calls on plain data: it neither allocates, nor locks, nor panics.
    unsafe { command.pre_exec(move || prepare(&plan)) };
}

/// Runs in the child between fork and exec.
fn prepare(plan: &BeforeExec) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(plan.death_signal))?;
    if rustix::process::getppid() != Some(plan.parent) {
        // The parent died before the signal was armed, so the signal would never be sent.
        return Err(rustix::io::Errno::SRCH.into());
    }
    match plan.fd_three {
        PassedFd::Closed => close_on_exec_from(FD_THREE),
        PassedFd::Inherited => close_on_exec_from(FD_THREE + 1),
        PassedFd::From { from, occupant } => {
            place_as_fd_three(from, occupant)?;
            close_on_exec_from(FD_THREE + 1)
        }
    }
}

/// Makes `from` the child's descriptor 3. Fails with EAGAIN if 3 changed hands since the fork was prepared: it may now be the
/// pipe on which the standard library reports a failed exec, and that must survive.
#[expect(unsafe_code, reason = "descriptors are handled by number between fork and exec")]
fn place_as_fd_three(from: RawFd, occupant: FileIdentity) -> io::Result<()> {
    if identity_of_fd_three()? != occupant {
        return Err(rustix::io::Errno::AGAIN.into());
    }
    if from == FD_THREE {
        // SAFETY: the borrow lasts for one system call.
        let three = unsafe { BorrowedFd::borrow_raw(FD_THREE) };
        return Ok(rustix::io::fcntl_setfd(three, rustix::io::FdFlags::empty())?);
    }
    // SAFETY: dup2 touches no memory; this single-threaded child owns its whole descriptor table.
    let placed = unsafe { libc::dup2(from, FD_THREE) };
    if placed == FD_THREE { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets close-on-exec on every descriptor from `first` on, regardless of which code opened it.
#[expect(unsafe_code, reason = "rustix has no close_range")]
fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    // SAFETY: with CLOSE_RANGE_CLOEXEC the call only sets flags; it takes three integers and touches no memory.
    // Called by number, because musl has no wrapper for it.
    let code = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits for a child of this process that has ended, and reaps it. Returns its status and its resource usage.
#[expect(unsafe_code, reason = "rustix offers no wait that reports the resource usage")]
pub(crate) fn reap(pid: Pid) -> io::Result<(Status, Usage)> {
    let mut raw_status = 0;
    let mut raw_usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are valid for writes for the whole call.
        let reaped = unsafe { libc::wait4(pid.as_raw_nonzero().get(), &raw mut raw_status, 0, raw_usage.as_mut_ptr()) };
        if reaped >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: rusage is plain integers, zeroed above and filled by the kernel.
    let raw_usage = unsafe { raw_usage.assume_init() };
    Ok((Status::from_raw(raw_status), Usage::from_raw(&raw_usage)))
}

/// Holds descriptor 3 of this process open, unless it is in use, so that no pipe of the standard library gets that number while a
/// child is being created.
pub(crate) fn hold_fd_three() -> io::Result<Option<OwnedFd>> {
    let null: OwnedFd = std::fs::File::open("/dev/null")?.into();
    let held = if null.as_raw_fd() == FD_THREE { null } else { rustix::io::fcntl_dupfd_cloexec(&null, FD_THREE)? };
    Ok((held.as_raw_fd() == FD_THREE).then_some(held))
}

/// True if this process began with a closed descriptor 1.
static BEGAN_WITHOUT_STDOUT: AtomicBool = AtomicBool::new(false);

/// Registers [`look_at_stdout`] among the functions that run before the standard library starts. That opens `/dev/null` in the place
/// of a closed descriptor, and every write to it succeeds: later nothing tells it from a stdout that leads there on purpose.
#[cfg(target_os = "linux")]
#[used]
#[expect(unsafe_code, reason = "only a function in this section runs before the standard library's start")]
// SAFETY: the section holds pointers to functions of the C calling convention, which are called once, in order, by the only thread.
// This one makes one system call and stores a bool; it ignores the arguments that some C libraries pass.
#[unsafe(link_section = ".init_array")]
static LOOK_AT_STDOUT: extern "C" fn() = look_at_stdout;

#[cfg(target_os = "linux")]
extern "C" fn look_at_stdout() {
    let is_closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()) == Err(rustix::io::Errno::BADF);
    BEGAN_WITHOUT_STDOUT.store(is_closed, Ordering::Relaxed);
}

/// Returns true if this process began with a closed stdout, as after `>&-` in a shell: whatever it writes there is lost.
pub fn began_without_stdout() -> bool {
    BEGAN_WITHOUT_STDOUT.load(Ordering::Relaxed)
}

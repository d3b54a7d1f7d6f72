//! The single thread that starts all children.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::sync::mpsc;
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::Error;
use crate::child::Child;
use crate::command::{Command, FdThree, Orphans};
use crate::reaper::{self, ChildRegistry};
use crate::sys::{self, BeforeExec, PassedFd};

/// The most tries of a start if descriptor 3 changed hands meanwhile. One more try nearly always succeeds.
const MAX_TRIES: usize = 8;

/// A handle of the long-lived thread that starts children.
///
/// The kernel sends the parent-death signal when the *thread* that forked ends, not the process. A child that a short-lived
/// worker had started would be killed in the middle of its work. The thread lives as long as any clone of the spawner and any
/// [`Child`] that it started.
#[derive(Clone, Debug)]
pub struct Spawner(mpsc::Sender<SpawnRequest>);

/// A command for the thread, and the channel of the result.
struct SpawnRequest {
    command: Command,
    reply: mpsc::SyncSender<Result<StartedChild, Error>>,
}

/// A child that was just started.
pub(crate) struct StartedChild {
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) at: Instant,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}

impl Spawner {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        let (orders, incoming) = mpsc::channel::<SpawnRequest>();
        std::thread::Builder::new().name("spawner".to_owned()).spawn(move || {
            for order in incoming {
                // The caller waits for the result below.
                let _ = order.reply.send(start(order.command));
            }
        })?;
        Ok(Self(orders))
    }

    /// Starts a child, as the leader of its own process group. Returns once the program runs, or could not be executed.
    pub fn spawn(&self, command: Command) -> Result<Child, Error> {
        let grace = command.grace;
        let (reply, replies) = mpsc::sync_channel(1);
        let gone = || Error::System { what: "reach the spawner thread", source: io::ErrorKind::BrokenPipe.into() };
        self.0.send(SpawnRequest { command, reply }).map_err(|_| gone())?;
        let started = replies.recv().map_err(|_| gone())??;
        Ok(Child::new(started, grace, self.clone()))
    }
}

fn start(command: Command) -> Result<StartedChild, Error> {
    let mut started = try_to_start(&command);
    for _ in 1..MAX_TRIES {
        match &started {
            Err(Error::Start { source, .. }) if source.kind() == io::ErrorKind::WouldBlock => started = try_to_start(&command),
            _ => break,
        }
    }
    started
}

fn try_to_start(command: &Command) -> Result<StartedChild, Error> {
    let failed = |source| Error::Start { program: command.program.to_string_lossy().into_owned(), source };
    let mut prepared = command.prepare()?;
    let three = FdThreePlan::new(&command.fd_three).map_err(failed)?;
    let parent = rustix::process::getpid();
    let plan = BeforeExec { parent, death_signal: command.death_signal, fd_three: three.passed };
    sys::before_exec(prepared.process_group(0), plan);

    let mut family = reaper::lock_registry();
    let at = Instant::now();
    let child = prepared.spawn().map_err(failed)?;
    adopt(&mut family, child, at, command.orphans).map_err(failed)
}

/// The file for descriptor 3, and the descriptor that occupies that number until the child was created.
struct FdThreePlan {
    passed: PassedFd,
    _held: Option<OwnedFd>,
}

impl FdThreePlan {
    fn new(wanted: &FdThree) -> io::Result<Self> {
        Ok(match wanted {
            FdThree::Closed => Self { passed: PassedFd::Closed, _held: None },
            FdThree::Inherited => Self { passed: PassedFd::Inherited, _held: None },
            FdThree::Passed(fd) => {
                let held = sys::hold_fd_three()?;
                let passed = PassedFd::From { from: fd.as_raw_fd(), occupant: sys::identity_of_fd_three()? };
                Self { passed, _held: held }
            }
        })
    }
}

/// Registers a child that was just created, so that no sweep takes it for an orphan.
fn adopt(family: &mut ChildRegistry, mut child: std::process::Child, at: Instant, orphans: Orphans) -> io::Result<StartedChild> {
    let pid = Pid::from_child(&child);
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
        // A child that cannot be waited for is not kept.
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        let _ = child.wait();
    })?;
    family.awaited.insert(reaper::raw_pid(pid), orphans);
    let stdout = child.stdout.take().map(OwnedFd::from);
    let stderr = child.stderr.take().map(OwnedFd::from);
    Ok(StartedChild { pid, pidfd, at, stdout, stderr })
}

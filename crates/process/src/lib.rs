//! Child processes that leave nothing behind.
//!
//! A measurement is worth little if processes of the last one still run. So every child is started by one long-lived thread (the
//! [`Spawner`]), is the leader of its own process group, dies with its parent, inherits only what it was given, and is waited for
//! with a limit and a [`Cancel`] that wakes at once. In a process that called [`become_reaper`], all processes that a child
//! leaves behind are adopted and ended too, even those that left its session.
//!
//! It needs Linux 5.11 or newer, because it relies on pidfds, `close_range` and the child subreaper.

mod affinity;
mod cancel;
mod child;
mod command;
mod error;
mod poll;
mod reaper;
mod spawner;
mod supervise;
mod sys;
mod tree;
mod usage;

pub use affinity::pin_to_cpus;
pub use cancel::{Cancel, END_SIGNALS, cancel_on_signals, survive_file_size_limit, was_stopped};
pub use child::{Child, ChildExit, KILL_LIMIT, Status};
pub use command::{Command, FdThree, Input, MAX_PIPE_BYTES, Orphans, Output, open_plain, pipe_with_bytes};
pub use error::Error;
pub use reaper::{SWEEP_LIMIT, SweepResult, become_reaper, kill_descendants};
pub use rustix::process::Signal;
pub use spawner::Spawner;
pub use supervise::supervise;
pub use sys::began_without_stdout;
pub use usage::Usage;

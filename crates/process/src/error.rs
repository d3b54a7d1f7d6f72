//! What can go wrong with a child process.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a child could not be started or waited for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be executed: it is absent, not executable, or a limit of the system was met.
    #[error("failed to start `{program}`")]
    Start {
        /// The program as it was asked for.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file for the child's input or output could not be opened.
    #[error("failed to open `{}` for a child process", path.display())]
    Redirect {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Bytes for a pipe do not fit into it.
    #[error("{size} bytes do not fit into a pipe that holds {limit}")]
    PipeTooSmall {
        /// How many bytes there are.
        size: usize,
        /// How many fit.
        limit: usize,
    },
    /// The child did not end even after SIGKILL, as when it hangs in the kernel.
    #[error("process {pid} did not end within {waited:?} of being killed")]
    Unkillable {
        /// The process.
        pid: i32,
        /// How long was waited.
        waited: Duration,
    },
    /// The parent that this process was to serve is gone.
    #[error("the parent process {expected} is gone")]
    ParentGone {
        /// The parent's process id, as it was handed over.
        expected: i32,
    },
    /// A system call failed.
    #[error("failed to {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// Turns a failed call into an [`Error::System`] that says what was tried.
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}

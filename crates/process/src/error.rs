//! Errors of child processes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The reason why a child could not be started or waited for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be executed: it is absent, not executable, or a limit of the system was met.
    #[error("failed to start `{program}`")]
    Start {
        /// The program as the caller named it.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A file for the child's input or output could not be opened.
    #[error("failed to open `{}` for a child process", path.display())]
    Redirect {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Bytes for a pipe do not fit into it.
    #[error("{size} bytes do not fit into a pipe that holds {limit}")]
    PipeTooSmall {
        /// The number of bytes.
        size: usize,
        /// The number of bytes that fit.
        limit: usize,
    },
    /// The child did not end even after SIGKILL, for example because it hangs in the kernel.
    #[error("process {pid} did not end within {waited:?} of being killed")]
    Unkillable {
        /// The process id.
        pid: i32,
        /// The time that was waited.
        waited: Duration,
    },
    /// The parent that this process was started for is gone.
    #[error("the parent process {expected} is gone")]
    ParentGone {
        /// The parent's process id, as it was passed on.
        expected: i32,
    },
    /// A system call failed.
    #[error("failed to {what}")]
    System {
        /// The failed operation.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl Error {
    /// Converts a failed call into an [`Error::System`] that names the operation.
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}

//! The command of a child process: its program, and the parts of this process that it may see.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{MemfdFlags, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::Error;

/// The most bytes that [`pipe_with_bytes`] takes: the default capacity of a Linux pipe, so that the write never blocks.
pub const MAX_PIPE_BYTES: usize = 64 << 10;

/// The default grace period between SIGTERM and SIGKILL: enough to flush files, and short for a person.
const GRACE: Duration = Duration::from_secs(5);

/// A program to start. It is complete: the child sees exactly this environment and these descriptors, and nothing else of this
/// process.
#[derive(Debug)]
pub struct Command {
    /// The program: a path, or a name that is looked up in the `PATH` of `env`.
    pub program: OsString,
    /// Its arguments, without the program's own name.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Its working directory; this process's if `None`.
    pub cwd: Option<PathBuf>,
    /// Its stdin.
    pub stdin: Input,
    /// Its stdout.
    pub stdout: Output,
    /// Its stderr.
    pub stderr: Output,
    /// Its descriptor 3.
    pub fd_three: FdThree,
    /// The signal that it gets when the spawner, and so this process, is gone.
    pub death_signal: Signal,
    /// The grace period between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The process that adopts its orphans.
    pub orphans: Orphans,
}

/// The process that adopts a child's orphaned descendants, while the child lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Orphans {
    /// This process, if it is a reaper.
    #[default]
    AdoptedHere,
    /// The child, which is a reaper itself, as [`crate::supervise`] makes it.
    AdoptedByChild,
}

/// A child's stdin.
#[derive(Debug, Default)]
pub enum Input {
    /// `/dev/null`.
    #[default]
    Null,
    /// This process's own.
    Inherit,
    /// A file.
    File(PathBuf),
    /// These bytes, held by an anonymous file: no thread has to feed them, and a child that does not read them blocks no process.
    Bytes(Vec<u8>),
}

/// A child's stdout or stderr.
#[derive(Debug, Default)]
pub enum Output {
    /// `/dev/null`.
    #[default]
    Null,
    /// This process's own.
    Inherit,
    /// A pipe, whose read end [`crate::Child`] returns. The caller has to read it, or a child that writes much blocks.
    Pipe,
    /// A file, truncated first and then appended to, so that both outputs may go to one file.
    File(PathBuf),
    /// The same, in a folder that others may write to as well: only a plain file, and not through a link to another one.
    Log(PathBuf),
}

/// A child's descriptor 3, from which a stage reads its key.
#[derive(Debug, Default)]
pub enum FdThree {
    /// Not open.
    #[default]
    Closed,
    /// This descriptor.
    Passed(OwnedFd),
    /// Descriptor 3 of this process, without close-on-exec.
    Inherited,
}

impl Command {
    /// Creates a command of the program alone: no arguments, an empty environment, input and outputs at `/dev/null`, killed with
    /// its parent.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            stdin: Input::default(),
            stdout: Output::default(),
            stderr: Output::default(),
            fd_three: FdThree::default(),
            death_signal: Signal::KILL,
            grace: GRACE,
            orphans: Orphans::default(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds one variable to the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Adds this process's whole environment. For wrappers of our own, never for a measured program.
    #[must_use]
    pub fn inherit_env(mut self) -> Self {
        self.env.extend(std::env::vars_os());
        self
    }

    /// Converts this command to the standard library's. Opens files, starts nothing.
    pub(crate) fn prepare(&self) -> Result<std::process::Command, Error> {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args).env_clear().envs(&self.env);
        command.stdin(self.stdin.open()?).stdout(self.stdout.open()?).stderr(self.stderr.open()?);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        Ok(command)
    }
}

impl Input {
    fn open(&self) -> Result<Stdio, Error> {
        Ok(match self {
            Self::Null => Stdio::null(),
            Self::Inherit => Stdio::inherit(),
            Self::File(path) => File::open(path).map_err(redirect_error(path))?.into(),
            Self::Bytes(bytes) => file_with_bytes(bytes)?.into(),
        })
    }
}

impl Output {
    fn open(&self) -> Result<Stdio, Error> {
        Ok(match self {
            Self::Null => Stdio::null(),
            Self::Inherit => Stdio::inherit(),
            Self::Pipe => Stdio::piped(),
            Self::File(path) => {
                OpenOptions::new().append(true).create(true).open(path).and_then(truncate).map_err(redirect_error(path))?.into()
            }
            Self::Log(path) => open_plain(path).and_then(truncate).map_err(redirect_error(path))?.into(),
        })
    }
}

fn truncate(file: File) -> std::io::Result<File> {
    file.set_len(0).map(|()| file)
}

/// Opens a file for appending, or creates it. Fails if its path ends in a link, or in anything else than a plain file: a pipe would
/// block, and a link could lead to any file that the user may write to.
pub fn open_plain(path: &Path) -> std::io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path).map_err(|error| {
        match error.raw_os_error() {
            Some(code) if [Errno::LOOP.raw_os_error(), Errno::NXIO.raw_os_error()].contains(&code) => not_plain(),
            _ => error,
        }
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_plain()) }
}

fn not_plain() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is a link or no plain file; remove it")
}

fn redirect_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Redirect { path: path.to_owned(), source }
}

fn file_with_bytes(bytes: &[u8]) -> Result<File, Error> {
    let fill = || {
        let mut file = File::from(rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        file.rewind()?;
        Ok(file)
    };
    fill().map_err(Error::system::<std::io::Error>("hold the input of a child process"))
}

/// Returns the read end of a pipe that holds `bytes` and then ends. At most [`MAX_PIPE_BYTES`], so that no thread has to feed it.
pub fn pipe_with_bytes(bytes: &[u8]) -> Result<OwnedFd, Error> {
    if bytes.len() > MAX_PIPE_BYTES {
        return Err(Error::PipeTooSmall { size: bytes.len(), limit: MAX_PIPE_BYTES });
    }
    let what = "fill a pipe for a child process";
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(Error::system(what))?;
    // A user over the system's pipe budget gets pipes of one page: then the write must fail, not block.
    rustix::io::ioctl_fionbio(&writer, true).map_err(Error::system(what))?;
    let written = if bytes.is_empty() { 0 } else { rustix::io::write(&writer, bytes).map_err(Error::system(what))? };
    if written == bytes.len() { Ok(reader) } else { Err(Error::PipeTooSmall { size: bytes.len(), limit: written }) }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn held(bytes: &[u8]) -> Vec<u8> {
        let mut read = Vec::new();
        File::from(pipe_with_bytes(bytes).expect("it fits")).read_to_end(&mut read).expect("a pipe reads");
        read
    }

    #[test]
    fn a_pipe_holds_what_it_was_given_and_ends() {
        assert_eq!(held(b""), b"");
        assert_eq!(held(b"a key"), b"a key");
        assert_eq!(held(&vec![7; MAX_PIPE_BYTES]).len(), MAX_PIPE_BYTES);
    }

    #[test]
    fn what_does_not_fit_into_a_pipe_is_refused() {
        let refused = pipe_with_bytes(&vec![7; MAX_PIPE_BYTES + 1]).expect_err("too much");
        assert_eq!(refused.to_string(), "65537 bytes do not fit into a pipe that holds 65536");
    }
}

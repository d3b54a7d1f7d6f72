//! The lock of a run: one `assay` at a time drives a run.

use std::fs::File;
use std::path::Path;

use assay_manifest::RunId;
use assay_stage::{ErrorCode, Failure};
use rustix::fs::FlockOperation;

/// A lock that is held while a run is driven. The kernel releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

impl RunLock {
    /// Takes the lock of a run in `folder`; fails if another process has it.
    pub fn take(folder: &Path, run_id: &RunId) -> Result<Self, Failure> {
        let path = folder.join(format!("{run_id}.lock"));
        let file = open(&path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(Failure::new(ErrorCode::RunLocked, format!("another `assay` is driving the run `{run_id}`"))
                    .hint("wait for it to end; a run has one driver at a time"))
            }
            Err(error) => Err(unusable(&path, &error.into())),
        }
    }
}

/// Waits for the lock of a file, which is held until the returned file is dropped.
pub(crate) fn wait(path: &Path) -> Result<File, Failure> {
    let file = open(path)?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(|error| unusable(path, &error.into()))?;
    Ok(file)
}

fn open(path: &Path) -> Result<File, Failure> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let opened = made.and_then(|()| File::options().create(true).truncate(false).write(true).open(path));
    opened.map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(ErrorCode::Lock, format!("cannot use the lock `{}`", path.display())).because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(folder: &Path, run: &str) -> Result<RunLock, Failure> {
        RunLock::take(folder, &run.parse().expect("a run id"))
    }

    #[test]
    fn a_run_has_one_driver_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let locks = folder.path().join("locks");
        let first = take(&locks, "nightly").expect("nobody else has it");
        let refused = take(&locks, "nightly").expect_err("the first has it");
        insta::assert_snapshot!(refused, @r"
        error[run_locked]: another `assay` is driving the run `nightly`

        hint: wait for it to end; a run has one driver at a time
        ");
        assert_eq!(refused.exit, assay_stage::Exit::Environment);
        take(&locks, "weekly").expect("another run has a lock of its own");
        drop(first);
        take(&locks, "nightly").expect("it is free again");
    }

    #[test]
    fn a_lock_that_cannot_be_had_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "").expect("written");
        let failure = take(&file, "nightly").expect_err("a file is no folder");
        assert_eq!(failure.message, format!("cannot use the lock `{}`", file.join("nightly.lock").display()));
    }
}

//! The lock of a run: one `assay` at a time drives a run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_manifest::RunId;
use rustix::fs::FlockOperation;

use crate::{Error, FileRole, Result};

/// The number of times that a lock is tried.
const ASKED_AT_MOST: u32 = 20;

/// The number of times that a lock is tried by a process that removes a run.
const ASKED_PATIENTLY: u32 = 1_000;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// A lock that is held while a run is driven. The kernel releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct RunLock {
    _file: Locked,
}

/// A file whose lock is given back when it is dropped.
///
/// Closing it would not be enough: a child that another thread has just forked has the same lock until it executes its program.
#[derive(Debug)]
pub(crate) struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // A failure leaves the lock until the file is closed, right after this.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl RunLock {
    /// Takes the lock of a run in `folder`, which must not be a link; fails if another process has it.
    pub fn take(folder: &Path, run_id: &RunId) -> Result<Self> {
        Self::take_within(folder, run_id, ASKED_AT_MOST)
    }

    /// Takes the lock like [`RunLock::take`], and waits some seconds for it: a process that removes a run of this name from another store has
    /// it for a short time.
    pub(crate) fn take_patiently(folder: &Path, run_id: &RunId) -> Result<Self> {
        Self::take_within(folder, run_id, ASKED_PATIENTLY)
    }

    fn take_within(folder: &Path, run_id: &RunId, asked_at_most: u32) -> Result<Self> {
        if folder.is_symlink() {
            return Err(assay_store::Error::Link { path: folder.to_owned() }.into());
        }
        let path = path(folder, run_id);
        let file = open(&path)?;
        let try_lock = || rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        // Who asks whether a run is driven has a shared lock for a moment.
        let try_again = |number: u32| {
            if number > 0 {
                std::thread::sleep(PAUSE);
            }
            try_lock()
        };
        let locked = (0..asked_at_most).map(try_again).find(|locked| *locked != Err(rustix::io::Errno::WOULDBLOCK));
        match locked.unwrap_or(Err(rustix::io::Errno::WOULDBLOCK)) {
            Ok(()) => Ok(Self { _file: Locked(file) }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::RunLocked(run_id.clone())),
            Err(error) => Err(FileRole::Lock.error(&path)(error.into())),
        }
    }
}

impl RunLock {
    /// Returns true if another process has the lock of a run in `folder`. No file is created. A shared lock is tried and given back at
    /// once.
    pub(crate) fn is_taken(folder: &Path, run_id: &RunId) -> bool {
        let path = path(folder, run_id);
        // A pipe in its place would be waited for.
        let is_plain = std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        let Some(file) = is_plain.then(|| File::open(&path).ok()).flatten() else { return false };
        let asked = Locked(file);
        rustix::fs::flock(&asked.0, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    }
}

fn path(folder: &Path, run_id: &RunId) -> PathBuf {
    folder.join(format!("{run_id}.lock"))
}

/// Waits for the lock of a file.
pub(crate) fn wait(path: &Path) -> Result<Locked> {
    let file = open(path)?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(|error| FileRole::Lock.error(path)(error.into()))?;
    Ok(Locked(file))
}

fn open(path: &Path) -> Result<File> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let opened = made.and_then(|()| assay_process::open_plain(path));
    opened.map_err(FileRole::Lock.error(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(folder: &Path, run: &str) -> Result<RunLock> {
        RunLock::take(folder, &run.parse().expect("a run id"))
    }

    #[test]
    fn a_run_has_one_driver_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let locks = folder.path().join("locks");
        let first = take(&locks, "nightly").expect("nobody else has it");
        let refused = assay_failure::Failure::from(take(&locks, "nightly").expect_err("the first has it"));
        insta::assert_snapshot!(refused, @r"
        error[run_locked]: another `assay` is driving the run `nightly`

        hint: wait for it to end; a run has one driver at a time
        ");
        assert_eq!(refused.exit, assay_failure::Exit::Environment);
        take(&locks, "weekly").expect("another run has a lock of its own");
        let is_taken = |run: &str| RunLock::is_taken(&locks, &run.parse().expect("a run id"));
        assert!(is_taken("nightly") && !is_taken("weekly") && !is_taken("absent"));
        drop(first);
        assert!(!is_taken("nightly"));
        take(&locks, "nightly").expect("it is free again");
    }

    #[test]
    fn a_lock_is_free_once_it_is_dropped_whatever_process_has_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let run_id = "nightly".parse().expect("a run id");
        let first = wait(&path(folder.path(), &run_id)).expect("nobody else has it");
        // As a child has it between fork and exec.
        let _inherited = first.0.try_clone().expect("a second descriptor");
        assert!(RunLock::is_taken(folder.path(), &run_id));
        drop(first);
        assert!(!RunLock::is_taken(folder.path(), &run_id));
        take(folder.path(), "nightly").expect("it is free again");
    }

    #[test]
    fn a_lock_that_cannot_be_had_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "").expect("written");
        let failure = take(&file, "nightly").expect_err("a file is no folder");
        assert_eq!(failure.to_string(), format!("cannot use the lock `{}`", file.join("nightly.lock").display()));
        let (elsewhere, link) = (tempfile::tempdir().expect("a folder"), folder.path().join("link"));
        std::os::unix::fs::symlink(elsewhere.path(), &link).expect("a link");
        let failure = take(&link, "nightly").expect_err("a link");
        assert!(failure.to_string().contains("is a symbolic link"), "{failure}");
        assert_eq!(std::fs::read_dir(elsewhere.path()).expect("a folder").count(), 0);
    }
}

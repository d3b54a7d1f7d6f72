//! One `assay` at a time drives a run.

use std::fs::File;
use std::path::Path;

use assay_manifest::RunId;
use assay_stage::Failure;
use rustix::fs::FlockOperation;

/// Held while a run is driven. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

impl RunLock {
    /// Takes the lock of a run in `folder`, or says that somebody else has it.
    pub fn take(folder: &Path, run_id: &RunId) -> Result<Self, Failure> {
        let path = folder.join(format!("{run_id}.lock"));
        let unusable = |error: std::io::Error| {
            Failure::environment("lock", format!("cannot use the lock `{}`", path.display())).because(&error)
        };
        std::fs::create_dir_all(folder).map_err(unusable)?;
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(unusable)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(Failure::environment("run_locked", format!("another `assay` is driving the run `{run_id}`"))
                    .hint("wait for it to end; a run has one driver at a time"))
            }
            Err(error) => Err(unusable(error.into())),
        }
    }
}

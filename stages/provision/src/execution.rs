//! Executables and allowed CPUs of a target that runs on this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_host::{FileDigests, ProcessTreeFacts, Root};
use assay_manifest::{Executable, Target};
use assay_stage::{Context, Failure};

/// The longest wait for the runner to write the process id of the target: it does so right after the process has started.
const PID_LIMIT: Duration = Duration::from_secs(10);

/// The polling interval of the runner's file.
const PAUSE: Duration = Duration::from_millis(10);

/// The facts of a target's processes that go into the Environment.
#[derive(Default)]
pub(crate) struct Execution {
    pub(crate) executables: Vec<Executable>,
    pub(crate) allowed_cpus: Option<String>,
    pub(crate) core_cpus: Option<String>,
}

/// Returns the file to which the runner writes the id of the process that supervises the target.
pub(crate) fn pid_file(ctx: &Context, target: &Target) -> PathBuf {
    ctx.scratch().join(format!("pid-of-{}", target.name))
}

/// Reads the processes of a held target that is ready, and computes the digests of their executables. No measurement runs
/// meanwhile.
pub(crate) fn observe(ctx: &Context, target: &Target) -> Result<Execution, Failure> {
    let Some(supervisor) = wait_for_pid(ctx, &pid_file(ctx, target)) else {
        ctx.check_cancelled()?;
        return Ok(Execution::default());
    };
    let ProcessTreeFacts { mut executables, allowed_cpus } =
        assay_host::observe_processes(supervisor, &mut FileDigests::default());
    // Files that this stage gave to a simulator are deleted with its scratch folder.
    executables.retain(|executable| !executable.path.contains(&*ctx.scratch().to_string_lossy()));
    let core_cpus = allowed_cpus.as_ref().map(|cpus| assay_host::core_cpus(&Root::host(), cpus).to_string());
    Ok(Execution { executables, allowed_cpus: allowed_cpus.map(|cpus| cpus.to_string()), core_cpus })
}

/// Computes the digests of the artifacts that the pipeline declares. In a cluster the files of a target are not on this machine.
pub(crate) fn artifacts(target: &Target, hashes: &mut FileDigests) -> Vec<Executable> {
    target.artifacts.iter().map(|path| assay_host::hash_artifact(path, hashes)).collect()
}

fn wait_for_pid(ctx: &Context, file: &Path) -> Option<u32> {
    let watch = ctx.clock().start();
    loop {
        if let Ok(text) = std::fs::read_to_string(file) {
            return text.trim().parse().ok();
        }
        if u128::from(watch.elapsed_ns()) >= PID_LIMIT.as_nanos() || ctx.cancel().wait_timeout(PAUSE) {
            return None;
        }
    }
}

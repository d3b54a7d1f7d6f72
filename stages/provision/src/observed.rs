//! What a target that runs on this machine really executes, and where it may run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_host::{Hashes, Observed, Root};
use assay_manifest::{Executable, Target};
use assay_stage::{Context, Failure};

/// How long the runner may take to say which process it holds: it does so right after the process has started.
const PID_LIMIT: Duration = Duration::from_secs(10);

/// The pause between two looks at the file that it writes.
const PAUSE: Duration = Duration::from_millis(10);

/// What was read of a target's processes, for its place in the Environment.
#[derive(Default)]
pub(crate) struct Execution {
    pub(crate) executables: Vec<Executable>,
    pub(crate) allowed_cpus: Option<String>,
    pub(crate) core_cpus: Option<String>,
}

/// The file in which the runner says which process supervises the target.
pub(crate) fn pid_file(ctx: &Context, target: &Target) -> PathBuf {
    ctx.scratch().join(format!("pid-of-{}", target.name))
}

/// Reads a held target's processes, which are ready, and takes the digests of what they execute. Nothing is measured meanwhile.
pub(crate) fn observe(ctx: &Context, target: &Target) -> Result<Execution, Failure> {
    let Some(supervisor) = wait_for_pid(ctx, &pid_file(ctx, target)) else {
        ctx.check_cancelled()?;
        return Ok(Execution::default());
    };
    let Observed { mut executables, allowed_cpus } = assay_host::observe(supervisor, &mut Hashes::default());
    // What this stage gave to a simulator is gone with it.
    executables.retain(|executable| !executable.path.contains(&*ctx.scratch().to_string_lossy()));
    let core_cpus = allowed_cpus.as_ref().map(|cpus| assay_host::core_cpus(&Root::host(), cpus).to_string());
    Ok(Execution { executables, allowed_cpus: allowed_cpus.map(|cpus| cpus.to_string()), core_cpus })
}

/// The digests of what the pipeline declares. In a cluster the files of a target are not on this machine.
pub(crate) fn artifacts(target: &Target, hashes: &mut Hashes) -> Vec<Executable> {
    target.artifacts.iter().map(|path| assay_host::artifact(path, hashes)).collect()
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

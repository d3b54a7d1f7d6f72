//! Whether a target that the runner holds has ended before it was ready. Only the runner sees that: it says so in a file.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use assay_manifest::Target;
use assay_stage::{Context, Failure};

use crate::pods::BroughtUp;

/// The most that is read of what the runner says.
const MAX_BYTES: u64 = 32 << 10;

/// Where it is said how a target ended.
pub(crate) struct End {
    target: String,
    place: Place,
}

enum Place {
    /// The runner holds it, and says so in a file.
    File(PathBuf),
    /// It is pods, and the cluster says so.
    Pods(Box<BroughtUp>),
}

/// The file in which the runner says how a target ended: one of this call of the stage, because what an earlier call held ends without
/// being told here.
pub(crate) fn file_of(ctx: &Context, target: &Target) -> PathBuf {
    ctx.scratch().join(format!("end-of-{}", target.name))
}

impl End {
    /// What the runner writes into `file` once a held target has ended.
    pub(crate) fn at(target: &str, file: &Path) -> Self {
        Self { target: target.to_owned(), place: Place::File(file.to_owned()) }
    }

    /// The end of a pod among these.
    pub(crate) fn of_pods(target: &Target, pods: BroughtUp) -> Self {
        Self { target: target.name.to_string(), place: Place::Pods(Box::new(pods)) }
    }

    /// Fails where the target has ended.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &self.place {
            Place::File(file) => self.check_file(file),
            Place::Pods(pods) => pods.check(&self.target),
        }
    }

    fn check_file(&self, file: &Path) -> Result<(), Failure> {
        let mut said = String::new();
        let read = File::open(file).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut said));
        if read.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Ok(());
        }
        let how = said.trim_end();
        Err(Failure::environment("target_ended", format!("target `{}` ended before it was ready: {how}", self.target))
            .hint("run its command by hand, with the environment that the pipeline gives it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_ended_is_named_with_how() {
        let folder = tempfile::tempdir().expect("a folder");
        let end = End::at("vllm", &folder.path().join("end-of-vllm"));
        assert_eq!(end.check(), Ok(()));
        std::fs::write(folder.path().join("end-of-vllm"), "exit code 1; the end of its log:\nno such model\n").expect("written");
        insta::assert_snapshot!(end.check().expect_err("it ended"), @r"
        error[target_ended]: target `vllm` ended before it was ready: exit code 1; the end of its log:
        no such model

        hint: run its command by hand, with the environment that the pipeline gives it
        ");
    }
}

//! The end of a target before it was ready. Only the runner, which holds the target, sees it: it writes the end to a file.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use assay_manifest::Target;
use assay_stage::{Context, ErrorCode, Failure};

use crate::pods::RunningTarget;

/// The most bytes that are read of the runner's file.
const MAX_BYTES: u64 = 32 << 10;

/// The source that reports how a target ended.
pub(crate) struct TargetEnd {
    target: String,
    place: EndSource,
}

enum EndSource {
    /// The runner holds the target, and writes its end to a file.
    File(PathBuf),
    /// The target consists of pods, and the cluster reports their end.
    Pods(Box<RunningTarget>),
}

/// Returns the file in which the runner describes how a target ended. It belongs to this call of the stage: the end of what an
/// earlier call held is not reported here.
pub(crate) fn end_file(ctx: &Context, target: &Target) -> PathBuf {
    ctx.scratch().join(format!("end-of-{}", target.name))
}

impl TargetEnd {
    /// Reads the end of a held target from `file`.
    pub(crate) fn from_file(target: &str, file: &Path) -> Self {
        Self { target: target.to_owned(), place: EndSource::File(file.to_owned()) }
    }

    /// Reads the end of a target from its pods.
    pub(crate) fn from_pods(target: &Target, pods: RunningTarget) -> Self {
        Self { target: target.name.to_string(), place: EndSource::Pods(Box::new(pods)) }
    }

    /// Returns true if the target is a process that the runner holds on this machine.
    pub(crate) fn is_of_process(&self) -> bool {
        matches!(self.place, EndSource::File(_))
    }

    /// Fails if the target has ended.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &self.place {
            EndSource::File(file) => self.check_file(file),
            EndSource::Pods(pods) => pods.check(&self.target),
        }
    }

    fn check_file(&self, file: &Path) -> Result<(), Failure> {
        let mut said = String::new();
        let read = File::open(file).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut said));
        if read.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Ok(());
        }
        let how = said.trim_end();
        Err(Failure::new(ErrorCode::TargetEnded, format!("target `{}` ended before it was ready: {how}", self.target))
            .hint("run its command by hand, with the environment that the pipeline gives it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_ended_is_named_with_how() {
        let folder = tempfile::tempdir().expect("a folder");
        let end = TargetEnd::from_file("vllm", &folder.path().join("end-of-vllm"));
        assert_eq!(end.check(), Ok(()));
        std::fs::write(folder.path().join("end-of-vllm"), "exit code 1; the end of its log:\nno such model\n").expect("written");
        insta::assert_snapshot!(end.check().expect_err("it ended"), @r"
        error[target_ended]: target `vllm` ended before it was ready: exit code 1; the end of its log:
        no such model

        hint: run its command by hand, with the environment that the pipeline gives it
        ");
    }
}

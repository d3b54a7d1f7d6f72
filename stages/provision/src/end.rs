//! Whether a target that the runner holds has ended before it was ready. Only the runner sees that: it says so in a file.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use assay_manifest::Target;
use assay_stage::{Context, Failure};

/// The most that is read of what the runner says.
const MAX_BYTES: u64 = 32 << 10;

/// Where the runner says how a target ended.
pub(crate) struct End {
    target: String,
    file: PathBuf,
}

impl End {
    /// A file of this call of the stage: what an earlier call held ends without being told here.
    pub(crate) fn of(ctx: &Context, target: &Target) -> Self {
        Self::at(target.name.as_str(), &ctx.scratch().join(format!("end-of-{}", target.name)))
    }

    pub(crate) fn at(target: &str, file: &Path) -> Self {
        Self { target: target.to_owned(), file: file.to_owned() }
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Fails where the target has ended.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let mut said = String::new();
        let read = File::open(&self.file).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut said));
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
        std::fs::write(end.file(), "exit code 1; the end of its log:\nno such model\n").expect("written");
        insta::assert_snapshot!(end.check().expect_err("it ended"), @r"
        error[target_ended]: target `vllm` ended before it was ready: exit code 1; the end of its log:
        no such model

        hint: run its command by hand, with the environment that the pipeline gives it
        ");
    }
}

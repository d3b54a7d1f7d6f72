//! Fixtures that create repositories.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use assay_git::{Commit, Repository};
use tempfile::TempDir;

/// A repository in a scratch folder.
pub(crate) struct Scratch(TempDir);

/// A repository with files in nested folders, an executable one, a symbolic link, a submodule and a merge.
pub(crate) fn scratch() -> Scratch {
    let scratch = empty(&[]);
    scratch.write("pipelines/nightly.yaml", "pipeline\n");
    scratch.write("workloads/memory/workload.yaml", "workload\n");
    scratch.write("workloads/memory/run.sh", "#!/bin/sh\n");
    scratch.make_executable("workloads/memory/run.sh");
    std::os::unix::fs::symlink("memory", scratch.path().join("workloads/link")).expect("a link");
    scratch.commit("First");
    let gitlink = format!("160000,{},workloads/module", scratch.git(&["rev-parse", "HEAD"]));
    scratch.git(&["update-index", "--add", "--cacheinfo", &gitlink]);
    scratch.git(&["commit", "--quiet", "-m", "A submodule"]);
    scratch.git(&["checkout", "--quiet", "-b", "side", "HEAD~1"]);
    scratch.write("side.txt", "side\n");
    scratch.commit("Side");
    scratch.git(&["checkout", "--quiet", "main"]);
    scratch.git(&["merge", "--quiet", "--no-ff", "-m", "Merge side", "side"]);
    scratch
}

/// A repository without a commit.
pub(crate) fn empty(init: &[&str]) -> Scratch {
    let scratch = Scratch(tempfile::tempdir().expect("a folder"));
    scratch.git(&[&["init", "--quiet", "--initial-branch=main"], init].concat());
    scratch
}

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn open(&self) -> Repository {
        Repository::discover(self.path()).expect("a repository")
    }

    pub(crate) fn head(&self) -> Commit {
        self.open().resolve("HEAD").expect("a commit")
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("written");
    }

    pub(crate) fn make_executable(&self, path: &str) {
        fs::set_permissions(self.path().join(path), fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Runs git, independent of the configuration of the test's user, and returns its stdout.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        self.git_with_input(args, "")
    }

    pub(crate) fn git_with_input(&self, args: &[&str], input: &str) -> String {
        let stdin = self.path().join(".git-input");
        fs::write(&stdin, input).expect("written");
        let mut git = Command::new("git");
        git.args(["-c", "user.name=A. Person", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]).args(args);
        git.current_dir(self.path()).env_clear().env("PATH", std::env::var_os("PATH").expect("a PATH"));
        git.envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1"), ("HOME", "/nonexistent"), ("TZ", "UTC")]);
        let input = fs::File::open(&stdin).expect("it is there");
        fs::remove_file(&stdin).expect("removed");
        let output = git.stdin(input).output().expect("git runs");
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
    }
}

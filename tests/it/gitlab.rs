//! The jobs that `assay init --forge gitlab` writes, run by `gitlab-ci-local`: it reads the file as GitLab does, validates it against GitLab's
//! schema, follows rules and exit codes, and runs each job in a shell of this machine.
//!
//! `ASSAY_TEST_FOREIGN=FOLDER` names the folder into which `tests/foreign/install.sh` installed it. Without it, only the shape of the file is
//! checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use assay_manifest::Digest;
use serde_json::json;

use crate::gate::{AUTHOR, TOKEN};
use crate::git_https::GitServer;
use crate::stand_in::{Flavor, Identity, StandIn};
use crate::support::{CommandResult, Fixture, binary};
use crate::workflows::{prepare_gated_repository, write_program};

/// The file that a project has after `assay init`.
const FILE: &str = ".gitlab/assay.gitlab-ci.yml";

/// Returns a job of the file, from its name to the next job.
fn job<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, below) = text.split_once(&format!("\n{name}:\n")).expect("the job");
    let end = below.match_indices('\n').find(|(at, _)| below[at + 1..].starts_with(|next: char| next.is_ascii_lowercase()));
    &below[..end.map_or(below.len(), |(at, _)| at)]
}

#[test]
fn the_jobs_have_the_shape_that_gitlab_reads() {
    let fixture = Fixture::bare();
    fixture.commit("empty");
    fixture.assay(&["init", "--forge", "gitlab"]).success();
    let text = fs::read_to_string(fixture.repo().join(FILE)).expect("the file");
    let (measures, posts) = (job(&text, "assay"), job(&text, "assay-post"));
    for said in
        ["exit_codes: 41\n", "junit: assay/verdict/*/junit.xml\n", "    when: always\n", "changes: [\"**/*\"]\n", "assay run "]
    {
        assert!(measures.contains(said), "{said}");
    }
    for said in ["needs: [assay]\n", "      when: always\n", "&& $ASSAY_FORGE_TOKEN\n", "GIT_STRATEGY: none\n"] {
        assert!(posts.contains(said), "{said}");
    }
    assert!(
        !measures.contains("  ASSAY_FORGE_TOKEN") && !measures.contains("$ASSAY_FORGE_TOKEN"),
        "what measures asks for no token"
    );
    assert!(!posts.contains("assay run") && !posts.contains("sut/"), "what posts runs nothing of the merge request");
}

/// A project on a server that does not exist, with a merge request, and a release that is installed from a server of this machine.
struct Project {
    fixture: Fixture,
    /// The commit of the merge request.
    commit: String,
    checkout: PathBuf,
    tool: PathBuf,
    server: GitServer,
}

impl Project {
    fn new(tool: PathBuf) -> Self {
        let mut fixture = Fixture::bare();
        let releases = fixture.root().join("releases");
        fs::create_dir_all(&releases).expect("a folder");
        let server = GitServer::start(&releases, "nobody:nothing");
        let archive = make_release(&fixture, &releases);
        fixture.write(".gitlab-ci.yml", &format!("include:\n  - local: {FILE}\n"));
        let url = format!("https://{}/files", server.host());
        let archive = archive.to_string();
        let init = ["--forge", "gitlab", "--releases", &url, "--archive", &archive];
        let commit = prepare_gated_repository(&mut fixture, &["slow", "few"], &init);
        let checkout = fixture.root().join("checkout");
        let origin = fixture.root().join("origin.git").display().to_string();
        let folder = checkout.display().to_string();
        fixture.git(&["clone", "--quiet", "--branch", "change", &origin, &folder]);
        // The tool takes the project's name from the address of its remote, which Git is configured to find elsewhere.
        let address = "https://gitlab.invalid/example/project.git";
        fixture.git(&["-C", &folder, "remote", "set-url", "origin", address]);
        fixture.git(&["-C", &folder, "config", &format!("url.{origin}.insteadOf"), address]);
        fixture.git(&["-C", &folder, "remote", "set-head", "origin", "main"]);
        for (name, value) in [("user.name", "A Tester"), ("user.email", "tester@example.org")] {
            fixture.git(&["-C", &folder, "config", name, value]);
        }
        Self { fixture, commit, checkout, tool, server }
    }

    /// Runs a job of a merge request's pipeline, as a fresh checkout of its commit, and returns all output. The tool exits with 0 whatever the
    /// job did; its output says how the job ended.
    fn run_job(&self, name: &str, pipeline: &str, variables: &[(&str, &str)]) -> String {
        let folder = self.checkout.display().to_string();
        self.fixture.git(&["-C", &folder, "checkout", "--quiet", &self.commit]);
        for side in ["sut/before", "sut/after"].map(|side| self.checkout.join(side)).iter().filter(|side| side.exists()) {
            self.fixture.git(&["-C", &folder, "worktree", "remove", "--force", &side.display().to_string()]);
        }
        // It copies files for jobs in containers, of which there are none here.
        let programs = self.fixture.root().join("programs");
        fs::create_dir_all(&programs).expect("a folder");
        write_program(&programs.join("rsync"), "exit 0");
        let usual = std::env::var_os("PATH").expect("a PATH");
        let path = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&usual))).expect("paths");
        let mut command: Command = self.fixture.command(&self.tool);
        command.current_dir(&self.checkout).env("PATH", path).env("CURL_CA_BUNDLE", &self.server.certificate);
        let known = [
            ("CI_PIPELINE_SOURCE", "merge_request_event"),
            ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main"),
            ("CI_MERGE_REQUEST_PROJECT_PATH", "example/project"),
            ("CI_PROJECT_PATH", "example/project"),
            ("PIPELINE", pipeline),
        ];
        command.args(["--force-shell-executor", "--no-color", "--ignore-predefined-vars"]);
        command.arg("CI_PIPELINE_SOURCE,CI_PROJECT_PATH,CI_API_V4_URL,CI_PIPELINE_URL");
        for (variable, value) in known.iter().chain(variables) {
            command.args(["--variable", &format!("{variable}={value}")]);
        }
        let ran = CommandResult::from_output(command.arg(name).output().expect("it runs"));
        ran.stdout + &ran.stderr
    }
}

/// Makes a release that holds this workspace's `assay`. Returns the digest of its archive.
fn make_release(fixture: &Fixture, releases: &Path) -> Digest {
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("assay-{version}-linux-x86_64");
    let folder = fixture.root().join("packed").join(&name);
    fs::create_dir_all(&folder).expect("a folder");
    write_program(&folder.join("assay"), &format!("exec '{}' \"$@\"", binary("assay").display()));
    let files = releases.join(format!("files/v{version}"));
    fs::create_dir_all(&files).expect("a folder");
    let archive = files.join(format!("{name}.tar.gz"));
    let mut tar = fixture.command(Path::new("tar"));
    tar.args(["--create", "--gzip", "--file"]).arg(&archive).arg("--directory").arg(fixture.root().join("packed")).arg(&name);
    CommandResult::from_output(tar.output().expect("tar runs")).success();
    Digest::compute(&fs::read(&archive).expect("an archive"))
}

/// A regression fails its job, an inconclusive verdict passes with a warning unless the rules block on it, and both are posted.
#[test]
fn a_merge_request_is_measured_judged_and_told_so() {
    let Some(foreign) = std::env::var_os("ASSAY_TEST_FOREIGN").map(PathBuf::from) else {
        println!("ASSAY_TEST_FOREIGN is not set: nobody has run the jobs of GitLab");
        return;
    };
    let project = Project::new(foreign.join("node_modules/.bin/gitlab-ci-local"));
    let forge = StandIn::start_as(Flavor::GitLab, Identity::User("project_1_bot"));
    forge.accept_only(TOKEN);
    let request = forge.pull_at(AUTHOR, &project.commit).to_string();
    let url = forge.url();
    let measuring = [("CI_MERGE_REQUEST_IID", request.as_str())];
    let posting = [
        ("CI_MERGE_REQUEST_IID", request.as_str()),
        ("CI_API_V4_URL", &url),
        ("CI_PIPELINE_URL", "https://gitlab.invalid/example/project/-/pipelines/1"),
        ("ASSAY_FORGE_TOKEN", TOKEN),
    ];
    let ended = |pipeline: &str, how: &str| {
        let _ = fs::remove_dir_all(project.checkout.join("assay"));
        let told = project.run_job("assay", pipeline, &measuring);
        assert!(told.contains(how), "{pipeline}: no `{how}` in\n{told}");
        let junit = fs::read_to_string(project.checkout.join("assay/verdict/latency/junit.xml")).expect("a report");
        assert!(junit.contains("<testsuite"), "{junit}");
        told
    };
    ended("pipelines/few.yaml", "WARN 41");
    assert!(ended("pipelines/strict.yaml", "FAIL 1").contains("the rules block on that"));
    let told = ended("pipelines/slow.yaml", "FAIL 40");
    assert!(told.contains("not established"), "nobody vouches for keys that were made on the spot: {told}");

    for said in ["created", "unchanged"] {
        let all = project.run_job("assay-post", "pipelines/slow.yaml", &posting);
        let of = |what: &str| all.lines().filter(|line| line.contains(what) && line.contains(said)).count();
        assert_eq!((of("> check"), of("> comment")), (1, 1), "{said}: {all}");
        assert!(!all.contains(TOKEN), "{all}");
    }
    let [status] = forge.statuses().try_into().expect("one status");
    assert_eq!((&status["status"], &status["name"]), (&json!("failed"), &json!("assay gate: latency")));
    let [(author, note)] = forge.comments(request.parse().expect("a number")).try_into().expect("one note");
    assert!(author == "project_1_bot" && note.contains("Regressed"), "{note}");

    // Without the variable there is no such job, and a missing verdict is reported.
    let without = project.run_job("assay-post", "pipelines/slow.yaml", &measuring);
    assert!(!without.contains("> check"), "{without}");
    fs::remove_dir_all(project.checkout.join("assay")).expect("removed");
    let told = project.run_job("assay-post", "pipelines/slow.yaml", &posting);
    assert!(told.contains("FAIL 1"), "{told}");
    let [(_, note)] = forge.comments(request.parse().expect("a number")).try_into().expect("one note");
    assert!(note.contains("There is no verdict"), "{note}");
}

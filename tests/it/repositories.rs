//! Repositories that cannot be measured as they are: each message names the cause and a remedy. Limits of the system, too.

use std::path::Path;

use crate::support::{CommandResult, Fixture, PIPELINE, binary, measured_fixture};

/// Creates a clone of the fixture's repository with these options, and returns its folder.
fn clone(fixture: &Fixture, name: &str, options: &[&str]) -> std::path::PathBuf {
    let folder = fixture.root().join(name);
    fixture.git(&["config", "uploadpack.allowFilter", "true"]);
    let address = format!("file://{}", fixture.repo().display());
    fixture.git(&[&["clone", "--quiet"], options, &[&address, folder.to_str().expect("text")]].concat());
    folder
}

fn run_in(fixture: &Fixture, folder: &Path, more: &[&str]) -> CommandResult {
    fixture.assay_in(folder, &[&["run", PIPELINE, "--run-id", "one"], more].concat())
}

#[test]
fn a_folder_above_published_runs_is_told_from_one() {
    let fixture = measured_fixture();
    let refused = fixture.assay_in(&fixture.repo().join("pipelines"), &["verify", ".."]).refuses(20, "not_a_publication");
    assert!(refused.stderr.contains("`../.assay/published/one`, `../.assay/published/two`"), "{}", refused.stderr);
    let empty = fixture.assay_in(&fixture.repo().join("pipelines"), &["verify", "./"]).refuses(20, "not_a_publication");
    assert!(empty.stderr.contains("`assay runs` lists the runs"), "{}", empty.stderr);
}

#[test]
fn a_sparse_checkout_is_named() {
    let fixture = Fixture::new();
    let folder = clone(&fixture, "sparse", &["--sparse"]);
    fixture.git(&["-C", folder.to_str().expect("text"), "sparse-checkout", "set", "pipelines"]);
    let refused = run_in(&fixture, &folder, &[]).refuses(2, "unreadable");
    let named = ["workloads/first/workload.yaml", "sparse", "git sparse-checkout add", "--commit HEAD"];
    assert!(named.iter().all(|part| refused.stderr.contains(part)), "{}", refused.stderr);
    run_in(&fixture, &folder, &["--commit", "HEAD"]).success();
}

#[test]
fn an_object_that_a_partial_clone_lacks_is_named() {
    let fixture = Fixture::new();
    let first = fixture.git(&["rev-parse", "HEAD"]);
    fixture.write("workloads/first/run.sh", &format!("{}# changed\n", crate::support::steady_script("first")));
    fixture.commit("another script");
    let folder = clone(&fixture, "partial", &["--filter=blob:none"]);
    let refused = run_in(&fixture, &folder, &["--commit", first.trim()]).refuses(2, "unreadable");
    let named = ["workloads/first/run.sh", "partial clone", "git archive"];
    assert!(named.iter().all(|part| refused.stderr.contains(part)), "{}", refused.stderr);
    // The remedy works.
    fixture.git(&["-C", folder.to_str().expect("text"), "archive", "--output", "/dev/null", "--format", "tar", first.trim()]);
    run_in(&fixture, &folder, &["--commit", first.trim()]).success();
}

#[test]
fn the_pipeline_of_a_commit_need_not_be_in_the_work_tree() {
    let fixture = Fixture::new();
    std::fs::remove_dir_all(fixture.repo().join("pipelines")).expect("removed");
    run_in(&fixture, &fixture.repo(), &["--commit", "HEAD"]).success();
}

#[test]
fn a_repository_with_other_objects_is_named() {
    let fixture = Fixture::new();
    let folder = fixture.root().join("sha256");
    let init = ["init", "--quiet", "--object-format=sha256", folder.to_str().expect("text")];
    fixture.git(&init);
    crate::support::copy_folder(&fixture.repo().join("pipelines"), &folder.join("pipelines"));
    let refused = run_in(&fixture, &folder, &[]).refuses(2, "git");
    assert!(refused.stderr.contains("SHA-256") && refused.stderr.contains("--object-format=sha1"), "{}", refused.stderr);
}

#[test]
fn a_repository_of_another_user_is_named() {
    if rustix::process::geteuid().as_raw() != 0 {
        // Only root can give a folder to another user.
        return;
    }
    let fixture = Fixture::new();
    crate::stores::chown_all(&fixture.repo(), crate::stores::OTHER_USER);
    let refused = run_in(&fixture, &fixture.repo(), &[]).refuses(2, "git");
    assert!(refused.stderr.contains("not owned by current user"), "{}", refused.stderr);
    assert!(refused.stderr.contains("git config --global --add safe.directory"), "{}", refused.stderr);
}

/// Runs `assay run` under a limit of the shell's `ulimit`.
fn run_under(fixture: &Fixture, limit: &str, run: &str) -> CommandResult {
    let mut command = fixture.command(Path::new("/bin/sh"));
    command.arg("-c").arg(format!("ulimit {limit} && exec \"$0\" \"$@\"")).arg(binary("assay"));
    command.args(["run", PIPELINE, "--run-id", run]);
    CommandResult::from_output(command.output().expect("the shell runs"))
}

/// Returns true if a program that was ended by a signal has printed nothing, or that the allocator of its runtime failed, which may be after other
/// lines.
fn is_out_of_memory(stderr: &str) -> bool {
    stderr.is_empty() || stderr.lines().any(|line| line.starts_with("memory allocation of "))
}

#[test]
fn too_little_memory_is_a_failure_with_a_name() {
    let fixture = Fixture::new();
    // The smallest address space in which the program starts depends on the build.
    let mut failed = 0;
    for mib in (100..700).step_by(25) {
        let ran = run_under(&fixture, &format!("-v {}", mib << 10), &format!("m{mib}"));
        if ran.stderr.contains("Cannot allocate memory") && ran.error().is_none()
            || ran.code > 128 && is_out_of_memory(&ran.stderr)
        {
            // The program was not started by the shell or by the kernel, or its language's runtime had no memory for a few bytes.
            continue;
        }
        assert!(!ran.stderr.contains("panicked"), "{mib} MiB: {}", ran.stderr);
        if ran.code == 0 {
            break;
        }
        assert!(ran.error().is_some(), "{mib} MiB: {ran:?}");
        failed += 1;
    }
    assert!(failed > 0, "no limit was too low");
}

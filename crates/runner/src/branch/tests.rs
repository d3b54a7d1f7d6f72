use std::process::Command;

use assay_failure::Exit;
use assay_manifest::{Artifact, Count};
use assay_manifest::{Grade, Intent, OriginKind};

use super::*;

/// Makes a checkout whose `origin` is this address.
fn checkout(origin: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in [vec!["init", "--quiet"], vec!["remote", "add", "origin", origin]] {
        let git = Command::new("git").current_dir(folder.path()).args(arguments).output().expect("git runs");
        assert!(git.status.success(), "{}", String::from_utf8_lossy(&git.stderr));
    }
    folder
}

fn source(repository: Option<&str>) -> Source {
    Source {
        kind: OriginKind::Git,
        repository: repository.map(str::to_owned),
        commit: None,
        reference: None,
        dirty: false,
        objects: Vec::new(),
        pipeline: "pipelines/p.yaml".to_owned(),
        import: None,
        files_digest: Digest::compute(b""),
        files: Vec::new(),
    }
}

fn publish(branch: Option<&str>, remote: Option<&str>) -> PublishSettings {
    PublishSettings { branch: branch.map(str::to_owned), remote: remote.map(str::to_owned), ..PublishSettings::default() }
}

fn asked(remote: &str) -> BranchOptions {
    BranchOptions { remote: Some(remote.to_owned()), ..BranchOptions::default() }
}

fn url(found: Result<Option<Branch>>) -> String {
    found.expect("found").expect("a branch").remote.url().to_owned()
}

const ORIGIN: &str = "https://example.org/a.git";

#[test]
fn no_branch_is_no_destination() {
    let found = Branch::find(&asked("origin"), &publish(None, None), &source(None), None);
    assert!(found.expect("nothing is wrong").is_none());
}

#[test]
fn a_remote_is_that_of_the_checkout_or_an_address() {
    let here = checkout(ORIGIN);
    let find = |asked: &BranchOptions, remote| {
        url(Branch::find(asked, &publish(Some("numbers"), remote), &source(Some(ORIGIN)), Some(here.path())))
    };
    assert_eq!(find(&BranchOptions::default(), None), ORIGIN);
    assert_eq!(find(&BranchOptions::default(), Some("origin")), ORIGIN);
    assert_eq!(find(&BranchOptions::default(), Some("git@example.org:b.git")), "git@example.org:b.git");
    assert_eq!(find(&asked("file:///srv/c.git"), Some("git@example.org:b.git")), "file:///srv/c.git");
}

#[test]
fn without_a_checkout_origin_is_where_the_source_comes_from() {
    let find = |remote| Branch::find(&BranchOptions::default(), &publish(Some("numbers"), remote), &source(Some(ORIGIN)), None);
    assert_eq!(url(find(None)), ORIGIN);
    insta::assert_snapshot!(Failure::from(find(Some("team")).expect_err("nobody knows it")), @r"
    error[no_such_remote]: the remote `team` cannot be resolved: this folder is not in a Git checkout

    hint: name the remote by its address
    ");
}

#[test]
fn the_origin_of_another_checkout_is_not_meant() {
    let elsewhere = checkout("https://example.org/other.git");
    let find = |asked: &BranchOptions| {
        Branch::find(asked, &publish(Some("numbers"), None), &source(Some(ORIGIN)), Some(elsewhere.path()))
    };
    insta::assert_snapshot!(Failure::from(find(&BranchOptions::default()).expect_err("refused")), @r"
    error[other_remote]: the run is from the repository `https://example.org/a.git`, but `origin` of this checkout is `https://example.org/other.git`

    hint: name the remote that is meant with `--remote`
    ");
    assert_eq!(url(find(&asked("origin"))), "https://example.org/other.git", "whoever asks for it means it");
}

#[test]
fn what_no_remote_can_be_is_a_usage_error() {
    for (remote, code) in [
        ("/srv/a.git", "remote_address"),
        ("ext::sh", "remote_address"),
        ("https://token@example.org/a", "secret_in_address"),
        ("nobody", "no_such_remote"),
    ] {
        let here = checkout(ORIGIN);
        let refused = Branch::find(&asked(remote), &publish(Some("b"), None), &source(None), Some(here.path()));
        let refused = Failure::from(refused.expect_err("refused"));
        assert_eq!((refused.exit, refused.code.as_str()), (Exit::Usage, code), "{remote}");
    }
}

/// Every remote that a definition may name is one that git accepts.
#[test]
fn every_remote_of_a_definition_is_one_for_git() {
    for remote in [
        "https://example.org:8443/a/b.git",
        "ssh://git@example.org/a.git",
        "git@example.org:a/b.git",
        "example.org:/srv/a.git",
        "git://example.org/a",
        "file:///srv/a.git",
    ] {
        let text = format!(
            "apiVersion: assay.dev/v1alpha1\nkind: Pipeline\nmetadata: {{name: p}}\nspec:\n  workloads: [w]\n  targets: [{{name: t, kind: \
             host}}]\n  publish: {{branch: numbers, remote: '{remote}'}}\n"
        );
        let pipeline = Pipeline::parse("p.yaml", text.as_bytes()).unwrap_or_else(|problems| panic!("{remote}: {problems:?}"));
        let found = Branch::find(&BranchOptions::default(), &pipeline.spec.publish, &source(None), None);
        assert_eq!(url(found), remote);
    }
}

#[test]
fn a_commit_says_what_it_publishes() {
    let artifact = || Artifact { name: String::new(), digest: Digest::compute(b""), size: Count(0), media_type: String::new() };
    let publication = Publication {
        plan_digest: Digest::compute(b""),
        summary: Digest::compute(b""),
        trust_policy: Digest::compute(b""),
        published_at: "2026-11-20T12:00:00.000000000Z".parse().expect("an instant"),
        grade: Grade { requested: Intent::Publication, given: Intent::Realism, shortfalls: Vec::new(), declared: Vec::new() },
        runs: Vec::new(),
        queries: Vec::new(),
        warehouse_snapshot: BTreeMap::new(),
        numbers: artifact(),
        reports: Vec::new(),
        keys: Vec::new(),
    };
    let (run_id, pipeline) = ("nightly-1".parse().expect("a run id"), Name::new("nightly").expect("a name"));
    let files = BTreeMap::new();
    let digest = Digest::compute(b"");
    let record = PublishedRun { run_id: &run_id, pipeline: &pipeline, digest, publication: &publication, files: &files };
    insta::assert_snapshot!(message(&record), @r"
    Publish the run nightly-1 of the pipeline nightly

    Assay-Run: nightly-1
    Assay-Publication: sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    Assay-Grade: realism
    ");
}

//! Fetching from a bare remote through `file://`.

use assay_git::{FetchedCommit, OfflineFile, RemoteError, check_offline, fetch_remote};
use assay_process::{Cancel, Spawner};
use tempfile::TempDir;

use crate::support::{Scratch, empty, scratch};

/// A bare remote with the branches of a scratch repository.
fn remote(scratch: &Scratch) -> (Scratch, String) {
    let bare = empty(&["--bare"]);
    let url = format!("file://{}", bare.path().display());
    scratch.git(&["tag", "-a", "-m", "A tag", "v1", "main"]);
    scratch.git(&["push", "--quiet", &url, "main", "side", "v1"]);
    (bare, url)
}

fn fetch(url: &str, rev: &str) -> (TempDir, Result<FetchedCommit, RemoteError>) {
    fetch_unless(url, rev, &Cancel::new().expect("an eventfd"))
}

fn fetch_unless(url: &str, rev: &str, cancel: &Cancel) -> (TempDir, Result<FetchedCommit, RemoteError>) {
    let into = tempfile::tempdir().expect("a folder");
    let fetched = fetch_remote(url, rev, into.path(), &Spawner::start().expect("a thread"), cancel);
    (into, fetched)
}

fn refused(url: &str, rev: &str) -> RemoteError {
    fetch(url, rev).1.err().expect("refused")
}

#[test]
fn a_commit_is_fetched_by_branch_tag_and_id() {
    let scratch = scratch();
    let (_bare, url) = remote(&scratch);
    let head = scratch.head();
    for rev in ["main", "v1", "HEAD", &head.id.to_string()] {
        let (_into, fetched) = fetch(&url, rev);
        let fetched = fetched.unwrap_or_else(|error| panic!("{rev}: {error}"));
        assert_eq!(fetched.commit, head, "{rev}");
        assert_eq!(fetched.url, url);
    }
    let (_into, side) = fetch(&url, "side");
    assert_eq!(side.expect("it is fetched").commit.info.message, "Side\n");
}

#[test]
fn what_was_fetched_is_checked_offline() {
    let scratch = scratch();
    let (_bare, url) = remote(&scratch);
    let (_into, fetched) = fetch(&url, "main");
    let FetchedCommit { repository, commit, .. } = fetched.expect("it is fetched");
    let path = "workloads/memory/run.sh";
    let file = repository.read_at(&commit, path).expect("it reads").expect("it is there");
    let objects = repository.commit_objects(&commit, &[path]).expect("objects");
    let file = OfflineFile { path, executable: file.executable, bytes: &file.bytes };
    assert_eq!(check_offline(scratch.head().id, &objects, &[file]).expect("it holds"), commit.info);
}

#[test]
fn a_remote_that_refuses_is_quoted() {
    let scratch = scratch();
    let (_bare, url) = remote(&scratch);
    let error = refused(&url, "absent");
    assert!(matches!(&error, RemoteError::Git { command: "fetch", .. }), "{error:?}");
    assert!(error.to_string().contains("couldn't find remote ref absent"), "{error}");
    assert_eq!(error.hint(), Some("`git ls-remote` lists the branches and tags that there are"));
    let empty = empty(&[]);
    let error = refused(&format!("file://{}", empty.path().display()), "HEAD");
    assert_eq!(error.hint(), Some("the repository has no default branch, or no commit on it: name a branch, a tag or a commit"));
    let error = refused("file:///nonexistent/a.git", "main");
    assert!(matches!(&error, RemoteError::Git { command: "fetch", .. }), "{error:?}");
}

#[test]
fn a_sha256_remote_is_refused() {
    let bare = empty(&["--object-format=sha256"]);
    bare.write("a", "a");
    bare.commit("First");
    let url = format!("file://{}", bare.path().display());
    let text = format!("`{url}` has SHA-256 objects, and only SHA-1 repositories are supported");
    assert_eq!(refused(&url, "main").to_string(), text);
}

#[test]
fn nothing_is_run_for_a_hostile_address_or_revision() {
    let mark = tempfile::tempdir().expect("a folder");
    let mark = mark.path().join("ran");
    let touch = format!("touch {}", mark.display());
    assert!(matches!(refused(&format!("--upload-pack={touch}"), "main"), RemoteError::Url { .. }));
    assert!(matches!(refused(&format!("ext::{touch}"), "main"), RemoteError::Url { .. }));
    assert!(matches!(refused("file:///srv/a.git", &format!("--upload-pack={touch}")), RemoteError::Rev { .. }));
    assert!(matches!(refused("https://user:hunter2@example.org/a", "main"), RemoteError::SecretInUrl { .. }));
    assert!(!mark.exists());
}

#[test]
fn a_cancelled_fetch_says_so() {
    let scratch = scratch();
    let (_bare, url) = remote(&scratch);
    let cancel = Cancel::new().expect("an eventfd");
    cancel.cancel("enough");
    let error = fetch_unless(&url, "main", &cancel).1.err().expect("refused");
    assert_eq!(error.to_string(), format!("fetching from `{url}` was cancelled"));
}

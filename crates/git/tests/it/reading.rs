//! Commits, files and work trees.

use assay_git::{Error, PathProblem, Repository};

use crate::support::{Scratch, empty, scratch};

const SCRIPT: &str = "workloads/memory/run.sh";

fn text_at(scratch: &Scratch, path: &str) -> Option<(String, bool)> {
    let file = scratch.open().read_at(&scratch.head(), path).expect("it reads")?;
    Some((String::from_utf8(file.bytes).expect("text"), file.executable))
}

fn text_in_worktree(scratch: &Scratch, path: &str) -> Option<(String, bool)> {
    let file = scratch.open().read_worktree(path).expect("it reads")?;
    Some((String::from_utf8(file.bytes).expect("text"), file.executable))
}

fn refused_at(scratch: &Scratch, path: &str) -> String {
    scratch.open().read_at(&scratch.head(), path).expect_err("refused").to_string()
}

fn refused_in_worktree(scratch: &Scratch, path: &str) -> String {
    scratch.open().read_worktree(path).expect_err("refused").to_string()
}

#[test]
fn a_repository_is_found_from_within() {
    let scratch = scratch();
    let inside = Repository::discover(&scratch.path().join("workloads/memory")).expect("a repository");
    let root = inside.worktree().expect("a work tree").canonicalize().expect("a path");
    assert_eq!(root, scratch.path().canonicalize().expect("a path"));
}

#[test]
fn a_pipe_in_place_of_a_file_of_the_repository_is_refused_before_it_is_opened() {
    for name in ["index", "config", "HEAD"] {
        let scratch = scratch();
        let path = scratch.path().join(".git").join(name);
        let _ = std::fs::remove_file(&path);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).expect("a pipe");
        let refused = Repository::discover(scratch.path()).err().expect("refused");
        assert_eq!(refused.to_string(), format!("`{}` of the Git repository is no plain file", path.display()));
    }
}

#[test]
fn no_repository_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = Repository::discover(folder.path()).err().expect("refused");
    assert!(matches!(&refused, Error::NoRepository { .. }), "{refused:?}");
    assert_eq!(refused.to_string(), format!("`{}` is not in a Git repository", folder.path().display()));
    assert!(refused.hint().expect("a hint").contains("--repo"));
}

#[test]
fn a_sha256_repository_is_refused_by_name() {
    let scratch = empty(&["--object-format=sha256"]);
    let refused = Repository::discover(scratch.path()).err().expect("refused");
    assert!(matches!(refused, Error::Sha256Repository { .. }), "{refused:?}");
}

#[test]
fn a_commit_is_resolved_by_every_spelling() {
    let scratch = scratch();
    scratch.git(&["tag", "-a", "-m", "A tag", "v1"]);
    let id = scratch.git(&["rev-parse", "HEAD"]);
    for rev in ["HEAD", "main", "v1", "refs/heads/main", &id, &id[..10]] {
        assert_eq!(scratch.open().resolve(rev).expect("a commit").id.to_string(), id, "{rev}");
    }
    let commit = scratch.head();
    assert_eq!(commit.info.tree.to_string(), scratch.git(&["rev-parse", "HEAD^{tree}"]));
    assert_eq!(commit.info.parents.len(), 2);
    assert_eq!(commit.info.message, "Merge side\n");
    assert_eq!(commit.info.author.email, "a@example.org");
}

#[test]
fn what_is_no_commit_is_refused() {
    let scratch = scratch();
    for rev in ["", "-x", "absent", "HEAD:side.txt", "HEAD^{tree}", "a\0b"] {
        let refused = scratch.open().resolve(rev).expect_err("refused");
        assert!(matches!(refused, Error::NoCommit { .. }), "{rev}: {refused:?}");
    }
}

#[test]
fn a_signed_commit_with_many_headers_is_read() {
    let scratch = scratch();
    let commit = scratch.git(&["cat-file", "commit", "HEAD"]);
    let (headers, message) = commit.split_once("\n\n").expect("a message");
    let signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQEzBAABCAAdFiEE\n -----END PGP SIGNATURE-----";
    let signed = format!("{headers}\nencoding ISO-8859-1\n{signature}\n\n{message}\n");
    let id = scratch.git_with_input(&["hash-object", "-t", "commit", "-w", "--stdin"], &signed);
    let read = scratch.open().resolve(&id).expect("a commit");
    assert_eq!(read.info, scratch.head().info);
}

#[test]
fn files_are_read_with_their_mode() {
    let scratch = scratch();
    assert_eq!(text_at(&scratch, SCRIPT), Some(("#!/bin/sh\n".to_owned(), true)));
    assert_eq!(text_at(&scratch, "side.txt"), Some(("side\n".to_owned(), false)));
    assert_eq!(text_at(&scratch, "absent"), None);
    assert_eq!(text_at(&scratch, "absent/side.txt"), None);
    assert_eq!(text_at(&scratch, "side.txt/below"), None);
}

#[test]
fn an_older_commit_keeps_its_files() {
    let scratch = scratch();
    let before = scratch.head();
    scratch.write("side.txt", "changed\n");
    scratch.commit("Change");
    let file = scratch.open().read_at(&before, "side.txt").expect("it reads").expect("it is there");
    assert_eq!(file.bytes, b"side\n");
}

#[test]
fn links_submodules_and_folders_are_refused_by_name() {
    let scratch = scratch();
    assert_eq!(refused_at(&scratch, "workloads/link"), "`workloads/link` is a symbolic link");
    assert_eq!(refused_at(&scratch, "workloads/link/run.sh"), "`workloads/link` is a symbolic link");
    assert_eq!(refused_at(&scratch, "workloads/module"), "`workloads/module` is a submodule");
    assert_eq!(refused_at(&scratch, "workloads/module/a"), "`workloads/module` is a submodule");
    assert_eq!(refused_at(&scratch, "workloads"), "`workloads` is not a file");
    assert!(refused_at(&scratch, "../x").ends_with("it holds `.` or `..`"));
}

#[test]
fn an_object_that_is_gone_is_named() {
    let scratch = scratch();
    let blob = scratch.git(&["rev-parse", "HEAD:side.txt"]);
    let stored = scratch.path().join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    std::fs::remove_file(stored).expect("removed");
    assert_eq!(refused_at(&scratch, "side.txt"), format!("failed to read the Git object {blob}"));
}

#[test]
fn a_file_that_is_too_large_is_refused_before_it_is_read() {
    let scratch = scratch();
    let large = std::fs::File::create(scratch.path().join("large")).expect("a file");
    large.set_len(assay_git::MAX_FILE_BYTES + 1).expect("a sparse file");
    let text = "`large` has 67108865 bytes, and a file of a Source has at most 67108864";
    assert_eq!(refused_in_worktree(&scratch, "large"), text);
    scratch.commit("Large");
    assert_eq!(refused_at(&scratch, "large"), text);
}

#[test]
fn a_work_tree_is_read_as_it_is() {
    let scratch = scratch();
    scratch.write("side.txt", "changed\n");
    scratch.write("new/file", "new\n");
    scratch.make_executable("new/file");
    assert_eq!(text_in_worktree(&scratch, "side.txt"), Some(("changed\n".to_owned(), false)));
    assert_eq!(text_in_worktree(&scratch, "new/file"), Some(("new\n".to_owned(), true)));
    assert_eq!(text_in_worktree(&scratch, "absent/file"), None);
    assert_eq!(text_in_worktree(&scratch, "side.txt/below"), None);
}

#[test]
fn nothing_leads_out_of_a_work_tree() {
    let scratch = scratch();
    let outside = tempfile::tempdir().expect("a folder");
    std::fs::write(outside.path().join("secret"), "secret").expect("written");
    std::os::unix::fs::symlink(outside.path(), scratch.path().join("out")).expect("a link");
    std::os::unix::fs::symlink(outside.path().join("secret"), scratch.path().join("leak")).expect("a link");
    assert_eq!(refused_in_worktree(&scratch, "out/secret"), "`out` is a symbolic link");
    assert_eq!(refused_in_worktree(&scratch, "leak"), "`leak` is a symbolic link");
    assert!(refused_in_worktree(&scratch, "../secret").ends_with("it holds `.` or `..`"));
    assert!(refused_in_worktree(&scratch, ".git/config").ends_with("it leads into `.git`"));
}

#[test]
fn what_is_no_file_in_a_work_tree_is_refused_without_waiting() {
    let scratch = scratch();
    let pipe = scratch.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).expect("a pipe");
    let _socket = std::os::unix::net::UnixListener::bind(scratch.path().join("socket")).expect("a socket");
    for path in ["pipe", "socket", "workloads"] {
        let refused = scratch.open().read_worktree(path).expect_err("refused");
        assert!(matches!(refused, Error::NoFile(PathProblem::NotAFile { .. })), "{path}: {refused:?}");
    }
}

#[test]
fn a_clean_work_tree_has_no_changes() {
    let scratch = scratch();
    // The submodule was never checked out, which git does not count as a change either.
    std::fs::create_dir_all(scratch.path().join("workloads/module")).expect("a folder");
    assert_eq!(scratch.open().status(&[]).expect("a status"), [""; 0]);
    assert_eq!(scratch.open().status(&["workloads/memory", "side.txt"]).expect("a status"), [""; 0]);
}

#[test]
fn every_kind_of_change_makes_a_work_tree_dirty() {
    let scratch = scratch();
    scratch.write(".gitignore", "*.log\n");
    scratch.commit("Ignore");
    scratch.write("workloads/memory/workload.yaml", "changed\n");
    scratch.write("workloads/memory/new", "new\n");
    scratch.write("staged", "staged\n");
    scratch.git(&["add", "staged"]);
    std::fs::remove_file(scratch.path().join("side.txt")).expect("removed");
    scratch.write("ignored.log", "x");
    let status = |paths: &[&str]| scratch.open().status(paths).expect("a status");
    assert_eq!(status(&["workloads/memory"]), ["workloads/memory/new", "workloads/memory/workload.yaml"]);
    assert_eq!(status(&["side.txt", "staged"]), ["side.txt", "staged"]);
    assert_eq!(status(&["ignored.log"]), ["ignored.log"], "named, so it counts");
    assert_eq!(status(&["pipelines"]), [""; 0]);
    assert!(!status(&[]).contains(&"ignored.log".to_owned()));
}

#[test]
fn a_changed_mode_makes_a_work_tree_dirty() {
    let scratch = scratch();
    scratch.make_executable("side.txt");
    assert_eq!(scratch.open().status(&["side.txt"]).expect("a status"), ["side.txt"]);
}

#[test]
fn a_path_of_interest_is_no_pattern() {
    let scratch = scratch();
    scratch.write("new.txt", "new\n");
    assert_eq!(scratch.open().status(&["*.txt"]).expect("a status"), [""; 0]);
}

#[test]
fn a_bare_repository_has_no_work_tree() {
    let scratch = empty(&["--bare"]);
    assert!(matches!(scratch.open().status(&[]), Err(Error::Bare)));
    assert!(matches!(scratch.open().read_worktree("a"), Err(Error::Bare)));
}

#[test]
fn the_origin_is_told_without_credentials() {
    let scratch = scratch();
    assert_eq!(scratch.open().origin(), None);
    scratch.git(&["remote", "add", "origin", "https://user:hunter2@example.org/a.git"]);
    assert_eq!(scratch.open().origin().as_deref(), Some("https://example.org/a.git"));
    scratch.git(&["remote", "set-url", "origin", "/srv/a.git"]);
    assert_eq!(scratch.open().origin(), None);
}

//! The check from a commit's id down to bytes, and every way in which it can fail.

use assay_git::{MAX_FILES, MAX_OBJECTS, OfflineError, OfflineFile, Oid, RawObject, check_offline};
use assay_manifest::GitObjectKind;

use crate::support::{Scratch, scratch};

const SCRIPT: OfflineFile<'static> = OfflineFile { path: "workloads/memory/run.sh", executable: true, bytes: b"#!/bin/sh\n" };
const SIDE: OfflineFile<'static> = OfflineFile { path: "side.txt", executable: false, bytes: b"side\n" };

fn objects(scratch: &Scratch, paths: &[&str]) -> Vec<RawObject> {
    scratch.open().commit_objects(&scratch.head(), paths).expect("objects")
}

/// Returns the error of the check after `tamper` changed the objects of [`SCRIPT`] and [`SIDE`].
fn tampered(tamper: impl FnOnce(&mut Vec<RawObject>)) -> OfflineError {
    let scratch = scratch();
    let mut objects = objects(&scratch, &[SCRIPT.path, SIDE.path]);
    tamper(&mut objects);
    check_offline(scratch.head().id, &objects, &[SCRIPT, SIDE]).expect_err("refused")
}

fn refused(files: &[OfflineFile<'_>]) -> OfflineError {
    let scratch = scratch();
    let objects = objects(&scratch, &[SCRIPT.path, SIDE.path]);
    check_offline(scratch.head().id, &objects, files).expect_err("refused")
}

#[test]
fn files_are_shown_to_be_the_commits() {
    let scratch = scratch();
    let objects = objects(&scratch, &[SCRIPT.path, SIDE.path, "workloads/memory/workload.yaml"]);
    let kinds: Vec<_> = objects.iter().map(|object| object.kind).collect();
    let tree = GitObjectKind::Tree;
    assert_eq!(kinds, [GitObjectKind::Commit, tree, tree, tree], "the commit, the root, workloads, workloads/memory");
    let info = check_offline(scratch.head().id, &objects, &[SCRIPT, SIDE]).expect("it holds");
    assert_eq!(info, scratch.head().info);
}

#[test]
fn a_signed_commit_is_checked_as_it_is() {
    let scratch = scratch();
    let commit = scratch.git(&["cat-file", "commit", "HEAD"]);
    let signed = commit.replacen("\n\n", "\ngpgsig -----BEGIN\n \n x\n -----END\n\n", 1);
    let id = scratch.git_with_input(&["hash-object", "-t", "commit", "-w", "--stdin"], &signed);
    let commit = scratch.open().resolve(&id).expect("a commit");
    let objects = scratch.open().commit_objects(&commit, &[SIDE.path]).expect("objects");
    assert_eq!(check_offline(commit.id, &objects, &[SIDE]).expect("it holds").parents.len(), 2);
}

#[test]
fn a_changed_byte_of_any_object_is_found() {
    for (index, kind) in [(0, "commit"), (1, "tree"), (2, "tree"), (3, "tree")] {
        let error = tampered(|objects| *objects[index].bytes.last_mut().expect("content") ^= 1);
        assert!(matches!(error, OfflineError::OidMismatch { kind: found, .. } if found == kind), "{index}: {error:?}");
    }
}

#[test]
fn a_missing_object_is_named() {
    for (index, kind) in [(0, "commit"), (1, "tree"), (2, "tree"), (3, "tree")] {
        let mut gone = None;
        let error = tampered(|objects| gone = Some(objects.remove(index).oid));
        assert_eq!(error, OfflineError::ObjectMissing { kind, oid: gone.expect("removed") });
    }
}

#[test]
fn an_object_in_the_place_of_another_is_found() {
    let error = tampered(|objects| {
        let bytes = objects[2].bytes.clone();
        objects[3].bytes = bytes;
    });
    assert!(matches!(error, OfflineError::OidMismatch { .. }), "{error:?}");
}

#[test]
fn an_object_of_another_kind_is_found() {
    let error = tampered(|objects| objects[0].kind = GitObjectKind::Tree);
    assert!(matches!(error, OfflineError::OidMismatch { kind: "tree", .. }), "{error:?}");
}

#[test]
fn another_commit_does_not_do() {
    let scratch = scratch();
    let objects = objects(&scratch, &[SIDE.path]);
    let other = scratch.open().resolve("HEAD~1").expect("a commit").id;
    let error = check_offline(other, &objects, &[SIDE]).expect_err("refused");
    assert_eq!(error, OfflineError::ObjectMissing { kind: "commit", oid: other });
}

#[test]
fn a_malformed_object_is_named_though_its_id_is_right() {
    let object = |kind, name: &str, bytes: &[u8]| {
        let oid = Oid::for_content(name, bytes).expect("an id");
        RawObject { oid, kind, bytes: bytes.to_vec() }
    };
    let commit = object(GitObjectKind::Commit, "commit", b"nonsense");
    let error = check_offline(commit.oid, &[commit], &[]).expect_err("refused");
    assert!(matches!(error, OfflineError::Malformed { kind: "commit", .. }), "{error:?}");

    let tree = object(GitObjectKind::Tree, "tree", b"nonsense");
    let who = "A <a@example.org> 1 +0000";
    let text = format!("tree {}\nauthor {who}\ncommitter {who}\n\n", tree.oid);
    let commit = object(GitObjectKind::Commit, "commit", text.as_bytes());
    let error = check_offline(commit.oid, &[commit, tree], &[SIDE]).expect_err("refused");
    assert!(matches!(error, OfflineError::Malformed { kind: "tree", .. }), "{error:?}");
}

#[test]
fn a_changed_file_is_found() {
    let error = refused(&[SCRIPT, OfflineFile { bytes: b"side!\n", ..SIDE }]);
    assert!(error.to_string().starts_with("the content of `side.txt` is the blob "), "{error}");
}

#[test]
fn a_changed_mode_is_found() {
    assert_eq!(refused(&[OfflineFile { executable: true, ..SIDE }]).to_string(), "`side.txt` is not executable in the commit");
    assert_eq!(
        refused(&[OfflineFile { executable: false, ..SCRIPT }]).to_string(),
        "`workloads/memory/run.sh` is executable in the commit"
    );
}

#[test]
fn a_file_in_another_place_is_found() {
    let at = |path| refused(&[OfflineFile { path, ..SIDE }]).to_string();
    assert_eq!(at("elsewhere.txt"), "`elsewhere.txt` is not in the commit");
    assert_eq!(at("side.txt/below"), "`side.txt/below` is not in the commit");
    assert_eq!(at("workloads"), "`workloads` is not a file");
    assert_eq!(at("workloads/link"), "`workloads/link` is a symbolic link");
    assert_eq!(at("workloads/module"), "`workloads/module` is a submodule");
    assert!(at("workloads/../side.txt").ends_with("it holds `.` or `..`"));
    assert_eq!(refused(&[SIDE, SIDE]).to_string(), "`side.txt` is listed twice");
}

#[test]
fn too_much_is_refused() {
    let scratch = scratch();
    let object = objects(&scratch, &[SIDE.path]).remove(0);
    let error = check_offline(object.oid, &vec![object.clone(); MAX_OBJECTS + 1], &[]).expect_err("refused");
    assert_eq!(error.to_string(), "there are 20001 objects, and at most 20000 are allowed");
    let error = check_offline(object.oid, &[object], &vec![SIDE; MAX_FILES + 1]).expect_err("refused");
    assert_eq!(error.to_string(), "there are 10001 files, and at most 10000 are allowed");
}

#[test]
fn objects_of_absent_files_are_refused() {
    let scratch = scratch();
    let head = scratch.head();
    let refused = |path: &str| scratch.open().commit_objects(&head, &[path]).expect_err("refused").to_string();
    assert_eq!(refused("absent"), format!("`absent` is not in the commit {}", head.id));
    assert_eq!(refused("workloads/link"), "`workloads/link` is a symbolic link");
    let many = vec!["side.txt"; MAX_FILES + 1];
    let error = scratch.open().commit_objects(&head, &many).expect_err("refused");
    assert_eq!(error.to_string(), "there are 10001 files, and a Source has at most 10000");
}

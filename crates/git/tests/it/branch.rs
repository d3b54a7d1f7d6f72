//! Commits of folders to a branch of a bare remote through `file://`.

use std::fs;
use std::sync::Barrier;

use assay_git::{BranchError, Destination, PushOutcome, Remote, RemoteError, StagedFolder};
use assay_manifest::Instant;
use assay_process::{Cancel, Spawner};

use crate::support::{Scratch, empty};

const BRANCH: &str = "team/numbers";
const MARK: &str = "chain/last.json";

/// Files of a folder: path and content.
type Files<'a> = &'a [(&'a str, &'a str)];

/// A bare remote, and a checkout that has it as `origin`.
struct RemoteFixture {
    bare: Scratch,
    checkout: Scratch,
}

fn setting() -> RemoteFixture {
    let (bare, checkout) = (empty(&["--bare"]), empty(&[]));
    checkout.git(&["remote", "add", "origin", &format!("file://{}", bare.path().display())]);
    checkout.git(&["config", "user.name", "B. Enchmark"]);
    checkout.git(&["config", "user.email", "b@example.org"]);
    RemoteFixture { bare, checkout }
}

impl RemoteFixture {
    fn push(&self, run: &str, files: Files<'_>) -> Result<PushOutcome, BranchError> {
        self.push_unless(run, files, &Cancel::new().expect("an eventfd"))
    }

    fn push_unless(&self, run: &str, files: Files<'_>, cancel: &Cancel) -> Result<PushOutcome, BranchError> {
        let into = tempfile::tempdir().expect("a folder");
        let mut staged = StagedFolder::new(into.path())?;
        for (path, text) in files {
            staged.add(path, text.as_bytes())?;
        }
        let remote = Remote::from_checkout(self.checkout.path(), "origin")?;
        let path = format!("release/{run}");
        let to = Destination { remote: &remote, branch: BRANCH, path: &path, mark: MARK, checkout: Some(self.checkout.path()) };
        let at = "2026-11-20T12:00:00.900000000Z".parse::<Instant>().expect("an instant");
        let spawner = Spawner::start().expect("a thread");
        staged.push(&to, &format!("Publish {run}\n\nAssay-Run: {run}\n"), at, &spawner, cancel)
    }

    /// Returns the files of the branch.
    fn listed(&self) -> String {
        self.bare.git(&["ls-tree", "-r", BRANCH])
    }

    /// Returns the number of commits of the branch, and checks that none of them is a merge.
    fn commits(&self) -> usize {
        assert_eq!(self.bare.git(&["rev-list", "--merges", BRANCH]), "");
        self.bare.git(&["rev-list", BRANCH]).lines().count()
    }

    fn hook(&self, name: &str, script: &str) {
        let hook = format!("hooks/{name}");
        self.bare.write(&hook, &format!("#!/bin/sh\n{script}\n"));
        self.bare.make_executable(&hook);
    }
}

#[test]
fn the_first_commit_begins_the_branch() {
    let setting = setting();
    let pushed = setting.push("one", &[("chain/plan.json", "{}"), ("report.md", "# One\n")]).expect("it is pushed");
    assert!(pushed.is_new && pushed.attempts == 1);
    // Ids of blobs: `printf '{}' | git hash-object --stdin`, and of `# One` with its newline.
    let [plan, report] = ["{}", "# One\n"].map(|text| setting.bare.git_with_input(&["hash-object", "--stdin"], text));
    let expected = format!("100644 blob {plan}\trelease/one/chain/plan.json\n100644 blob {report}\trelease/one/report.md");
    assert_eq!(setting.listed(), expected);
    let shown = setting.bare.git(&["log", "--format=%H|%P|%an <%ae>|%cn <%ce>|%aI|%cI|%s|%(trailers:only,unfold)", BRANCH]);
    let person = "B. Enchmark <b@example.org>";
    let time = "2026-11-20T12:00:00+00:00";
    assert_eq!(shown, format!("{}||{person}|{person}|{time}|{time}|Publish one|Assay-Run: one", pushed.head));
}

#[test]
fn a_commit_leaves_everything_else_as_it_is() {
    let setting = setting();
    let others = &setting.checkout;
    others.write("release/index.html", "an index");
    others.write("run.sh", "#!/bin/sh\n");
    others.make_executable("run.sh");
    std::os::unix::fs::symlink("run.sh", others.path().join("link")).expect("a link");
    let first = others.commit("Others' files");
    others.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{first},module")]);
    others.git(&["commit", "--quiet", "-m", "A submodule"]);
    others.git(&["push", "--quiet", "origin", &format!("HEAD:refs/heads/{BRANCH}")]);
    let before = setting.listed();
    let pushed = setting.push("one", &[("a", "1")]).expect("it is pushed");
    let after = setting.listed();
    let added: Vec<_> = after.lines().filter(|line| !before.lines().any(|old| old == *line)).collect();
    assert!(matches!(added.as_slice(), [line] if line.ends_with("\trelease/one/a")), "{added:?}");
    assert_eq!(after.lines().count(), before.lines().count() + 1, "nothing is gone");
    assert_eq!(setting.bare.git(&["rev-parse", &format!("{}^", pushed.head)]), others.git(&["rev-parse", "HEAD"]));
    assert_eq!(setting.commits(), 3);
    setting.bare.git(&["fsck", "--strict"]);
}

#[test]
fn a_folder_that_is_there_is_not_committed_again() {
    let setting = setting();
    let first = setting.push("one", &[("a", "1"), ("b/c", "2")]).expect("it is pushed");
    let second = setting.push("two", &[("a", "2")]).expect("it is pushed");
    let again = setting.push("one", &[("b/c", "2"), ("a", "1")]).expect("there is nothing to do");
    assert_eq!((again.is_new, again.head), (false, second.head));
    assert_ne!(first.head, second.head);
    assert_eq!(setting.commits(), 2);
}

#[test]
fn what_was_published_is_never_replaced() {
    let setting = setting();
    let first = setting.push("one", &[("a", "1")]).expect("it is pushed");
    let variations: [Files<'_>; 3] = [&[("a", "2")], &[("a", "1"), ("b", "2")], &[("b", "1")]];
    for files in variations {
        let error = setting.push("one", files).expect_err("refused");
        assert!(matches!(&error, BranchError::OtherFolder { path, .. } if path == "release/one"), "{error:?}");
    }
    assert_eq!(setting.bare.git(&["rev-parse", BRANCH]), first.head.to_string());
}

#[test]
fn nothing_is_added_inside_of_a_folder_that_is_whole() {
    let setting = setting();
    let first = setting.push("one", &[(MARK, "{}")]).expect("it is pushed");
    for inner in ["one/two", "one/chain/two", "one/chain/last.json"] {
        let error = setting.push(inner, &[("a", "1")]).expect_err("refused");
        assert!(matches!(&error, BranchError::InsideCompleteFolder { path, .. } if path == "release/one"), "{error:?}");
    }
    // A folder of the mark's name is no mark.
    setting.push("two", &[("chain", "a file")]).expect("it is pushed");
    let error = setting.push("two/chain/three", &[("a", "1")]).expect_err("refused");
    assert!(matches!(&error, BranchError::NotAFolder { path, .. } if path == "release/two/chain"), "{error:?}");
    assert_eq!(setting.bare.git(&["rev-parse", &format!("{BRANCH}~1")]), first.head.to_string());
}

#[test]
fn a_file_in_the_place_of_a_folder_is_named() {
    let setting = setting();
    setting.checkout.write("release", "a file");
    setting.checkout.commit("First");
    setting.checkout.git(&["push", "--quiet", "origin", &format!("HEAD:refs/heads/{BRANCH}")]);
    let error = setting.push("one", &[("a", "1")]).expect_err("refused");
    let url = format!("file://{}", setting.bare.path().display());
    assert_eq!(error.to_string(), format!("on the branch `{BRANCH}` of `{url}`, `release` is not a folder"));
    assert_eq!(setting.commits(), 1);
}

/// Pushes from several processes at the same moment, each a folder of its own.
fn push_at_once(setting: &RemoteFixture, pushers: usize) -> Vec<PushOutcome> {
    let barrier = Barrier::new(pushers);
    std::thread::scope(|scope| {
        let push = |index: usize| {
            barrier.wait();
            setting.push(&format!("run-{index}"), &[("a", &index.to_string())])
        };
        let threads: Vec<_> = (0..pushers).map(|index| scope.spawn(move || push(index))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic").expect("it is pushed")).collect()
    })
}

#[test]
fn of_many_who_push_at_once_all_succeed() {
    // A remote that can omit files from a fetch, and one that cannot.
    for filter in ["true", "false"] {
        let setting = setting();
        setting.bare.git(&["config", "uploadpack.allowFilter", filter]);
        let pushed = push_at_once(&setting, 8);
        assert!(pushed.iter().all(|pushed| pushed.is_new));
        assert_eq!(setting.commits(), 8, "one commit each, one after the other");
        assert_eq!(setting.listed().lines().count(), 8);
        for (index, pushed) in pushed.iter().enumerate() {
            let added = setting.bare.git(&["show", "--format=", "--name-status", &pushed.head.to_string()]);
            assert_eq!(added, format!("A\trelease/run-{index}/a"));
        }
        setting.bare.git(&["fsck", "--strict"]);
    }
}

#[test]
fn files_of_earlier_runs_are_not_fetched() {
    let setting = setting();
    setting.bare.git(&["config", "uploadpack.allowFilter", "true"]);
    setting.push("one", &[("large", &"x".repeat(1 << 20))]).expect("it is pushed");
    let into = tempfile::tempdir().expect("a folder");
    let mut staged = StagedFolder::new(into.path()).expect("a scratch repository");
    staged.add("a", b"1").expect("added");
    let remote = Remote::from_checkout(setting.checkout.path(), "origin").expect("a remote");
    let to = Destination { remote: &remote, branch: BRANCH, path: "release/two", mark: MARK, checkout: None };
    let (spawner, cancel) = (Spawner::start().expect("a thread"), Cancel::new().expect("an eventfd"));
    staged.push(&to, "Two", Instant::from_unix_ns(0), &spawner, &cancel).expect("it is pushed");
    let list =
        ["--git-dir", into.path().to_str().expect("text"), "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)"];
    let blobs = setting.checkout.git(&list).lines().filter(|kind| *kind == "blob").count();
    assert_eq!(blobs, 1, "the new file alone");
}

#[test]
fn a_hook_that_refuses_is_quoted() {
    let setting = setting();
    setting.hook("pre-receive", "echo 'only on Tuesdays' >&2; exit 1");
    let error = setting.push("one", &[("a", "1")]).expect_err("refused");
    let url = format!("file://{}", setting.bare.path().display());
    let reason = "[remote rejected] (pre-receive hook declined)";
    let expected = format!("`{url}` refused the commit on the branch `{BRANCH}`: {reason}; it says:\nonly on Tuesdays");
    assert_eq!((error.to_string(), error.code().as_str()), (expected, "hook_refused"));
    setting.hook("pre-receive", "echo 'You are not allowed to push code to protected branches on this project.' >&2; exit 1");
    assert_eq!(setting.push("one", &[("a", "1")]).expect_err("refused").code().as_str(), "branch_protected");
    assert_eq!(setting.bare.git(&["for-each-ref"]), "");
}

#[test]
fn a_push_whose_response_is_lost_has_arrived() {
    let setting = setting();
    // The branch is updated, and the process that would report it is killed.
    setting.hook("reference-transaction", "if [ \"$1\" = committed ]; then kill -9 $PPID; fi");
    let pushed = setting.push("one", &[("a", "1")]).expect("it has arrived");
    assert!(pushed.is_new);
    assert_eq!(setting.bare.git(&["rev-parse", BRANCH]), pushed.head.to_string());
}

#[test]
fn a_remote_that_is_not_there_is_named() {
    let setting = setting();
    fs::rename(setting.bare.path().join("HEAD"), setting.bare.path().join("gone")).expect("renamed");
    assert_eq!(setting.push("one", &[("a", "1")]).expect_err("refused").code().as_str(), "repository_not_found");
}

#[test]
fn a_sha256_remote_takes_no_commit() {
    let mut setting = setting();
    setting.bare = empty(&["--bare", "--object-format=sha256"]);
    let url = format!("file://{}", setting.bare.path().display());
    setting.checkout.git(&["remote", "set-url", "origin", &url]);
    let text = format!("`{url}` has SHA-256 objects, and only SHA-1 repositories are supported");
    assert_eq!(setting.push("one", &[("a", "1")]).expect_err("refused").to_string(), text);
    let other = empty(&["--object-format=sha256"]);
    other.write("a", "a");
    other.commit("First");
    other.git(&["push", "--quiet", &url, &format!("HEAD:refs/heads/{BRANCH}")]);
    assert_eq!(setting.push("one", &[("a", "1")]).expect_err("refused").to_string(), text);
}

#[test]
fn a_push_can_be_cancelled() {
    let setting = setting();
    let entered = setting.bare.path().join("entered");
    setting.hook("pre-receive", &format!("mkfifo {0}; read line < {0}", entered.display()));
    let cancel = Cancel::new().expect("an eventfd");
    let error = std::thread::scope(|scope| {
        let pushing = scope.spawn(|| setting.push_unless("one", &[("a", "1")], &cancel));
        while !entered.exists() && !pushing.is_finished() {
            std::thread::yield_now();
        }
        cancel.cancel("enough");
        pushing.join().expect("no panic").expect_err("cancelled")
    });
    assert!(matches!(error, BranchError::Remote(RemoteError::Cancelled { doing: "pushing to", .. })), "{error:?}");
    assert_eq!(setting.bare.git(&["for-each-ref"]), "");
}

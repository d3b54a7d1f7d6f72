//! Commits a folder to a branch of a remote, so that the published folders become a chain of commits.
//!
//! The branch only grows: a commit adds one folder to its parent's files and touches nothing else. A concurrent push moves the
//! branch, so a refused push begins again from the branch's new head, and is never forced.

use assay_failure::ErrorCode;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_manifest::Instant;
use assay_process::{Cancel, Spawner};

use crate::address::MAX_TEXT;
use crate::object::{MAX_TREE_BYTES, OidError};
use crate::path::check_path;
use crate::program::Git;
use crate::{Oid, PathError, Remote, RemoteError};

/// The most files of a folder: a run of thousands of blocks, each with some manifests.
pub const MAX_FOLDER_FILES: usize = 50_000;
/// The largest file. It is held in memory; the large hosts accept no more than 100 MiB.
pub const MAX_FOLDER_FILE_BYTES: u64 = 256 << 20;
/// The largest folder: the large hosts accept this much in one push.
pub const MAX_FOLDER_BYTES: u64 = 2 << 30;
/// The number of attempts to push while the branch moves. In each round at least one of the concurrent pushes succeeds, so this
/// is also the number of concurrent pushes that are possible.
pub const MAX_ATTEMPTS: u32 = 64;
/// The pause before the second attempt, at most; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between attempts: about the time of one attempt over a slow line.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// The ref of the fetched head of the branch in the scratch repository.
const HEAD_REF: &str = "refs/assay/branch";
/// The committer if the user has not configured git with a name.
const DEFAULT_COMMITTER: (&str, &str) = ("Assay", "assay@localhost");

const MODE_FILE: i32 = 0o100_644;
const MODE_FOLDER: i32 = 0o040_000;

/// A folder that is to be committed: its files, as objects of a scratch repository.
pub struct StagedFolder {
    repository: git2::Repository,
    into: PathBuf,
    root: Folder,
    files: usize,
    bytes: u64,
}

/// The destination of a commit.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The remote.
    pub remote: &'a Remote,
    /// The branch. It begins with this commit if the remote has none of that name.
    pub branch: &'a str,
    /// The folder's path on the branch.
    pub path: &'a str,
    /// A file that only a complete folder has, such as `chain/publication.json`. Nothing is added inside of a folder that has it.
    pub mark: &'a str,
    /// The checkout whose git configuration names the committer; `None` uses the user's global configuration.
    pub checkout: Option<&'a Path>,
}

/// The outcome of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushOutcome {
    /// The head of the branch that holds the folder: the new commit, or one that was found there.
    pub head: Oid,
    /// True if this push added the folder; false if it was there already.
    pub is_new: bool,
    /// The number of attempts.
    pub attempts: u32,
}

/// The reason why a folder was not committed. Nothing was pushed.
#[derive(Debug, thiserror::Error)]
pub enum BranchError {
    /// The remote could not be reached.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The name is not that of a branch.
    #[error("`{branch}` is not the name of a branch")]
    Name {
        /// The name.
        branch: String,
    },
    /// A path names no place in a repository.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file and a folder, or two files, have the same path.
    #[error("`{path}` is there twice")]
    DuplicatePath {
        /// The path.
        path: String,
    },
    /// There are too many files.
    #[error("there are more than {MAX_FOLDER_FILES} files, too many for a commit")]
    TooManyFiles,
    /// A file is too large.
    #[error("`{path}` has {size} bytes, and a file of a commit has at most {MAX_FOLDER_FILE_BYTES}")]
    FileTooLarge {
        /// The file.
        path: String,
        /// Its size in bytes.
        size: u64,
    },
    /// All files together are too large.
    #[error("the files have more than {MAX_FOLDER_BYTES} bytes together, too many for a commit")]
    TooLarge,
    /// The scratch repository cannot be read or written.
    #[error("failed to use the scratch repository")]
    Objects(#[from] git2::Error),
    /// The branch holds something other than a folder at the path of a folder.
    #[error("on the branch `{branch}` of `{url}`, `{path}` is not a folder")]
    NotAFolder {
        /// The remote's address.
        url: String,
        /// The branch.
        branch: String,
        /// The path.
        path: String,
    },
    /// The path leads into a complete folder.
    #[error("the branch `{branch}` of `{url}` holds a whole folder at `{path}`, and nothing is added to it")]
    InsideCompleteFolder {
        /// The remote's address.
        url: String,
        /// The branch.
        branch: String,
        /// The path of the complete folder; empty for the root.
        path: String,
    },
    /// The branch holds another folder at the path. Publishing never replaces a published folder.
    #[error("the branch `{branch}` of `{url}` holds another folder at `{path}`")]
    OtherFolder {
        /// The remote's address.
        url: String,
        /// The branch.
        branch: String,
        /// The path.
        path: String,
    },
    /// The remote was reached and refuses the commit.
    #[error("`{url}` refused the commit on the branch `{branch}`: {reason}{}", quoted(said))]
    Refused {
        /// The remote's address.
        url: String,
        /// The branch.
        branch: String,
        /// Git's reason.
        reason: String,
        /// The remote's other messages.
        said: String,
    },
    /// Concurrent pushes were faster every time.
    #[error("the branch `{branch}` of `{url}` moved during each of {attempts} attempts to push to it")]
    Moved {
        /// The remote's address.
        url: String,
        /// The branch.
        branch: String,
        /// The number of attempts.
        attempts: u32,
    },
}

fn quoted(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("; it says:\n{said}") }
}

impl BranchError {
    /// Returns its stable code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Remote(error) => error.code(),
            Self::Name { .. } => ErrorCode::BranchName,
            Self::Path(_) | Self::DuplicatePath { .. } => ErrorCode::BranchPath,
            Self::TooManyFiles | Self::FileTooLarge { .. } | Self::TooLarge => ErrorCode::CommitTooLarge,
            Self::Objects(_) => ErrorCode::Scratch,
            Self::NotAFolder { .. } => ErrorCode::NotAFolder,
            Self::InsideCompleteFolder { .. } => ErrorCode::InsideAnother,
            Self::OtherFolder { .. } => ErrorCode::OtherFolder,
            Self::Refused { reason, said, .. } => match Refusal::from_messages(reason, said) {
                Refusal::Protected => ErrorCode::BranchProtected,
                Refusal::Hook => ErrorCode::HookRefused,
                Refusal::CheckedOut | Refusal::Other => ErrorCode::PushRefused,
            },
            Self::Moved { .. } => ErrorCode::BranchMoved,
        }
    }

    /// Returns advice for a person, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Remote(error) => error.hint(),
            Self::Name { .. } => Some("a branch is named without `refs/heads/`, such as `numbers`"),
            Self::NotAFolder { .. } | Self::InsideCompleteFolder { .. } => Some("name another folder, or another branch"),
            Self::OtherFolder { .. } => {
                Some("what was published stays: find out which of the two is right, and publish again under another run id")
            }
            Self::Refused { reason, said, .. } => match Refusal::from_messages(reason, said) {
                Refusal::Protected => {
                    Some("let whoever pushes here bypass the protection, or name a branch that only grows without it")
                }
                Refusal::Hook => Some("a hook of the remote decides; its owner knows why"),
                Refusal::CheckedOut => Some("push to a bare repository, or to a branch that nobody has checked out"),
                Refusal::Other => None,
            },
            Self::Moved { .. } => Some("try again when fewer push to it"),
            _ => None,
        }
    }
}

/// The reason why a remote refuses a commit, as far as its messages tell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Protected,
    Hook,
    CheckedOut,
    Other,
}

impl Refusal {
    fn from_messages(reason: &str, said: &str) -> Self {
        let says = |word: &str| reason.contains(word) || said.contains(word);
        if says("protected branch") || says("protected_branch") || says("GH006") || says("GH013") {
            Self::Protected
        } else if reason.contains("hook") {
            Self::Hook
        } else if reason.contains("checked out") {
            Self::CheckedOut
        } else {
            Self::Other
        }
    }
}

/// The files and folders of a folder, by name.
#[derive(Default)]
struct Folder(BTreeMap<String, Node>);

enum Node {
    File(git2::Oid),
    Folder(Folder),
}

impl Folder {
    /// Adds a file; returns false if its place is taken.
    fn add(&mut self, path: &str, file: git2::Oid) -> bool {
        match path.split_once('/') {
            None => match self.0.entry(path.to_owned()) {
                Entry::Vacant(place) => {
                    place.insert(Node::File(file));
                    true
                }
                Entry::Occupied(_) => false,
            },
            Some((name, rest)) => match self.0.entry(name.to_owned()).or_insert_with(|| Node::Folder(Self::default())) {
                Node::Folder(inner) => inner.add(rest, file),
                Node::File(_) => false,
            },
        }
    }

    fn write(&self, repository: &git2::Repository) -> Result<git2::Oid, git2::Error> {
        let mut tree = repository.treebuilder(None)?;
        for (name, node) in &self.0 {
            match node {
                Node::File(oid) => tree.insert(name.as_str(), *oid, MODE_FILE)?,
                Node::Folder(inner) => tree.insert(name.as_str(), inner.write(repository)?, MODE_FOLDER)?,
            };
        }
        tree.write()
    }
}

impl StagedFolder {
    /// Returns an empty folder. `into` is an empty scratch folder, which is not used otherwise and which the caller removes.
    pub fn new(into: &Path) -> Result<Self, BranchError> {
        let mut options = git2::RepositoryInitOptions::new();
        // Without the user's template: it could bring hooks.
        let repository = git2::Repository::init_opts(into, options.bare(true).external_template(false))?;
        Ok(Self { repository, into: into.to_owned(), root: Folder::default(), files: 0, bytes: 0 })
    }

    /// Adds a file.
    pub fn add(&mut self, path: &str, bytes: &[u8]) -> Result<(), BranchError> {
        check_path(path)?;
        self.files += 1;
        self.bytes += bytes.len() as u64;
        if self.files > MAX_FOLDER_FILES {
            return Err(BranchError::TooManyFiles);
        }
        if bytes.len() as u64 > MAX_FOLDER_FILE_BYTES {
            return Err(BranchError::FileTooLarge { path: path.to_owned(), size: bytes.len() as u64 });
        }
        if self.bytes > MAX_FOLDER_BYTES {
            return Err(BranchError::TooLarge);
        }
        let file = self.repository.blob(bytes)?;
        if self.root.add(path, file) { Ok(()) } else { Err(BranchError::DuplicatePath { path: path.to_owned() }) }
    }

    /// Commits the folder to a branch, with `at` as the commit's time, and pushes it. If the branch holds the very same folder
    /// already, nothing is done.
    ///
    /// An interrupted push may have arrived nevertheless; a repeated call detects that.
    pub fn push(
        &self,
        to: &Destination<'_>,
        message: &str,
        at: Instant,
        spawner: &Spawner,
        cancel: &Cancel,
    ) -> Result<PushOutcome, BranchError> {
        check_branch(to.branch)?;
        check_path(to.path)?;
        let git = Git::new(to.remote, &self.into, spawner, cancel)?;
        let folder = self.root.write(&self.repository)?;
        let by = signature(git.identity(to.checkout), at)?;
        for attempt in 1..=MAX_ATTEMPTS {
            let head = self.fetch_head(&git, to)?;
            if let Some(head) = head
                && self.holds_folder(head, to, folder)?
            {
                return Ok(PushOutcome { head, is_new: false, attempts: attempt });
            }
            let commit = self.commit(head, to, folder, message, &by)?;
            match push_commit(&git, to, head, commit)? {
                OfferOutcome::Landed => return Ok(PushOutcome { head: commit, is_new: true, attempts: attempt }),
                OfferOutcome::Moved if cancel.wait_timeout(pause(attempt, commit)) => {
                    let url = to.remote.url().to_owned();
                    return Err(RemoteError::Cancelled { doing: "pushing to", url }.into());
                }
                OfferOutcome::Moved => {}
            }
        }
        Err(BranchError::Moved { url: to.remote.url().to_owned(), branch: to.branch.to_owned(), attempts: MAX_ATTEMPTS })
    }

    /// Fetches the head of the branch, if the remote has it, with its folders.
    ///
    /// One commit deep, and without files if the remote supports that: unchanged files need not be here.
    fn fetch_head(&self, git: &Git<'_>, to: &Destination<'_>) -> Result<Option<Oid>, BranchError> {
        if remote_head(git, to)?.is_none() {
            return Ok(None);
        }
        let refspec = format!("+refs/heads/{}:{HEAD_REF}", to.branch);
        let quiet =
            ["--quiet", "--depth=1", "--filter=blob:none", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"];
        git.run("fetch", &[&quiet[..], &["--", to.remote.git_address(), &refspec]].concat())?;
        from_git(self.repository.refname_to_id(HEAD_REF)?).map(Some)
    }

    /// Returns true if the commit holds exactly this folder at its path. Another one there is an error.
    fn holds_folder(&self, head: Oid, to: &Destination<'_>, folder: git2::Oid) -> Result<bool, BranchError> {
        let (url, branch) = (|| to.remote.url().to_owned(), || to.branch.to_owned());
        let mut found = self.repository.find_commit(to_git(head)?)?.tree_id();
        let mut walked = String::new();
        for part in to.path.split('/') {
            if self.has_file(found, to.mark)? {
                return Err(BranchError::InsideCompleteFolder { url: url(), branch: branch(), path: walked });
            }
            let Some((oid, kind)) = self.entry(found, part)? else { return Ok(false) };
            walked = if walked.is_empty() { part.to_owned() } else { format!("{walked}/{part}") };
            if kind != Some(git2::ObjectType::Tree) {
                return Err(BranchError::NotAFolder { url: url(), branch: branch(), path: walked });
            }
            found = oid;
        }
        if found == folder { Ok(true) } else { Err(BranchError::OtherFolder { url: url(), branch: branch(), path: walked }) }
    }

    /// Returns true if a tree holds a file at a path.
    fn has_file(&self, tree: git2::Oid, path: &str) -> Result<bool, BranchError> {
        let mut found = (tree, Some(git2::ObjectType::Tree));
        for part in path.split('/') {
            let inner = if found.1 == Some(git2::ObjectType::Tree) { self.entry(found.0, part)? } else { None };
            let Some(inner) = inner else { return Ok(false) };
            found = inner;
        }
        Ok(found.1 == Some(git2::ObjectType::Blob))
    }

    fn commit(
        &self,
        parent: Option<Oid>,
        to: &Destination<'_>,
        folder: git2::Oid,
        message: &str,
        by: &git2::Signature<'_>,
    ) -> Result<Oid, BranchError> {
        let parent = parent.map(|head| self.repository.find_commit(to_git(head)?)).transpose()?;
        let parts: Vec<_> = to.path.split('/').collect();
        let root = self.graft_folder(parent.as_ref().map(git2::Commit::tree_id), &parts, folder)?;
        let tree = self.repository.find_tree(root)?;
        let parents: Vec<_> = parent.iter().collect();
        let commit = self.repository.commit(None, by, by, message, &tree, &parents)?;
        from_git(commit)
    }

    /// Writes the tree `base` with `folder` at the path of these parts.
    fn graft_folder(&self, base: Option<git2::Oid>, parts: &[&str], folder: git2::Oid) -> Result<git2::Oid, BranchError> {
        let Some((name, rest)) = parts.split_first() else { return Ok(folder) };
        let below = base.map(|base| self.entry(base, name)).transpose()?.flatten();
        let planted = self.graft_folder(below.map(|(oid, _)| oid), rest, folder)?;
        let base = base.map(|base| self.tree(base)).transpose()?;
        let mut tree = self.repository.treebuilder(base.as_ref())?;
        tree.insert(*name, planted, MODE_FOLDER)?;
        Ok(tree.write()?)
    }

    /// Returns the entry of a tree under a name.
    fn entry(&self, tree: git2::Oid, name: &str) -> Result<Option<(git2::Oid, Option<git2::ObjectType>)>, BranchError> {
        Ok(self.tree(tree)?.get_name(name).map(|entry| (entry.id(), entry.kind())))
    }

    /// Reads a tree. Its size is checked before anything is unpacked.
    fn tree(&self, oid: git2::Oid) -> Result<git2::Tree<'_>, BranchError> {
        let (size, _) = self.repository.odb()?.read_header(oid)?;
        if size > MAX_TREE_BYTES {
            return Err(git2::Error::from_str("a folder of the branch has more than 16 MiB of names").into());
        }
        Ok(self.repository.find_tree(oid)?)
    }
}

fn check_branch(branch: &str) -> Result<(), BranchError> {
    // A branch `refs/heads/x` would make `refs/heads/x` ambiguous on the remote, and every later push to `x` would fail.
    let is_odd = ["-", "+", "refs/"].iter().any(|start| branch.starts_with(start));
    let is_name = branch.len() <= MAX_TEXT && !is_odd && git2::Branch::name_is_valid(branch).unwrap_or(false);
    if is_name {
        Ok(())
    } else {
        Err(BranchError::Name { branch: branch.chars().take(120).flat_map(char::escape_default).collect() })
    }
}

fn to_git(oid: Oid) -> Result<git2::Oid, git2::Error> {
    git2::Oid::from_bytes(oid.as_bytes())
}

fn from_git(oid: git2::Oid) -> Result<Oid, BranchError> {
    Oid::from_bytes(oid.as_bytes()).ok_or_else(|| git2::Error::from_str("a commit has no SHA-1 id").into())
}

fn signature(who: Option<(String, String)>, at: Instant) -> Result<git2::Signature<'static>, git2::Error> {
    let time = git2::Time::new(at.unix_ns().div_euclid(1_000_000_000), 0);
    let known = who.and_then(|(name, email)| git2::Signature::new(&name, &email, &time).ok());
    known.map_or_else(|| git2::Signature::new(DEFAULT_COMMITTER.0, DEFAULT_COMMITTER.1, &time), Ok)
}

/// Returns the head of the branch, if the remote has it.
fn remote_head(git: &Git<'_>, to: &Destination<'_>) -> Result<Option<Oid>, RemoteError> {
    let name = format!("refs/heads/{}", to.branch);
    let listed = git.run("ls-remote", &["--quiet", "--", to.remote.git_address(), &name])?;
    let line = listed.lines().filter_map(|line| line.split_once('\t')).find(|(_, listed)| *listed == name);
    match line.map(|(id, _)| id.parse()) {
        Some(Err(OidError::Sha256(_))) => Err(RemoteError::Sha256Remote { url: to.remote.url().to_owned() }),
        head => Ok(head.and_then(Result::ok)),
    }
}

/// The remote's treatment of a pushed commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OfferOutcome {
    Landed,
    /// A concurrent push was faster.
    Moved,
}

/// Pushes `commit`, whose parent is `head`.
fn push_commit(git: &Git<'_>, to: &Destination<'_>, head: Option<Oid>, commit: Oid) -> Result<OfferOutcome, BranchError> {
    let refspec = format!("{commit}:refs/heads/{}", to.branch);
    let quiet = ["--quiet", "--porcelain", "--no-follow-tags", "--recurse-submodules=no", "--"];
    let ran = git.run_to_end("push", &[&quiet[..], &[to.remote.git_address(), &refspec]].concat())?;
    if ran.status.is_success() {
        return Ok(OfferOutcome::Landed);
    }
    let now = remote_head(git, to);
    if matches!(now, Ok(Some(now)) if now == commit) {
        // The commit arrived, only the response was lost.
        return Ok(OfferOutcome::Landed);
    }
    let Some(reason) = rejection(&ran.stdout) else { return Err(git.refusal("push", ran).into()) };
    let has_moved = now.is_ok_and(|now| now != head);
    if has_moved || is_contended(&reason) {
        return Ok(OfferOutcome::Moved);
    }
    let (url, branch) = (to.remote.url().to_owned(), to.branch.to_owned());
    Err(BranchError::Refused { url, branch, reason, said: remote_messages(&ran.stderr) })
}

/// Parses git's reason why the branch was not updated: `!`, the refs and the reason, with tabs between.
fn rejection(porcelain: &str) -> Option<String> {
    let line = porcelain.lines().find(|line| line.starts_with("!\t"))?;
    line.split('\t').nth(2).map(str::to_owned)
}

/// Returns true if another push locked the branch at that moment, or had just moved it.
fn is_contended(reason: &str) -> bool {
    let words = ["fetch first", "non-fast-forward", "cannot lock ref", "failed to update ref", "incorrect old value"];
    words.iter().any(|word| reason.contains(word))
}

/// Returns the remote's own messages, without git's text around them.
fn remote_messages(said: &str) -> String {
    let lines = said.lines().filter_map(|line| line.strip_prefix("remote:")).map(str::trim);
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns the pause before the next attempt: longer each time, and drawn from the commit's id, so that concurrent pushes do not
/// collide again.
fn pause(attempt: u32, commit: Oid) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(MAX_PAUSE);
    let [high, low, ..] = *commit.as_bytes();
    longest.mul_f64(f64::from(u16::from_be_bytes([high, low])) / f64::from(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_place_of_its_own() {
        let scratch = tempfile::tempdir().expect("a folder");
        let mut staged = StagedFolder::new(scratch.path()).expect("a scratch repository");
        staged.add("a/b", b"1").expect("added");
        staged.add("a.b", b"2").expect("added");
        for (path, code) in [("a/b", "branch_path"), ("a", "branch_path"), ("a/b/c", "branch_path"), ("../a", "branch_path")] {
            assert_eq!(staged.add(path, b"3").expect_err("refused").code().as_str(), code, "{path}");
        }
    }

    #[test]
    fn a_folder_has_limits() {
        let scratch = tempfile::tempdir().expect("a folder");
        let mut staged = StagedFolder::new(scratch.path()).expect("a scratch repository");
        let large = vec![0; (MAX_FOLDER_FILE_BYTES + 1) as usize];
        assert!(matches!(staged.add("a", &large), Err(BranchError::FileTooLarge { size: 268_435_457, .. })));
        staged.bytes = MAX_FOLDER_BYTES;
        assert!(matches!(staged.add("a", b"1"), Err(BranchError::TooLarge)));
        staged.files = MAX_FOLDER_FILES;
        assert!(matches!(staged.add("a", b""), Err(BranchError::TooManyFiles)));
    }

    #[test]
    fn branches_have_names() {
        for good in ["numbers", "team/numbers", "v1.2"] {
            assert!(check_branch(good).is_ok(), "{good}");
        }
        for bad in ["", "-x", "a b", "a..b", "a:b", "a.lock", "a\n", "@{-1}", "a/", "/a", "HEAD", "a~1", "a*"] {
            assert_eq!(check_branch(bad).expect_err(bad).code().as_str(), "branch_name");
        }
    }

    #[test]
    fn git_s_reason_is_read() {
        let said = "To file:///a\n!\t123:refs/heads/numbers\t[remote rejected] (pre-receive hook declined)\nDone\n";
        assert_eq!(rejection(said).as_deref(), Some("[remote rejected] (pre-receive hook declined)"));
        assert_eq!(rejection("To file:///a\n*\t123:refs/heads/numbers\t[new branch]\nDone\n"), None);
        for moved in [
            "[rejected] (fetch first)",
            "[remote rejected] (cannot lock ref 'refs/heads/numbers': is at 1 but expected 2)",
            "[remote rejected] (failed to update ref)",
            "[remote rejected] (incorrect old value provided)",
        ] {
            assert!(is_contended(moved), "{moved}");
        }
        assert!(!is_contended("[remote rejected] (pre-receive hook declined)"));
        let said =
            "remote: error: GH006: Protected branch update failed.        \nremote: \nTo github.com:a/b\n ! [remote rejected]";
        assert_eq!(remote_messages(said), "error: GH006: Protected branch update failed.");
    }

    #[test]
    fn refusals_are_told_apart() {
        let code = |reason: &str, said: &str| {
            let [url, branch, reason, said] = ["u", "b", reason, said].map(str::to_owned);
            BranchError::Refused { url, branch, reason, said }.code().as_str()
        };
        assert_eq!(code("[remote rejected] (protected branch hook declined)", ""), "branch_protected");
        assert_eq!(
            code(
                "[remote rejected] (pre-receive hook declined)",
                "GitLab: You are not allowed to push code to protected branches on this project."
            ),
            "branch_protected"
        );
        assert_eq!(code("[remote rejected] (pre-receive hook declined)", "no"), "hook_refused");
        assert_eq!(code("[remote rejected] (branch is currently checked out)", ""), "push_refused");
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        let [zero, full] = ["0", "f"].map(|digit| digit.repeat(40).parse::<Oid>().expect("an id"));
        assert_eq!(pause(1, zero), Duration::ZERO);
        assert_eq!([1, 2, 3, 6, 7, 64].map(|attempt| pause(attempt, full).as_millis()), [50, 100, 200, 1_600, 2_000, 2_000]);
    }
}

//! Reading a local repository.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use assay_manifest::GitObjectKind;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::object::{CommitInfo, Entry, EntryKind, MAX_COMMIT_BYTES, MAX_TREE_BYTES, Oid, parse_commit, parse_tree};
use crate::offline::RawObject;
use crate::path::check_path;
use crate::walk::{self, FileEntry, PathProblem};
use crate::{Error, redact_url};

/// The largest file of a Source. Definitions and scripts are small; large data is a dataset, pinned by digest.
pub const MAX_FILE_BYTES: u64 = 64 << 20;
/// The most files of a Source: a pipeline of a thousand workloads with ten files each.
pub const MAX_FILES: usize = 10_000;
/// The most changed paths that a status lists: enough to see that a work tree is dirty, and where.
pub const MAX_CHANGES: usize = 1_000;

/// A local Git repository.
pub struct Repository(git2::Repository);

/// A commit of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its id.
    pub id: Oid,
    /// Its content.
    pub info: CommitInfo,
}

/// A file at a commit or in a work tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContent {
    /// The content.
    pub bytes: Vec<u8>,
    /// True if it is executable.
    pub executable: bool,
}

impl Repository {
    /// Opens the repository that holds `path`, at it or above it. The path itself need not exist: an older commit may hold it.
    pub fn discover(path: &Path) -> Result<Self, Error> {
        let exists = |folder: &&Path| folder.as_os_str().is_empty() || folder.exists();
        let start = path.ancestors().find(exists).filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Some(path) = find_special_file(start) {
            return Err(Error::SpecialFile { path });
        }
        match git2::Repository::discover(start) {
            Ok(repository) => Ok(Self(repository)),
            Err(error) => Err(refusal(path, error)),
        }
    }

    /// Returns the folder of the work tree. `None` for a bare repository.
    pub fn worktree(&self) -> Option<&Path> {
        self.0.workdir()
    }

    /// Returns the address of the remote `origin`, without credentials. `None` without one, and for a path of this machine.
    pub fn origin(&self) -> Option<String> {
        let remote = self.0.find_remote("origin").ok()?;
        redact_url(remote.url().ok()?)
    }

    /// Returns the push address of the remote of this name, as the configuration spells it. It may contain a secret.
    pub(crate) fn remote_address(&self, name: &str) -> Option<String> {
        let config = self.0.config().and_then(|mut config| config.snapshot()).ok()?;
        let read = |key: &str| config.get_string(&format!("remote.{name}.{key}")).ok();
        read("pushurl").or_else(|| read("url"))
    }

    /// Returns the settings of this checkout alone, not of its user, whose names begin with one of `prefixes`; at most `limit`.
    pub(crate) fn local_settings(&self, prefixes: &[&str], limit: usize) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let Ok(config) = self.0.config() else { return found };
        let Ok(entries) = config.entries(None) else { return found };
        // A setting that is not text is omitted; git would not understand it either.
        let _ = entries.for_each(|entry| {
            let is_local = matches!(entry.level(), git2::ConfigLevel::Local | git2::ConfigLevel::Worktree);
            // A name alone is short for `true`.
            let value = if entry.has_value() { entry.value() } else { Ok("true") };
            if let (Ok(name), Ok(value)) = (entry.name(), value)
                && is_local
                && found.len() < limit
                && prefixes.iter().any(|prefix| name.starts_with(prefix))
            {
                found.push((name.to_owned(), value.to_owned()));
            }
        });
        found
    }

    /// Returns the commit that `rev` names: an id, a branch, a tag, or any other of git's spellings.
    pub fn resolve(&self, rev: &str) -> Result<Commit, Error> {
        let no_commit = |source| Error::NoCommit { rev: rev.chars().take(120).collect(), source };
        if rev.is_empty() || rev.starts_with('-') || rev.contains('\0') {
            return Err(no_commit(None));
        }
        let object = self.0.revparse_single(rev).map_err(|error| no_commit(Some(error)))?;
        let commit = object.peel_to_commit().map_err(|error| no_commit(Some(error)))?;
        let id = Oid::from_bytes(commit.id().as_bytes()).ok_or_else(|| no_commit(None))?;
        let info = parse_commit(&self.commit_bytes(id)?).map_err(|source| Error::Malformed { oid: id, source })?;
        Ok(Commit { id, info })
    }

    /// Returns the full name of the branch or tag that `rev` names, such as `refs/heads/main`. `None` for an id, and for a
    /// detached `HEAD`.
    pub fn full_name(&self, rev: &str) -> Option<String> {
        let (_, reference) = self.0.revparse_ext(rev).ok()?;
        let name = reference?.name().ok()?.to_owned();
        name.starts_with("refs/").then_some(name)
    }

    /// Returns which of `paths` (files, or folders with everything in them; everything if empty) differ from the checked-out
    /// commit: changed, staged, removed, or not tracked, including ignored ones if a path names them. Sorted, at most
    /// [`MAX_CHANGES`].
    pub fn status(&self, paths: &[&str]) -> Result<Vec<String>, Error> {
        self.0.workdir().ok_or(Error::Bare)?;
        let mut options = git2::StatusOptions::new();
        options.include_untracked(true).recurse_untracked_dirs(true).disable_pathspec_match(true);
        // Ignored files are no part of the repository, unless a path names them.
        options.include_ignored(!paths.is_empty()).recurse_ignored_dirs(!paths.is_empty());
        for path in paths {
            check_path(path)?;
            options.pathspec(path);
        }
        let statuses = self.0.statuses(Some(&mut options)).map_err(Error::Status)?;
        let changed = statuses.iter().filter(|entry| entry.status() != git2::Status::CURRENT);
        let mut changed: Vec<_> =
            changed.map(|entry| String::from_utf8_lossy(entry.path_bytes()).into_owned()).take(MAX_CHANGES).collect();
        changed.sort();
        Ok(changed)
    }

    /// Returns the file at `path` in a commit. `None` if the commit has nothing there.
    pub fn read_at(&self, commit: &Commit, path: &str) -> Result<Option<FileContent>, Error> {
        check_path(path)?;
        let mut folders = Folders::new(self);
        let Some(entry) = walk::find(commit.info.tree, path, |oid| folders.open(oid))? else { return Ok(None) };
        Ok(Some(FileContent { bytes: self.blob(entry, path)?, executable: entry.executable }))
    }

    /// Returns the paths of the files directly in `folder` in a commit; none if the commit has no such folder.
    pub fn files_at(&self, commit: &Commit, folder: &str) -> Result<Vec<String>, Error> {
        check_path(folder)?;
        let mut folders = Folders::new(self);
        let mut entries = folders.open(commit.info.tree)?;
        for part in folder.split('/') {
            let inner = entries.iter().find(|entry| entry.kind == EntryKind::Folder && entry.name == part.as_bytes());
            let Some(inner) = inner.map(|entry| entry.oid) else { return Ok(Vec::new()) };
            entries = folders.open(inner)?;
        }
        let files = entries.iter().filter(|entry| matches!(entry.kind, EntryKind::File { .. }));
        let mut paths = Vec::new();
        for name in files.filter_map(|entry| std::str::from_utf8(&entry.name).ok()) {
            if paths.len() == MAX_FILES {
                return Err(Error::TooManyFiles { count: paths.len() + 1, limit: MAX_FILES });
            }
            paths.push(format!("{folder}/{name}"));
        }
        Ok(paths)
    }

    /// Returns true if `later` is `commit` or a descendant of it. Commits that this repository does not have are descendants of
    /// nothing.
    pub fn is_ancestor_or_same(&self, commit: Oid, later: Oid) -> bool {
        let (Ok(commit), Ok(later)) = (to_git(commit), to_git(later)) else { return false };
        commit == later || self.0.graph_descendant_of(later, commit).unwrap_or(false)
    }

    /// Returns the newest common ancestor of two commits; `None` if they have none, or this repository lacks one of them.
    pub fn merge_base(&self, one: Oid, other: Oid) -> Option<Oid> {
        let (Ok(one), Ok(other)) = (to_git(one), to_git(other)) else { return None };
        self.0.merge_base(one, other).ok()?.to_string().parse().ok()
    }

    /// Returns the file at `path` in the work tree, as it is now. `None` if nothing is there. Follows no symbolic link.
    pub fn read_worktree(&self, path: &str) -> Result<Option<FileContent>, Error> {
        check_path(path)?;
        let root = self.0.workdir().ok_or(Error::Bare)?;
        let found = read_below(root, path)?;
        if found.is_none() && self.is_sparse(path) {
            return Err(Error::Sparse { path: path.to_owned() });
        }
        Ok(found)
    }

    /// Returns true if a sparse checkout leaves a file of the commit out of the work tree.
    fn is_sparse(&self, path: &str) -> bool {
        let entry = self.0.index().ok().and_then(|index| index.get_path(Path::new(path), 0));
        entry.is_some_and(|entry| entry.flags_extended & git2::IndexEntryExtendedFlag::SKIP_WORKTREE.bits() != 0)
    }

    /// Returns the commit and every folder on the way to `paths`, as [`crate::check_offline`] needs them. The commit comes first,
    /// then the folders in the order in which the paths reach them, each once.
    pub fn commit_objects(&self, commit: &Commit, paths: &[&str]) -> Result<Vec<RawObject>, Error> {
        if paths.len() > MAX_FILES {
            return Err(Error::TooManyFiles { count: paths.len(), limit: MAX_FILES });
        }
        let mut folders = Folders::new(self);
        for path in paths {
            check_path(path)?;
            let found = walk::find(commit.info.tree, path, |oid| folders.open(oid))?;
            found.ok_or_else(|| Error::PathAbsent { path: (*path).to_owned(), commit: commit.id })?;
        }
        let bytes = self.commit_bytes(commit.id)?;
        Ok([vec![RawObject { oid: commit.id, kind: GitObjectKind::Commit, bytes }], folders.raw].concat())
    }

    fn commit_bytes(&self, oid: Oid) -> Result<Vec<u8>, Error> {
        self.object(oid, git2::ObjectType::Commit, "commit", MAX_COMMIT_BYTES as u64)
    }

    fn blob(&self, entry: FileEntry, path: &str) -> Result<Vec<u8>, Error> {
        let read = self.object(entry.oid, git2::ObjectType::Blob, "blob", MAX_FILE_BYTES);
        read.map_err(|error| match error {
            Error::FileTooLarge { size, limit, .. } => Error::FileTooLarge { path: path.to_owned(), size, limit },
            other => other,
        })
    }

    /// Returns an object's content. Its size is checked before anything is unpacked.
    fn object(&self, oid: Oid, kind: git2::ObjectType, expected: &'static str, limit: u64) -> Result<Vec<u8>, Error> {
        let failed = |source| Error::Object { oid, source };
        let database = self.0.odb().map_err(failed)?;
        let id = to_git(oid).map_err(failed)?;
        let (size, found) = database.read_header(id).map_err(failed)?;
        if found != kind {
            return Err(Error::WrongKind { oid, expected });
        }
        if size as u64 > limit {
            return Err(Error::FileTooLarge { path: oid.to_string(), size: size as u64, limit });
        }
        Ok(database.read(id).map_err(failed)?.data().to_vec())
    }
}

/// The folders that a walk opened: parsed once each, and kept raw in the order of their opening.
struct Folders<'a> {
    repository: &'a Repository,
    parsed: BTreeMap<Oid, Rc<[Entry]>>,
    raw: Vec<RawObject>,
}

impl<'a> Folders<'a> {
    fn new(repository: &'a Repository) -> Self {
        Self { repository, parsed: BTreeMap::new(), raw: Vec::new() }
    }

    fn open(&mut self, oid: Oid) -> Result<Rc<[Entry]>, Error> {
        if let Some(entries) = self.parsed.get(&oid) {
            return Ok(entries.clone());
        }
        let bytes = self.repository.object(oid, git2::ObjectType::Tree, "tree", MAX_TREE_BYTES as u64)?;
        let entries: Rc<[Entry]> = parse_tree(&bytes).map_err(|source| Error::Malformed { oid, source })?.into();
        self.parsed.insert(oid, entries.clone());
        self.raw.push(RawObject { oid, kind: GitObjectKind::Tree, bytes });
        Ok(entries)
    }
}

fn to_git(oid: Oid) -> Result<git2::Oid, git2::Error> {
    git2::Oid::from_bytes(oid.as_bytes())
}

/// The files that libgit2 opens by name. It waits for the other end of one that is a pipe, and no signal ends that.
const GIT_FILES: [&str; 7] = ["HEAD", "config", "config.worktree", "index", "packed-refs", "shallow", "commondir"];

/// Returns a pipe, socket or device among the files of the repository that holds `start`.
fn find_special_file(start: &Path) -> Option<PathBuf> {
    let start = std::path::absolute(start).ok()?;
    let git = start.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())?;
    let files = std::iter::once(git.clone()).chain(GIT_FILES.iter().map(|name| git.join(name)));
    files.into_iter().find(|path| std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()))
}

fn refusal(path: &Path, error: git2::Error) -> Error {
    let path = path.to_owned();
    if error.code() == git2::ErrorCode::NotFound {
        Error::NoRepository { path }
    } else if error.message().contains("object format") || error.message().contains("objectformat") {
        Error::Sha256Repository { path }
    } else {
        Error::Open { path, source: error }
    }
}

/// Reads a file of a folder that is no repository, with the same care as one of a work tree.
pub fn read_folder(root: &Path, path: &str) -> Result<Option<FileContent>, Error> {
    check_path(path)?;
    read_below(root, path)
}

/// Reads a file below `root`, opening folder by folder without following links, so that no link leads out, not even one that
/// is swapped in meanwhile.
fn read_below(root: &Path, path: &str) -> Result<Option<FileContent>, Error> {
    let opened = File::open(root).map_err(|source| Error::Worktree { path: path.to_owned(), source })?;
    let mut opened = OwnedFd::from(opened);
    let mut parts = path.split('/').peekable();
    let mut walked = 0;
    while let Some(part) = parts.next() {
        walked += part.len();
        let here = path.get(..walked).unwrap_or(path);
        // A named pipe in the place of the file must not block the reader.
        let flags = if parts.peek().is_some() { OFlags::DIRECTORY } else { OFlags::NONBLOCK };
        match open_in(&opened, part, flags, here)? {
            Some(next) => opened = next,
            None => return Ok(None),
        }
        walked += 1;
    }
    read_opened(File::from(opened), path).map(Some)
}

/// Opens one part of a path. `here` is the path up to and with this part.
fn open_in(folder: &OwnedFd, name: &str, flags: OFlags, here: &str) -> Result<Option<OwnedFd>, Error> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = || here.to_owned();
    match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::LOOP | Errno::NOTDIR) if is_symlink(folder, name) => Err(PathProblem::Symlink { path: path() }.into()),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        // A socket has no content.
        Err(Errno::NXIO) => Err(PathProblem::NotAFile { path: path() }.into()),
        Err(error) => Err(Error::Worktree { path: path(), source: error.into() }),
    }
}

fn is_symlink(folder: &OwnedFd, name: &str) -> bool {
    rustix::fs::readlinkat(folder, name, Vec::new()).is_ok()
}

fn read_opened(file: File, path: &str) -> Result<FileContent, Error> {
    let failed = |source| Error::Worktree { path: path.to_owned(), source };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(PathProblem::NotAFile { path: path.to_owned() }.into());
    }
    let mut bytes = Vec::new();
    // One byte more than allowed shows that there is more, also in a file that grows while it is read.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let size = metadata.len().max(bytes.len() as u64);
        return Err(Error::FileTooLarge { path: path.to_owned(), size, limit: MAX_FILE_BYTES });
    }
    // Git uses only the owner's bit.
    Ok(FileContent { bytes, executable: metadata.permissions().mode() & 0o100 != 0 })
}

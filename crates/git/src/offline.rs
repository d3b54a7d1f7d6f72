//! The check, without a repository, that files are a commit's.
//!
//! The commit's id covers the commit, which names its root folder's id, which covers that folder, and so on down to the bytes
//! of each file. Every id is computed again here; none is trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use assay_manifest::GitObjectKind;

use crate::object::{CommitInfo, Entry, MalformedObject, Oid, OidError, parse_commit, parse_tree};
use crate::path::{PathError, check_path};
use crate::repository::MAX_FILES;
use crate::walk::{self, PathProblem};

/// The most objects in a Source: the folders on the way to its files, and one commit.
pub const MAX_OBJECTS: usize = 20_000;

/// A commit or tree of a Source: its content without the `kind size` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawObject {
    /// The claimed id.
    pub oid: Oid,
    /// The claimed kind.
    pub kind: GitObjectKind,
    /// The content.
    pub bytes: Vec<u8>,
}

/// A file that claims to be the commit's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfflineFile<'a> {
    /// The path from the repository's root.
    pub path: &'a str,
    /// True if it claims to be executable.
    pub executable: bool,
    /// The content.
    pub bytes: &'a [u8],
}

/// The reason why files are not proved to be a commit's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OfflineError {
    /// The number exceeds the limit of a Source.
    #[error("there are {count} {what}, and at most {limit} are allowed")]
    TooMany {
        /// Objects or files.
        what: &'static str,
        /// The number.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A needed object was not given.
    #[error("the {kind} {oid} is missing")]
    ObjectMissing {
        /// Commit or tree.
        kind: &'static str,
        /// Its id.
        oid: Oid,
    },
    /// An object's content has another id than the one that it claims.
    #[error("the {kind} {claimed} has the content of {found}")]
    OidMismatch {
        /// Commit or tree.
        kind: &'static str,
        /// The claim.
        claimed: Oid,
        /// The id of the content.
        found: Oid,
    },
    /// An object carries the marks of an attack on SHA-1.
    #[error("the id of `{what}` cannot be trusted")]
    Collision {
        /// The object's claimed id, or the file's path.
        what: String,
        /// The attack.
        source: OidError,
    },
    /// An object cannot be read.
    #[error("the {kind} {oid} is malformed")]
    Malformed {
        /// Commit or tree.
        kind: &'static str,
        /// Its id.
        oid: Oid,
        /// The problem.
        source: MalformedObject,
    },
    /// A path names no place in a repository.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A path leads to something that is not a file.
    #[error(transparent)]
    NoFile(#[from] PathProblem),
    /// A path occurs twice in the list of files.
    #[error("`{path}` is listed twice")]
    FileTwice {
        /// The path.
        path: String,
    },
    /// The commit has no such file.
    #[error("`{path}` is not in the commit")]
    PathAbsent {
        /// The path.
        path: String,
    },
    /// The file is executable in the commit and not here, or vice versa.
    #[error("`{path}` is {} in the commit", if *executable { "executable" } else { "not executable" })]
    ModeDiffers {
        /// The path.
        path: String,
        /// True if it is executable in the commit.
        executable: bool,
    },
    /// The file's content differs from the commit's.
    #[error("the content of `{path}` is the blob {found}, and the commit has {expected}")]
    ContentDiffers {
        /// The path.
        path: String,
        /// The blob in the commit.
        expected: Oid,
        /// The blob of the given content.
        found: Oid,
    },
}

/// Checks that every file is the commit's, from nothing but bytes, and returns the content of the commit.
///
/// `objects` are the commit and every folder on the way to a file; additional ones do no harm if their ids are right.
pub fn check_offline(commit: Oid, objects: &[RawObject], files: &[OfflineFile<'_>]) -> Result<CommitInfo, OfflineError> {
    check_count(MAX_OBJECTS, objects.len(), "objects")?;
    check_count(MAX_FILES, files.len(), "files")?;
    let mut folders = Folders { objects: index(objects)?, parsed: BTreeMap::new() };
    let info = folders.commit(commit)?;
    let mut seen = BTreeSet::new();
    for file in files {
        if !seen.insert(file.path) {
            return Err(OfflineError::FileTwice { path: file.path.to_owned() });
        }
        check_file(&mut folders, info.tree, file)?;
    }
    Ok(info)
}

fn check_count(limit: usize, count: usize, what: &'static str) -> Result<(), OfflineError> {
    if count <= limit { Ok(()) } else { Err(OfflineError::TooMany { what, count, limit }) }
}

fn kind_name(kind: GitObjectKind) -> &'static str {
    match kind {
        GitObjectKind::Commit => "commit",
        GitObjectKind::Tree => "tree",
    }
}

/// Returns the objects by kind and id, each id computed again.
fn index(objects: &[RawObject]) -> Result<BTreeMap<(&'static str, Oid), &[u8]>, OfflineError> {
    objects.iter().map(|object| Ok(((kind_name(object.kind), check_oid(object)?), object.bytes.as_slice()))).collect()
}

fn check_oid(object: &RawObject) -> Result<Oid, OfflineError> {
    let (kind, claimed) = (kind_name(object.kind), object.oid);
    match compute_oid(kind, &object.bytes, || claimed.to_string())? {
        found if found == claimed => Ok(found),
        found => Err(OfflineError::OidMismatch { kind, claimed, found }),
    }
}

fn compute_oid(kind: &str, bytes: &[u8], what: impl FnOnce() -> String) -> Result<Oid, OfflineError> {
    Oid::for_content(kind, bytes).map_err(|source| OfflineError::Collision { what: what(), source })
}

/// The given folders, each parsed once.
struct Folders<'a> {
    objects: BTreeMap<(&'static str, Oid), &'a [u8]>,
    parsed: BTreeMap<Oid, Rc<[Entry]>>,
}

impl<'a> Folders<'a> {
    fn object(&self, kind: &'static str, oid: Oid) -> Result<&'a [u8], OfflineError> {
        self.objects.get(&(kind, oid)).copied().ok_or(OfflineError::ObjectMissing { kind, oid })
    }

    fn commit(&self, oid: Oid) -> Result<CommitInfo, OfflineError> {
        parse_commit(self.object("commit", oid)?).map_err(|source| OfflineError::Malformed { kind: "commit", oid, source })
    }

    fn folder(&mut self, oid: Oid) -> Result<Rc<[Entry]>, OfflineError> {
        if let Some(entries) = self.parsed.get(&oid) {
            return Ok(entries.clone());
        }
        let entries = parse_tree(self.object("tree", oid)?);
        let entries: Rc<[Entry]> = entries.map_err(|source| OfflineError::Malformed { kind: "tree", oid, source })?.into();
        self.parsed.insert(oid, entries.clone());
        Ok(entries)
    }
}

fn check_file(folders: &mut Folders<'_>, root: Oid, file: &OfflineFile<'_>) -> Result<(), OfflineError> {
    let path = || file.path.to_owned();
    check_path(file.path)?;
    let entry = walk::find(root, file.path, |oid| folders.folder(oid))?;
    let entry = entry.ok_or_else(|| OfflineError::PathAbsent { path: path() })?;
    if entry.executable != file.executable {
        return Err(OfflineError::ModeDiffers { path: path(), executable: entry.executable });
    }
    match compute_oid("blob", file.bytes, path)? {
        found if found == entry.oid => Ok(()),
        found => Err(OfflineError::ContentDiffers { path: path(), expected: entry.oid, found }),
    }
}

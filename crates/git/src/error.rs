//! Why a repository cannot give what was asked of it.

use std::path::PathBuf;

use crate::object::{MalformedObject, Oid};
use crate::path::PathError;
use crate::walk::PathProblem;

/// Why a commit, a file or a work tree cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no repository at the path or above it.
    #[error("`{}` is not in a Git repository", path.display())]
    NoRepository {
        /// Where the search began.
        path: PathBuf,
    },
    /// The repository uses SHA-256 objects.
    #[error("the Git repository of `{}` uses SHA-256 objects, and only SHA-1 repositories are supported", path.display())]
    Sha256Repository {
        /// Where the search began.
        path: PathBuf,
    },
    /// The repository exists and cannot be opened.
    #[error("failed to open the Git repository of `{}`", path.display())]
    Open {
        /// Where the search began.
        path: PathBuf,
        /// What libgit2 said.
        source: git2::Error,
    },
    /// A revision names no commit.
    #[error("`{rev}` names no commit")]
    NoCommit {
        /// The revision.
        rev: String,
        /// What libgit2 said.
        #[source]
        source: Option<git2::Error>,
    },
    /// An object of the repository cannot be read.
    #[error("failed to read the Git object {oid}")]
    Object {
        /// The object.
        oid: Oid,
        /// What libgit2 said.
        source: git2::Error,
    },
    /// An object is not what the object that names it says.
    #[error("the Git object {oid} is not a {expected}")]
    WrongKind {
        /// The object.
        oid: Oid,
        /// What it should be.
        expected: &'static str,
    },
    /// An object of the repository is damaged.
    #[error("the Git object {oid} is malformed")]
    Malformed {
        /// The object.
        oid: Oid,
        /// What is wrong with it.
        source: MalformedObject,
    },
    /// A path names no place in a repository.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A path leads to something that is no file.
    #[error(transparent)]
    NoFile(#[from] PathProblem),
    /// A file that is to travel with a Source is not in the commit.
    #[error("`{path}` is not in the commit {commit}")]
    PathAbsent {
        /// The path.
        path: String,
        /// The commit.
        commit: Oid,
    },
    /// A file is too large for a Source.
    #[error("`{path}` has {size} bytes, and a file of a Source has at most {limit}")]
    FileTooLarge {
        /// The path, or the object's id.
        path: String,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// There are too many files for a Source.
    #[error("there are {count} files, and a Source has at most {limit}")]
    TooManyFiles {
        /// How many there are.
        count: usize,
        /// How many may be.
        limit: usize,
    },
    /// The repository has no work tree.
    #[error("the Git repository is bare, so there is no work tree to read")]
    Bare,
    /// The state of the work tree cannot be found out.
    #[error("failed to compare the work tree with its commit")]
    Status(#[source] git2::Error),
    /// A file of the work tree cannot be read.
    #[error("failed to read `{path}` from the work tree")]
    Worktree {
        /// The path.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    /// What a person can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoRepository { .. } => Some("run inside a Git repository, or name one with `--repo`"),
            Self::NoCommit { .. } => {
                Some("`git log` lists commits; a shallow clone holds only some of them (`git fetch --unshallow`)")
            }
            Self::PathAbsent { .. } => Some("commit the file first, or run the work tree with intent `exploratory`"),
            Self::FileTooLarge { .. } => Some("name large data as a dataset, which is pinned by digest"),
            Self::NoFile(PathProblem::Symlink { .. }) => Some("name the file that the link points to"),
            Self::NoFile(PathProblem::Submodule { .. }) => Some("copy the files that are needed into this repository"),
            _ => None,
        }
    }
}

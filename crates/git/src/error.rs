//! The errors of reading a repository.

use std::path::PathBuf;

use crate::object::{MalformedObject, Oid};
use crate::path::PathError;
use crate::walk::PathProblem;

/// The reason why a commit, a file or a work tree cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no repository at the path or above it.
    #[error("`{}` is not in a Git repository", path.display())]
    NoRepository {
        /// The start of the search.
        path: PathBuf,
    },
    /// The repository uses SHA-256 objects.
    #[error("the Git repository of `{}` uses SHA-256 objects, and only SHA-1 repositories are supported", path.display())]
    Sha256Repository {
        /// The start of the search.
        path: PathBuf,
    },
    /// The repository exists and cannot be opened.
    #[error("failed to open the Git repository of `{}`", path.display())]
    Open {
        /// The start of the search.
        path: PathBuf,
        /// The error of libgit2.
        source: git2::Error,
    },
    /// A file of the repository is a pipe, a socket or a device.
    #[error("`{}` of the Git repository is no plain file", path.display())]
    SpecialFile {
        /// The file.
        path: PathBuf,
    },
    /// A revision names no commit.
    #[error("`{rev}` names no commit")]
    NoCommit {
        /// The revision.
        rev: String,
        /// The error of libgit2.
        #[source]
        source: Option<git2::Error>,
    },
    /// An object of the repository cannot be read.
    #[error("failed to read the Git object {oid}")]
    Object {
        /// The object.
        oid: Oid,
        /// The error of libgit2.
        source: git2::Error,
    },
    /// An object has another kind than the object that names it states.
    #[error("the Git object {oid} is not a {expected}")]
    WrongKind {
        /// The object.
        oid: Oid,
        /// The kind that it should have.
        expected: &'static str,
    },
    /// An object of the repository is damaged.
    #[error("the Git object {oid} is malformed")]
    Malformed {
        /// The object.
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
    /// A file for a Source is not in the commit.
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
        /// The number of files.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A file is in the commit and was left out of the work tree.
    #[error("`{path}` is in the commit and not in the work tree, because this checkout is sparse")]
    Sparse {
        /// The path.
        path: String,
    },
    /// The repository has no work tree.
    #[error("the Git repository is bare, so there is no work tree to read")]
    Bare,
    /// The state of the work tree cannot be determined.
    #[error("failed to compare the work tree with its commit")]
    Status(#[source] git2::Error),
    /// A file of the work tree cannot be read.
    #[error("failed to read `{path}` from the work tree")]
    Worktree {
        /// The path.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns true if what the repository holds is to blame, and not that it could not be read: a link, a submodule, a folder or a file
    /// that is too large where a file is named.
    #[must_use]
    pub const fn is_about_contents(&self) -> bool {
        matches!(self, Self::NoFile(_) | Self::FileTooLarge { .. })
    }

    /// Returns advice for a person, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Open { source, .. } if source.code() == git2::ErrorCode::Owner => Some(
                "the folder belongs to another user; if you trust what is in it: `git config --global --add safe.directory FOLDER`",
            ),
            Self::Sha256Repository { .. } => {
                Some("copy the files into a repository with SHA-1 objects: `git init --object-format=sha1`")
            }
            Self::Object { source, .. } if source.code() == git2::ErrorCode::NotFound => Some(
                "a partial clone (`git clone --filter`) holds only some objects; `git archive COMMIT > /dev/null` fetches those of a commit",
            ),
            Self::Sparse { .. } => {
                Some("add its folder with `git sparse-checkout add FOLDER`, or name the commit with `--commit HEAD`")
            }
            Self::SpecialFile { .. } => Some("clone the repository again"),
            Self::NoRepository { .. } => Some("run inside a Git repository, or name one with `--repo`"),
            Self::NoCommit { .. } => Some(
                "`git branch --all` lists branches, `git log` commits; a shallow clone holds only some commits (`git fetch --unshallow`)",
            ),
            Self::PathAbsent { .. } => Some("commit the file first, or run the work tree with intent `exploratory`"),
            Self::FileTooLarge { .. } => Some("name large data as a dataset, which is pinned by digest"),
            Self::NoFile(PathProblem::Symlink { .. }) => Some("name the file that the link points to"),
            Self::NoFile(PathProblem::Submodule { .. }) => Some("copy the files that are needed into this repository"),
            _ => None,
        }
    }
}

//! The origin of a run: the commit, and a proof that its files are the commit's.
//!
//! [`Repository`] reads commits and work trees. [`check_offline`] is the other half, pure and without any repository: from the
//! raw commit and its raw trees it follows every object id down to the bytes of each file, so that a reader needs to trust no
//! remote. [`fetch_remote`] and [`StagedFolder::push`] are the operations that reach a remote, through the `git` program.

mod address;
mod branch;
mod error;
mod object;
mod offline;
mod path;
mod program;
mod remote;
mod repository;
mod walk;

pub use address::redact_url;
pub use branch::{
    BranchError, Destination, MAX_ATTEMPTS, MAX_FOLDER_BYTES, MAX_FOLDER_FILE_BYTES, MAX_FOLDER_FILES, PushOutcome, StagedFolder,
};
pub use error::Error;
pub use object::{CommitInfo, MAX_COMMIT_BYTES, MAX_TREE_BYTES, MalformedObject, Oid, OidError, Person, parse_commit};
pub use offline::{MAX_OBJECTS, OfflineError, OfflineFile, RawObject, check_offline};
pub use path::{MAX_PATH_BYTES, MAX_PATH_DEPTH, PathError, check_path};
pub use remote::{FetchedCommit, REMOTE_LIMIT, Remote, RemoteError, fetch_remote};
pub use repository::{Commit, FileContent, MAX_CHANGES, MAX_FILE_BYTES, MAX_FILES, Repository, read_folder};
pub use walk::PathProblem;

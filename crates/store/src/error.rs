//! The errors of a store, named by what the caller can do about them.

use std::io;
use std::path::{Path, PathBuf};

use assay_failure::{ErrorCode, Failure, is_disk_full};
use assay_manifest::Digest;

/// The backend's own description of a failure.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A failure of a store operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URI does not name a store.
    #[error("`{uri}` does not name a store: {problem}")]
    BadUri {
        /// The URI as given.
        uri: String,
        /// The fault of the URI.
        problem: &'static str,
    },
    /// The URI is understood, but this build cannot reach such a store.
    #[error("this build has no backend for `{scheme}` stores, so `{uri}` cannot be opened")]
    NoBackend {
        /// The URI as given.
        uri: String,
        /// Its scheme, such as `s3`.
        scheme: String,
    },
    /// The folder of a local store cannot be used.
    #[error("failed to open the store in folder `{}`", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A bucket cannot be used: its endpoint does not respond, the bucket does not exist, or its service refuses.
    #[error("failed to open the store `{uri}`")]
    Bucket {
        /// The store.
        uri: String,
        /// The backend's error.
        #[source]
        source: Cause,
    },
    /// A request needs credentials, and none are configured.
    #[error("there are no credentials for the store `{uri}`")]
    NoCredentials {
        /// The store.
        uri: String,
    },
    /// There is no store at that location.
    #[error("there is no store at `{uri}`")]
    NoStore {
        /// The location that was tried.
        uri: String,
    },
    /// A file is at the location of the store, or at that of a folder above it.
    #[error("`{}` is no folder, and the store `{uri}` needs one there", path.display())]
    NotFolder {
        /// The file.
        path: PathBuf,
        /// The location of the store.
        uri: String,
    },
    /// The store was there when it was opened, and is not any more.
    #[error("the store `{uri}` is gone: it was removed or replaced, or its file system is not mounted any more")]
    Vanished {
        /// The store.
        uri: String,
    },
    /// This user may not use a part of a local store.
    #[error("{}", describe_owner(path, root, owner, user))]
    OtherOwner {
        /// The folder or file.
        path: PathBuf,
        /// The user that it belongs to.
        owner: String,
        /// The user of this process.
        user: String,
        /// The store's folder.
        root: PathBuf,
    },
    /// The backend lets a second writer replace an object that the first one created, so at-most-once acceptance would not hold.
    #[error("the store `{uri}` does not honour create-if-absent, which every result rests on")]
    NoCreateIfAbsent {
        /// The store.
        uri: String,
    },
    /// The store is not a folder of this machine, so nothing is removed from it.
    #[error("nothing can be removed from the store `{uri}`, which is no folder of this machine")]
    NoRemoval {
        /// The store.
        uri: String,
    },
    /// The store does not have the blob.
    #[error("the store has no blob {digest}")]
    Absent {
        /// The blob.
        digest: Digest,
    },
    /// The store has other bytes under the blob's name.
    #[error("the store's blob {expected} is corrupt: its bytes are {found}")]
    Corrupt {
        /// The blob.
        expected: Digest,
        /// The digest of the bytes that are there.
        found: Digest,
    },
    /// The store has more bytes under the blob's name than the blob can have.
    #[error("the store's blob {digest} is corrupt: it has more than {limit} bytes")]
    Oversized {
        /// The blob.
        digest: Digest,
        /// The most bytes that it can have.
        limit: u64,
    },
    /// An object of a local store is a link, a pipe or a folder.
    #[error("`{path}` of the store `{uri}` is not a plain file")]
    NotPlain {
        /// The object's path in the store.
        path: String,
        /// The store.
        uri: String,
    },
    /// A symbolic link is in the place of a folder of the store, or beside it of one that Assay makes.
    #[error("`{}` is a symbolic link: nothing is written or removed through it", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// An object is larger than the caller, or a rule of the store, allows.
    #[error("{what} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// The blob or pointer.
        what: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// There are more pointers under a prefix than a listing may hold.
    #[error("more than {limit} pointers lie under `{prefix}`")]
    TooMany {
        /// The prefix.
        prefix: String,
        /// The limit.
        limit: usize,
    },
    /// The text is not the path of a pointer.
    #[error("`{path}` is not a pointer's path: {problem}")]
    BadPath {
        /// The path, shortened.
        path: String,
        /// The fault of the path.
        problem: &'static str,
    },
    /// The scratch folder would hold more than it may.
    #[error("the scratch folder is full: its limit is {limit} bytes")]
    ScratchFull {
        /// The limit in bytes.
        limit: u64,
    },
    /// A file of the scratch folder cannot be used.
    #[error("failed to use scratch file `{}`", path.display())]
    Scratch {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The bytes to be put cannot be read.
    #[error("failed to read {what}")]
    Read {
        /// The file or stream.
        what: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The threads that execute the store's requests cannot be started.
    #[error("failed to start the store's runtime")]
    Runtime(#[source] io::Error),
    /// The backend failed.
    #[error("failed to {action} `{path}` in the store `{uri}`")]
    Backend {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The object's path.
        path: String,
        /// The store.
        uri: String,
        /// The backend's error.
        #[source]
        source: Cause,
    },
}

/// Describes the part of a store that a user may not use: the mode is the fault if the user is its owner.
fn describe_owner(path: &Path, root: &Path, owner: &str, user: &str) -> String {
    let part = format!("`{}` of the store `{}`", path.display(), root.display());
    if owner == user {
        format!("{part} is not writable, although it belongs to {user}: its mode does not let the owner read and write it")
    } else {
        format!("{part} belongs to {owner}, and {user} may not write there")
    }
}

impl Error {
    /// Returns a suggestion for the user, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoBackend { .. } => {
                Some("use a folder (`file:///absolute/path` or a plain path) or a bucket (`s3://bucket/prefix`)")
            }
            Self::Bucket { .. } => Some("check the bucket's name, its endpoint and region, and that the credentials may list it"),
            Self::NoCredentials { .. } => Some(
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a workload identity's variables; AWS_SKIP_SIGNATURE=true sends anonymous requests",
            ),
            Self::NoCreateIfAbsent { .. } => {
                Some("use a file system with hard links, or an object store with conditional writes")
            }
            Self::Corrupt { .. } | Self::Oversized { .. } => Some(
                "copy the run to this store from another one that has it: `assay fetch RUN --store COPY --to STORE` repairs the blob; one of no run, such as of a calibration or of a search result, is restored from a copy of the store's folder or bucket",
            ),
            Self::ScratchFull { .. } => Some("give the stage a larger scratch volume and limit"),
            Self::Vanished { .. } => Some("restore or mount the folder, and resume the run with the same `--run-id`"),
            Self::OtherOwner { owner, user, .. } if owner == user => {
                Some("give yourself the right: `chmod -R u+rwX STORE`; or is the file system mounted read-only?")
            }
            Self::OtherOwner { .. } => Some(
                "several users share a folder through a group: `chgrp -R GROUP STORE`, `chmod -R g+rwX STORE`, `find STORE -type d -exec chmod g+s {} +`; or one user serves it to the others with `assay serve`",
            ),
            Self::NoRemoval { .. } => Some(
                "run the command on the machine that holds the store's folder; a bucket removes objects by its lifecycle rules",
            ),
            Self::NotFolder { .. } => {
                Some("name a folder, which a run makes if it does not exist, or a bucket (`s3://bucket/prefix`)")
            }
            Self::Folder { .. } => Some("check that you may write to the folder, and that its disk has free space"),
            Self::Link { .. } => Some(
                "remove the link, or put a folder in its place; only the folder of the store as a whole may be a link to another disk",
            ),
            Self::NoStore { .. } => Some("a run creates its store when it starts; `--store` names another one"),
            _ => None,
        }
    }
}

impl Error {
    /// Returns the error code.
    pub fn code(&self) -> ErrorCode {
        if is_disk_full(self) {
            return ErrorCode::DiskFull;
        }
        match self {
            Self::BadUri { .. } | Self::NoBackend { .. } | Self::NoStore { .. } | Self::NotFolder { .. } => ErrorCode::StoreUri,
            Self::NoCredentials { .. } => ErrorCode::StoreCredentials,
            Self::NoRemoval { .. } => ErrorCode::NoRemoval,
            Self::Absent { .. } => ErrorCode::ArtifactAbsent,
            Self::Corrupt { .. } | Self::Oversized { .. } => ErrorCode::ArtifactCorrupt,
            Self::TooLarge { .. } => ErrorCode::ArtifactTooLarge,
            Self::NotPlain { .. } | Self::Link { .. } => ErrorCode::NotPlain,
            Self::ScratchFull { .. } => ErrorCode::ScratchFull,
            Self::Vanished { .. } => ErrorCode::StoreVanished,
            Self::OtherOwner { .. } => ErrorCode::StoreOwner,
            _ => ErrorCode::Store,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from_error(error.code(), &error).hint_if(error.hint())
    }
}

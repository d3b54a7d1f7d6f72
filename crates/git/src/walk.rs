//! The way from a root folder to a file, the same for a repository and for a reader without one.

use std::rc::Rc;

use crate::Oid;
use crate::object::{Entry, EntryKind};

/// The thing at a path that is not the expected file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// A symbolic link. What it points to is not part of the commit.
    #[error("`{path}` is a symbolic link")]
    Symlink {
        /// The link.
        path: String,
    },
    /// A submodule. Its files belong to another repository.
    #[error("`{path}` is a submodule")]
    Submodule {
        /// The submodule.
        path: String,
    },
    /// A folder, or something else that has no content.
    #[error("`{path}` is not a file")]
    NotAFile {
        /// The path.
        path: String,
    },
}

/// A file as its folder names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileEntry {
    pub(crate) oid: Oid,
    pub(crate) executable: bool,
}

/// Follows `path` from the folder `root`. `read` opens a folder by its id. `None` if nothing has that name.
pub(crate) fn find<E: From<PathProblem>>(
    root: Oid,
    path: &str,
    mut read: impl FnMut(Oid) -> Result<Rc<[Entry]>, E>,
) -> Result<Option<FileEntry>, E> {
    let mut folder = root;
    let mut parts = path.split('/').peekable();
    let mut walked = 0;
    while let Some(part) = parts.next() {
        walked += part.len();
        let entries = read(folder)?;
        let Some(entry) = entries.iter().find(|entry| entry.name == part.as_bytes()) else { return Ok(None) };
        let here = path.get(..walked).unwrap_or(path).to_owned();
        let is_last = parts.peek().is_none();
        match entry.kind {
            EntryKind::Folder if is_last => return Err(PathProblem::NotAFile { path: here }.into()),
            EntryKind::Folder => folder = entry.oid,
            EntryKind::File { executable } if is_last => return Ok(Some(FileEntry { oid: entry.oid, executable })),
            EntryKind::File { .. } => return Ok(None),
            EntryKind::Symlink => return Err(PathProblem::Symlink { path: here }.into()),
            EntryKind::Submodule => return Err(PathProblem::Submodule { path: here }.into()),
        }
        walked += 1;
    }
    Ok(None)
}

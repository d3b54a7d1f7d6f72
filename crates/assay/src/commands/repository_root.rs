//! The root of a Git repository, below which `assay plan` looks for `workloads`.

use std::path::{Path, PathBuf};

use assay_git::Repository;

/// Returns the way from a folder up to the root of its repository, such as `..`; `None` at the root, and outside of a repository.
pub(crate) fn way_up(folder: &Path) -> Option<PathBuf> {
    let root = Repository::discover(folder).ok()?.worktree()?.canonicalize().ok()?;
    let folder = folder.canonicalize().ok()?;
    let depth = folder.strip_prefix(root).ok()?.components().count();
    (depth > 0).then(|| std::iter::repeat_n("..", depth).collect())
}

/// Returns a note on definitions in a folder that no plan finds; `None` at the root of a repository, and outside of one.
pub(crate) fn note(folder: &Path) -> Option<String> {
    let up = way_up(folder)?;
    Some(format!(
        "note: `assay plan` looks for workloads at the root of the repository (`{}`), and not beside these pipelines",
        folder.join(up).join("workloads").display()
    ))
}

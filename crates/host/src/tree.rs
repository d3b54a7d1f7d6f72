//! A folder of files that stands for a machine, for tests.

use std::path::Path;

use crate::Root;

pub(crate) struct Tree(tempfile::TempDir);

impl Tree {
    /// Creates files by path and text; a text that starts with `->` makes a symbolic link.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().expect("a folder"));
        for (path, text) in files {
            tree.add(path, text);
        }
        tree
    }

    pub(crate) fn add(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("folders");
        match text.strip_prefix("->") {
            Some(target) => std::os::unix::fs::symlink(target, path).expect("a link"),
            None => std::fs::write(path, text).expect("a file"),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn root(&self) -> Root {
        Root::at(self.path())
    }
}

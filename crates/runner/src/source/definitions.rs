//! Definitions that were read, and the file of another tool that they may be imported from.

use std::collections::BTreeMap;

use assay_foreign::Import;
use assay_git::FileContent;
use assay_spec::Closure;

/// The file of another tool, and the definitions that were imported from it.
#[derive(Clone, Debug)]
pub struct ImportedOriginal {
    /// The path of the file in the repository.
    pub file: String,
    /// Its import.
    pub import: Import,
}

/// Files by path.
pub(super) type Files = BTreeMap<String, FileContent>;

/// Definitions that were read, with their files.
pub(super) struct ReadDefinitions {
    /// The path of the pipeline among the files.
    pub(super) pipeline: String,
    pub(super) closure: Closure,
    pub(super) files: Files,
    pub(super) import: Option<ImportedOriginal>,
}

impl ReadDefinitions {
    /// Returns the paths of the files that are in the repository.
    pub(super) fn paths(&self) -> Vec<&str> {
        match &self.import {
            Some(original) => vec![&original.file],
            None => self.closure.files.iter().map(|file| file.path.as_str()).collect(),
        }
    }
}

//! The options of an import, and the files that it writes.

/// Statements of the user about a definition.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The name of the model, in place of any that the definition names.
    pub model: Option<String>,
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedFile {
    /// Its path from the root of a repository.
    pub path: String,
    /// Its text.
    pub text: String,
}

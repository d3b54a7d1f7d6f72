//! The options of an import, and the files that it writes.

/// Statements of the user about a definition.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The name of the model, in place of any that the definition names.
    pub model: Option<String>,
    /// The address of the endpoint, in place of any that the definition names.
    pub url: Option<String>,
    /// The numbers of tokens, as a scenario such as `D(128,256)`, for a definition that states none.
    pub lengths: Option<String>,
    /// The part of the definition that is imported, by its name, if the definition has several.
    pub only: Option<String>,
    /// The image that was built from the recipe of the definition, `REPOSITORY@sha256:...`; a definition without a recipe ignores it.
    pub image: Option<String>,
    /// True if the pipeline keeps the grade that the definition demands. A pipeline that no commit holds is exploratory: another version of
    /// the import may give another one.
    pub keeps_grade: bool,
    /// True if the definition runs as it is. A step that a person has to take before it runs, such as to build an image, is refused then.
    pub runs_as_it_is: bool,
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedFile {
    /// Its path from the root of a repository.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl ImportedFile {
    /// Returns true for a workload or a pipeline, and false for a file that a workload names.
    pub(crate) fn is_definition(&self) -> bool {
        self.path.starts_with("pipelines/") || self.path.split('/').skip(2).eq(["workload.yaml"])
    }
}

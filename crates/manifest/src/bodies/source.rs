//! Source: the input of a run, as an artifact that can be checked offline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{body, words};
use crate::{Artifact, Digest};

words!(
    /// The kinds of Git object that a Source carries; blobs are the files themselves.
    GitObjectKind, "kind of Git object",
    /// A commit.
    Commit = "commit",
    /// A folder.
    Tree = "tree",
);

words!(
    /// The origin of a run.
    OriginKind, "kind of source",
    /// A commit of a Git repository.
    Git = "git",
    /// A work tree as found; exploratory only.
    Worktree = "worktree",
    /// No repository; exploratory only.
    Adhoc = "adhoc",
);

/// A Git object, stored as its raw content without the `type size` header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitObject {
    /// The object id, 40 hexadecimal digits.
    pub oid: String,
    /// The kind: commit or tree.
    pub kind: GitObjectKind,
    /// The raw content.
    pub artifact: Artifact,
}

/// A file that the pipeline names, directly or through a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceFile {
    /// The path from the repository's root, with `/`.
    pub path: String,
    /// True if Git marks it executable.
    pub executable: bool,
    /// The content.
    pub artifact: Artifact,
}

/// The import that made definitions from the file of another tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DefinitionImport {
    /// The path of the original among the files of the Source.
    pub file: String,
    /// The format of the original, such as `ome-benchmarkjob`.
    pub format: String,
    /// The version of Assay that imported it.
    pub version: String,
}

/// All inputs of a run. Holds no wall clock: an equal Source resumes an unfinished run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The kind of origin.
    pub kind: OriginKind,
    /// The repository's address without credentials; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repository: Option<String>,
    /// The commit, 40 hexadecimal digits: for `git` the commit that was read, for `worktree` the commit that was checked out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub commit: Option<String>,
    /// The full name of the branch or tag that the commit was taken from, such as `refs/heads/main`; absent if the commit was
    /// named by its id or otherwise. It is stated by the person or program that starts the run: a commit does not show it.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none", default)]
    pub reference: Option<String>,
    /// For `worktree`: true if the files that were read differ from `commit`.
    pub dirty: bool,
    /// For `git`: the commit and every tree on the way to the files.
    pub objects: Vec<GitObject>,
    /// The path of the pipeline among the files.
    pub pipeline: String,
    /// All files that the pipeline names, the pipeline first. The original of an import is the last one.
    pub files: Vec<SourceFile>,
    /// The import that made all files but the original; absent if the files are as their author wrote them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub import: Option<DefinitionImport>,
    /// The digest over paths, modes and contents of the files, for every kind.
    pub files_digest: Digest,
}

body!(Source, |source| {
    let objects = source.objects.iter().map(|object| &object.artifact);
    objects.chain(source.files.iter().map(|file| &file.artifact)).collect()
});

impl Source {
    /// Computes the digest over paths, modes and contents of files, which identifies a work tree.
    pub fn digest_of_files(files: &[SourceFile]) -> Digest {
        let mut hasher = crate::Hasher::new();
        for file in files {
            // Paths hold no newline (checked when they are read), so the lines are unambiguous.
            hasher.update(
                format!("{} {} {}\n", file.artifact.digest, if file.executable { 'x' } else { '-' }, file.path).as_bytes(),
            );
        }
        hasher.finish()
    }

    /// Returns the import that made the definitions, with its original; `None` if they were not imported, or if the original is not among the files.
    pub fn original(&self) -> Option<(&DefinitionImport, &SourceFile)> {
        let import = self.import.as_ref()?;
        Some((import, self.file(&import.file)?))
    }

    /// Returns the files that the commit has to hold: the original of an import, or else all.
    pub fn files_of_commit(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| self.import.as_ref().is_none_or(|import| import.file == file.path))
    }

    /// Returns the file at `path`.
    pub fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

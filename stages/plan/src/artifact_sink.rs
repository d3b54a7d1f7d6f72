//! The place where the plan stage keeps what it fetches and makes.

use std::path::Path;

use assay_manifest::{Artifact, Digest};
use assay_stage::{Context, Failure};

/// A store of fetched bytes.
pub(crate) trait ArtifactSink {
    /// Stores bytes as an output of the plan.
    fn keep(&self, name: String, media_type: &str, bytes: &[u8]) -> Result<Artifact, Failure>;

    /// Stores a file as an output of the plan.
    fn keep_file(&self, name: String, media_type: &str, path: &Path) -> Result<Artifact, Failure>;

    /// Writes an artifact that the store holds to a path, checking its digest on the way.
    fn write_held(&self, digest: &Digest, to: &Path) -> Result<(), Failure>;

    /// Returns the folder for files that are removed with the stage.
    fn folder(&self) -> &Path;

    /// Fails if the stage has been cancelled.
    fn check_cancelled(&self) -> Result<(), Failure>;
}

impl ArtifactSink for Context {
    fn keep(&self, name: String, media_type: &str, bytes: &[u8]) -> Result<Artifact, Failure> {
        self.put(name, media_type, bytes)
    }

    fn keep_file(&self, name: String, media_type: &str, path: &Path) -> Result<Artifact, Failure> {
        self.put_file(name, media_type, path)
    }

    fn write_held(&self, digest: &Digest, to: &Path) -> Result<(), Failure> {
        self.write_to(digest, to)
    }

    fn folder(&self) -> &Path {
        self.scratch()
    }

    fn check_cancelled(&self) -> Result<(), Failure> {
        Self::check_cancelled(self)
    }
}

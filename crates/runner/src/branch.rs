//! The branch to which published folders are committed, so that the published record is itself a chain of commits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use assay_failure::Failure;
use assay_git::{Destination, Remote, Repository, StagedFolder};
use assay_manifest::{Digest, Name, Publication, RunId, Source};
use assay_process::{Cancel, Spawner};
use assay_spec::{Pipeline, PublishSettings};
use serde::Serialize;

use crate::{CancelledWork, Error, Resource, Result};

/// A file that only the folder of a published run has. No run is published inside another run's folder.
const MARK: &str = "chain/publication.json";

/// The default remote.
const DEFAULT_REMOTE: &str = "origin";

/// The user's choices, which take precedence over the pipeline's.
#[derive(Clone, Debug, Default)]
pub struct BranchOptions {
    /// A remote's name in the checkout, or its address.
    pub remote: Option<String>,
    /// The branch.
    pub branch: Option<String>,
    /// The folder on it; `.` for its root.
    pub folder: Option<String>,
}

/// A branch of a remote, and the folder on it that gets a folder for each run.
#[derive(Clone, Debug)]
pub struct Branch {
    remote: Remote,
    name: String,
    folder: Option<String>,
    checkout: Option<PathBuf>,
}

/// The parts of a verified run that a commit needs.
#[derive(Clone, Debug)]
pub struct PublishedRun<'a> {
    /// The run.
    pub run_id: &'a RunId,
    /// Its pipeline.
    pub pipeline: &'a Name,
    /// The digest of its Publication's manifest.
    pub digest: Digest,
    /// Its Publication.
    pub publication: &'a Publication,
    /// The files of its published folder: path and digest.
    pub files: &'a BTreeMap<String, Digest>,
}

/// The place of a run's published folder on a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommittedFolder {
    /// The remote's address, without credentials.
    pub remote: String,
    /// The branch.
    pub branch: String,
    /// The folder's path on the branch.
    pub folder: String,
    /// The head of the branch that holds it.
    pub commit: String,
    /// True if this command added it.
    pub is_new: bool,
    /// The number of attempts, because others pushed at the same time.
    pub attempts: u32,
}

/// Returns the pipeline from which a run was started. `read` returns bytes that match their digest.
pub fn read_pipeline(source: &Source, read: impl FnOnce(&Digest) -> Result<Vec<u8>, Failure>) -> Result<Pipeline> {
    let file = source.files.iter().find(|file| file.path == source.pipeline);
    let file = file.ok_or_else(|| Error::PipelineAbsent(source.pipeline.clone()))?;
    Pipeline::parse(&source.pipeline, &read(&file.artifact.digest)?).map_err(Error::Definitions)
}

impl Branch {
    /// Returns the branch that a run of this Source goes to: the user's choice, else the pipeline's. `None` if neither names one.
    ///
    /// A remote's name is resolved in `checkout`. Without a checkout only `origin` is defined: the repository that the Source
    /// comes from.
    pub fn find(
        asked: &BranchOptions,
        publish: &PublishSettings,
        source: &Source,
        checkout: Option<&Path>,
    ) -> Result<Option<Self>> {
        let Some(name) = asked.branch.as_ref().or(publish.branch.as_ref()) else { return Ok(None) };
        let remote = match (&asked.remote, &publish.remote) {
            (Some(asked), _) => find_remote(asked, source, checkout)?,
            (None, said) => {
                let said = said.as_deref().unwrap_or(DEFAULT_REMOTE);
                require_own_checkout(said, source, checkout)?;
                find_remote(said, source, checkout)?
            }
        };
        let folder = asked.folder.clone().or_else(|| publish.folder.clone());
        Ok(Some(Self { remote, name: name.clone(), folder, checkout: checkout.map(Path::to_owned) }))
    }

    /// The branch's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Commits a run's published folder and pushes it, unless the branch already holds it. `read` returns bytes that match their
    /// digest; all of them are read before the push.
    pub fn commit(
        &self,
        record: &PublishedRun<'_>,
        read: &mut dyn FnMut(&Digest) -> Result<Vec<u8>, Failure>,
        cancel: &Cancel,
    ) -> Result<CommittedFolder> {
        let scratch = tempfile::tempdir().map_err(|error| Resource::ScratchFolder.error(error))?;
        let spawner = Spawner::start().map_err(|error| Resource::Spawner.error(error))?;
        let mut staged = StagedFolder::new(scratch.path())?;
        for (path, digest) in record.files {
            if let Some(reason) = cancel.reason() {
                return Err(Error::Cancelled(CancelledWork::Push(reason.to_owned())));
            }
            staged.add(path, &read(digest)?)?;
        }
        let path = match self.folder.as_deref() {
            None | Some(".") => record.run_id.to_string(),
            Some(folder) => format!("{folder}/{}", record.run_id),
        };
        let to =
            Destination { remote: &self.remote, branch: &self.name, path: &path, mark: MARK, checkout: self.checkout.as_deref() };
        let at = record.publication.published_at;
        let pushed = staged.push(&to, &message(record), at, &spawner, cancel)?;
        Ok(CommittedFolder {
            remote: self.remote.url().to_owned(),
            branch: self.name.clone(),
            folder: path,
            commit: pushed.head.to_string(),
            is_new: pushed.is_new,
            attempts: pushed.attempts,
        })
    }
}

/// Makes the commit message: a line for people, and trailers that `git interpret-trailers` reads.
fn message(record: &PublishedRun<'_>) -> String {
    let PublishedRun { run_id, pipeline, digest, publication, .. } = record;
    let grade = publication.grade.given;
    format!(
        "Publish the run {run_id} of the pipeline {pipeline}\n\nAssay-Run: {run_id}\nAssay-Publication: {digest}\nAssay-Grade: {grade}\n"
    )
}

fn find_remote(text: &str, source: &Source, checkout: Option<&Path>) -> Result<Remote> {
    let is_name = !text.contains([':', '/']);
    let found = match (checkout, source.repository.as_deref()) {
        _ if !is_name => Remote::from_url(text),
        (Some(checkout), _) => Remote::from_checkout(checkout, text),
        (None, Some(address)) if text == DEFAULT_REMOTE => Remote::from_url(address),
        (None, _) => return Err(Error::NoCheckout(text.to_owned())),
    };
    Ok(found?)
}

/// Refuses the `origin` of a checkout of another repository: the pipeline does not mean that one.
fn require_own_checkout(remote: &str, source: &Source, checkout: Option<&Path>) -> Result<()> {
    let Some(of) = source.repository.as_ref().filter(|_| remote == DEFAULT_REMOTE) else { return Ok(()) };
    let here = checkout.and_then(|checkout| Repository::discover(checkout).ok()?.origin());
    match here.filter(|here| here != of) {
        None => Ok(()),
        Some(checkout) => Err(Error::OtherRemote { run: of.clone(), remote: DEFAULT_REMOTE, checkout }),
    }
}

#[cfg(test)]
mod tests;

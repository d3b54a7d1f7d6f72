//! `assay push`: commits a run's published folder to a branch, or pushes its hot metrics, by hand or again.

use std::path::Path;

use assay_git::{MAX_FOLDER_FILE_BYTES, Repository};
use assay_manifest::{Digest, Document, Kind, Publication, Source};
use assay_process::Cancel;
use assay_runner::{Branch, BranchOptions, CommittedFolder, PublishedRun, read_pipeline};
use assay_runs::VerifiedRun;
use assay_spec::Pipeline;
use assay_stage::{ErrorCode, Exit, Failure};
use assay_store::Store;
use assay_verify::verify_rows;
use serde_json::json;

use crate::commands::hot_metrics;
use crate::commands::removed::{absent_artifact, resume_hint};
use crate::commands::store_options::StoreOptions;
use crate::commands::verify::publish_binary;
use crate::output;

/// Commit a run's published folder to a branch of a remote, unless the branch already contains it.
///
/// The run is verified first, up to level 2, and only files that its manifests name are committed. The branch only grows: a push
/// is never forced, and is retried if others push at the same time.
///
/// With `--hot-metrics`, the headline numbers of the run are pushed to the receivers that its pipeline names instead. To push them again
/// changes nothing, except in a Pushgateway, where they replace those of a newer run.
#[derive(clap::Args)]
pub(crate) struct Push {
    /// The run's name or published folder
    #[arg(value_name = "RUN|PATH")]
    run: String,
    #[command(flatten)]
    place: StoreOptions,
    /// The remote: its name in this checkout, or an address [default: from the pipeline]
    #[arg(long, value_name = "NAME|URL")]
    remote: Option<String>,
    /// The branch [default: from the pipeline]
    #[arg(long)]
    branch: Option<String>,
    /// The parent of the run's folder on the branch, `.` for the branch's root [default: from the pipeline]
    #[arg(long, value_name = "PATH")]
    folder: Option<String>,
    /// Push hot metrics to the receivers that the pipeline names, and nothing to a branch
    #[arg(long, conflicts_with_all = ["remote", "branch", "folder"])]
    hot_metrics: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

impl Push {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let cancel = assay_process::cancel_on_signals(&assay_process::END_SIGNALS)
            .map_err(|error| Failure::new(ErrorCode::Signals, "cannot handle signals").because(&error))?;
        let opened = self.place.runs().open(&self.run)?;
        if self.hot_metrics {
            return self.push_metrics(&opened, &cancel);
        }
        let committed = commit(&opened, &self.branch_of(&opened)?, &cancel)?;
        for stranger in &opened.strangers {
            let stranger = stranger.escape_debug();
            output::diagnostic(format!("`{stranger}` lies in the folder and is not of the run: it was not committed"));
        }
        if self.json {
            output::json(&json!({"run_id": opened.chain.run_id, "pushed": committed}))?;
        } else {
            output::line(line(&committed));
        }
        Ok(Exit::Done)
    }

    fn push_metrics(&self, opened: &VerifiedRun, cancel: &Cancel) -> Result<Exit, Failure> {
        let (_, pipeline) = origin(opened)?;
        let Some(to) = &pipeline.spec.publish.hot_metrics else {
            let message = format!("the pipeline `{}` names no receiver of hot metrics", pipeline.name);
            return Err(Failure::new(ErrorCode::NoHotMetrics, message));
        };
        let store = opened.store.as_deref().map(Store::open_existing).transpose()?;
        let pushed = hot_metrics::push(opened, to, store.as_ref(), true, cancel)?;
        if self.json {
            output::json(&json!({"run_id": opened.chain.run_id, "hot_metrics": pushed.receipts}))?;
        } else {
            pushed.lines().for_each(output::line);
        }
        if store.is_none() {
            output::diagnostic("no receipt was kept, because a published folder is no store");
        }
        pushed.failure.map_or(Ok(Exit::Done), Err)
    }

    fn branch_of(&self, opened: &VerifiedRun) -> Result<Branch, Failure> {
        let asked = BranchOptions { remote: self.remote.clone(), branch: self.branch.clone(), folder: self.folder.clone() };
        let (source, pipeline) = origin(opened)?;
        let here = Repository::discover(Path::new(".")).ok();
        let checkout = here.as_ref().and_then(Repository::worktree);
        Branch::find(&asked, &pipeline.spec.publish, source, checkout)?.ok_or_else(|| {
            Failure::new(ErrorCode::NoBranch, format!("the pipeline `{}` names no branch to push to", pipeline.name))
                .hint("name one with `--branch`, or write `spec.publish.branch` into the pipeline")
        })
    }
}

/// Verifies a run up to level 2, and commits its published folder.
pub(crate) fn commit(opened: &VerifiedRun, branch: &Branch, cancel: &Cancel) -> Result<CommittedFolder, Failure> {
    let chain = &opened.chain;
    let Some((reference, publication)) = chain.all::<Publication>().next().filter(|_| chain.is_complete) else {
        let message = format!("the run `{}` has no publication to push", chain.run_id);
        return Err(Failure::new(ErrorCode::MissingStage, message).hint(resume_hint(opened)));
    };
    if !chain.is_established() {
        let message = "who signed the run is not established, and what is pushed stays";
        return Err(Failure::new(ErrorCode::SignerNotEstablished, message)
            .hint("name whom you trust with `--trust POLICY` or `--trust FINGERPRINT`"));
    }
    check_not_removed(opened)?;
    verify_rows(opened.blobs.as_ref(), chain, &publish_binary)?;
    let record = PublishedRun {
        run_id: &chain.run_id,
        pipeline: &origin(opened)?.1.name,
        digest: reference.manifest,
        publication: &publication.body,
        files: &chain.published_files(),
    };
    Ok(branch.commit(&record, &mut |digest| bytes(opened, digest, MAX_FOLDER_FILE_BYTES), cancel)?)
}

/// Fails with `evidence_removed` if a file that is published is absent and a tombstone lists it.
fn check_not_removed(opened: &VerifiedRun) -> Result<(), Failure> {
    let documents = opened.chain.documents.iter().map(assay_envelope::Verified::value);
    let published = documents.filter(|document| matches!(document.kind(), Kind::Summary | Kind::Publication));
    for artifact in published.flat_map(Document::artifacts).filter(|artifact| opened.removals.explains(artifact)) {
        if opened.blobs.check(&artifact.digest, MAX_FOLDER_FILE_BYTES)?.is_none() {
            return Err(absent_artifact(&opened.removals, &format!("the published file `{}`", artifact.name), artifact));
        }
    }
    Ok(())
}

/// Describes the place of a published folder in one line.
pub(crate) fn line(committed: &CommittedFolder) -> String {
    let CommittedFolder { remote, branch, folder, commit, is_new, .. } = committed;
    let how = if *is_new { "" } else { ", which held it already" };
    format!("pushed    {folder} on the branch {branch} of {remote}, commit {}{how}", assay_report::short_commit(commit))
}

/// Returns the Source that the run was started from, and its pipeline.
fn origin(opened: &VerifiedRun) -> Result<(&Source, Pipeline), Failure> {
    let source = opened.chain.one::<Source>();
    let source = &source.ok_or_else(|| Failure::new(ErrorCode::MissingStage, "the run has no source"))?.body;
    let pipeline = read_pipeline(source, |digest| bytes(opened, digest, assay_spec::MAX_FILE_BYTES as u64))?;
    Ok((source, pipeline))
}

fn bytes(opened: &VerifiedRun, digest: &Digest, limit: u64) -> Result<Vec<u8>, Failure> {
    opened.blobs.get(digest, limit)?.ok_or_else(|| {
        Failure::new(ErrorCode::ArtifactAbsent, format!("the published file {digest} is missing"))
            .hint("it was removed, or other bytes were put in its place")
    })
}

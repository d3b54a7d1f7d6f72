//! The runs of a store, by its pointers.

use assay_manifest::{Document, DocumentError, MAX_MANIFEST_BYTES, OriginKind, RunId};
use assay_stage::{AcceptedResult, ErrorCode, Failure, Layout, StageName};
use assay_store::Store;

/// Returns the runs of a store, in the order of their names.
pub fn run_ids(store: &Store) -> Result<Vec<RunId>, Failure> {
    Ok(store.list_folders(Layout::RUNS)?.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Adds to the failure of a run that its folder is a link, if it is one: the reason is then the link, and not what it leads to.
pub(crate) fn explain_link(failure: Failure, store: &Store, run_id: &RunId) -> Failure {
    let folder = Layout::for_run(run_id).run();
    if !store.is_link(&folder) {
        return failure;
    }
    failure.hint(format!("`{folder}` of the store is a symbolic link, and a run has a folder of its own: remove the link"))
}

/// Returns the published runs of commits of a pipeline, by the path that their Sources name, the latest last: runs of a work tree
/// belong to no history. Pointers are not verified here: a reader of a run verifies it.
pub fn published_runs(store: &Store, pipeline: &str) -> Result<Vec<RunId>, Failure> {
    let mut found = Vec::new();
    for run_id in run_ids(store)? {
        let layout = Layout::for_run(&run_id);
        let is_of = |document| matches!(document, Some(Document::Source(source)) if source.body.pipeline == pipeline && source.body.kind == OriginKind::Git);
        if !is_of(read_document(store, &layout.source(), &run_id)?) {
            continue;
        }
        let pointers = store.list(&layout.stage(StageName::Publish))?;
        let Some(pointer) = pointers.iter().find(|path| path.contains("/accepted/")) else { continue };
        if let Some(Document::Publication(publication)) = read_document(store, pointer, &run_id)? {
            found.push((publication.body.published_at, run_id));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, run_id)| run_id).collect())
}

/// Returns the manifest that a pointer of a run names; `None` if there is no such pointer.
pub fn read_document(store: &Store, path: &str, run_id: &RunId) -> Result<Option<Document>, Failure> {
    AcceptedResult::read(store, path)?.map(|accepted| read_manifest(store, accepted, run_id)).transpose()
}

/// Returns the failure for a manifest that cannot be parsed: it has another format of Assay's, or is damaged.
fn parse_failure(run_id: &RunId, error: &DocumentError) -> Failure {
    match error {
        DocumentError::Fields { .. } | DocumentError::UnknownVersion(_) => Failure::from_error(ErrorCode::OldFormat, error)
            .hint(format!("`assay verify {run_id}` names the Assay that signed it; nothing was changed")),
        error => Failure::from_error(ErrorCode::Manifest, error),
    }
}

/// Returns the manifest that a pointer of a run names, which has to be that run's.
pub fn read_manifest(store: &Store, accepted: AcceptedResult, run_id: &RunId) -> Result<Document, Failure> {
    let bytes = store.get(&accepted.manifest, MAX_MANIFEST_BYTES)?;
    let document = Document::parse(&bytes).map_err(|error| parse_failure(run_id, &error))?;
    let found = &document.header().run_id;
    if found == run_id {
        return Ok(document);
    }
    Err(Failure::new(ErrorCode::PointerElsewhere, format!("a pointer of run `{run_id}` leads to a manifest of run `{found}`")))
}

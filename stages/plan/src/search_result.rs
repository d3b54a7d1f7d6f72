//! The search results that workloads name: found in the store by digest, verified, replayed, and compared with the workloads.

use std::collections::BTreeMap;

use assay_manifest::{Body as _, Digest, Kind, MAX_MANIFEST_BYTES, Name, PinnedSearch, Plan, SearchResult};
use assay_search::{check_workload, replay};
use assay_spec::{Closure, Work};
use assay_stage::{AcceptedResult, Context, ErrorCode, Failure, Layout};

/// The largest bundle, in bytes.
const MAX_BUNDLE_BYTES: u64 = 1 << 20;

/// A search result that a workload names.
pub(crate) struct FoundSearch {
    /// Its artifacts.
    pub(crate) pinned: PinnedSearch,
    /// The document, whose signature and replay are verified.
    pub(crate) result: SearchResult,
}

/// Finds the search results that the workloads of a pipeline name, by the names of the workloads.
///
/// # Errors
/// Fails with `search_missing` if the store lacks one, with the code of the fault of a signature, and with `search_result` if one does not lead to
/// its loads and its end again. The runs of its rounds are not read: `assay verify` of the search result does so.
pub(crate) fn find_searches(ctx: &Context, closure: &Closure) -> Result<BTreeMap<Name, FoundSearch>, Failure> {
    let named = closure.workloads.iter().filter_map(|workload| match &workload.spec.work {
        Work::Serving(serving) => Some((&workload.name, serving.load.search?)),
        Work::Indicator(_) | Work::Training(_) => None,
    });
    named.map(|(name, digest)| Ok((name.clone(), find(ctx, name, &digest)?))).collect()
}

fn find(ctx: &Context, workload: &Name, digest: &Digest) -> Result<FoundSearch, Failure> {
    let store = ctx.store();
    let found = AcceptedResult::find(store, Layout::SEARCHES, &digest.hex())?;
    let Some(accepted) = found.accepted.first().copied() else {
        let missing = Failure::new(
            ErrorCode::SearchMissing,
            format!("the store `{}` has no search result {digest}, which workload `{workload}` names", store.uri()),
        );
        return Err(found.damaged.unwrap_or_else(|| missing.hint(SEARCH_AGAIN)));
    };
    let verified = ctx.load_verified(accepted)?;
    let other = |why: String| Failure::new(ErrorCode::SearchResult, format!("the search result of workload `{workload}`: {why}"));
    let result = SearchResult::from_document(verified.value())
        .ok_or_else(|| other(format!("{digest} is a {} instead of a {}", verified.value().kind(), Kind::SearchResult)))?
        .body
        .clone();
    replay(&result).map_err(|fault| other(fault.to_string()))?;
    let [manifest, bundle] = PinnedSearch::names(workload);
    let pinned = PinnedSearch {
        manifest: ctx.put(manifest, PinnedSearch::MEDIA_TYPE, &store.get(&accepted.manifest, MAX_MANIFEST_BYTES)?)?,
        bundle: ctx.put(bundle, PinnedSearch::MEDIA_TYPE, &store.get(&accepted.bundle, MAX_BUNDLE_BYTES)?)?,
    };
    Ok(FoundSearch { pinned, result })
}

/// The remedy if a search result is not in the store.
const SEARCH_AGAIN: &str =
    "name the store of the search with `--store`, or search again in this one with `assay bench` and name the new result";

/// Refuses workloads that are not what the searches that they name were for.
pub(crate) fn check_searches(plan: &Plan, found: &BTreeMap<Name, FoundSearch>) -> Result<(), Failure> {
    for workload in &plan.workloads {
        let Some(search) = found.get(&workload.name) else { continue };
        let work = workload.serving.as_ref().map(|work| (work.slos.as_slice(), work.model.as_str()));
        check_workload(&search.result, &workload.name, &plan.cases, work).map_err(|mismatch| {
            let message = format!(
                "workload `{}` is not what the search {} was for: {mismatch}",
                workload.name,
                search.pinned.manifest.digest.short()
            );
            let hint = format!("`assay show {}` prints the loads for a workload file", search.pinned.manifest.digest);
            Failure::new(ErrorCode::SearchDiffers, message).hint(hint)
        })?;
    }
    Ok(())
}

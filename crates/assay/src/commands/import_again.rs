//! Runs plan again on the Source, to compare what it imports with what the signed Plan pins.

use std::collections::BTreeMap;

use assay_manifest::{Dataset, Digest, FrozenWorkload, Name, Plan, Source};
use assay_planning::check_imports;
use assay_runs::VerifiedRun;
use assay_stage::parameters::PlanParameters;
use assay_stage::{ErrorCode, Exit, Failure};
use assay_store::Store;

use crate::commands::recompute::{RecomputedResult, run_again};

/// Imports the datasets and traces of a run again from their files, and counts the tokens of its chat templates again. A difference from the
/// signed Plan is a failure. Returns the names of fetched files that the store does not hold, whose imports could not be compared.
pub(crate) fn import_again(opened: &VerifiedRun, store: &str) -> Result<Vec<String>, Failure> {
    let (Some((_, plan)), Some((_, source))) = (opened.chain.all::<Plan>().next(), opened.chain.all::<Source>().next()) else {
        return Ok(Vec::new());
    };
    if !plan.body.workloads.iter().any(imports_files) {
        return Ok(Vec::new());
    }
    let FetchedFiles { held, absent } = FetchedFiles::find(&plan.body, &source.body, &Store::open_existing(store)?)?;
    let parameters = PlanParameters { fetch: false, datasets: held };
    let parameters = serde_json::to_string(&parameters)
        .map_err(|error| Failure::new(ErrorCode::Internal, "the parameters of plan have no JSON form").because(&error))?;
    let again = run_again::<Plan>(opened, store, "plan", &plan.header.inputs, &parameters);
    let RecomputedResult { body: again, .. } = again.map_err(as_difference)?;
    check_imports(&plan.body, &again)?;
    Ok(absent)
}

fn imports_files(workload: &FrozenWorkload) -> bool {
    let Some(work) = &workload.serving else { return false };
    work.prompts.dataset().is_some() || work.tokenizer.template.is_some()
}

/// Returns the failure to import again: files that plan cannot import are a difference from a Plan that pins their import.
fn as_difference(failure: Failure) -> Failure {
    if failure.exit != Exit::Definition {
        return failure;
    }
    let message = "the plan does not follow from its files: they cannot be imported again";
    let causes = std::iter::once(failure.message).chain(failure.causes).collect();
    Failure { causes, ..Failure::new(ErrorCode::ImportDiffers, message) }
}

/// The files of datasets that plan fetched from an address.
struct FetchedFiles {
    /// The digests of those that the store holds, by workload.
    held: BTreeMap<Name, Digest>,
    /// The names of the others.
    absent: Vec<String>,
}

impl FetchedFiles {
    fn find(plan: &Plan, source: &Source, store: &Store) -> Result<Self, Failure> {
        let mut found = Self { held: BTreeMap::new(), absent: Vec::new() };
        let datasets = plan.workloads.iter().filter_map(|workload| Some((&workload.name, dataset_of(workload)?)));
        for (workload, dataset) in datasets.filter(|(_, dataset)| source.file(&dataset.file.origin).is_none()) {
            let artifact = &dataset.file.artifact;
            if store.contains(&artifact.digest)? {
                found.held.insert(workload.clone(), artifact.digest);
            } else {
                found.absent.push(artifact.name.clone());
            }
        }
        Ok(found)
    }
}

fn dataset_of(workload: &FrozenWorkload) -> Option<&Dataset> {
    workload.serving.as_ref()?.prompts.dataset()
}

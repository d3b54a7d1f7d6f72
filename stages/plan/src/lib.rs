//! Plan: from the Source's files to frozen workloads and ordered trials, with everything mutable pinned.

mod artifact_sink;
mod check_import;
mod dataset;
mod fetch;
mod image;
mod pin;
mod search_result;
mod tokenizer;

use assay_dataset::Index;
use assay_git::{OfflineFile, Oid, RawObject, check_offline};
use assay_manifest::{Dataset, MAX_MANIFEST_BYTES, OriginKind, Plan, Source};
use assay_planning::{DefinitionCheck, DerivedPlan, SourceFiles, check_definitions, check_replays, derive_plan};
use assay_stage::parameters::PlanParameters;
use assay_stage::{Context, ErrorCode, Event, Failure, Inputs, Stage, StageName};

pub use crate::check_import::check_import_main;
use crate::pin::Pinner;
use crate::search_result::{check_searches, find_searches};

/// The largest file of a Source that is read back.
const MAX_FILE_BYTES: u64 = assay_spec::MAX_FILE_BYTES as u64;

/// The plan stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planner;

impl Stage for Planner {
    type Parameters = PlanParameters;
    type Output = Plan;
    const NAME: StageName = StageName::Plan;

    fn run(&self, inputs: &Inputs, parameters: &PlanParameters, ctx: &Context) -> Result<Plan, Failure> {
        if !parameters.datasets.is_empty() && ctx.is_signing() {
            let message = "a plan that is signed fetches its datasets: `datasets` is for `--recompute`";
            return Err(Failure::new(ErrorCode::Parameters, message));
        }
        let source = &inputs.one::<Source>()?.body;
        let files = SourceFiles::load(source, |artifact| ctx.get(artifact, MAX_FILE_BYTES))?;
        check_commit(ctx, source, &files)?;
        if let DefinitionCheck::NotCompared(message) = check_definitions(&files)? {
            ctx.emit(Event::Note { message });
        }
        let closure = files.closure()?;
        check_queries(&files, &closure.pipeline.spec.publish.queries)?;
        let searches = find_searches(ctx, &closure)?;
        let mut pinner = Pinner::new(ctx, parameters.fetch, &closure.pipeline.spec.fetch_allow)
            .with_datasets(&parameters.datasets)
            .with_searches(&searches);
        let DerivedPlan { plan, specs } = derive_plan(&files, &closure, ctx.run_id(), &mut pinner)?;
        check_searches(&plan, &searches)?;
        ctx.check_cancelled()?;
        for workload in &plan.workloads {
            let dataset = workload.serving.as_ref().and_then(|work| work.prompts.dataset());
            for note in dataset.map(Dataset::field_notes).unwrap_or_default() {
                ctx.emit(Event::Note { message: format!("workload `{}`: {note}", workload.name) });
            }
        }
        check_replays(&plan, |index| ctx.get(index, Index::MAX_BYTES))?;
        for (workload, bytes) in plan.workloads.iter().zip(specs) {
            ctx.put(workload.spec.name.clone(), &workload.spec.media_type, &bytes)?;
        }
        Ok(plan)
    }
}

/// Checks that the files are the commit's: commit, trees and blobs are hashed again, and no remote is asked.
fn check_commit(ctx: &Context, source: &Source, files: &SourceFiles<'_>) -> Result<(), Failure> {
    if source.kind != OriginKind::Git {
        return Ok(());
    }
    let not_shown = |error: &(dyn std::error::Error + 'static)| Failure::from_error(ErrorCode::Commit, error);
    let unnamed = || Failure::new(ErrorCode::Commit, "the source is of a commit, but does not name it");
    let commit: Oid = source.commit.as_deref().ok_or_else(unnamed)?.parse().map_err(|error| not_shown(&error))?;
    let objects = source.objects.iter().map(|object| {
        let bytes = ctx.get(&object.artifact, MAX_MANIFEST_BYTES)?;
        Ok(RawObject { oid: object.oid.parse().map_err(|error| not_shown(&error))?, kind: object.kind, bytes })
    });
    let objects = objects.collect::<Result<Vec<_>, Failure>>()?;
    let files: Vec<_> = source
        .files_of_commit()
        .map(|file| OfflineFile { path: &file.path, executable: file.executable, bytes: files.bytes(&file.path) })
        .collect();
    check_offline(commit, &objects, &files).map_err(|error| not_shown(&error))?;
    Ok(())
}

/// Checks the queries, so that one that cannot be published is found here, and not after everything has been measured.
fn check_queries(files: &SourceFiles<'_>, paths: &[String]) -> Result<(), Failure> {
    paths.iter().try_for_each(|path| assay_planning::check_query(path, files.bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_fetches_unless_it_is_told_not_to() {
        let read = |text| serde_json::from_str::<PlanParameters>(text).expect("parameters");
        assert!(read("{}").fetch);
        assert!(!read(r#"{"fetch":false}"#).fetch);
        assert!(serde_json::from_str::<PlanParameters>(r#"{"fetsh":false}"#).is_err(), "a slip of the pen is not a permission");
    }
}

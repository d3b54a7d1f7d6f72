//! Publish: decides the grade by the claim rules, and writes the numbers with their lineage, the reports, and everything that a
//! reader needs to check them.

mod listing;
mod queries;

use std::ops::ControlFlow;

use assay_claim::Evidence;
use assay_lake::{Lake, Snapshot, commit_run};
use assay_manifest::{Artifact, Collection, CuratedFile, Environment, Kind, Numbers, Publication, Summary};
use assay_stage::parameters::PublishParameters;
use assay_stage::{Context, ErrorCode, Exit, Failure, Inputs, Stage, StageName};
use assay_store::Scratch;
use assay_verify::{NumberRows, PublicationInputs, PublishDecisions, PublishedFile, StoreBlobs, lake_failure};
use assay_warehouse::{CLUSTER_EVENT_FACT, CLUSTER_POD_FACT, TELEMETRY_SLICE_FACT};

/// The largest trust policy.
const MAX_POLICY_BYTES: u64 = 1 << 20;

/// The most bytes on disk that publish uses beside the store: the curated files of one run.
const MAX_SCRATCH_BYTES: u64 = 8 << 30;

/// The publish stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Publish;

impl Stage for Publish {
    type Parameters = PublishParameters;
    type Output = Publication;
    const NAME: StageName = StageName::Publish;

    fn run(&self, inputs: &Inputs, _: &PublishParameters, ctx: &Context) -> Result<Publication, Failure> {
        let (plan, plan_digest) = inputs.plan()?;
        let collection = &inputs.one::<Collection>()?.body;
        let summary = &inputs.one::<Summary>()?.body;
        let mut environments: Vec<_> = inputs.all::<Environment>().map(|(_, manifest)| &manifest.body).collect();
        environments.sort_by_key(|environment| environment.block);
        check_whole_chain(inputs, ctx)?;
        check_evidence(inputs, ctx)?;

        let summary_digest = inputs
            .reference(Kind::Summary)
            .ok_or_else(|| Failure::new(ErrorCode::Internal, "publish was given no summary"))?
            .manifest;
        let grade = assay_claim::grade(&Evidence::from_summary(plan, &environments, collection, summary));
        let scratch = Scratch::new_in(ctx.scratch(), MAX_SCRATCH_BYTES)?;
        let rows = number_rows(inputs, ctx, summary)?;
        let asked = queries::run_all(ctx, plan, summary, &rows, &scratch)?;
        let from_summary = assay_verify::summary_numbers(ctx.run_id(), summary)?;
        let numbers = Numbers {
            run_id: ctx.run_id().clone(),
            grade: grade.clone(),
            summary: summary_digest,
            numbers: assay_verify::merge_query_numbers(from_summary, asked.numbers.clone()),
        };
        assay_verify::check_numbers(ctx.run_id(), &numbers, &rows)?;
        let runs = listing::runs_of_cases(ctx, plan)?;
        // Every refusal has happened before this point: a commit is never taken back.
        let warehouse_snapshot = commit(ctx, summary, &scratch)?;
        let unestablished = || Failure::new(ErrorCode::Internal, "a run is published under a trust policy");
        let blobs = StoreBlobs::new(ctx.store().clone());
        let publishable = PublicationInputs {
            run_id: ctx.run_id(),
            documents: inputs.verified().iter().collect(),
            policy: ctx.policy().ok_or_else(unestablished)?,
            policy_digest: ctx.trust_policy(),
            blobs: &blobs,
        };
        let decided = PublishDecisions { grade: &grade, runs: &runs, queries: &asked.published, snapshot: &warehouse_snapshot };
        let reports = put_all(ctx, publishable.reports(&decided)?)?;
        let policy = ctx.store().get(&ctx.trust_policy(), MAX_POLICY_BYTES)?;
        let mut keys = vec![ctx.put("trust.yaml", "application/yaml", &policy)?];
        keys.extend(put_all(ctx, publishable.key_files())?);
        let numbers = assay_verify::numbers_file(&numbers)?;
        Ok(Publication {
            plan_digest,
            summary: summary_digest,
            trust_policy: ctx.trust_policy(),
            published_at: ctx.clock().now(),
            numbers: ctx.put(numbers.name, numbers.media_type, &numbers.bytes)?,
            reports,
            keys,
            warehouse_snapshot,
            queries: asked.published,
            grade,
            runs,
        })
    }
}

/// Adds the run's curated files to the warehouse and returns the versions that hold them. Idempotent.
fn commit(ctx: &Context, summary: &Summary, scratch: &Scratch) -> Result<Snapshot, Failure> {
    let failed = |error| lake_failure(error, Exit::Unexpected);
    let lake = Lake::open(ctx.store()).map_err(failed)?;
    let mut watch = |_| if ctx.cancel().is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let committed = commit_run(&lake, ctx.run_id(), &summary.files, scratch, &mut watch);
    // A stopped commit continues at its last step when the run is resumed.
    ctx.check_cancelled()?;
    committed.map_err(failed)
}

/// Refuses to publish a chain that a reader would find incomplete.
fn check_whole_chain(inputs: &Inputs, ctx: &Context) -> Result<(), Failure> {
    let members: Vec<_> = inputs
        .verified()
        .iter()
        .map(|input| assay_chain::Member { document: input.value(), reference: input.input_ref() })
        .collect();
    Ok(assay_chain::check_publishable(ctx.run_id(), &members)?)
}

/// Refuses to publish attempts that contradict the Plan, and raw evidence that the Collection does not list.
fn check_evidence(inputs: &Inputs, ctx: &Context) -> Result<(), Failure> {
    let collection = &inputs.one::<Collection>()?.body;
    let lost = || Failure::new(ErrorCode::ArtifactAbsent, "the collection's list of evidence is not in the store");
    let list = assay_verify::read_evidence_list(&StoreBlobs::new(ctx.store().clone()), collection)?.ok_or_else(lost)?;
    assay_verify::check_attempts(inputs.verified())?;
    assay_verify::check_evidence_list(inputs.verified(), &list)?;
    Ok(())
}

/// Returns the rows that hold numbers. Refuses to publish rows that differ from the Summary, which a reader would refuse.
fn number_rows(inputs: &Inputs, ctx: &Context, summary: &Summary) -> Result<NumberRows, Failure> {
    let large = [TELEMETRY_SLICE_FACT.name, CLUSTER_POD_FACT.name, CLUSTER_EVENT_FACT.name];
    let is_large = |file: &&CuratedFile| large.contains(&file.table.as_str());
    let files: Vec<_> = summary.files.iter().filter(|file| !is_large(file)).collect();
    let mut tables = assay_verify::read_tables(&StoreBlobs::new(ctx.store().clone()), files.iter().copied())?;
    assay_verify::check_outcomes(ctx.run_id(), inputs.verified(), &tables)?;
    let mut rows = NumberRows::default();
    for file in files {
        rows.add(file, tables.remove(file.table.as_str()).unwrap_or_default())?;
    }
    Ok(rows)
}

/// Puts the publication's files into the store.
fn put_all(ctx: &Context, files: Vec<PublishedFile>) -> Result<Vec<Artifact>, Failure> {
    files.into_iter().map(|file| ctx.put(file.name, file.media_type, &file.bytes)).collect()
}

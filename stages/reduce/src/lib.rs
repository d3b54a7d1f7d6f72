//! Reduce: from raw evidence to statistics with intervals, and to the curated rows that hold them.
//!
//! Byte-repeatable: no clock, no randomness but seeds that derive from digests, every sum in a fixed order.

mod aggregate;
mod dimensions;
mod evidence;
mod rows;

use assay_claim::Evidence;
use assay_manifest::{
    Artifact, Body as _, Collection, Count, CuratedFile, Environment, InputRef, Kind, Plan, PointSummary, Reason, RunStatus,
    Summary,
};
use assay_stage::{Context, Exit, Failure, Inputs, Stage, StageName};
use serde::{Deserialize, Serialize};

use crate::evidence::Attempts;

/// Reduce has no parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {}

/// The reduce stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reduce;

impl Stage for Reduce {
    type Parameters = Parameters;
    type Output = Summary;
    const NAME: StageName = StageName::Reduce;

    fn run(&self, inputs: &Inputs, _: &Parameters, ctx: &Context) -> Result<Summary, Failure> {
        let plan = &inputs.one::<Plan>()?.body;
        let collection = &inputs.one::<Collection>()?.body;
        let collected = reference(inputs, Kind::Collection)?;
        let mut environments: Vec<_> = inputs.all::<Environment>().map(|(_, manifest)| &manifest.body).collect();
        environments.sort_by_key(|environment| environment.block);
        let attempts = Attempts::load(ctx, plan, collection)?;
        ctx.check_cancelled()?;

        let points = aggregate::points(plan, &attempts, collected.manifest)?;
        let status = status(&points);
        let evidence = Evidence { plan, environments: &environments, collection, status, points: &points };
        let context = rows::RowContext {
            run_id: ctx.run_id(),
            plan,
            plan_digest: plan.digest().map_err(|error| Failure::unexpected("plan", "the plan has no digest").because(&error))?,
            plan_manifest: reference(inputs, Kind::Plan)?.manifest,
            collection,
            collection_manifest: collected.manifest,
            environments: &environments,
            environment_manifests: inputs.all::<Environment>().map(|(input, _)| input.manifest).collect(),
            attempts: &attempts,
            reduce_binary: ctx.binary(),
            publication_safe: assay_claim::shortfalls(assay_manifest::Intent::Publication, &evidence).is_empty(),
            issues: issues(&points, collection),
        };
        let tables = rows::tables(&context, points)?;
        let files = tables.files.into_iter().map(|(table, rows)| write_file(ctx, table, rows)).collect::<Result<Vec<_>, _>>()?;
        Ok(Summary {
            plan_digest: context.plan_digest,
            artifact_manifest_digest: collected.manifest,
            reduce_binary: ctx.binary(),
            status,
            issues: context.issues,
            points: tables.points,
            files,
        })
    }
}

fn reference(inputs: &Inputs, kind: Kind) -> Result<InputRef, Failure> {
    inputs.reference(kind).ok_or_else(|| Failure::unexpected("contract", format!("reduce was given no {kind}")))
}

fn status(points: &[PointSummary]) -> RunStatus {
    let counted: u32 = points.iter().map(|point| point.trials_counted).sum();
    let planned: u32 = points.iter().map(|point| point.trials_planned).sum();
    match counted {
        0 => RunStatus::Failed,
        counted if counted < planned => RunStatus::Partial,
        _ => RunStatus::Succeeded,
    }
}

/// What is wrong with the run as a whole.
fn issues(points: &[PointSummary], collection: &Collection) -> Vec<Reason> {
    let counted: u32 = points.iter().map(|point| point.trials_counted).sum();
    let planned: u32 = points.iter().map(|point| point.trials_planned).sum();
    let missing = (counted < planned).then(|| {
        Reason::new("trials_missing", format!("{} of {planned} planned trials have no valid attempt", planned - counted))
    });
    let drift = collection
        .drift
        .iter()
        .map(|drift| Reason::new("drift", format!("`{}` differs between blocks: {}", drift.what, drift.detail)));
    let unrecorded =
        collection.trials.iter().flat_map(|trial| &trial.attempts).filter(|attempt| attempt.counted && !attempt.gaps.is_empty());
    let unrecorded = match unrecorded.count() {
        0 => None,
        count => Some(Reason::new("recording_gaps", format!("{count} counted attempts have gaps in their recording"))),
    };
    missing.into_iter().chain(drift).chain(unrecorded).collect()
}

fn write_file(
    ctx: &Context,
    table: &'static assay_warehouse::Table,
    rows: Vec<assay_warehouse::Row>,
) -> Result<CuratedFile, Failure> {
    let path = ctx.scratch().join(format!("{}.parquet", table.name));
    let unwritable = |error: &(dyn std::error::Error + 'static)| {
        Failure::environment("scratch", format!("cannot write `{}`", path.display())).because(error)
    };
    let file = std::fs::File::create(&path).map_err(|error| unwritable(&error))?;
    let written = assay_warehouse::write(table, rows, file).map_err(|error| unwritable(&error))?;
    let name = format!("rows/{}.parquet", table.name);
    let artifact: Artifact = ctx.put_file(name, "application/vnd.apache.parquet", &path)?;
    Ok(CuratedFile { table: table.name.to_owned(), rows: Count(written.rows), artifact })
}

/// A failure of the tables' own rules, which rows made here never break.
pub(crate) fn row_failure(error: &assay_warehouse::Error) -> Failure {
    Failure::of(Exit::Unexpected, "row", error)
}

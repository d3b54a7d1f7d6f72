//! Reduce: from raw evidence to statistics with intervals, and to the curated rows that hold them.
//!
//! Byte-repeatable: no clock, no randomness except seeds that derive from digests, every sum in a fixed order.

mod aggregate;
mod all_loads;
mod attempts;
mod cluster_events;
mod dimensions;
mod energy;
mod evidence;
mod not_finite;
mod pods;
mod resends;
mod rows;
mod serving;
mod spans;
mod telemetry;

use assay_claim::Evidence;
use std::sync::Arc;

use assay_dataset::Index;
use assay_manifest::{
    AllLoads, Artifact, Case, Collection, Count, CuratedFile, Dataset, Digest, Environment, InputRef, Intent, Kind, Plan, Point,
    PointSummary, PointView, Reason, RunStatus, Summary, Views, WorkloadType, canonical_json,
};
use assay_stage::parameters::ReduceParameters;
use assay_stage::{Context, ErrorCode, Failure, Inputs, Stage, StageName};
use assay_warehouse::records::{RecordError, RecordFile};
use assay_warehouse::{BENCHMARK_RUN_FACT, OUTCOME_FACT, Row, SERVING_OUTCOME_FACT, Table};

use crate::dimensions::Dimensions;
use crate::evidence::{Attempts, read_output};
use crate::not_finite::NotFinite;
use crate::rows::{Findings, RowContext};
use crate::serving::RecordSource;
pub use crate::serving::{FirstPass, Statistics, TrialRecords};

/// The reduce stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reduce;

impl Stage for Reduce {
    type Parameters = ReduceParameters;
    type Output = Summary;
    const NAME: StageName = StageName::Reduce;

    fn run(&self, inputs: &Inputs, _: &ReduceParameters, ctx: &Context) -> Result<Summary, Failure> {
        let (plan, plan_digest) = inputs.plan()?;
        let collection = inputs.one::<Collection>()?;
        let recordings = evidence::read_recordings(ctx, &collection.header)?;
        let collection = &collection.body;
        let collected = reference(inputs, Kind::Collection)?;
        // Sorted by block, independent of the inputs' order: a second reduce gives the same bytes.
        let mut named: Vec<_> = inputs.all::<Environment>().map(|(input, manifest)| (input.manifest, &manifest.body)).collect();
        named.sort_by_key(|(_, environment)| environment.block);
        let (environment_manifests, environments): (Vec<_>, Vec<_>) = named.into_iter().unzip();
        let list = evidence::read_evidence_list(ctx, collection)?;
        let attempts = Attempts::load(ctx, plan, collection)?;
        let context = RowContext {
            run_id: ctx.run_id(),
            plan,
            plan_digest,
            plan_manifest: reference(inputs, Kind::Plan)?.manifest,
            source_manifest: source_manifest(inputs)?,
            signers: inputs.verified().iter().map(|input| (input.value().kind(), input.signer().fingerprint)).collect(),
            collection,
            collection_manifest: collected.manifest,
            environments: &environments,
            environment_manifests,
            attempts: &attempts,
            recordings: &recordings,
            reduce_binary: ctx.binary(),
        };
        let telemetry = telemetry::read(ctx, &context, &list)?;
        let dimensions = Dimensions::from_context(&context, &telemetry.gpus)?;
        let PointOutcomes { points, all_loads, file, serving, views, not_finite } = reduce_points(ctx, &context, &dimensions)?;
        let status = status(&points);
        let serving = with_queue_delays(serving, &telemetry.queue_delays)?;
        let telemetry = telemetry::write(ctx, &context, &dimensions, &points, telemetry, &list)?;
        let cluster = pods::write(ctx, &context, &dimensions, &list)?;
        let attempts = attempts::write(ctx, &context, &dimensions, &points)?;
        let issues = issues(&points, &context).into_iter().chain(not_finite.issue());
        let issues = issues.chain(dimensions.issues.iter().cloned());
        let issues: Vec<Reason> = issues.chain(telemetry.issues).chain(cluster.issue).collect();
        let evidence = Evidence { plan, environments: &environments, collection, status, points: &points, issues: &issues };
        let publication_safe = assay_claim::shortfalls(Intent::Publication, &evidence).is_empty();
        let findings = Findings { publication_safe, issues };
        let runs = rows::run_rows(&context, &dimensions, &points, &findings)?;
        // In the order in which tables are published.
        let tables = dimensions.into_files().into_iter().map(|(table, rows)| write_file(ctx, table, rows));
        let dimension_files = tables.collect::<Result<Vec<_>, _>>()?;
        let serving = write_file(ctx, &SERVING_OUTCOME_FACT, serving)?;
        let files = dimension_files.into_iter().chain([
            file,
            serving,
            telemetry.file,
            attempts,
            cluster.pods,
            cluster.events,
            write_file(ctx, &BENCHMARK_RUN_FACT, runs)?,
        ]);
        Ok(Summary {
            plan_digest,
            artifact_manifest_digest: collected.manifest,
            reduce_binary: ctx.binary(),
            status,
            issues: findings.issues,
            points,
            all_loads,
            energy: telemetry.energy,
            files: files.filter(|file| file.rows.0 > 0).collect(),
            views: write_views(ctx, views)?,
        })
    }
}

/// The results of all points.
struct PointOutcomes {
    /// Their statistics, in the plan's order.
    points: Vec<PointSummary>,
    /// The numbers of all loads of a case together.
    all_loads: Vec<AllLoads>,
    /// The rows of those statistics.
    file: CuratedFile,
    /// The rows of serving points.
    serving: Vec<Row>,
    /// The data for the charts of serving points.
    views: Vec<PointView>,
    /// The numbers of results that become no rows.
    not_finite: NotFinite,
}

/// Adds to the rows of serving points the time that requests spent in the server's queue, from the run's telemetry.
fn with_queue_delays(rows: Vec<Row>, delays: &assay_telemetry::QueueDelays) -> Result<Vec<Row>, Failure> {
    let filled = |row: Row| {
        let text = |column: &str| row.text(column).unwrap_or_default();
        let delay = delays.mean_ns(text("benchmark_case_id"), text("point_id"));
        row.with("queue_delay_ns_mean", delay)
    };
    rows.into_iter().map(filled).collect::<Result<_, _>>().map_err(|error| row_failure(&error))
}

/// The result of one point.
struct ReducedPoint {
    summary: PointSummary,
    rows: Vec<Row>,
    serving: Option<(Row, PointView)>,
}

/// Reduces the points one at a time and writes their rows at once, so that memory holds the outputs of one point and a batch of
/// rows. After the last point of a case come the rows of all its loads together.
fn reduce_points(ctx: &Context, context: &RowContext<'_>, dimensions: &Dimensions) -> Result<PointOutcomes, Failure> {
    let (mut points, mut all_loads) = (Vec::new(), Vec::new());
    let (mut serving, mut views) = (Vec::new(), Vec::new());
    let mut not_finite = NotFinite::default();
    let mut stopped = None;
    let mut reduce = |case: &Case, point: &Point| -> Result<Vec<Row>, Failure> {
        let reduced = reduce_point(ctx, context, dimensions, (case, point), &mut not_finite)?;
        let mut rows = reduced.rows;
        points.push(reduced.summary);
        if let Some((row, view)) = reduced.serving {
            serving.push(row);
            views.push(view);
        }
        let is_last = case.points.last().is_some_and(|last| last.point_id == point.point_id);
        if let Some((loads, more)) = if is_last { all_loads::reduce(context, dimensions, case, &points)? } else { None } {
            all_loads.push(loads);
            rows.extend(more);
        }
        Ok(rows)
    };
    let all = context.plan.cases.iter().flat_map(|case| case.points.iter().map(move |point| (case, point)));
    let rows = all.map_while(|(case, point)| reduce(case, point).map_err(|failure| stopped = Some(failure)).ok());
    let file = write_file(ctx, &OUTCOME_FACT, rows.flatten())?;
    match stopped {
        Some(failure) => Err(failure),
        None => Ok(PointOutcomes { points, all_loads, file, serving, views, not_finite }),
    }
}

fn reduce_point(
    ctx: &Context,
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    (case, point): (&Case, &Point),
    not_finite: &mut NotFinite,
) -> Result<ReducedPoint, Failure> {
    ctx.check_cancelled()?;
    let unknown = || Failure::new(ErrorCode::Plan, format!("the plan has no workload `{}`", case.workload));
    let workload = context.plan.workload(&case.workload).ok_or_else(unknown)?;
    if workload.workload_type == WorkloadType::Serving {
        let open = |artifact: &Artifact| open_records(ctx, artifact);
        let index = workload.serving.as_ref().and_then(|work| work.prompts.dataset());
        let index = index.map(|dataset| read_index(ctx, dataset)).transpose()?;
        let records = RecordSource { open: &open, index, checked: true };
        let reduced = serving::reduce(context, dimensions, (workload, case, point), &records)?;
        let serving = Some((reduced.fact, reduced.view));
        return Ok(ReducedPoint { summary: reduced.summary, rows: reduced.outcomes, serving });
    }
    let trials = context.attempts.for_point(&case.case_id, &point.point_id, |attempt| read_output(ctx, context.plan, attempt))?;
    not_finite.add(&trials);
    let mut summary = aggregate::summarise(workload, case, point, &trials, context.collection_manifest)?;
    let rows = rows::outcome_rows(context, dimensions, &trials, &mut summary)?;
    Ok(ReducedPoint { summary, rows, serving: None })
}

/// Reads the index of a dataset, from which the schedule of its trials follows.
fn read_index(ctx: &Context, dataset: &Dataset) -> Result<Arc<Index>, Failure> {
    let bytes = ctx.get(&dataset.index, Index::MAX_BYTES)?;
    Index::parse(&bytes).map(Arc::new).map_err(|error| Failure::from_error(ErrorCode::Dataset, &error))
}

/// Opens the records behind an artifact. The file stays readable after its name is gone from scratch.
fn open_records(ctx: &Context, artifact: &Artifact) -> Result<RecordFile, Failure> {
    let file = ctx.materialise(artifact)?.open()?;
    RecordFile::open(file).map_err(|error| unreadable_records(artifact, &error))
}

fn unreadable_records(artifact: &Artifact, error: &RecordError) -> Failure {
    Failure::new(ErrorCode::Records, format!("`{}` cannot be read", artifact.name)).because(error)
}

fn write_views(ctx: &Context, points: Vec<PointView>) -> Result<Option<Artifact>, Failure> {
    if points.is_empty() {
        return Ok(None);
    }
    let bytes = canonical_json(&Views { points });
    let bytes = bytes.map_err(|error| Failure::new(ErrorCode::Internal, "the views have no canonical form").because(&error))?;
    ctx.put("views.json", "application/json", &bytes).map(Some)
}

/// Returns the Source's manifest, which the Plan's header names.
fn source_manifest(inputs: &Inputs) -> Result<Option<Digest>, Failure> {
    let plan = inputs.one::<Plan>()?;
    Ok(plan.header.inputs.iter().find(|input| input.kind == Kind::Source).map(|input| input.manifest))
}

fn reference(inputs: &Inputs, kind: Kind) -> Result<InputRef, Failure> {
    inputs.reference(kind).ok_or_else(|| Failure::new(ErrorCode::Internal, format!("reduce was given no {kind}")))
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

/// Returns the problems of the run as a whole.
fn issues(points: &[PointSummary], context: &RowContext<'_>) -> Vec<Reason> {
    let collection = context.collection;
    let counted: u32 = points.iter().map(|point| point.trials_counted).sum();
    let planned: u32 = points.iter().map(|point| point.trials_planned).sum();
    let missing = (counted < planned).then(|| {
        let of = assay_metric::quantity(planned, "planned trial");
        Reason::new("trials_missing", format!("there is no valid attempt at {} of {of}", planned - counted))
    });
    let drift = collection
        .drift
        .iter()
        .map(|drift| Reason::new("drift", format!("`{}` differs between blocks: {}", drift.what, drift.detail)));
    let unrecorded =
        collection.trials.iter().flat_map(|trial| &trial.attempts).filter(|attempt| attempt.counted && !attempt.gaps.is_empty());
    let unrecorded = match unrecorded.count() {
        0 => None,
        count => {
            let attempts = assay_metric::quantity(count as u64, "counted attempt");
            let counted = context.attempts.0.iter().flat_map(|(_, shards)| shards).filter(|shard| shard.collected.counted);
            let windows = counted.map(|shard| (&shard.attempt.window, shard.collected.gaps.as_slice()));
            let gaps = assay_telemetry::describe_gaps(windows);
            Some(Reason::new("recording_gaps", format!("there are gaps in the recording of {attempts}: {gaps}")))
        }
    };
    let counted = || context.attempts.counted();
    let clocks = assay_claim::find_unknown_clocks(counted());
    let environments = context.environments;
    let places = [
        assay_claim::find_moved_load(counted()),
        assay_claim::find_moved_target(counted(), environments),
        assay_claim::find_colocated_load(counted(), environments),
        assay_claim::find_shared_machine(context.plan, counted(), environments),
        assay_claim::find_unpinned_executables(context.plan, counted(), environments),
        assay_claim::find_replaced_executable(counted()),
        assay_claim::find_side_differences(context.plan, counted(), environments),
        assay_claim::find_confounded_sides(context.plan, environments),
        assay_claim::find_unverified_tls(context.plan),
    ];
    let contradicted = assay_claim::find_contradicted_controls(counted(), environments);
    let tokens =
        [assay_claim::find_input_token_difference(points), assay_claim::find_output_token_difference(context.plan, points)];
    let tokens = tokens.into_iter().flatten();
    let resends = resends::issue(counted().map(|counted| counted.attempt));
    let places = places.into_iter().flatten().chain(contradicted);
    missing.into_iter().chain(drift).chain(unrecorded).chain(clocks).chain(resends).chain(places).chain(tokens).collect()
}

fn write_file(ctx: &Context, table: &'static Table, rows: impl IntoIterator<Item = Row>) -> Result<CuratedFile, Failure> {
    let path = ctx.scratch().join(format!("{}.parquet", table.name));
    let unwritable = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(ErrorCode::Scratch, format!("cannot write `{}`", path.display())).because(error)
    };
    let file = std::fs::File::create(&path).map_err(|error| unwritable(&error))?;
    let written = assay_warehouse::write(table, rows, file).map_err(|error| unwritable(&error))?;
    let name = format!("rows/{}.parquet", table.name);
    let artifact: Artifact = ctx.put_file(name, "application/vnd.apache.parquet", &path)?;
    Ok(CuratedFile { table: table.name.to_owned(), rows: Count(written.rows), artifact })
}

/// Wraps a failure of the tables' own rules, which rows made here never break.
pub(crate) fn row_failure(error: &assay_warehouse::Error) -> Failure {
    Failure::from_error(ErrorCode::Internal, error)
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

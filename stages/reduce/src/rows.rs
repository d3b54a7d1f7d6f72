//! The curated rows of a run. Pure: the same statistics give the same rows.

use std::collections::BTreeMap;

use assay_manifest::{
    Attempt, BetterDirection, Case, Collection, Digest, Environment, FrozenWorkload, IntervalKind, Kind, Metric, MetricSummary,
    NumberPlace, Plan, PointSummary, Reason, Recording, RunId, RunStatus, Stability, TrialId,
};
use assay_stage::{ErrorCode, Failure};
use assay_stats::estimate;
use assay_warehouse::{BENCHMARK_RUN_FACT, OUTCOME_FACT, Row, Table, Value};

use crate::aggregate::{ReportedMetric, metrics, unset_row};
use crate::attempts::with_place;
use crate::dimensions::{Dimensions, cluster_kind};
use crate::evidence::{Attempts, Evidence, ShardAttempt, Trial, samples};
use crate::row_failure;

/// The content of rows besides statistics.
pub(crate) struct RowContext<'a> {
    pub(crate) run_id: &'a RunId,
    pub(crate) plan: &'a Plan,
    pub(crate) plan_digest: Digest,
    pub(crate) plan_manifest: Digest,
    /// The Source's manifest, as the Plan names it.
    pub(crate) source_manifest: Option<Digest>,
    /// The kind of each verified input, and the fingerprint of the key that signed it.
    pub(crate) signers: Vec<(Kind, Digest)>,
    pub(crate) collection: &'a Collection,
    pub(crate) collection_manifest: Digest,
    pub(crate) environments: &'a [&'a Environment],
    pub(crate) environment_manifests: Vec<Digest>,
    pub(crate) attempts: &'a Attempts,
    pub(crate) recordings: &'a [Recording],
    pub(crate) reduce_binary: Digest,
}

/// The findings about the run as a whole.
pub(crate) struct Findings {
    pub(crate) publication_safe: bool,
    pub(crate) issues: Vec<Reason>,
}

/// Returns the outcome rows of one point, and sets in the point the ids of the rows that hold its statistics.
pub(crate) fn outcome_rows(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    trials: &[Trial<'_>],
    point: &mut PointSummary,
) -> Result<Vec<Row>, Failure> {
    let mut rows = trial_rows(context, dimensions, trials, point)?;
    rows.extend(point_rows(context, dimensions, point)?);
    let mut values = point.metrics.iter().flat_map(|metric| &metric.trials);
    match values.find(|value| value.row_id == unset_row()) {
        Some(value) => Err(Failure::new(ErrorCode::Internal, format!("a value of trial `{}` got no row", value.trial_id))),
        None => Ok(rows),
    }
}

/// Returns a row with the columns that every fact of a case has.
pub(crate) fn fact<'a>(
    table: &'static Table,
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    place: impl Into<NumberPlace<'a>>,
) -> assay_warehouse::Result<Row> {
    let place = place.into();
    let keys = dimensions.target_keys(context.plan, place.case_id);
    Row::new(table)
        .with("run_id", context.run_id.as_str())?
        .with("benchmark_case_id", place.case_id.as_str())?
        .with("workload_spec_digest", place.workload_spec_digest)?
        .with("artifact_manifest_digest", context.collection_manifest)?
        .with("software_version_key", keys.map(|keys| keys.software.as_str()))?
        .with("hardware_topology_key", keys.map(|keys| keys.hardware.as_str()))?
        .with("cluster_region_key", keys.map(|keys| keys.cluster.as_str()))?
        .with("workload_key", place.workload_spec_digest.hex())?
        .with("artifact_lineage_key", dimensions.lineage_id(&place.workload_spec_digest))
}

/// The statistic of a row that holds a trial's value: the metric's name says which statistic it is.
const VALUE: &str = "value";

/// One statistic of one metric.
pub(crate) struct Outcome<'a> {
    /// The shards' parts of the attempt of this statistic; none for a statistic across trials.
    pub(crate) shards: &'a [&'a ShardAttempt],
    /// The trial of all loads together, of which no attempt is named.
    pub(crate) trial_of_loads: Option<&'a TrialId>,
    pub(crate) metric: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) better: Option<BetterDirection>,
    pub(crate) primary: bool,
    pub(crate) statistic: &'a str,
    pub(crate) value: f64,
    pub(crate) n: u64,
    pub(crate) valid: bool,
    /// The kind of the interval whose end it is.
    pub(crate) interval: Option<IntervalKind>,
}

pub(crate) fn outcome<'a>(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    place: impl Into<NumberPlace<'a>>,
    outcome: &Outcome<'_>,
) -> Result<Row, Failure> {
    let place = place.into();
    let attempt = outcome.shards.first().map(|shard| &shard.attempt);
    let trial = attempt.map(|attempt| &attempt.trial_id).or(outcome.trial_of_loads);
    let build = || {
        let row = fact(&OUTCOME_FACT, context, dimensions, place)?;
        with_place(row, outcome.shards.iter().map(|shard| shard.attempt.place.as_ref()))?
            .with("point_id", place.point_id.as_str())?
            .with("trial_id", trial.map(TrialId::as_str))?
            .with("attempt", attempt.map(|attempt| attempt.attempt))?
            .with("metric", outcome.metric)?
            .with("statistic", outcome.statistic)?
            .with("value", outcome.value)?
            .with("unit", outcome.unit)?
            .with("n", i64::try_from(outcome.n).unwrap_or(i64::MAX))?
            .with("valid", outcome.valid)?
            .with("better", outcome.better.map(BetterDirection::as_str))?
            .with("primary", outcome.primary)?
            .with("interval_kind", outcome.interval.map(IntervalKind::as_str))?
            .seal()
    };
    build().map_err(|error| row_failure(&error))
}

/// Returns the id of a sealed row, as a digest.
pub(crate) fn row_digest(row: &Row) -> Result<Digest, Failure> {
    let text = row.text(assay_warehouse::ROW_ID).unwrap_or_default();
    Digest::from_hex(text).map_err(|error| Failure::new(ErrorCode::Internal, "a row has no id").because(&error))
}

/// Returns the rows of single attempts: those that count, and those that do not, marked so.
fn trial_rows(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    trials: &[Trial<'_>],
    point: &mut PointSummary,
) -> Result<Vec<Row>, Failure> {
    let all: Vec<&Evidence<'_>> = trials.iter().flatten().collect();
    let reported = metrics(point_metrics(context, point), &all);
    let mut rows = Vec::new();
    for evidence in all {
        for metric in &reported {
            rows.extend(attempt_rows(context, dimensions, point, evidence, metric)?);
        }
    }
    Ok(rows)
}

fn point_metrics<'a>(context: &RowContext<'a>, point: &PointSummary) -> &'a [Metric] {
    let case = context.plan.case(&point.case_id);
    case.and_then(|case| context.plan.workload(&case.workload)).map_or(&[], |workload| workload.metrics.as_slice())
}

fn attempt_rows(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    point: &mut PointSummary,
    evidence: &Evidence<'_>,
    metric: &ReportedMetric,
) -> Result<Vec<Row>, Failure> {
    let Some(samples) = evidence.output.as_ref().and_then(|output| samples(output, &metric.path)) else { return Ok(Vec::new()) };
    // A value that cannot be summarised stays in the raw evidence; a counted value of a declared metric never gets here.
    let Ok(within) = estimate(samples, [0; 32]) else { return Ok(Vec::new()) };
    let mut statistics = vec![("median", within.median)];
    if within.n > 1 {
        statistics.extend([("mean", within.mean), ("min", within.min), ("max", within.max)]);
        statistics.extend(within.sd.map(|sd| ("sd", sd)));
    }
    let attempt = &evidence.shard.attempt;
    let mut rows = Vec::new();
    for (statistic, value) in statistics {
        let row = outcome(
            context,
            dimensions,
            &*point,
            &Outcome {
                shards: &[evidence.shard],
                trial_of_loads: None,
                metric: &metric.path,
                unit: &metric.unit,
                better: metric.better,
                primary: metric.primary,
                statistic,
                value,
                n: within.n as u64,
                valid: evidence.counts(),
                interval: None,
            },
        )?;
        // An attempt of another incarnation of the block may have the number of the one that counts.
        if statistic == "median" && evidence.counts() {
            note_trial_row(point, metric, attempt, row_digest(&row)?);
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Notes in the Summary the id of the row that holds a trial's value.
fn note_trial_row(point: &mut PointSummary, metric: &ReportedMetric, attempt: &Attempt, row_id: Digest) {
    let summary = point.metrics.iter_mut().find(|summary| summary.metric == metric.path);
    let trials = summary.into_iter().flat_map(|summary| &mut summary.trials);
    for trial in trials.filter(|trial| trial.trial_id == attempt.trial_id && trial.attempt == attempt.attempt) {
        trial.row_id = row_id;
    }
}

/// Returns the rows of the values of a metric in each trial, and sets in each value the id of its row. `shards_of` returns the shards' parts of the
/// attempt of a trial; none for a trial of all loads.
pub(crate) fn value_rows<'a>(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    place: NumberPlace<'_>,
    metric: &mut MetricSummary,
    shards_of: impl Fn(&TrialId) -> &'a [&'a ShardAttempt],
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for trial in &mut metric.trials {
        let row = outcome(
            context,
            dimensions,
            place,
            &Outcome {
                shards: shards_of(&trial.trial_id),
                trial_of_loads: Some(&trial.trial_id),
                metric: &metric.metric,
                unit: &metric.unit,
                better: metric.better,
                primary: metric.primary,
                statistic: VALUE,
                value: trial.value,
                n: trial.n.0,
                valid: true,
                interval: None,
            },
        )?;
        trial.row_id = row_digest(&row)?;
        rows.push(row);
    }
    Ok(rows)
}

/// Returns the rows of statistics across the counted trials of a point.
pub(crate) fn point_rows(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    point: &mut PointSummary,
) -> Result<Vec<Row>, Failure> {
    let mut metrics = std::mem::take(&mut point.metrics);
    let rows = across_rows(context, dimensions, NumberPlace::from(&*point), &mut metrics);
    point.metrics = metrics;
    rows
}

/// Returns the rows of the statistics of metrics across trials, and sets in each the ids of its rows.
pub(crate) fn across_rows(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    place: NumberPlace<'_>,
    metrics: &mut [MetricSummary],
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for summary in metrics {
        let mut ids = BTreeMap::new();
        for (statistic, value) in summary.statistics() {
            let row = outcome(
                context,
                dimensions,
                place,
                &Outcome {
                    shards: &[],
                    trial_of_loads: None,
                    metric: &summary.metric,
                    unit: if statistic == "cv" { "ratio" } else { &summary.unit },
                    better: summary.better,
                    primary: summary.primary,
                    statistic,
                    value,
                    n: summary.n.0,
                    valid: true,
                    interval: summary.interval_kind_of(statistic),
                },
            )?;
            ids.insert(statistic.to_owned(), row_digest(&row)?);
            rows.push(row);
        }
        summary.rows = ids;
    }
    Ok(rows)
}

/// Returns one row for each case.
pub(crate) fn run_rows(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    points: &[PointSummary],
    findings: &Findings,
) -> Result<Vec<Row>, Failure> {
    let row = |case: &Case| {
        let of_case: Vec<_> = points.iter().filter(|point| point.case_id == case.case_id).collect();
        let empty = || Failure::new(ErrorCode::Plan, format!("the case `{}` has no point", case.case_id));
        let first = of_case.first().ok_or_else(empty)?;
        run_row(context, dimensions, first, &of_case, findings).map_err(|error| row_failure(&error))
    };
    context.plan.cases.iter().map(row).collect()
}

fn run_row(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    first: &PointSummary,
    points: &[&PointSummary],
    findings: &Findings,
) -> assay_warehouse::Result<Row> {
    let plan = context.plan;
    let sum = |of: fn(&PointSummary) -> u32| points.iter().map(|point| of(point)).sum::<u32>();
    let (planned, counted) = (sum(|point| point.trials_planned), sum(|point| point.trials_counted));
    let of_case = context.attempts.0.iter().filter(|(trial, _)| trial.case_id == first.case_id);
    let windows: Vec<_> = of_case.flat_map(|(_, shards)| shards.iter().map(|shard| shard.attempt.window)).collect();
    let side = |side: &assay_manifest::Side| format!("{}.{}", side.target, side.variant);
    let (stable, reason) = stable(points);
    let workload = plan.case(&first.case_id).and_then(|case| plan.workload(&case.workload));
    let label = |name: &str| {
        let own = workload.and_then(|workload: &FrozenWorkload| workload.labels.get(name));
        own.or(plan.pipeline.labels.get(name)).map(String::as_str)
    };
    fact(&BENCHMARK_RUN_FACT, context, dimensions, first)?
        .with("benchmark_class", plan.intent.as_str())?
        .with("workload_type", first.workload_type.as_str())?
        .with("pipeline", plan.pipeline.name.as_str())?
        .with("pipeline_digest", plan.pipeline.digest)?
        .with("plan_digest", context.plan_digest)?
        .with("scheduler_path", cluster_kind(context.environments.first().copied()))?
        .with("cadence", plan.pipeline.labels.get("cadence").map(String::as_str))?
        .with("layer", label("layer"))?
        .with("use_case", label("use_case"))?
        .with("owner", workload.and_then(|workload| workload.owner.as_deref()).or(plan.pipeline.owner.as_deref()))?
        .with("variable_under_test", plan.comparison.as_ref().map(|comparison| comparison.variable_under_test.as_str()))?
        .with("baseline_ref", plan.comparison.as_ref().map(|comparison| side(&comparison.baseline)))?
        .with("candidate_ref", plan.comparison.as_ref().map(|comparison| side(&comparison.candidate)))?
        .with("status", case_status(planned, counted).as_str())?
        .with("success", planned == counted)?
        .with("completeness", f64::from(counted) / f64::from(planned.max(1)))?
        .with("issues", Value::from_reasons(&findings.issues))?
        .with("started_unix_ns", windows.iter().map(|window| window.start).min())?
        .with("finished_unix_ns", windows.iter().map(|window| window.end).max())?
        .with("source_kind", plan.source.kind.as_str())?
        .with("git_repository", plan.source.repository.as_deref())?
        .with("git_commit", plan.source.commit.as_deref())?
        .with("git_dirty", plan.source.dirty)?
        .with("trials_planned", planned)?
        .with("trials_counted", counted)?
        .with("attempts", sum(|point| point.attempts))?
        .with("isolation", plan.isolation.as_str())?
        .with("placement", plan.placement.as_str())?
        .with("confidence_level", assay_stats::CONFIDENCE_LEVEL)?
        .with("outlier_method", "mad")?
        .with("outlier_action", "flag_and_keep")?
        .with("stable", stable)?
        .with("instability_reason", reason)?
        .with("representative", plan.claim.as_ref().map(|claim| claim.representative))?
        .with("publication_safe", findings.publication_safe)?
        .seal()
}

fn case_status(planned: u32, counted: u32) -> RunStatus {
    match counted {
        0 => RunStatus::Failed,
        counted if counted < planned => RunStatus::Partial,
        _ => RunStatus::Succeeded,
    }
}

/// Returns whether the primary metrics are stable; `None` if that is not known of one of them.
fn stable(points: &[&PointSummary]) -> (Option<bool>, Option<String>) {
    let primary: Vec<&MetricSummary> = points.iter().flat_map(|point| &point.metrics).filter(|metric| metric.primary).collect();
    if let Some(unstable) = primary.iter().find(|metric| metric.stability == Stability::Unstable) {
        return (Some(false), Some(format!("{}: {}", unstable.metric, unstable.stability_reason)));
    }
    match primary.iter().find(|metric| metric.stability == Stability::Unknown) {
        Some(unknown) => (None, Some(format!("{}: {}", unknown.metric, unknown.stability_reason))),
        None if primary.is_empty() => (None, None),
        None => (Some(true), None),
    }
}

#[cfg(test)]
mod tests;

//! The numbers of all loads of a case together: the most load within the SLOs, from the numbers of its points.

use assay_manifest::{ALL_LOADS, AllLoads, BetterDirection, Case, Count, MAX_LOAD, MetricSummary, PointSummary, TrialValue};
use assay_search::{CaseLoads, case_loads};
use assay_stage::{ErrorCode, Failure};
use assay_warehouse::Row;

use crate::aggregate::{ReportedMetric, seed, summarise_trials, unset_row};
use crate::dimensions::Dimensions;
use crate::rows::{RowContext, across_rows, value_rows};

/// Returns what the reduced points of a case say together, with its rows of `outcome_fact`. `None` if the workload has no SLOs, or if its points are
/// not several loads of one kind.
pub(crate) fn reduce(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    case: &Case,
    points: &[PointSummary],
) -> Result<Option<(AllLoads, Vec<Row>)>, Failure> {
    let Some(workload) = context.plan.workload(&case.workload) else { return Ok(None) };
    let of_case: Vec<&PointSummary> = points.iter().filter(|point| point.case_id == case.case_id).collect();
    let found = workload.serving.as_ref().and_then(|work| case_loads(work, &of_case));
    let Some(found) = found else { return Ok(None) };
    let unnamed = |error| Failure::new(ErrorCode::Internal, "all loads of a case have no name").because(&error);
    let mut loads = AllLoads {
        case_id: case.case_id.clone(),
        point_id: ALL_LOADS.parse().map_err(unnamed)?,
        workload_spec_digest: workload.workload_spec_digest,
        load: found.kind,
        unit: found.unit().to_owned(),
        crossings: found.crossings(),
        bracket: found.bracket(),
        metrics: Vec::new(),
    };
    let mut metrics: Vec<MetricSummary> = summarise(context, &loads, &found)?.into_iter().collect();
    let mut rows = Vec::new();
    for metric in &mut metrics {
        rows.extend(value_rows(context, dimensions, (&loads).into(), metric, |_| &[])?);
    }
    rows.extend(across_rows(context, dimensions, (&loads).into(), &mut metrics)?);
    loads.metrics = metrics;
    Ok(Some((loads, rows)))
}

/// Returns the most load within the SLOs across trials; `None` unless every trial has a number.
fn summarise(context: &RowContext<'_>, loads: &AllLoads, found: &CaseLoads) -> Result<Option<MetricSummary>, Failure> {
    let value = |(trial, value): (&assay_search::CaseTrial, f64)| TrialValue {
        trial_id: loads.trial_id(trial.index),
        attempt: 0,
        value,
        n: Count(trial.requests),
        flagged: false,
        row_id: unset_row(),
    };
    let trials: Vec<TrialValue> = found.values().into_iter().map(value).collect();
    if trials.is_empty() {
        return Ok(None);
    }
    let metric = ReportedMetric {
        path: MAX_LOAD.to_owned(),
        unit: found.unit().to_owned(),
        better: Some(BetterDirection::Higher),
        primary: false,
    };
    let seed = seed(context.collection_manifest, &loads.case_id, &loads.point_id, MAX_LOAD);
    summarise_trials(&metric, trials, seed).map(Some)
}

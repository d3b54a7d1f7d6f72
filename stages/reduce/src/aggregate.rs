//! Statistics: per trial over its samples, per point over its trials. Pure.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{
    Case, Count, Digest, Exclusion, Interval, Metric, MetricSummary, Plan, Point, PointSummary, Stability, TrialValue,
};
use assay_stage::Failure;
use assay_stats::{DEFAULT_NOISE_LIMIT, Samples, Verdict, estimate, stability};

use crate::evidence::{Attempts, Evidence, numeric_paths, samples};

/// What an undeclared value is measured in.
pub(crate) const UNKNOWN_UNIT: &str = "unknown";

/// The statistics of every point, in the plan's order. Row ids are filled in when the rows are made.
pub(crate) fn points(plan: &Plan, attempts: &Attempts, collection: Digest) -> Result<Vec<PointSummary>, Failure> {
    let points = plan.cases.iter().flat_map(|case| case.points.iter().map(move |point| (case, point)));
    points.map(|(case, point)| summarise(plan, attempts, collection, case, point)).collect()
}

fn summarise(plan: &Plan, attempts: &Attempts, collection: Digest, case: &Case, point: &Point) -> Result<PointSummary, Failure> {
    let workload = plan
        .workload(&case.workload)
        .ok_or_else(|| Failure::verification("plan", format!("the plan has no workload `{}`", case.workload)))?;
    let trials: Vec<_> = attempts.of_point(&case.case_id, &point.point_id).collect();
    let counted: Vec<&Evidence> =
        trials.iter().filter_map(|(_, attempts)| attempts.iter().find(|found| found.collected.counted)).collect();
    let excluded = trials.iter().flat_map(|(_, attempts)| attempts).filter(|found| !found.collected.counted);
    Ok(PointSummary {
        case_id: case.case_id.clone(),
        point_id: point.point_id.clone(),
        workload_type: workload.workload_type,
        workload_spec_digest: workload.workload_spec_digest,
        value: point.value.clone(),
        trials_planned: trials.len() as u32,
        trials_counted: counted.len() as u32,
        attempts: trials.iter().map(|(_, attempts)| attempts.len() as u32).sum(),
        excluded: excluded.map(exclusion).collect(),
        metrics: metrics(&workload.metrics, &counted)
            .into_iter()
            .filter_map(|metric| summarise_metric(&metric, &counted, seed(collection, case, point, &metric.path)).transpose())
            .collect::<Result<_, _>>()?,
    })
}

fn exclusion(found: &Evidence) -> Exclusion {
    let attempt = &found.attempt;
    Exclusion { trial_id: attempt.trial_id.clone(), attempt: attempt.attempt, reasons: attempt.validity.reasons.clone() }
}

/// A metric that is reported: declared in the workload, or found in the results.
pub(crate) struct Reported {
    pub(crate) path: String,
    pub(crate) unit: String,
    pub(crate) declared: Option<Metric>,
}

/// The declared metrics in their order, then whatever else is numeric, sorted: kept raw, of unknown unit, never gated.
pub(crate) fn metrics(declared: &[Metric], counted: &[&Evidence]) -> Vec<Reported> {
    let known: BTreeSet<&str> = declared.iter().map(|metric| metric.path.as_str()).collect();
    let outputs = counted.iter().filter_map(|found| found.output.as_ref());
    let others: BTreeSet<&str> = outputs.flat_map(numeric_paths).filter(|path| !known.contains(path)).collect();
    let declared = declared.iter().map(|metric| Reported {
        path: metric.path.clone(),
        unit: metric.unit.clone(),
        declared: Some(metric.clone()),
    });
    let others = others.into_iter().map(|path| Reported { path: path.to_owned(), unit: UNKNOWN_UNIT.to_owned(), declared: None });
    declared.chain(others).collect()
}

/// The seed of a metric's resampling: from what is measured, never from the run's name or time.
fn seed(collection: Digest, case: &Case, point: &Point, metric: &str) -> [u8; 32] {
    let text = format!("assay.dev/v1alpha1 bootstrap {collection} {} {} {metric}", case.case_id, point.point_id);
    *Digest::of(text.as_bytes()).as_bytes()
}

/// A metric across trials: each trial counts once, by the median of its samples. Absent where no counted trial has it.
fn summarise_metric(metric: &Reported, counted: &[&Evidence], seed: [u8; 32]) -> Result<Option<MetricSummary>, Failure> {
    let mut values = Vec::new();
    let mut trials = Vec::new();
    for found in counted {
        let Some(samples) = found.output.as_ref().and_then(|output| samples(output, &metric.path)) else { continue };
        let value = estimate(samples, seed).map_err(|error| unusable(metric, found, &error))?.median;
        values.push(value);
        trials.push(TrialValue {
            trial_id: found.attempt.trial_id.clone(),
            attempt: found.attempt.attempt,
            value,
            n: Count(samples.len() as u64),
            flagged: false,
            row_id: Digest::of(b""),
        });
    }
    if values.is_empty() {
        return Ok(None);
    }
    let sorted = |error| Failure::unexpected("samples", format!("`{}` cannot be summarised", metric.path)).because(&error);
    let across = estimate(&values, seed).map_err(sorted)?;
    for flagged in &across.flagged {
        trials[*flagged].flagged = true;
    }
    let verdict = stability(&Samples::new(&values).map_err(sorted)?, DEFAULT_NOISE_LIMIT);
    let (interval, interval_absent) = match across.interval {
        Ok(interval) => {
            let method = interval.method.name().to_owned();
            (Some(Interval { low: interval.low, high: interval.high, level: interval.level, method }), None)
        }
        Err(why) => (None, Some(why.to_string())),
    };
    Ok(Some(MetricSummary {
        metric: metric.path.clone(),
        unit: metric.unit.clone(),
        better: metric.declared.as_ref().map(|declared| declared.better),
        primary: metric.declared.as_ref().is_some_and(|declared| declared.primary),
        n: Count(across.n as u64),
        median: across.median,
        mean: across.mean,
        sd: across.sd,
        cv: across.cv,
        min: across.min,
        max: across.max,
        interval,
        interval_absent,
        stability: match verdict.verdict {
            Verdict::Stable => Stability::Stable,
            Verdict::Unstable => Stability::Unstable,
            Verdict::Unknown => Stability::Unknown,
        },
        stability_reason: verdict.reason(),
        rows: BTreeMap::new(),
        trials,
    }))
}

fn unusable(metric: &Reported, found: &Evidence, error: &assay_stats::SampleError) -> Failure {
    let attempt = &found.attempt;
    Failure::definition("samples", format!("`{}` of trial `{}` cannot be summarised", metric.path, attempt.trial_id))
        .because(error)
}

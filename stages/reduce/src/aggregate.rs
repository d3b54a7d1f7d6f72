//! Statistics: per trial over its samples, per point over its trials. Pure.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{
    BetterDirection, Case, CaseId, Count, Digest, Exclusion, FrozenWorkload, Interval, IntervalKind, Metric, MetricSummary,
    Point, PointId, PointSummary, Stability, TrialValue,
};
use assay_stage::{ErrorCode, Failure};
use assay_stats::{DEFAULT_NOISE_LIMIT, Estimate, Samples, Verdict, estimate, stability};
use assay_telemetry::{MetricKind, unit_by_name};

use crate::evidence::{Evidence, Trial, numeric_paths, samples};

/// Returns the statistics of one point over its trials. Row ids are filled in when the rows are made.
pub(crate) fn summarise(
    workload: &FrozenWorkload,
    case: &Case,
    point: &Point,
    trials: &[Trial<'_>],
    collection: Digest,
) -> Result<PointSummary, Failure> {
    let counted: Vec<&Evidence<'_>> =
        trials.iter().filter_map(|attempts| attempts.iter().find(|evidence| evidence.counts())).collect();
    let excluded = trials.iter().flatten().filter(|evidence| !evidence.counts());
    let metrics = metrics(&workload.metrics, &counted).into_iter().filter_map(|metric| {
        summarise_metric(&metric, &counted, seed(collection, &case.case_id, &point.point_id, &metric.path)).transpose()
    });
    Ok(PointSummary {
        excluded: excluded.map(exclusion).collect(),
        metrics: metrics.collect::<Result<_, _>>()?,
        ..summarise_counts(workload, case, point, trials, counted.len())
    })
}

/// Returns a point with its counts of trials and attempts only, without results: the attempts of each planned trial, and the
/// trials that count.
pub(crate) fn summarise_counts<T>(
    workload: &FrozenWorkload,
    case: &Case,
    point: &Point,
    trials: &[Vec<T>],
    counted: usize,
) -> PointSummary {
    PointSummary {
        case_id: case.case_id.clone(),
        point_id: point.point_id.clone(),
        workload_type: workload.workload_type,
        workload_spec_digest: workload.workload_spec_digest,
        value: point.value.clone(),
        trials_planned: trials.len() as u32,
        trials_counted: counted as u32,
        attempts: trials.iter().map(|attempts| attempts.len() as u32).sum(),
        excluded: Vec::new(),
        serving: None,
        metrics: Vec::new(),
    }
}

fn exclusion(evidence: &Evidence<'_>) -> Exclusion {
    let attempt = &evidence.shard.attempt;
    Exclusion { trial_id: attempt.trial_id.clone(), attempt: attempt.attempt, reasons: attempt.validity.reasons.clone() }
}

/// A metric that is reported: declared in the workload, or found in the results.
pub(crate) struct ReportedMetric {
    pub(crate) path: String,
    pub(crate) unit: String,
    pub(crate) better: Option<BetterDirection>,
    pub(crate) primary: bool,
}

impl ReportedMetric {
    fn from_declaration(metric: &Metric) -> Self {
        Self { path: metric.path.clone(), unit: metric.unit.clone(), better: Some(metric.better), primary: metric.primary }
    }

    fn from_path(path: &str) -> Self {
        Self { path: path.to_owned(), unit: unit_by_name(path, MetricKind::Gauge), better: None, primary: false }
    }

    fn is_declared(&self) -> bool {
        self.better.is_some()
    }
}

/// Returns the declared metrics in their order, then every other numeric value, sorted: kept raw, with the unit that its name states, never
/// gated.
pub(crate) fn metrics(declared: &[Metric], evidence: &[&Evidence<'_>]) -> Vec<ReportedMetric> {
    let declared_paths: BTreeSet<&str> = declared.iter().map(|metric| metric.path.as_str()).collect();
    let outputs = evidence.iter().filter_map(|evidence| evidence.output.as_ref());
    let others: BTreeSet<&str> = outputs.flat_map(numeric_paths).filter(|path| !declared_paths.contains(path)).collect();
    let others = others.into_iter().map(ReportedMetric::from_path);
    declared.iter().map(ReportedMetric::from_declaration).chain(others).collect()
}

/// Returns the seed of a metric's resampling. It derives from the identity of the measurement, never from the run's name or time.
pub(crate) fn seed(collection: Digest, case: &CaseId, point: &PointId, metric: &str) -> [u8; 32] {
    let text = format!("assay.dev/v1alpha1 bootstrap {collection} {case} {point} {metric}");
    *Digest::compute(text.as_bytes()).as_bytes()
}

/// Summarises a metric across trials: each trial counts once, by the median of its samples. `None` if no counted trial has it.
fn summarise_metric(
    metric: &ReportedMetric,
    counted: &[&Evidence<'_>],
    seed: [u8; 32],
) -> Result<Option<MetricSummary>, Failure> {
    let mut trials = Vec::new();
    for evidence in counted {
        trials.extend(trial_value(metric, evidence, seed)?);
    }
    if trials.is_empty() { Ok(None) } else { summarise_trials(metric, trials, seed).map(Some) }
}

/// Summarises the values of a metric's trials, of which there is at least one.
pub(crate) fn summarise_trials(
    metric: &ReportedMetric,
    mut trials: Vec<TrialValue>,
    seed: [u8; 32],
) -> Result<MetricSummary, Failure> {
    let values: Vec<f64> = trials.iter().map(|trial| trial.value).collect();
    let unusable = |error| Failure::new(ErrorCode::Internal, format!("`{}` cannot be summarised", metric.path)).because(&error);
    let across = estimate(&values, seed).map_err(unusable)?;
    let verdict = stability(&Samples::new(&values).map_err(unusable)?, DEFAULT_NOISE_LIMIT);
    for (index, trial) in trials.iter_mut().enumerate() {
        trial.flagged = across.flagged.contains(&index);
    }
    Ok(metric_summary(metric, &across, &verdict, trials))
}

/// Returns the median of a trial's samples, or `None` if the trial does not have the metric.
fn trial_value(metric: &ReportedMetric, evidence: &Evidence<'_>, seed: [u8; 32]) -> Result<Option<TrialValue>, Failure> {
    let Some(samples) = evidence.output.as_ref().and_then(|output| samples(output, &metric.path)) else { return Ok(None) };
    let within = match (estimate(samples, seed), metric.is_declared()) {
        (Ok(within), _) => within,
        (Err(error), true) => return Err(unusable(metric, evidence, &error)),
        // The metric is not declared: it stays in the raw evidence.
        (Err(_), false) => return Ok(None),
    };
    let attempt = &evidence.shard.attempt;
    Ok(Some(TrialValue {
        trial_id: attempt.trial_id.clone(),
        attempt: attempt.attempt,
        value: within.median,
        n: Count(samples.len() as u64),
        flagged: false,
        row_id: unset_row(),
    }))
}

/// Returns a placeholder for a row's id until the row is made.
pub(crate) fn unset_row() -> Digest {
    Digest::compute(b"")
}

fn metric_summary(
    metric: &ReportedMetric,
    across: &Estimate,
    verdict: &assay_stats::Stability,
    trials: Vec<TrialValue>,
) -> MetricSummary {
    let (interval, interval_absent) = match across.interval {
        Ok(interval) => {
            let method = interval.method.name().to_owned();
            let kind = IntervalKind::BetweenTrials;
            (Some(Interval { low: interval.low, high: interval.high, level: interval.level, method, kind, sessions: None }), None)
        }
        Err(why) => (None, Some(why.to_string())),
    };
    MetricSummary {
        metric: metric.path.clone(),
        unit: metric.unit.clone(),
        better: metric.better,
        primary: metric.primary,
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
    }
}

fn unusable(metric: &ReportedMetric, evidence: &Evidence<'_>, error: &assay_stats::SampleError) -> Failure {
    let attempt = &evidence.shard.attempt;
    Failure::new(ErrorCode::Samples, format!("`{}` of trial `{}` cannot be summarised", metric.path, attempt.trial_id))
        .because(error)
}

#[cfg(test)]
mod tests;

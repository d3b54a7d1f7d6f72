//! What became of an indicator's attempt, decided from what it left: pure, so that every verdict can be tested.

use assay_indicator::{Malformed, Output, Value};
use assay_manifest::{AttemptStatus, HostState, Metric, Reason};
use assay_process::{Ended, Status};

/// The share of a trial's time that its control group may be throttled before the attempt no longer counts: beyond it the
/// scheduler, and not the target, decides the result.
const MAX_THROTTLED_SHARE: f64 = 0.05;

/// What an attempt left.
pub(crate) struct Left<'a> {
    pub(crate) ended: &'a Ended,
    pub(crate) output: &'a Result<Output, Malformed>,
    pub(crate) metrics: &'a [Metric],
    pub(crate) before: &'a HostState,
    pub(crate) after: &'a HostState,
}

/// The status of the attempt, and everything that speaks against counting it.
pub(crate) fn judge(left: &Left<'_>) -> (AttemptStatus, Vec<Reason>) {
    let status = status(left.ended, left.output);
    let mut reasons = Vec::new();
    match status {
        AttemptStatus::Cancelled => reasons.push(Reason::new("cancelled", "the run was stopped in the middle of the attempt")),
        AttemptStatus::TimedOut => reasons.push(Reason::new("time_limit", "the script ran into its time limit and was stopped")),
        AttemptStatus::Failed => reasons.push(Reason::new("exit_code", format!("the script ended with {}", left.ended.status))),
        _ => {}
    }
    match left.output {
        Ok(output) => reasons.extend(left.metrics.iter().filter_map(|metric| missing(metric, output))),
        Err(malformed) if status == AttemptStatus::Malformed => {
            reasons.push(Reason::new(&format!("malformed_{}", malformed.code()), malformed.to_string()));
        }
        Err(_) => {}
    }
    reasons.extend(throttled(left));
    (status, reasons)
}

fn status(ended: &Ended, output: &Result<Output, Malformed>) -> AttemptStatus {
    match (ended, output) {
        (Ended { cancelled: true, .. }, _) => AttemptStatus::Cancelled,
        (Ended { timed_out: true, .. }, _) => AttemptStatus::TimedOut,
        (Ended { status: Status::Exited(0), .. }, Ok(_)) => AttemptStatus::Completed,
        (Ended { status: Status::Exited(0), .. }, Err(_)) => AttemptStatus::Malformed,
        _ => AttemptStatus::Failed,
    }
}

/// A declared metric that the result does not give as a number.
fn missing(metric: &Metric, output: &Output) -> Option<Reason> {
    let path = &metric.path;
    if output.not_finite.iter().any(|spoiled| spoiled == path || spoiled.starts_with(&format!("{path}."))) {
        return Some(Reason::new("metric_not_finite", format!("the metric `{path}` is not a finite number")));
    }
    match output.result.iter().find(|(name, _)| name == path) {
        Some((_, Value::Number(_))) => None,
        Some((_, Value::Samples(samples))) if !samples.is_empty() => None,
        Some(_) => {
            Some(Reason::new("metric_not_a_number", format!("the metric `{path}` is neither a number nor a list of numbers")))
        }
        None => Some(Reason::new("metric_absent", format!("the result has no metric `{path}`"))),
    }
}

fn throttled(left: &Left<'_>) -> Option<Reason> {
    let throttled_us = left.after.cgroup_throttled_us?.0.saturating_sub(left.before.cgroup_throttled_us?.0);
    let share = throttled_us as f64 * 1000.0 / (left.ended.wall_ns.max(1)) as f64;
    (share > MAX_THROTTLED_SHARE).then(|| {
        Reason::new("cpu_throttled", format!("the control group was throttled for {:.0} % of the attempt", share * 100.0))
    })
}

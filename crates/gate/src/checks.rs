//! Rules that a single run can break, without statistics: validity, SLOs, errors, output lengths.

use assay_manifest::{
    Check, Comparison, Difference, Exclusion, GatePolicy, OriginKind, PointSummary, Reason, RunStatus, ServingPoint, Side,
    Summary,
};
use assay_schedule::draw_seed;

use crate::evidence::{ONE_TRIAL, Run, WITHIN_RUN};
use crate::input::{GateInput, acknowledge_check, percent};

/// The metric whose drift is checked: shorter responses are not faster ones.
const OUTPUT_LENGTH: &str = "osl_tokens_mean";

/// The name of the check of attempts that failed by themselves.
const ATTEMPTS: &str = "attempts";

/// The name of the check of the order of the sides.
pub(crate) const ORDER: &str = "order";

/// The share of requests that met their SLOs: the metric that an acknowledgement of a missed SLO names.
const GOOD_FRACTION: &str = "good_fraction";

/// Returns all checks of a run.
pub(crate) fn checks(run: &Run<'_>, comparison: &Comparison, question: &GateInput<'_>) -> Vec<Check> {
    let policy = &question.policy;
    let mut checks = vec![check_validity(run), check_order(run)];
    checks.extend(check_provenance(run, policy));
    checks.extend(crate::executables::checks(run, comparison));
    for point in points_of(run, &comparison.candidate) {
        let scope = format!("{} at {}", point.case_id, point.point_id);
        let baseline = counterpart(run, point, &comparison.baseline);
        checks.extend(check_attempts(point, baseline, &scope));
        checks.extend(check_slo(point, baseline, question, &scope));
        checks.extend(check_error_rate(point, policy, &scope));
        checks.extend(check_output_drift(run, point, baseline, policy, &scope));
        if is_within_run(point, baseline) {
            // Numbers of one trial are never enough to block. A candidate that never succeeded has no numbers, and blocks.
            let of_numbers = |check: &&mut Check| check.scope == scope && check.name != ATTEMPTS;
            checks.iter_mut().filter(of_numbers).for_each(|check| check.blocks = false);
            checks.push(Check::inconclusive(WITHIN_RUN, &scope, false, ONE_TRIAL));
        }
    }
    checks
}

/// Returns true if a side of a point was measured in one trial, with intervals within the run.
fn is_within_run(point: &PointSummary, baseline: Option<&PointSummary>) -> bool {
    point.is_within_run() || baseline.is_some_and(PointSummary::is_within_run)
}

fn points_of<'a>(run: &Run<'a>, side: &'a Side) -> impl Iterator<Item = &'a PointSummary> {
    run.summary.1.points.iter().filter(|point| {
        let [_, target, variant] = point.case_id.names();
        target == side.target.as_str() && variant == side.variant.as_str()
    })
}

/// Returns the same point of the other side.
fn counterpart<'a>(run: &Run<'a>, point: &PointSummary, side: &'a Side) -> Option<&'a PointSummary> {
    let same_work =
        |other: &&PointSummary| other.case_id.names()[0] == point.case_id.names()[0] && other.point_id == point.point_id;
    points_of(run, side).find(same_work)
}

/// Checks that the run measured what it planned. Too little evidence is not a regression.
fn check_validity(run: &Run<'_>) -> Check {
    let Summary { status, .. } = run.summary.1;
    let detail = match status {
        RunStatus::Succeeded => "every planned trial counts",
        RunStatus::Partial => "some planned trials have no valid attempt",
        RunStatus::Failed => "no trial counts",
    };
    Check::inconclusive("validity", &format!("run {}", run.run_id), *status == RunStatus::Succeeded, detail)
}

/// Checks that the order of the sides was drawn for this run. Repeating one order repeats one draw: if the machine has a periodic
/// disturbance, it favours the same side in every run, and more runs do not reveal it.
fn check_order(run: &Run<'_>) -> Check {
    let workloads = run.plan.workloads.iter().map(|workload| workload.workload_spec_digest);
    let is_drawn = run.plan.order.seed == draw_seed(run.run_id, workloads).to_string();
    let detail = if is_drawn {
        "the order of the sides was drawn for it"
    } else {
        "the order of the sides was declared (`order_seed`), not drawn for it: leave that out"
    };
    Check::inconclusive(ORDER, &format!("run {}", run.run_id), is_drawn, detail)
}

/// Checks that the run is of a commit that can be looked up, and that its signers are established.
fn check_provenance(run: &Run<'_>, policy: &GatePolicy) -> Option<Check> {
    let is_of_a_commit = run.source.kind == OriginKind::Git && !run.source.dirty;
    let detail = match (is_of_a_commit, run.established) {
        (true, true) => "it is of a commit, and its signers are established",
        (false, _) => "it is of no commit: what was measured cannot be looked up",
        (true, false) => "nobody vouches for its signers",
    };
    let passed = is_of_a_commit && run.established;
    policy.provenance.then(|| Check::blocking("provenance", &format!("run {}", run.run_id), passed, detail.to_owned()))
}

/// Checks that the run's definitions are those of the target branch. Passing by measuring less does not count as a pass;
/// measuring more, or something else, is not a regression either.
pub(crate) fn check_definitions(changes: &[Difference]) -> Option<Check> {
    if changes.is_empty() {
        return None;
    }
    let names: Vec<_> = changes.iter().map(|change| format!("`{}`", change.what)).collect();
    let names = names.join(", ");
    let detail = format!("it was measured by other definitions than the target branch's ({names}): merge those first");
    Some(Check::inconclusive("definitions", "the run", false, detail))
}

/// Returns true if an attempt does not count because of the measured system and not because of the measuring one: it crashed,
/// hung, did not respond, failed too many requests, served less than arrived, or gave no result, or a result without its metrics.
fn is_own_fault(reason: &Reason) -> bool {
    let code = reason.code.as_str();
    ["exit_code", "time_limit", "all_failed", "target_gone", "over_saturated", "too_many_errors", "processes_left"]
        .contains(&code)
        || code.starts_with("malformed_")
        || code.starts_with("metric_")
}

/// Checks that the candidate did not fail more often than the baseline. A repeated attempt would hide a crash, because only the
/// successful launches count.
fn check_attempts(point: &PointSummary, baseline: Option<&PointSummary>, scope: &str) -> Option<Check> {
    let own = |excluded: &&Exclusion| excluded.reasons.iter().any(is_own_fault);
    let failed = |point: &PointSummary| point.excluded.iter().filter(own).count();
    let (before, now) = (baseline.map_or(0, failed), failed(point));
    if now <= before {
        return None;
    }
    let detail = format!("{now} of {} attempts failed by themselves, and {before} of the baseline's", point.attempts);
    let none_counts = point.trials_counted == 0 && baseline.is_some_and(|baseline| baseline.trials_counted > 0);
    let check = Check::blocking(ATTEMPTS, scope, false, detail);
    Some(Check { blocks: none_counts, ..check })
}

/// Checks that the candidate met the SLOs that the baseline met. If the baseline missed them too, the candidate is not to blame.
fn check_slo(point: &PointSummary, baseline: Option<&PointSummary>, question: &GateInput<'_>, scope: &str) -> Option<Check> {
    let met = |point: &PointSummary| point.serving.as_ref()?.slo_met;
    let is_met = met(point).filter(|_| question.policy.slo)?;
    let was_met = baseline.and_then(met);
    let good = |point: &PointSummary| Some(point.metrics.iter().find(|metric| metric.metric == GOOD_FRACTION)?.median);
    let in_words = |share: Option<f64>| share.map_or_else(|| "an unknown share".to_owned(), percent);
    let (before, now) = (baseline.and_then(good), good(point));
    let figures = format!(
        "{} of the candidate's requests kept their SLOs and {} of the baseline's (medians of trials; 99 of 100 of all have to)",
        in_words(now),
        in_words(before)
    );
    let detail = match (is_met, was_met) {
        (true, _) => figures,
        (false, Some(true)) => format!("the candidate missed its SLOs, and the baseline kept them: {figures}"),
        (false, Some(false)) => {
            format!("both sides missed their SLOs, so that the candidate cannot be charged with it: {figures}")
        }
        (false, None) => format!("the candidate missed its SLOs, and of the baseline it is not known: {figures}"),
    };
    let check = Check { blocks: was_met == Some(true), ..Check::blocking("slo", scope, is_met, detail) };
    let worse = before.zip(now).map_or(f64::INFINITY, |(before, now)| before / now - 1.0);
    Some(if is_met { check } else { acknowledge_check(check, point, GOOD_FRACTION, worse, question) })
}

fn check_error_rate(point: &PointSummary, policy: &GatePolicy, scope: &str) -> Option<Check> {
    let (most, ServingPoint { requests, outcomes, excluded_outcomes, .. }) = (policy.max_error_rate?, point.serving.as_ref()?);
    // Attempts that do not count had requests too, and may have been excluded because these failed.
    let all = requests.0 + excluded_outcomes.values().map(|count| count.0).sum::<u64>();
    let count = |word: &str| [outcomes, excluded_outcomes].iter().filter_map(|of| of.get(word)).map(|count| count.0).sum::<u64>();
    // Requests that the client cancelled as planned are neither.
    let all = all.saturating_sub(count("cancelled"));
    let failed = all.saturating_sub(count("ok"));
    // Without requests there is no proof that requests succeed.
    let rate = if all == 0 { 1.0 } else { failed as f64 / all as f64 };
    let detail = format!("{failed} of {all} requests failed; at most {:.2} % may", most * 100.0);
    Some(Check::blocking("error_rate", scope, rate <= most, detail))
}

/// Checks that both sides generated about the same number of output tokens. An API without output tokens has nothing to check.
fn check_output_drift(
    run: &Run<'_>,
    point: &PointSummary,
    baseline: Option<&PointSummary>,
    policy: &GatePolicy,
    scope: &str,
) -> Option<Check> {
    let most = policy.max_output_drift?;
    let length = |point: &PointSummary| Some(point.metrics.iter().find(|metric| metric.metric == OUTPUT_LENGTH)?.median);
    point.serving.as_ref()?;
    let workload = run.plan.workloads.iter().find(|workload| workload.name.as_str() == point.case_id.names()[0]);
    if workload.and_then(|workload| workload.serving.as_ref()).is_some_and(|work| !work.api.capabilities().has_output_tokens) {
        return None;
    }
    let (Some(before), Some(now)) = (baseline.and_then(length), length(point)) else {
        return Some(Check::blocking("output_drift", scope, false, "the output length of a side is not known".to_owned()));
    };
    let drift = (now - before).abs() / before;
    let detail = format!(
        "responses have {now:.1} tokens instead of {before:.1}, {:.1} % off; at most {:.1} % may be",
        drift * 100.0,
        most * 100.0
    );
    Some(Check::blocking("output_drift", scope, drift <= most, detail))
}

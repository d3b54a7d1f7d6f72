//! Checks that the endpoint and the workload's tokenizer count the same prompts alike, and that responses have the requested length.

use std::collections::BTreeSet;

use assay_manifest::{Digest, FrozenWorkload, Plan, PointSummary, Reason, Shortfall, TrialValue};

use crate::shortfall;

/// The name of the rule that both counts agree, and of the Summary's issue if they do not.
pub const INPUT_TOKENS: &str = "input_tokens_differ";

/// The metric: the endpoint's count over that of the workload's tokenizer, less 1.
const DIFFERENCE: &str = "isl_endpoint_difference";

/// The relative difference above which the Summary reports an issue.
const REPORTED_DIFFERENCE: f64 = 0.1;

/// The relative difference above which the two count different things, so that no claim may rest on prompt tokens.
const BARRING_DIFFERENCE: f64 = 0.5;

/// Reports a point whose endpoint counts over a tenth more or fewer input tokens than the workload's tokenizer.
pub fn find_input_token_difference(points: &[PointSummary]) -> Option<Reason> {
    differences_beyond(points, REPORTED_DIFFERENCE).next().map(|detail| Reason::new(INPUT_TOKENS, detail))
}

/// Returns a shortfall for each point whose difference is above a half.
pub(crate) fn input_token_shortfalls(points: &[PointSummary]) -> impl Iterator<Item = Shortfall> {
    differences_beyond(points, BARRING_DIFFERENCE).map(|detail| shortfall(INPUT_TOKENS, detail))
}

/// The name of the rule that responses have the requested length, and of the Summary's issue if they do not.
pub const OUTPUT_TOKENS: &str = "output_tokens_differ";

/// The metric: the share of responses with another length than requested.
const MISMATCH: &str = "osl_mismatch_rate";

/// Reports a point of which over a tenth of the responses have another length than their request asked for exactly: the endpoint generates
/// more or less, or its count of tokens is not that of what it sent. Rates of tokens and TPOT rest on that count.
pub fn find_output_token_difference(plan: &Plan, points: &[PointSummary]) -> Option<Reason> {
    mismatches_beyond(&exact_workloads(plan), points, REPORTED_DIFFERENCE).next().map(|detail| Reason::new(OUTPUT_TOKENS, detail))
}

/// Returns a shortfall for each point of which over a half of the responses have another length.
pub(crate) fn output_token_shortfalls(plan: &Plan, points: &[PointSummary]) -> impl Iterator<Item = Shortfall> {
    let found: Vec<_> = mismatches_beyond(&exact_workloads(plan), points, BARRING_DIFFERENCE).collect();
    found.into_iter().map(|detail| shortfall(OUTPUT_TOKENS, detail))
}

/// Returns the workloads that ask for an exact length. Where the model ends a response itself, another length is no fault.
fn exact_workloads(plan: &Plan) -> BTreeSet<Digest> {
    let is_exact = |workload: &&FrozenWorkload| workload.serving.as_ref().is_some_and(|serving| serving.exact_output);
    plan.workloads.iter().filter(is_exact).map(|workload| workload.workload_spec_digest).collect()
}

fn mismatches_beyond(exact: &BTreeSet<Digest>, points: &[PointSummary], limit: f64) -> impl Iterator<Item = String> {
    points.iter().filter(|point| exact.contains(&point.workload_spec_digest)).filter_map(move |point| {
        let metric = point.metrics.iter().find(|metric| metric.metric == MISMATCH)?;
        let worst = metric.trials.iter().max_by(|one, other| one.value.total_cmp(&other.value))?;
        (worst.value > limit || worst.value.is_nan()).then(|| {
            format!(
                "in trial `{}` {:.0} % of the responses have another length than was requested exactly; more than {} % is reported, and \
                 more than {} % bars a claim",
                worst.trial_id,
                worst.value * 100.0,
                REPORTED_DIFFERENCE * 100.0,
                BARRING_DIFFERENCE * 100.0
            )
        })
    })
}

fn differences_beyond(points: &[PointSummary], limit: f64) -> impl Iterator<Item = String> {
    points.iter().filter_map(move |point| {
        let metric = point.metrics.iter().find(|metric| metric.metric == DIFFERENCE)?;
        let largest = |one: &&TrialValue, other: &&TrialValue| one.value.abs().total_cmp(&other.value.abs());
        let worst = metric.trials.iter().max_by(largest)?;
        let share = worst.value;
        // NaN is no agreement.
        (share.abs() > limit || share.is_nan()).then(|| {
            let (percent, more) = (share.abs() * 100.0, if share > 0.0 { "more" } else { "fewer" });
            format!(
                "in trial `{}` the endpoint counts {percent:.0} % {more} input tokens than the workload's tokenizer; more than {} % is reported, and more than {} % \
                 bars a claim",
                worst.trial_id,
                REPORTED_DIFFERENCE * 100.0,
                BARRING_DIFFERENCE * 100.0
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A point whose trials have these differences.
    fn point(differences: &[f64]) -> PointSummary {
        let digest = format!("sha256:{}", "0".repeat(64));
        let trial = |(index, value): (usize, &f64)| json!({"trial_id": format!("w.t.default.one.t{index}"), "attempt": 0, "value": value, "n": "9", "flagged": false, "row_id": digest});
        let metric = json!({
            "metric": DIFFERENCE, "unit": "ratio", "primary": false, "n": "5", "median": 0.0, "mean": 0.0, "min": 0.0, "max": 0.0,
            "stability": "stable", "stability_reason": "calm", "rows": {},
            "trials": differences.iter().enumerate().map(trial).collect::<Vec<_>>(),
        });
        let point = json!({
            "case_id": "w.t.default", "point_id": "one", "workload_type": "serving", "workload_spec_digest": digest, "value": {},
            "trials_planned": 5, "trials_counted": 5, "attempts": 5, "excluded": [], "metrics": [metric],
        });
        serde_json::from_value(point).expect("a point")
    }

    #[test]
    fn a_length_that_was_asked_for_exactly_and_is_not_kept_is_reported() {
        let found = |share: f64, exact: bool| {
            let mut point = point(&[share]);
            point.metrics.iter_mut().for_each(|metric| metric.metric = MISMATCH.to_owned());
            let workloads = BTreeSet::from_iter(exact.then_some(point.workload_spec_digest));
            [REPORTED_DIFFERENCE, BARRING_DIFFERENCE]
                .map(|limit| mismatches_beyond(&workloads, std::slice::from_ref(&point), limit).count())
        };
        assert_eq!([found(0.0, true), found(0.1, true), found(0.5, true)], [[0, 0], [0, 0], [1, 0]]);
        assert_eq!(found(1.0, true), [1, 1]);
        assert_eq!(found(1.0, false), [0, 0], "the model ends such responses itself");
    }

    #[test]
    fn a_tenth_is_reported_and_a_half_bars_a_claim() {
        let found = |differences: &[f64]| {
            let points = [point(differences)];
            (find_input_token_difference(&points).is_some(), input_token_shortfalls(&points).count())
        };
        assert_eq!([found(&[0.0, 0.1]), found(&[-0.1])], [(false, 0); 2], "the limit itself is allowed");
        assert_eq!([found(&[0.0, 0.11]), found(&[-0.11]), found(&[0.5]), found(&[-0.5, 0.2])], [(true, 0); 4]);
        assert_eq!([found(&[3.0, 0.0]), found(&[-0.75]), found(&[0.0, 0.51])], [(true, 1); 3]);
        assert_eq!((found(&[]), find_input_token_difference(&[])), ((false, 0), None));
        let detail = find_input_token_difference(&[point(&[0.0]), point(&[0.0, 3.0])]).expect("a reason").detail;
        insta::assert_snapshot!(detail, @"in trial `w.t.default.one.t1` the endpoint counts 300 % more input tokens than the workload's tokenizer; more than 10 % is reported, and more than 50 % bars a claim");
    }
}

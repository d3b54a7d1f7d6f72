use assay_stage::Exit;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{PrintedAttempt, Run, invalid, printed, run};

fn summary(run: &Run) -> Result<PointSummary, Failure> {
    let case = &run.plan.cases[0];
    summarise(&run.plan.workloads[0], case, &case.points[0], &run.trials(), Digest::compute(b"collection"))
}

fn summarised(trials: &[&[PrintedAttempt]]) -> PointSummary {
    summary(&run(trials)).expect("a summary")
}

/// Returns the summary of one counted attempt in each trial.
fn summarise_results(results: &[Value]) -> PointSummary {
    let trials: Vec<_> = results.iter().map(|result| vec![printed(result.clone())]).collect();
    summarised(&trials.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn rates(values: &[f64]) -> MetricSummary {
    let point = summarise_results(&values.iter().map(|value| json!({"rate": value})).collect::<Vec<_>>());
    point.metrics.into_iter().next().expect("the metric")
}

fn names(point: &PointSummary) -> Vec<&str> {
    point.metrics.iter().map(|metric| metric.metric.as_str()).collect()
}

#[test]
fn known_trials_give_known_statistics() {
    let metric = rates(&[10.0, 12.0, 11.0, 13.0, 14.0]);
    assert_eq!((metric.n, metric.median, metric.mean, metric.min, metric.max), (Count(5), 12.0, 12.0, 10.0, 14.0));
    // ddof 1: the squares of -2, -1, 0, 1 and 2 over 4.
    assert_eq!(metric.sd, Some(2.5_f64.sqrt()));
    assert_eq!(metric.cv, Some(2.5_f64.sqrt() / 12.0));
    let interval = metric.interval.expect("five trials support one");
    assert_eq!((interval.low, interval.high, interval.level, interval.method.as_str()), (10.0, 14.0, 0.9375, "order_statistic"));
    assert_eq!((metric.unit.as_str(), metric.primary), ("GB/s", true));
}

#[test]
fn a_trial_counts_once_by_the_median_of_its_samples() {
    let point = summarise_results(&[json!({"rate": [1.0, 2.0, 9.0]}), json!({"rate": [4.0, 6.0]})]);
    let metric = &point.metrics[0];
    let trials: Vec<_> = metric.trials.iter().map(|trial| (trial.value, trial.n.0)).collect();
    assert_eq!(trials, [(2.0, 3), (5.0, 2)]);
    assert_eq!((metric.n.0, metric.median), (2, 3.5), "trials are the unit, not samples");
}

#[test]
fn below_five_trials_there_is_no_interval_and_the_reason_is_said() {
    let metric = rates(&[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(metric.interval, None);
    insta::assert_snapshot!(rates(&[1.0]).interval_absent.expect("why"), @"1 sample bounds the median with 0.0 % confidence at most; 5 are needed");
    insta::assert_snapshot!(metric.interval_absent.expect("why"), @"4 samples bound the median with 87.5 % confidence at most; 5 are needed");
    assert_eq!(metric.stability, Stability::Unknown);
    let one = rates(&[1.0]);
    assert_eq!((one.median, one.sd, one.cv), (1.0, None, None));
}

#[test]
fn outliers_are_flagged_and_kept() {
    let metric = rates(&[10.0, 10.1, 9.9, 10.05, 50.0]);
    let flagged: Vec<_> = metric.trials.iter().map(|trial| trial.flagged).collect();
    assert_eq!(flagged, [false, false, false, false, true]);
    assert_eq!((metric.n.0, metric.max), (5, 50.0));
}

#[test]
fn declared_metrics_come_first_and_the_rest_has_the_unit_of_its_name() {
    let result = json!({"zeta": 1, "note": "x", "size": 2, "rate": 3, "alpha": {"b": 4}, "working_set_bytes": 5});
    let point = summarise_results(&[result]);
    assert_eq!(names(&point), ["rate", "size", "alpha.b", "working_set_bytes", "zeta"]);
    let undeclared = |place: usize| {
        let metric = &point.metrics[place];
        (metric.unit.as_str(), metric.better, metric.primary)
    };
    assert_eq!([undeclared(3), undeclared(4)], [("bytes", None, false), ("unknown", None, false)]);
}

#[test]
fn a_metric_is_over_the_trials_that_have_it() {
    let point = summarise_results(&[json!({"rate": 1, "extra": 5}), json!({"rate": 2}), json!({"rate": 3, "extra": 7})]);
    let extra = &point.metrics[1];
    assert_eq!((extra.n.0, extra.median), (2, 6.0));
    assert_eq!(extra.trials[1].trial_id.as_str(), "w.t.default.one.t2");
    assert_eq!(point.metrics[0].n.0, 3);
}

#[test]
fn only_the_attempt_that_counts_is_summarised() {
    let again = [invalid(json!({"rate": 1000})), printed(json!({"rate": 1})), invalid(json!({"rate": 2000, "odd": 1}))];
    let never = [invalid(json!({"rate": 3000}))];
    let point = summarised(&[&again, &never]);
    assert_eq!((point.trials_planned, point.trials_counted, point.attempts), (2, 1, 4));
    assert_eq!(names(&point), ["rate"]);
    assert_eq!((point.metrics[0].median, point.metrics[0].trials[0].attempt), (1.0, 1));
    let excluded: Vec<_> = point.excluded.iter().map(|out| (out.trial_id.as_str(), out.attempt, out.reasons.len())).collect();
    let (first, second) = ("w.t.default.one.t0", "w.t.default.one.t1");
    assert_eq!(excluded, [(first, 0, 1), (first, 2, 1), (second, 0, 1)], "each is shown with its reason");
}

#[test]
fn results_without_numbers_give_no_metric() {
    assert_eq!(names(&summarise_results(&[json!({}), json!({"note": "x", "flag": true, "none": null})])), Vec::<&str>::new());
    let nothing = summarised(&[&[], &[]]);
    assert_eq!((nothing.trials_planned, nothing.trials_counted, nothing.attempts), (2, 0, 0));
    assert_eq!(nothing.metrics, []);
}

#[test]
fn a_number_beyond_all_measure_is_refused_where_it_was_asked_for() {
    let refused = summary(&run(&[&[printed(json!({"rate": 1e200}))]])).expect_err("too large to square");
    assert_eq!(refused.exit, Exit::Definition);
    insta::assert_snapshot!(refused, @r"
    error[samples]: `rate` of trial `w.t.default.one.t0` cannot be summarised
      because: sample 0 is 1e200, beyond the largest magnitude of 1e150
    ");
    let kept_raw = summarise_results(&[json!({"rate": 1, "extra": 1e200})]);
    assert_eq!(names(&kept_raw), ["rate"], "nobody asked for the other");
}

#[test]
fn the_seed_is_the_evidence_s_and_no_run_s() {
    let run = run(&[&[printed(json!({"rate": 1}))]]);
    let (case, point) = (&run.plan.cases[0], &run.plan.cases[0].points[0]);
    let of = |collection: &[u8], metric| seed(Digest::compute(collection), &case.case_id, &point.point_id, metric);
    assert_eq!(of(b"c", "rate"), of(b"c", "rate"));
    assert_ne!(of(b"c", "rate"), of(b"d", "rate"));
    assert_ne!(of(b"c", "rate"), of(b"c", "size"));
}

proptest! {
    #[test]
    fn a_summary_holds_together(values in prop::collection::vec(-1e6_f64..1e6, 1..30)) {
        let metric = rates(&values);
        prop_assert!(metric.min <= metric.median && metric.median <= metric.max);
        prop_assert_eq!(metric.interval.is_some(), metric.interval_absent.is_none());
        prop_assert_eq!(metric.n.0 as usize, values.len());
        if let Some(interval) = metric.interval {
            prop_assert!(interval.low <= metric.median && metric.median <= interval.high);
        }
    }
}

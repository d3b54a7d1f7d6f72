//! An interval within a run, and each of its fields falsified.

use assay_manifest::{Interval, SessionCounts};
use serde_json::json;

use super::*;

/// A point that was measured in one trial of 900 s and 60 sessions, with one metric.
fn point() -> PointSummary {
    let zero = format!("sha256:{}", "0".repeat(64));
    let interval =
        json!({"low": 0.9, "high": 1.2, "level": 0.95, "method": "cluster_ratio", "kind": "within_run", "sessions": "60"});
    let trial =
        json!({"trial_id": "w.t.default.one.t0", "attempt": 0, "value": 1.0, "n": "200", "flagged": false, "row_id": zero});
    let metric = json!({
        "metric": "ttft_ms_mean", "unit": "ms", "primary": true, "n": "1", "median": 1.0, "mean": 1.0, "min": 1.0, "max": 1.0,
        "stability": "unknown", "stability_reason": "one trial", "rows": {}, "trials": [trial], "interval": interval,
    });
    let serving = json!({
        "requests": "200", "outcomes": {"ok": "200"}, "failures": [], "excluded_outcomes": {}, "duration_ns": WITHIN_RUN_NS.to_string(),
        "token_sources": {}, "tpot_assumed": "0", "absent": {}, "latency_from": "intended",
    });
    let mut point: PointSummary = serde_json::from_value(json!({
        "case_id": "w.t.default", "point_id": "one", "workload_type": "serving", "workload_spec_digest": zero, "value": {},
        "trials_planned": 1, "trials_counted": 1, "attempts": 1, "excluded": [], "metrics": [metric], "serving": serving,
    }))
    .expect("a point");
    serving_of(&mut point).sessions = Some(SessionCounts { begun: Count(61), ..SessionCounts::default() });
    point
}

fn serving_of(point: &mut PointSummary) -> &mut ServingPoint {
    point.serving.as_mut().expect("serving")
}

fn interval_of(point: &mut PointSummary) -> &mut Interval {
    point.metrics[0].interval.as_mut().expect("an interval")
}

/// Returns the difference that is found after a change.
fn found(change: impl FnOnce(&mut PointSummary)) -> String {
    let mut point = point();
    change(&mut point);
    match check_statistics(&point, &point.metrics[0]) {
        Ok(()) => "nothing".to_owned(),
        Err(Error::Point { difference, .. }) => difference,
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_interval_within_a_run_agrees_with_its_point() {
    assert_eq!(found(|_| {}), "nothing");
    let kind = "the kind of the interval of `ttft_ms_mean`";
    assert_eq!(found(|point| point.trials_planned = 2), kind);
    assert_eq!(found(|point| point.trials_counted = 2), kind);
    assert_eq!(found(|point| serving_of(point).duration_ns = Count(WITHIN_RUN_NS - 1)), kind);
    assert_eq!(found(|point| point.serving = None), kind);
    assert_eq!(found(|point| "order_statistic".clone_into(&mut interval_of(point).method)), kind);
    assert_eq!(found(|point| interval_of(point).kind = IntervalKind::BetweenTrials), kind);
    let sessions = "the sessions of the interval of `ttft_ms_mean`";
    for number in [None, Some(Count(MIN_CLUSTERS as u64 - 1)), Some(Count(62))] {
        assert_eq!(found(|point| interval_of(point).sessions = number), sessions, "{number:?}");
    }
    assert_eq!(found(|point| serving_of(point).sessions = None), sessions);
    let ends = "the interval of `ttft_ms_mean`";
    assert_eq!(found(|point| interval_of(point).low = 1.1), ends);
    assert_eq!(found(|point| interval_of(point).high = 0.95), ends);
    assert_eq!(found(|point| interval_of(point).level = 0.99), ends);
    let absent = "the missing interval of `ttft_ms_mean`";
    assert_eq!(found(|point| point.metrics[0].interval = None), absent);
    // Without the sessions of clusters, one trial has no interval between trials either.
    let claimed = |point: &mut PointSummary| {
        let interval = interval_of(point);
        (interval.kind, interval.sessions) = (IntervalKind::BetweenTrials, None);
        "order_statistic".clone_into(&mut interval.method);
    };
    assert_eq!(found(claimed), ends);
}
